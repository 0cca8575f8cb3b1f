"""Which of its two forms `mirror-groups` has: by the option `config`, or by the options of internal topics."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from bridge.model.java_values import trimmed
from bridge.spark.options import is_option
from bridge.spark.rejected import SourceRejected

CONFIG = "config"
"""The file with the configuration of a connector of the flow."""


def config_path(given: Mapping[str, str]) -> str | None:
    """Returns the value of the option, None where it is not given. Raises SourceRejected for options beside it, which
    would do nothing."""
    options = {name.lower(): value for name, value in given.items() if name.lower() != "path"}
    if CONFIG in options:
        if beside := sorted(options.keys() - {CONFIG}):
            names = f"option{'s' * (len(beside) > 1)} {', '.join(beside)}"
            raise SourceRejected(
                f"{names} can't be given beside {CONFIG}, whose file says all that is needed"
            )
        return trimmed(options[CONFIG])
    for name in options:
        if not is_option(name) and get_close_matches(name, [CONFIG], 1, 0.75):
            raise SourceRejected(f"there is no option {name}; did you mean {CONFIG}?")
    return None

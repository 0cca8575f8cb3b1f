"""The configuration of a connector, as a function or the option `config` is given it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from bridge.connector_files import load_connector
from bridge.java_properties import PropertiesProblem
from bridge.model.java_values import trimmed
from bridge.spark.options import is_option
from bridge.spark.rejected import SourceRejected

CONFIG = "config"
"""The file with the configuration of a connector of the flow."""


def connector_config(config: Mapping[str, str] | str | Path) -> dict[str, str]:
    """Returns a configuration, or that of a .properties or .json file. Raises SourceRejected."""
    if isinstance(config, Mapping):
        return dict(config)
    try:
        return load_connector(Path(config))
    except PropertiesProblem as problem:
        raise SourceRejected(str(problem)) from None


def config_path(raw: Mapping[str, str]) -> str | None:
    """Returns the value of the option by which `mirror-groups` works its rows out, None where it reads an internal
    topic. Raises SourceRejected for options beside it, which would do nothing."""
    options = {name.lower(): value for name, value in raw.items() if name.lower() != "path"}
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

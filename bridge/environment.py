"""The environment of our processes: our own secrets in it are not for their children."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

SECRETS = frozenset({"MIRROR_BRIDGE_AUTH_TOKEN", "MIRROR_BRIDGE_READ_TOKEN"})


def forget_secrets(environment: MutableMapping[str, str]) -> None:
    """Takes our secrets out, in whatever case they are written: the settings take them in any."""
    for name in [name for name in environment if name.upper() in SECRETS]:
        del environment[name]


def for_child() -> dict[str, str]:
    """What a child of ours gets: all but the secrets, and the modules that we see, wherever they were found."""
    environment = dict(os.environ)
    forget_secrets(environment)
    return environment | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}

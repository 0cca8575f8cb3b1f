"""Environment variables of our child processes: everything but our own secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

SECRETS = frozenset({"MIRROR_BRIDGE_AUTH_TOKEN", "MIRROR_BRIDGE_READ_TOKEN"})


def forget_secrets(environment: MutableMapping[str, str]) -> None:
    """Removes our secrets, however their names are capitalized: the settings accept them in any case."""
    for name in [name for name in environment if name.upper() in SECRETS]:
        del environment[name]


def for_child() -> dict[str, str]:
    """Returns the environment of a child process of ours: everything but the secrets, and our module search path, since
    it and its own children (Python workers of Spark) have to find our modules where we found them."""
    environment = dict(os.environ)
    forget_secrets(environment)
    return environment | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}

"""Environment variables of our child processes: everything but our own secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping, Sequence

SECRETS = frozenset({"MIRROR_BRIDGE_AUTH_TOKEN", "MIRROR_BRIDGE_READ_TOKEN"})

_FOLDERS = "MIRROR_BRIDGE_PROCESS_FOLDERS"
"""A setting may be a flag as well, and is for the service alone: `mirror-bridge replicate` reads files anywhere."""


_NEAR = "MIRROR_BRIDGE_PROCESS_ASKS_NOBODY_NEAR"


def refuse_near_endpoints() -> None:
    """Keeps this process and its children from asking for tokens on this machine, and on machines that answer only
    those beside them, under whichever name."""
    os.environ[_NEAR] = "true"


def near_endpoints_refused() -> bool:
    return _NEAR in os.environ


def keep_folders(folders: Sequence[str]) -> None:
    """Lets this process and its children read files of configurations below these folders only; any where none is
    given."""
    if folders:
        os.environ[_FOLDERS] = ",".join(folders)
    else:
        os.environ.pop(_FOLDERS, None)


def kept_folders() -> tuple[str, ...]:
    """The folders that this process was given, or whoever started it."""
    return tuple(filter(None, os.environ.get(_FOLDERS, "").split(",")))


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

"""What child processes of ours inherit and may take, and how they end with their parent.

Their environment has everything but our own secrets. Loads little: a child that opens a key is to begin soon.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import MutableMapping, Sequence

MEMORY = 4 << 30
"""Bytes of data, for a process that loads modules of ours or of users."""
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


def end_with(channel: socket.socket) -> None:
    """Ends this process, whatever it does, when the other end of the channel is closed. Blocking: for a thread."""
    poll = select.poll()
    poll.register(channel, 0)
    poll.poll()
    os._exit(0)


def limit(cpu_seconds: int | None = None, memory: int = MEMORY) -> None:
    """Limits memory, and processor time if given, should the parent die and not end the process; allows no core files:
    they would hold passwords."""
    try:
        import resource

        limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, memory)]
        if cpu_seconds is not None:
            limits.append((resource.RLIMIT_CPU, cpu_seconds))
        for which, most in limits:
            _, hard = resource.getrlimit(which)
            resource.setrlimit(which, (most if hard < 0 else min(most, hard), hard))
    except (ImportError, OSError, ValueError):
        return

"""Configurations that name code of others are checked in a process of their own: that code is never loaded where the
service answers, and what hangs or crashes there is an error of the key that names it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any, NamedTuple

from bridge.child_process import ending, python_command
from bridge.environment import for_child
from bridge.errors import ConfigError, Overloaded
from bridge.policy import IMPORT_SECONDS, Policy
from bridge.protocol.operators import IgnoredSetting
from connectors.base import CopiedTopics, Kind
from connectors.config.allowed_names import Refusing, code
from connectors.config.configdef import ValidatedConfig, given
from connectors.config.keys import undefined
from connectors.config.validated import KeyValue, parse_value
from connectors.config.validators import invalid
from connectors.ports import ClientCheck

Props = Mapping[str, str | None]

START_SECONDS = 30.0
"""Until the process has loaded what is ours: that is not the code's fault."""
_LONGEST = 64 << 20
"""Bytes of an answer."""
CHILD = "bridge.service.checks.plugin_process_main"


class CodeFailed(Exception):
    """The process was ended, or has ended; the text says of "it", the code, what is wrong."""


class Outside(NamedTuple):
    """Starts a process for each question. Blocks, so for a bounded pool."""

    policy: Policy
    module: str = CHILD
    """What is run."""

    def validate(self, kind: Kind, config: Props) -> ValidatedConfig:
        """As the kind does. Raises CodeFailed, and Overloaded where no process could be started in time."""
        answer = self._ask({"question": "validate", "kind": kind.kind, "config": config})
        try:
            entries = tuple(_entry(kind, config, *each) for each in answer["entries"])
            return ValidatedConfig(entries, tuple(IgnoredSetting(**each) for each in answer["ignored"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CodeFailed("it broke the answer of the process that loads it") from error

    def conflicts(self, kind: Kind, config: Props, others: Sequence[CopiedTopics]) -> Sequence[ConfigError]:
        """As the kind does; raises as `validate` does."""
        rows = [(each.name, each.config, list(each.topics)) for each in others]
        question = {"question": "conflicts", "kind": kind.kind, "config": config, "others": rows}
        answer = self._ask(question)
        try:
            return [ConfigError(str(key), str(message)) for key, message in answer["errors"]]
        except (KeyError, TypeError, ValueError) as error:
            raise CodeFailed("it broke the answer of the process that loads it") from error

    def _ask(self, question: Mapping[str, object]) -> Mapping[str, Any]:
        seconds = self.policy.import_seconds
        try:
            return asked({**question, "policy": asdict(self.policy)}, seconds, self.module)
        except TimeoutError:
            raise CodeFailed(f"it was not loaded within {seconds:g} s ({IMPORT_SECONDS})") from None


def asked(question: Mapping[str, object], seconds: float, module: str = CHILD) -> Mapping[str, Any]:
    """The answer of a process that is started for this question. Raises CodeFailed where it ends without one,
    TimeoutError where it takes longer, and Overloaded where it does not start."""
    with _started(module) as (channel, process):
        try:
            channel.sendall(json.dumps(question).encode() + b"\n")
            _line(channel, START_SECONDS)
        except (EOFError, OSError) as error:
            raise Overloaded("the process that loads code of configurations did not start") from error
        try:
            answer = json.loads(_line(channel, seconds))
        except TimeoutError:
            raise
        except (EOFError, OSError):
            raise CodeFailed(f"the process that loads it ended ({_ending(process)})") from None
        except ValueError:
            answer = None
    if not isinstance(answer, dict):
        raise CodeFailed("it broke the answer of the process that loads it")
    return answer


def validated(kind: Kind, config: Props, clients: ClientCheck, outside: Outside | None) -> ValidatedConfig:
    """What the kind says of the configuration, with all errors at once."""
    props = given(config)
    found = code(props)
    refused = {error.key for error in clients.refused(props)} if found else set()
    loaded = {key: names for key, names in found.items() if key not in refused}
    if outside is None or not loaded:
        return kind.validate(config, clients)
    try:
        return outside.validate(kind, config)
    except CodeFailed as failed:
        errors = [
            ConfigError(key, invalid(key, props[key], _blamed(str(failed), key, loaded))) for key in loaded
        ]
        return kind.validate(config, Refusing(clients, lambda _: errors))


def conflicts(
    kind: Kind, config: Props, others: Sequence[CopiedTopics], outside: Outside | None
) -> Sequence[ConfigError]:
    """What the configuration would do that another connector does already."""
    configs = [given(config), *(given(each.config) for each in others)]
    if outside is None or not any(map(code, configs)):
        return kind.conflicts(config, others)
    try:
        return outside.conflicts(kind, config, others)
    except CodeFailed as failed:
        found = code(configs[0]) or {"name": ()}
        why = f"what other connectors copy can't be worked out: {failed}"
        return [ConfigError(key, invalid(key, config.get(key), why)) for key in found]


def _blamed(why: str, key: str, loaded: Mapping[str, Iterable[str]]) -> str:
    others = sorted({name for each, names in loaded.items() if each != key for name in names})
    return why + (f"; it, or {', '.join(others)}, which is loaded with it" if others else "")


def _entry(kind: Kind, config: Props, name: str, errors: Sequence[str], visible: bool) -> KeyValue:
    key = kind.definition.keys.get(name)
    texts = tuple(str(text) for text in errors)
    if key is None:
        return KeyValue(undefined(str(name)), None, texts, bool(visible))
    return KeyValue(key, parse_value(key, config.get(name)).value, texts, bool(visible))


@contextmanager
def _started(module: str) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """The process, and all that it has started, are gone at the end."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(
                python_command(module, str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # What foreign code prints is no line of our log.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=for_child(),
            )
        try:
            ours.settimeout(START_SECONDS)
            yield ours, process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _line(channel: socket.socket, seconds: float) -> bytes:
    """The next line. Raises TimeoutError, and EOFError where there is none any more."""
    deadline, data = time.monotonic() + seconds, bytearray()
    while not data.endswith(b"\n"):
        channel.settimeout(max(deadline - time.monotonic(), 0.001))
        got = channel.recv(1 << 16)
        if not got or len(data) > _LONGEST:
            raise EOFError
        data += got
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(data)


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        return ending(process.wait(1))
    except subprocess.TimeoutExpired:
        return "it closed its channel"

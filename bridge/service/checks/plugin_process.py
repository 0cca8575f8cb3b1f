"""Validates configurations that name users' code in a child process. That code is never loaded in the HTTP process, and
where it hangs or crashes, that is an error of the key that names it."""

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

from bridge.child_process import how_ended, with_socket
from bridge.errors import ConfigError, Overloaded
from bridge.policy import IMPORT_SECONDS, Policy
from bridge.protocol.operators import IgnoredSetting
from connectors.base import CopiedTopics, Kind
from connectors.config.allowed_names import Refusing, code
from connectors.config.configdef import KeyValue, ValidatedConfig, given, invalid, parse_value, undefined
from connectors.ports import ClientCheck

Props = Mapping[str, str | None]

START_SECONDS = 30.0
"""Seconds in which the process has to load our own modules, which is not the fault of users' code."""
_LONGEST = 64 << 20
"""Most bytes of an answer."""
CHILD = "bridge.service.checks.plugin_process_main"


class PluginFailed(Exception):
    """Users' code failed: the process was killed, or has ended. "It" in the text is the code."""


class PluginProcess(NamedTuple):
    """Validates in a child process, one for each call. Blocks, so it is for a bounded pool."""

    policy: Policy
    module: str = CHILD
    """The module that the process runs."""

    def validate(self, kind: Kind, config: Props) -> ValidatedConfig:
        """Validates as `kind.validate` does. Raises PluginFailed, and Overloaded if the process did not start in
        time."""
        answer = self._ask({"question": "validate", "kind": kind.kind, "config": config})
        try:
            entries = tuple(_entry(kind, config, *fields) for fields in answer["entries"])
            return ValidatedConfig(entries, tuple(IgnoredSetting(**fields) for fields in answer["ignored"]))
        except (KeyError, TypeError, ValueError) as error:
            raise PluginFailed("it broke the answer of the process that loads it") from error

    def conflicts(self, kind: Kind, config: Props, others: Sequence[CopiedTopics]) -> Sequence[ConfigError]:
        """Looks for conflicts as `kind.conflicts` does. Raises as `validate` does."""
        rows = [(topics.name, topics.config, list(topics.topics)) for topics in others]
        question = {"question": "conflicts", "kind": kind.kind, "config": config, "others": rows}
        answer = self._ask(question)
        try:
            return [ConfigError(str(key), str(message)) for key, message in answer["errors"]]
        except (KeyError, TypeError, ValueError) as error:
            raise PluginFailed("it broke the answer of the process that loads it") from error

    def _ask(self, question: Mapping[str, object]) -> Mapping[str, Any]:
        seconds = self.policy.import_seconds
        try:
            return ask({**question, "policy": asdict(self.policy)}, seconds, self.module)
        except TimeoutError:
            raise PluginFailed(f"it was not loaded within {seconds:g} s ({IMPORT_SECONDS})") from None


def ask(question: Mapping[str, object], seconds: float, module: str = CHILD) -> Mapping[str, Any]:
    """Starts a process for this question, and returns its answer. Raises PluginFailed if it ends without one,
    TimeoutError if it takes longer than `seconds`, and Overloaded if it does not start."""
    with _started(module) as (channel, process):
        try:
            channel.sendall(json.dumps(question).encode() + b"\n")
            _, rest = _line(channel, START_SECONDS)
        except (EOFError, OSError) as error:
            raise Overloaded("the process that loads code of configurations did not start") from error
        try:
            line, _ = _line(channel, seconds, rest)
            answer = json.loads(line)
        except TimeoutError:
            raise
        except (EOFError, OSError):
            raise PluginFailed(f"the process that loads it ended ({how_ended(process)})") from None
        except ValueError:
            answer = None
    if not isinstance(answer, dict):
        raise PluginFailed("it broke the answer of the process that loads it")
    return answer


def validated(
    kind: Kind, config: Props, clients: ClientCheck, plugin_process: PluginProcess | None
) -> ValidatedConfig:
    """Validates a configuration, in a child process if it names users' code; returns all errors at once."""
    props = given(config)
    named = code(props)
    refused = {error.key for error in clients.refused(props)} if named else set()
    loaded = {key: names for key, names in named.items() if key not in refused}
    if plugin_process is None or not loaded:
        return kind.validate(config, clients)
    try:
        return plugin_process.validate(kind, config)
    except PluginFailed as failed:
        errors = [
            ConfigError(key, invalid(key, props[key], _blamed(str(failed), key, loaded))) for key in loaded
        ]
        return kind.validate(config, Refusing(clients, lambda _: errors))


def conflicts(
    kind: Kind, config: Props, others: Sequence[CopiedTopics], plugin_process: PluginProcess | None
) -> Sequence[ConfigError]:
    """Errors where the configuration would do what another connector does already."""
    configs = [given(config), *(given(topics.config) for topics in others)]
    if plugin_process is None or not any(map(code, configs)):
        return kind.conflicts(config, others)
    try:
        return plugin_process.conflicts(kind, config, others)
    except PluginFailed as failed:
        keys = code(configs[0]) or {"name": ()}
        why = f"what other connectors copy can't be worked out: {failed}"
        return [ConfigError(key, invalid(key, config.get(key), why)) for key in keys]


def _blamed(why: str, key: str, loaded: Mapping[str, Iterable[str]]) -> str:
    others = sorted({name for text, names in loaded.items() if text != key for name in names})
    return why + (f"; it, or {', '.join(others)}, which is loaded with it" if others else "")


def _entry(kind: Kind, config: Props, name: str, errors: Sequence[str], visible: bool) -> KeyValue:
    key = kind.definition.keys.get(name)
    texts = tuple(str(text) for text in errors)
    if key is None:
        return KeyValue(undefined(str(name)), None, texts, bool(visible))
    return KeyValue(key, parse_value(key, config.get(name)).value, texts, bool(visible))


@contextmanager
def _started(module: str) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """Starts the process; at the end kills it, and all processes that it has started."""
    process, ours = with_socket(module)  # what users' code prints does not belong in our log
    with ours:
        try:
            ours.settimeout(START_SECONDS)
            yield ours, process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _line(channel: socket.socket, seconds: float, read: bytes = b"") -> tuple[bytes, bytes]:
    """Reads the next line; returns it, and what came behind it: on a busy machine both lines come at once. `read`: what
    came behind the last line. Raises TimeoutError, and EOFError if the channel is closed."""
    deadline, data = time.monotonic() + seconds, bytearray(read)
    while b"\n" not in data:
        channel.settimeout(max(deadline - time.monotonic(), 0.001))
        got = channel.recv(1 << 16)
        if not got or len(data) > _LONGEST:
            raise EOFError
        data += got
        if time.monotonic() > deadline:
            raise TimeoutError
    line, _, rest = bytes(data).partition(b"\n")
    return line, rest

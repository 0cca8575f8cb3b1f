"""Checks large configurations in processes of their own. A thread of the HTTP process that does it takes turns with the
event loop, after each of the loop's system calls; that made every other answer wait for 10 to 20 ms."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from msgspec import msgpack

from bridge.child_process import how_ended, with_socket
from bridge.errors import ConfigError, NotAnswered, Overloaded
from bridge.policy import Policy
from bridge.protocol.operators import IgnoredSetting
from bridge.service.ipc.messages import Config, characters
from connectors.base import CopiedTopics, Kind
from connectors.config.configdef import ValidatedConfig

LARGE = 32 << 10
"""Characters. A thread checks a smaller configuration within 2 ms; one in two or three hundred is larger."""
SECONDS = 30.0
"""For one question, the start of a process included. Whoever asks has been told sooner that it takes too long; the next
attempt gets the answer."""
MOST_PROCESSES = 4
"""Two are used, one for starts and one for validations, unless a question takes too long."""
CHILD = "bridge.service.checks.large_configs_main"


class LargeAnswer(NamedTuple):
    """A ValidateResponse as JSON. `good`: it has no errors."""

    good: bool
    json: bytes


class LargeConfigs:
    """Asks processes that are kept for the next question; they end by themselves when none comes. Blocks, so it is for
    bounded pools. Raises Overloaded for processes that do not start or that end, and NotAnswered after SECONDS."""

    def __init__(
        self, policy: Policy, module: str = CHILD, seconds: float = SECONDS, most: int = MOST_PROCESSES
    ) -> None:
        self._policy, self._module, self._seconds = policy, module, seconds
        self.numbers = count(1)
        self._idle: list[_Process] = []
        self._free = threading.BoundedSemaphore(most)

    def judged(self, kind: Kind, config: Config) -> ValidatedConfig:
        """Checks as `kind.validate` does; of the entries only those with errors."""
        answer = self._ask({"question": "judge", "kind": kind.kind, "config": dict(config)})
        errors = [ConfigError(key, message) for key, message in answer["errors"]]
        ignored = tuple(IgnoredSetting(**fields) for fields in answer["ignored"])
        return ValidatedConfig(ValidatedConfig(()).with_errors(errors).entries, ignored)

    def answer(
        self,
        kind: Kind,
        config: Config,
        errors: Sequence[ConfigError],
        warnings: Sequence[ConfigError],
        number: int,
    ) -> LargeAnswer:
        """Checks the configuration, and answers with these errors and warnings besides. A process that is asked again
        under the same number (one of `numbers`) does not check again."""
        question = {
            "question": "answer",
            "kind": kind.kind,
            "config": dict(config),
            "errors": [(error.key, error.message) for error in errors],
            "warnings": [(warning.key, warning.message) for warning in warnings],
            "number": number,
        }
        return LargeAnswer(**self._ask(question))

    def conflicts(self, kind: Kind, config: Config, others: Sequence[CopiedTopics]) -> Sequence[ConfigError]:
        """Looks for conflicts as `kind.conflicts` does."""
        rows = [(topics.name, dict(topics.config), list(topics.topics)) for topics in others]
        question = {"question": "conflicts", "kind": kind.kind, "config": dict(config), "others": rows}
        return [ConfigError(key, message) for key, message in self._ask(question)["errors"]]

    @property
    def idle(self) -> list[int]:
        """The ids of the processes that wait for a question."""
        return [process.pid for process in self._idle]

    def close(self) -> None:
        while self._idle:
            self._idle.pop().kill()

    def _ask(self, question: Mapping[str, object]) -> Mapping[str, Any]:
        deadline = time.monotonic() + self._seconds
        if not self._free.acquire(timeout=self._seconds):
            raise Overloaded("all processes that check large configurations are busy")
        try:
            data = msgpack.encode(question)
            while self._idle:
                with suppress(_Ended):  # by itself, as it was not asked for long
                    return self._asked(self._idle.pop(), data, deadline)
            try:
                return self._asked(_Process(self._module, self._policy), data, deadline)
            except _Ended as ended:
                raise Overloaded(f"the process that checks large configurations ended ({ended})") from None
        finally:
            self._free.release()

    def _asked(self, process: _Process, data: bytes, deadline: float) -> Mapping[str, Any]:
        """Keeps the process when it has answered, and kills it otherwise."""
        try:
            answer = process.ask(data, deadline)
        except BaseException:
            process.kill()
            raise
        self._idle.append(process)
        return answer


def is_large(config: Config) -> bool:
    return characters(config) > LARGE


class _Ended(Exception):
    """The process has ended; the text says how."""


class _Process:
    def __init__(self, module: str, policy: Policy) -> None:
        self._process, ours = with_socket(module)
        self._channel = Connection(ours.detach())
        self._policy: bytes | None = msgpack.encode(asdict(policy))

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, data: bytes, deadline: float) -> Mapping[str, Any]:
        """Raises _Ended, and NotAnswered after the deadline."""
        try:
            if self._policy is not None:
                self._channel.send_bytes(self._policy)
                self._policy = None
            self._channel.send_bytes(data)
            if not self._channel.poll(max(deadline - time.monotonic(), 0.0)):
                raise NotAnswered("checking the configuration took too long")
            return msgpack.decode(self._channel.recv_bytes(), type=dict[str, Any])
        except (EOFError, OSError):
            raise _Ended(how_ended(self._process)) from None

    def kill(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()

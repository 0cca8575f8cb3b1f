"""The process that checks large configurations: `python -m bridge.service.checks.large_configs_main DESCRIPTOR`.

It reads the policy of the service from the socket, then one question after the other, and answers each. Users' code is
not loaded here: where a configuration names some, a process of its own does that.
"""

from __future__ import annotations

import resource
import socket
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec import msgpack

from bridge.environment import end_with, limit
from bridge.errors import ConfigError, ConfigRejected
from bridge.mm2.java_regex import PatternTooSlow
from bridge.policy import Policy
from bridge.service.checks.answer import answer_of, as_json
from bridge.service.checks.context import CheckContext
from bridge.service.checks.plugin_process import conflicts, validated
from bridge.service.wiring import check_context
from connectors.base import CopiedTopics
from connectors.config.configdef import ValidatedConfig

IDLE_SECONDS, LARGE_IDLE_SECONDS = 60.0, 3.0
"""Without a question. A large configuration leaves large pieces of memory behind: who has much of it ends soon, after
the second of the two questions that Connect asks about each configuration."""
_MUCH = 96 << 10
"""KiB, of which the process has some 60,000 without a configuration."""

Answer = Mapping[str, object]


def main(descriptor: int) -> None:
    limit()
    channel = Connection(descriptor)
    watched = socket.socket(fileno=descriptor)
    threading.Thread(target=end_with, args=[watched], daemon=True).start()
    answers = CheckAnswers(check_context(msgpack.decode(channel.recv_bytes(), type=Policy)))
    while channel.poll(LARGE_IDLE_SECONDS if _resident() > _MUCH else IDLE_SECONDS):
        channel.send_bytes(msgpack.encode(answers.to(**msgpack.decode(channel.recv_bytes()))))


def _resident() -> int:
    """KiB that the process has now; 0 where that can't be seen."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError):
        return 0
    return pages * resource.getpagesize() >> 10


class CheckAnswers:
    """Answers questions of bridge.service.checks.large_configs."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        self._last: tuple[int, ValidatedConfig] = 0, ValidatedConfig(())
        """What was checked last under a number."""

    def to(self, question: str, kind: str, config: dict[str, str | None], **more: Any) -> Answer:
        found: Answer = getattr(self, question)(kind, config, **more)
        return found

    def judge(self, kind: str, config: dict[str, str | None]) -> Answer:
        judged = self._judged(kind, config)
        return {
            "errors": [(error.key, error.message) for error in judged.errors],
            "ignored": [setting.model_dump() for setting in judged.ignored],
        }

    def answer(
        self,
        kind: str,
        config: dict[str, str | None],
        errors: list[tuple[str, str]],
        warnings: list[tuple[str, str]],
        number: int,
    ) -> Answer:
        if self._last[0] != number:
            self._last = number, self._judged(kind, config)
        judged = self._last[1].with_errors([ConfigError(*error) for error in errors])
        answer = answer_of(
            self._context.kinds[kind], config, judged, [ConfigError(*warning) for warning in warnings]
        )
        return {"good": not answer.error_count, "json": as_json(answer)}

    def conflicts(
        self,
        kind: str,
        config: dict[str, str | None],
        others: list[tuple[str, dict[str, str | None], list[tuple[str, str]]]],
    ) -> Answer:
        copied = [
            CopiedTopics(name, theirs, [(source, target) for source, target in topics])
            for name, theirs, topics in others
        ]
        try:
            found = conflicts(self._context.kinds[kind], config, copied, self._context.plugin_process)
        except PatternTooSlow as problem:
            found = [ConfigError(problem.key, str(problem))]
        return {"errors": [(error.key, error.message) for error in found]}

    def _judged(self, kind: str, config: dict[str, str | None]) -> ValidatedConfig:
        context = self._context
        try:
            return validated(context.kinds[kind], config, context.clients, context.plugin_process)
        except ConfigRejected as rejected:
            return ValidatedConfig(()).with_errors(rejected.errors)


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""The process in which code of others is loaded to be checked: `python -m bridge.service.loading DESCRIPTOR`.

One question comes as a line of JSON; two lines go back: one when all that is ours is loaded, then the answer.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
from collections.abc import Mapping
from typing import Any

from bridge.errors import ConfigRejected
from bridge.policy import Policy
from bridge.service.context import CheckContext
from bridge.service.wiring import check_context
from connectors.base import CopiedTopics
from connectors.configdef import ValidatedConfig

_CPU_SECONDS = 300
_MEMORY = 4 << 30


def main(descriptor: int) -> None:
    channel = socket.socket(fileno=descriptor)
    _limit()
    with channel.makefile("rb") as lines:
        question = json.loads(lines.readline())
    threading.Thread(target=_end_with, args=[channel], daemon=True).start()
    context = check_context(Policy(**{name: _frozen(value) for name, value in question["policy"].items()}))
    if any(key.startswith("bridge.transforms") for key in question["config"]):
        import bridge.transforms.contract  # noqa: F401 (ours, and large)
    channel.sendall(b"{}\n")
    answer = json.dumps(_answer(context, question)).encode() + b"\n"
    channel.sendall(answer)
    # No thread and no exit handler of theirs is waited for.
    os._exit(0)


def _answer(context: CheckContext, question: Mapping[str, Any]) -> Mapping[str, Any]:
    kind, config = context.kinds[question["kind"]], question["config"]
    if question["question"] == "conflicts":
        others = [
            CopiedTopics(name, theirs, [(source, target) for source, target in topics])
            for name, theirs, topics in question["others"]
        ]
        return {"errors": [(error.key, error.message) for error in kind.conflicts(config, others)]}
    try:
        judged = kind.validate(config, context.clients)
    except ConfigRejected as rejected:
        judged = ValidatedConfig(()).with_errors(rejected.errors)
    return {
        "entries": [(each.key.name, each.errors, each.visible) for each in judged.entries],
        "ignored": [each.model_dump() for each in judged.ignored],
    }


def _frozen(value: object) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _limit() -> None:
    """Where the parent has died and can't end it; and no core files with passwords."""
    try:
        import resource

        for which, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_CPU, _CPU_SECONDS),
            (resource.RLIMIT_DATA, _MEMORY),
        ):
            _, hard = resource.getrlimit(which)
            resource.setrlimit(which, (most if hard < 0 else min(most, hard), hard))
    except (ImportError, OSError, ValueError):
        return


def _end_with(channel: socket.socket) -> None:
    """Ends the process, whatever it is at, when nobody is at the other end any more."""
    poll = select.poll()
    poll.register(channel, 0)
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))

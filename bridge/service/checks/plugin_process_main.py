"""The process in which code of others is loaded to be checked: `python -m bridge.service.checks.plugin_process_main
DESCRIPTOR`.

One question comes as a line of JSON; two lines go back: one when all that is ours is loaded, then the answer.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bridge.errors import BridgeError, ConfigRejected
from bridge.mm2.java_regex import compile_java, exactly
from bridge.model.values import Side
from bridge.policy import Policy
from bridge.service.checks.context import CheckContext, Naming, Props
from bridge.service.checks.plugin_questions import packed
from bridge.service.wiring import alter_here, check_context, doctor_here, queries_here
from connectors.base import CopiedTopics
from connectors.config.configdef import ValidatedConfig
from connectors.registry import KINDS
from connectors.source.altering import Offsets

_CPU_SECONDS = 300
_MEMORY = 4 << 30


def main(descriptor: int) -> None:
    channel = socket.socket(fileno=descriptor)
    _limit()
    with channel.makefile("rb") as lines:
        question = json.loads(lines.readline())
    threading.Thread(target=_end_with, args=[channel], daemon=True).start()
    context = check_context(
        Policy(**{name: _frozen(value) for name, value in question.get("policy", {}).items()})
    )
    if any(key.startswith("bridge.transforms") for key in question.get("config", {})):
        import bridge.transforms.contract  # noqa: F401 (ours, and large)
    channel.sendall(b"{}\n")
    found = _called(**question) if "call" in question else _answer(context, question)
    answer = json.dumps(found).encode() + b"\n"
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


def _called(call: str, arguments: Sequence[Any]) -> Mapping[str, Any]:
    try:
        return {"answer": CALLS[call](*arguments)}
    except BridgeError as error:
        return {"failed": packed(error)}


def _doctor(
    kind: str, name: str, props: Props, others: Sequence[Sequence[str]], worker_cluster_id: str | None
) -> object:
    named = [Naming(*each) for each in others]
    return doctor_here(KINDS[kind], name, props, named, worker_cluster_id).model_dump(mode="json")


def _alter(name: str, props: Props, offsets: Offsets) -> object:
    return alter_here()(name, props, offsets)


def _translate(props: Props, alias: str, pattern: str, exact: bool, timeout_s: float, side: str) -> object:
    group = exactly(pattern) if exact else compile_java(pattern)
    found = queries_here().translate_offsets(props, alias, group, timeout_s, Side(side))
    return [(name, list(offsets.items())) for name, offsets in found.items()]


CALLS: Mapping[str, Callable[..., object]] = {
    "doctor": _doctor,
    "alter": _alter,
    "replication_hops": lambda props, alias, side: queries_here().replication_hops(props, alias, Side(side)),
    "heartbeat_topics": lambda props, side: sorted(queries_here().heartbeat_topics(props, Side(side))),
    "checkpoint_topics": lambda props, side: sorted(queries_here().checkpoint_topics(props, Side(side))),
    "upstream_clusters": lambda props, side: sorted(queries_here().upstream_clusters(props, Side(side))),
    "remote_topics": lambda props, source, side: sorted(
        queries_here().remote_topics(props, source, Side(side))
    ),
    "translate_offsets": _translate,
}
"""What bridge.service.checks.plugin_questions asks for, in JSON."""


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

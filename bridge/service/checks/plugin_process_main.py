"""The process that loads users' code: `python -m bridge.service.checks.plugin_process_main DESCRIPTOR`.

It reads one question from the socket, a line of JSON, and writes two lines: one when our own modules are loaded, then
the answer.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bridge.environment import end_with, limit
from bridge.errors import BridgeError, ConfigRejected
from bridge.mm2.java_regex import compile_java, exactly
from bridge.model.values import Side
from bridge.policy import Policy
from bridge.service.checks.context import CheckContext, Naming, Props
from bridge.service.checks.plugin_questions import packed
from bridge.service.wiring import alter_here, check_context, doctor_here, probe, queries_here
from connectors.base import CopiedTopics
from connectors.config.configdef import ValidatedConfig
from connectors.registry import KINDS
from connectors.source.take_over import Offsets

_CPU_SECONDS = 300


def main(descriptor: int) -> None:
    channel = socket.socket(fileno=descriptor)
    limit(_CPU_SECONDS)
    with channel.makefile("rb") as lines:
        question = json.loads(lines.readline())
    threading.Thread(target=end_with, args=[channel], daemon=True).start()
    context = check_context(
        Policy(**{name: _frozen(value) for name, value in question.get("policy", {}).items()})
    )
    if any(key.startswith("bridge.transforms") for key in question.get("config", {})):
        import bridge.transforms.contract  # noqa: F401 (ours, and large)
    channel.sendall(b"{}\n")
    answer = _called(**question) if "call" in question else _answer(context, question)
    channel.sendall(json.dumps(answer).encode() + b"\n")
    # Waits for no thread and no exit handler of users' code.
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
        validated = kind.validate(config, context.clients)
    except ConfigRejected as rejected:
        validated = ValidatedConfig(()).with_errors(rejected.errors)
    return {
        "entries": [(entry.key.name, entry.errors, entry.visible) for entry in validated.entries],
        "ignored": [setting.model_dump() for setting in validated.ignored],
    }


def _called(call: str, arguments: Sequence[Any]) -> Mapping[str, Any]:
    try:
        return {"answer": CALLS[call](*arguments)}
    except BridgeError as error:
        return {"failed": packed(error)}


def _doctor(
    kind: str, name: str, props: Props, others: Sequence[Sequence[Any]], worker_cluster_id: str | None
) -> object:
    named = [Naming._make(fields) for fields in others]
    return doctor_here(KINDS[kind], name, props, named, worker_cluster_id).model_dump(mode="json")


def _alter(kind: str, name: str, props: Props, offsets: Offsets) -> object:
    return alter_here()(kind, name, props, offsets)


def _translate(props: Props, alias: str, pattern: str, exact: bool, timeout_s: float, side: str) -> object:
    group = exactly(pattern) if exact else compile_java(pattern)
    translated = queries_here().translate_offsets(props, alias, group, timeout_s, Side(side))
    return [(name, list(offsets.items())) for name, offsets in translated.items()]


def _probe(props: Props, sides: Sequence[str], seconds: float) -> object:
    probed = probe(props, list(map(Side, sides)), seconds)
    return [{str(side): text for side, text in texts.items()} for texts in probed]


CALLS: Mapping[str, Callable[..., object]] = {
    "doctor": _doctor,
    "probe": _probe,
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
"""The functions that bridge.service.checks.plugin_questions calls, with results as JSON has them."""


def _frozen(value: object) -> Any:
    return tuple(value) if isinstance(value, list) else value


if __name__ == "__main__":
    main(int(sys.argv[1]))

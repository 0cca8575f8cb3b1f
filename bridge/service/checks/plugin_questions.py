"""Runs operations on connectors whose configuration names users' code in the plugin process, so that the service never
loads that code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bridge import errors
from bridge.errors import (
    BridgeError,
    ConfigError,
    ConfigRejected,
    ErrorCode,
    KafkaFailure,
    KafkaFault,
    NotAnswered,
)
from bridge.mm2.java_regex import JavaPattern
from bridge.model.values import Committed, Side, TopicPartition
from bridge.protocol.operators import DoctorReport
from bridge.service.checks.context import AlterOffsets, Doctor, MirrorQueries, Naming, Probe, Probed, Props
from bridge.service.checks.plugin_process import CHILD, PluginFailed, ask
from bridge.translation.runs.reset_positions import PartitionReset, ResetOutcome
from connectors.base import Kind
from connectors.config.allowed_names import code
from connectors.config.plugins import token_functions
from connectors.source.take_over import Offsets

_SLACK = 2.0
"""Additional seconds for a probe, which has its own limit."""
CALL_SECONDS = 75.0
"""Requests to clusters time out earlier than this; a loop in users' code has no timeout of its own."""


def call(function: str, *arguments: Any, seconds: float = CALL_SECONDS, module: str = CHILD) -> Any:
    """Calls a function of bridge.service.checks.plugin_process_main in the plugin process, and returns its answer as
    JSON. Raises our errors as that raised them, NotAnswered for a process that did not finish, and Overloaded for one
    that did not start."""
    try:
        answer = ask({"call": function, "arguments": arguments}, seconds, module)
    except (PluginFailed, TimeoutError) as failed:
        reason = failed if isinstance(failed, PluginFailed) else f"no answer within {seconds:g} s"
        why = f"the plugin process, which loads the code that the configuration names, failed: {reason}"
        raise NotAnswered(why) from None
    if "failed" in answer:
        raise unpacked(*answer["failed"])
    return answer["answer"]


class ProbeInPluginProcess(NamedTuple):
    """A Probe. Users' code gets tokens for it, where a function of theirs is named for that."""

    here: Probe

    def __call__(self, props: Props, sides: Sequence[Side], seconds: float) -> Probed:
        if not token_functions(props):
            return self.here(props, sides, seconds)
        try:
            answers = call("probe", props, list(sides), seconds, seconds=seconds + _SLACK)
        except BridgeError as error:
            return Probed(dict.fromkeys(sides, str(error)), {})
        return Probed(*({Side(side): str(text) for side, text in answer.items()} for answer in answers))


class DoctorInPluginProcess(NamedTuple):
    """A Doctor."""

    here: Doctor

    def __call__(
        self, kind: Kind, name: str, props: Props, others: Sequence[Naming], worker_cluster_id: str | None
    ) -> DoctorReport:
        if not code(props):
            return self.here(kind, name, props, others, worker_cluster_id)
        return DoctorReport.model_validate(call("doctor", kind.kind, name, props, others, worker_cluster_id))


class AlterInPluginProcess(NamedTuple):
    """An AlterOffsets."""

    here: AlterOffsets

    def __call__(self, kind: str, name: str, props: Props, offsets: Offsets) -> Sequence[PartitionReset]:
        if not code(props):
            return self.here(kind, name, props, offsets)
        rows = call("alter", kind, name, props, offsets)
        return [
            PartitionReset(TopicPartition(*source), target, position, to, ResetOutcome(outcome))
            for source, target, position, to, outcome in rows
        ]


class QueriesInPluginProcess(NamedTuple):
    """MirrorQueries."""

    here: MirrorQueries

    def replication_hops(self, props: Props, alias: str, side: Side) -> int:
        if not code(props):
            return self.here.replication_hops(props, alias, side)
        return int(call("replication_hops", props, alias, side))

    def heartbeat_topics(self, props: Props, side: Side) -> set[str]:
        if not code(props):
            return self.here.heartbeat_topics(props, side)
        return set(call("heartbeat_topics", props, side))

    def checkpoint_topics(self, props: Props, side: Side) -> set[str]:
        if not code(props):
            return self.here.checkpoint_topics(props, side)
        return set(call("checkpoint_topics", props, side))

    def upstream_clusters(self, props: Props, side: Side) -> set[str]:
        if not code(props):
            return self.here.upstream_clusters(props, side)
        return set(call("upstream_clusters", props, side))

    def remote_topics(self, props: Props, source: str | None, side: Side) -> set[str]:
        if not code(props):
            return self.here.remote_topics(props, source, side)
        return set(call("remote_topics", props, source, side))

    def translate_offsets(
        self, props: Props, alias: str, group: JavaPattern, timeout_s: float, side: Side
    ) -> Mapping[str, Mapping[TopicPartition, Committed]]:
        if not code(props):
            return self.here.translate_offsets(props, alias, group, timeout_s, side)
        rows = call("translate_offsets", props, alias, group.pattern, group.exact, timeout_s, side)
        return {
            name: {TopicPartition(*at): Committed(*offset) for at, offset in offsets}
            for name, offsets in rows
        }


def packed(error: BridgeError) -> Sequence[object]:
    """An error of ours for another process: its class, its text, and what else it is made of."""
    more: object = None
    if isinstance(error, ConfigRejected):
        more = [(config_error.key, config_error.message) for config_error in error.errors]
    elif isinstance(error, KafkaFailure):
        more = (error.fault.value, error.retriable)
    return type(error).__name__, str(error), error.code.value, more


def unpacked(name: str, text: str, error_code: str, more: Any) -> BridgeError:
    if name == ConfigRejected.__name__:
        return ConfigRejected([ConfigError(*fields) for fields in more])
    if name == KafkaFailure.__name__:
        return KafkaFailure(KafkaFault(more[0]), text, retriable=more[1])
    error_class = getattr(errors, name, None)
    if (
        isinstance(error_class, type)
        and issubclass(error_class, BridgeError)
        and "__init__" not in vars(error_class)
    ):
        return error_class(text, code=ErrorCode(error_code))
    return NotAnswered(text)

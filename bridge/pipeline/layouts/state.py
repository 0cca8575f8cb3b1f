"""Reads the state topics on the target, committed records to the end: nothing else is remembered anywhere.

Who may copy is settled by the order of four steps. A driver takes over the driver's transactional id, which ends every
older driver's power to make layouts; writes its layout; takes over the ids of all slots, which ends what older slices
have open; and reads the runs. A slice takes over its slot's id, and then looks whether its layout is still the newest.
So of two layouts that overlap one sees the other, or is fenced by it, before it copies anything. An id that nobody can
take over now may be passed over where its slice has left it (see left_ids).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.state_topics import read_committed, verify_compacted
from bridge.model.copying import PipelineSpec
from bridge.model.state_records.fields import SchemaError
from bridge.model.values import CopyId, LogRecord, TopicPartition
from bridge.pipeline.layouts.records import LayoutTopic, read_layouts
from bridge.translation.runs.runs import decode_change


def state_topics(spec: PipelineSpec) -> dict[str, str]:
    """Returns the names of the state topics, with what each holds."""
    return {spec.runs_topic: "offset runs", spec.layout_topic: "layouts", spec.gaps_topic: "the gap ledger"}


def state_partitions(spec: PipelineSpec) -> list[TopicPartition]:
    """Returns the partitions of the target that slices and drivers write to in transactions, beside the copies."""
    topics = [*state_topics(spec)]
    if spec.syncs_topic and spec.syncs_on_target:
        topics.append(spec.syncs_topic)
    return [TopicPartition(topic, 0) for topic in topics]


async def verify_state_topics(target: NetworkClient, spec: PipelineSpec) -> None:
    """Verifies them before anything rests on them. Raises KafkaFailure, TOPIC_CONFIG for one that would lose what it
    holds."""
    topics = state_topics(spec)
    await target.metadata(list(topics))
    await verify_compacted(target, topics)


async def layout_topic(target: NetworkClient, spec: PipelineSpec) -> LayoutTopic:
    """Reads what the layout topic holds for this connector. Raises KafkaFailure."""
    return read_layouts(await read_committed(target, spec.layout_topic), spec)


class RunsTopic(NamedTuple):
    """The content of a runs topic: the newest record of each key, without those that were dropped."""

    by_copy: Mapping[CopyId, Sequence[LogRecord]]
    others: Mapping[CopyId, Sequence[bytes]]
    """The keys of the runs of all other copies."""


def by_copy(records: Sequence[LogRecord], copies: Collection[CopyId]) -> RunsTopic:
    newest = {record.key: record for record in records}
    by_id: dict[CopyId, list[LogRecord]] = {copy: [] for copy in copies}
    others: dict[CopyId, list[bytes]] = {}
    for key, record in newest.items():
        try:
            _, run = decode_change(key, record.value)
        except SchemaError:
            continue
        if run is not None and run.copy in by_id:
            by_id[run.copy].append(record)
        elif run is not None and key is not None:
            others.setdefault(run.copy, []).append(key)
    return RunsTopic(by_id, others)

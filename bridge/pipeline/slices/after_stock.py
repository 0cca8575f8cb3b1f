"""Whether a target that a stock mirror has filled ends with what that mirror has copied last. Where it does not,
somebody has copied on: this connector, if it has lost its state topics, and would copy all of that once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.errors import KafkaFailure
from bridge.kafka.admin.topic_configs import describe_configs
from bridge.kafka.consumer.record_lookups import Lookups
from bridge.model.copying import Copied
from bridge.model.lookups import Read, Window
from bridge.model.values import RecordView, Side, TopicPartition
from bridge.pipeline.slices.verifying import ClusterLogs
from bridge.translation.records.log_window import same

_BYTES = 1024
_MOST_STEPS = 16
"""Offsets at the end of a target's log that are looked at for a record: the others hold marks of transactions."""


async def copied_on(
    source: ClusterLogs, target: ClusterLogs, partitions: Sequence[Copied]
) -> set[TopicPartition]:
    """Source partitions of those that are to begin where a stock mirror had come to whose copies do not end with the
    record before that, or whose end nobody can tell. Raises KafkaFailure."""
    last_copied = {each.source: each.start - 1 for each in partitions if each.start}
    originals = await _at(source, Side.SOURCE, last_copied)
    copies = await _last(target, [each.remote for each in partitions])
    different = {
        each
        for each in partitions
        if (one := originals.get(each.source)) is None
        or (other := copies.get(each.remote)) is None
        or not _alike(one, other, each)
    }
    late = await _late(target, {each.target_topic for each in different})
    return {
        each.source
        for each in different
        if each.target_topic not in late
        or not _same_texts(originals.get(each.source), copies.get(each.remote))
    }


async def _at(
    logs: ClusterLogs, side: Side, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, RecordView]:
    """Reads the records at these offsets, of those that exist."""
    needs = {
        tp: Read(side, offset, _BYTES)
        for tp, offset in offsets.items()
        if logs.bounds[tp].start <= offset < logs.bounds[tp].end
    }
    lookups = Lookups(logs.client, committed_only=logs.committed_only)
    answers = await lookups.answer({tp: [need] for tp, need in needs.items()})
    records: dict[TopicPartition, RecordView] = {}
    for tp, need in needs.items():
        answer = answers[tp][need]
        if isinstance(answer, KafkaFailure):
            raise answer
        if isinstance(answer, Window):
            records |= [(tp, record) for record in answer.records if record.offset == need.offset]
    return records


async def _last(logs: ClusterLogs, tps: Sequence[TopicPartition]) -> dict[TopicPartition, RecordView]:
    records: dict[TopicPartition, RecordView] = {}
    for step in range(1, _MOST_STEPS + 1):
        left = {tp: logs.bounds[tp].end - step for tp in tps if tp not in records}
        if not left:
            break
        records |= await _at(logs, Side.TARGET, left)
    return records


def _alike(original: RecordView, copy: RecordView, copied: Copied) -> bool:
    """Compares a record with its copy; of one that went through a transform only the timestamp is the same."""
    return original.timestamp == copy.timestamp if copied.transforms else same(original, copy)


def _same_texts(one: RecordView | None, other: RecordView | None) -> bool:
    return one is not None and other is not None and (one.key, one.value) == (other.key, other.value)


async def _late(target: ClusterLogs, topics: set[str]) -> set[str]:
    """The topics whose brokers overwrite timestamps."""
    configs = await describe_configs(target.client, sorted(topics)) if topics else {}
    return {
        topic
        for topic, entries in configs.items()
        if not isinstance(entries, KafkaFailure)
        and entries["message.timestamp.type"].value == "LogAppendTime"
    }

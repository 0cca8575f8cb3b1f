"""Offsets of micro-batches: where each ends, what it reads, and what is gone. Pure.

    initial offset        {"(start)": null}                                  says nothing
    end of batch 0        {"(start)": {"orders": …}, "orders": {"id": …, "offsets": {"0": 23}}}
    end of batch 1        {"orders": {"id": …, "offsets": {"0": 42}}}

A source in Python has no place of its own in the checkpoint. Were the initial offset what the options and the logs say,
batch 0 would begin elsewhere each time that it is tried: behind the records of a batch that has failed, with
startingOffsets=latest. So where the stream begins stands in the end of batch 0, which Spark keeps before it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.model.values import TopicPartition
from bridge.spark.offsets import Log, OffsetRange, ranges
from bridge.spark.rejected import SourceRejected

_START = "(start)"
"""No topic has such a name."""


@dataclass(frozen=True)
class StreamPositions:
    """An offset for each partition, and the id of each topic. `start`: where the stream begins, in the end of its first
    micro-batch."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    start: StreamPositions | None = None


INITIAL: Mapping[str, Any] = {_START: None}
"""The offset at which a stream begins, whatever that is."""


def begun(offsets: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, Log]) -> StreamPositions:
    """Offsets, with the ids of their topics."""
    return StreamPositions(dict(offsets), {tp.topic: logs[tp].topic_id for tp in offsets})


def packed(positions: StreamPositions) -> dict[str, Any]:
    """As Spark keeps it in the checkpoint."""
    topics: dict[str, Any] = {
        topic: {"id": topic_id, "offsets": {}} for topic, topic_id in sorted(positions.topic_ids.items())
    }
    for tp, offset in sorted(positions.offsets.items()):
        topics[tp.topic]["offsets"][str(tp.partition)] = offset
    return topics if positions.start is None else {_START: packed(positions.start), **topics}


def unpacked(offset: Mapping[str, Any]) -> StreamPositions | None:
    """Returns None for INITIAL. Raises SourceRejected for what is no offset of this source."""
    if offset == INITIAL:
        return None
    try:
        topics = {topic: entry for topic, entry in offset.items() if topic != _START}
        return StreamPositions(
            {
                TopicPartition(topic, int(partition)): int(at)
                for topic, entry in topics.items()
                for partition, at in entry["offsets"].items()
            },
            {topic: str(entry["id"]) for topic, entry in topics.items()},
            unpacked(offset[_START]) if _START in offset else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        text = "the checkpoint has no offsets of this source; a query of another source needs a checkpoint of its own"
        raise SourceRejected(text) from None


def admitted(
    start: StreamPositions,
    logs: Mapping[TopicPartition, Log],
    *,
    most: int | None,
    last: StreamPositions | None,
    fail_on_data_loss: bool,
) -> StreamPositions:
    """Returns where the micro-batch that begins at `start` ends: at the ends of the logs, not beyond `last`, and after
    `most` offsets together, shared out by how many each partition has. Raises SourceRejected for what is gone, if that
    is an error."""
    if fail_on_data_loss:
        _verify(start, logs)
    sizes = dict[TopicPartition, int]()
    begins = dict[TopicPartition, int]()
    for tp, log in logs.items():
        end = log.end if last is None else min(log.end, last.offsets.get(tp, -1))
        if end < 0:
            continue  # it came after the query has fixed where it ends
        begin = min(_begin(start, tp, log), log.end)
        begins[tp], sizes[tp] = begin, max(0, end - begin)
    total = sum(sizes.values())
    if most is not None and total > most:
        sizes = {tp: min(size, max(1, size * most // total)) if size else 0 for tp, size in sizes.items()}
    return begun({tp: begin + sizes[tp] for tp, begin in begins.items()}, logs)


def offsets_behind(start: StreamPositions, logs: Mapping[TopicPartition, Log]) -> int:
    """Returns how many offsets there are behind a position."""
    return sum(max(0, log.end - _begin(start, tp, log)) for tp, log in logs.items())


def stream_ranges(
    start: StreamPositions,
    end: StreamPositions,
    logs: Mapping[TopicPartition, Log],
    *,
    fail_on_data_loss: bool,
) -> list[OffsetRange]:
    """Returns the ranges that a micro-batch reads. Raises SourceRejected for what is gone, if that is an error."""
    if fail_on_data_loss:
        _verify(end, logs)
    there = {
        tp: log
        for tp, log in logs.items()
        if tp in end.offsets and log.topic_id == end.topic_ids.get(tp.topic)
    }
    starts = {tp: _begin(start, tp, log) for tp, log in there.items()}
    ends = {tp: end.offsets[tp] for tp in there}
    return ranges(starts, ends, there, fail_on_data_loss=fail_on_data_loss)


def _begin(start: StreamPositions, tp: TopicPartition, log: Log) -> int:
    """Returns where the partition is read from: its beginning if it, or its topic, is new."""
    if tp not in start.offsets or start.topic_ids[tp.topic] != log.topic_id:
        return log.start
    return start.offsets[tp]


def _verify(positions: StreamPositions, logs: Mapping[TopicPartition, Log]) -> None:
    """Raises SourceRejected where a position is none of the log that is there now."""
    for tp, offset in sorted(positions.offsets.items()):
        name, log = f"{tp.topic}-{tp.partition}", logs.get(tp)
        if log is None:
            what = f"partition {name} is gone"
        elif log.topic_id != positions.topic_ids[tp.topic]:
            what = f"topic {tp.topic} was deleted and made again"
        elif offset > log.end:
            what = f"the log of {name} was cut back from offset {offset} to {log.end}"
        elif offset < log.start:
            what = f"offsets {offset} to {log.start - 1} of {name} are gone: its log begins at {log.start}"
        else:
            continue
        raise SourceRejected(f"{what}; failOnDataLoss=false goes on with what there is")

"""Which offsets are read: what options say, held against what the logs have. Pure.

Offsets of micro-batches: where each ends, what it reads, and what is gone. Pure.

    initial offset        {"(start)": null}                                  says nothing
    end of batch 0        {"(start)": {"orders": …}, "orders": {"id": …, "offsets": {"0": 23}}}
    end of batch 1        {"orders": {"id": …, "offsets": {"0": 42}}}

A source in Python has no place of its own in the checkpoint. Were the initial offset what the options and the logs say,
batch 0 would begin elsewhere each time that it is tried: behind the records of a batch that has failed, with
startingOffsets=latest. So where the stream begins stands in the end of batch 0, which Spark keeps before it reads.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from bridge.model.values import TopicPartition
from bridge.spark.rejected import SourceRejected

_EARLIEST, _LATEST = -2, -1
"""In JSON of offsets, as in Spark's own Kafka source."""
_START = "(start)"
"""No topic has such a name."""
INITIAL: Mapping[str, Any] = {_START: None}
"""The offset at which a stream begins, whatever that is."""


class LogEdge(Enum):
    """An end of each log."""

    EARLIEST = "earliest"
    LATEST = "latest"


class AtTime(NamedTuple):
    """The first record of each log at or after a time (ms)."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class Each:
    """An offset or an end for each partition. `option`: what gave them."""

    option: str
    offsets: Mapping[TopicPartition, int | LogEdge]


@dataclass(frozen=True, slots=True)
class EachTime:
    """A time (ms) for each partition: the first record at or after it. `option`: what gave them."""

    option: str
    times: Mapping[TopicPartition, int]


Where = LogEdge | AtTime | Each | EachTime


class Log(NamedTuple):
    """A partition's log: its topic's id, where it begins and ends."""

    topic_id: str
    start: int
    end: int


class OffsetRange(NamedTuple):
    """Offsets of one partition that are read, from `start` to before `end`."""

    tp: TopicPartition
    topic_id: str
    start: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.tp.topic}-{self.tp.partition}"


def read_offsets(option: str, text: str, *, edges: Collection[LogEdge]) -> LogEdge | Each:
    """Reads `earliest`, `latest` or JSON such as {"orders": {"0": 23, "1": -2}}. Raises SourceRejected; also for an end
    that is not among `edges`."""
    names = [edge.value for edge in LogEdge if edge in edges]
    right = f'must be {", ".join(names)} or JSON such as {{"orders": {{"0": 23, "1": {_number(edges)}}}}}'
    stripped = text.strip()
    if not stripped.startswith("{"):
        try:
            edge = LogEdge(stripped.lower())
        except ValueError:
            raise SourceRejected(f"option {option} is {_short(text)}; it {right}") from None
        if edge not in edges:
            raise SourceRejected(f"option {option} can't be {edge.value} here; it {right}")
        return edge
    offsets: dict[TopicPartition, int | LogEdge] = {}
    for tp, offset in _by_partition(option, stripped, right):
        edge_of = {_EARLIEST: LogEdge.EARLIEST, _LATEST: LogEdge.LATEST}.get(offset)
        if offset < _EARLIEST or (edge_of is not None and edge_of not in edges):
            raise SourceRejected(
                f"option {option} has offset {offset} for {tp.topic}-{tp.partition}; it {right}"
            )
        offsets[tp] = offset if edge_of is None else edge_of
    return Each(option, offsets)


def read_times(option: str, text: str) -> EachTime:
    """Reads JSON such as {"orders": {"0": 1500000000000}}. Raises SourceRejected."""
    right = 'must be JSON such as {"orders": {"0": 1500000000000}}, in ms since 1970'
    times = dict(_by_partition(option, text.strip(), right))
    if wrong := [tp for tp, time in times.items() if time < 0]:
        raise SourceRejected(f"option {option} has a time below 0 for {_names(wrong)}; it {right}")
    return EachTime(option, times)


def read_assignment(option: str, text: str) -> dict[str, list[int]]:
    """Reads JSON such as {"orders": [0, 1]}. Raises SourceRejected."""
    right = f'option {option} must be JSON such as {{"orders": [0, 1]}}'
    parsed = _json_object(text, right)
    assigned: dict[str, list[int]] = {}
    for topic, partitions in parsed.items():
        numbers = partitions if isinstance(partitions, list) else []
        if not topic or not numbers or not all(type(number) is int and number >= 0 for number in numbers):
            raise SourceRejected(f"{right}; that of topic {_short(topic)} is not")
        assigned[topic] = sorted(set(numbers))
    if not assigned:
        raise SourceRejected(f"{right}; it names no topic")
    return assigned


def resolved(
    where: Where,
    logs: Mapping[TopicPartition, Log],
    times: Mapping[TopicPartition, int | None],
    *,
    as_late: bool = False,
) -> dict[TopicPartition, int]:
    """The offset in each log. `times`: what the brokers say of times, None where no record is as late: that is the end
    of the log, or, with `as_late`, an error. Raises SourceRejected for that, and where partitions of an Each are not
    those of the logs."""
    if isinstance(where, EachTime):
        _same_partitions(where.option, "time", where.times, logs)
    if isinstance(where, AtTime | EachTime):
        late = [tp for tp in logs if times.get(tp) is None]
        if late and as_late:
            raise SourceRejected(
                f"there is no record as late as the time to start at in {_names(late)}; "
                "startingOffsetsByTimestampStrategy=latest begins at the end there"
            )
        at_times = ((tp, times.get(tp)) for tp in logs)
        return {tp: logs[tp].end if position is None else position for tp, position in at_times}
    if isinstance(where, LogEdge):
        return {tp: _edge(where, log) for tp, log in logs.items()}
    _same_partitions(where.option, "offset", where.offsets, logs)
    return {
        tp: _edge(offset, logs[tp]) if isinstance(offset, LogEdge) else offset
        for tp, offset in where.offsets.items()
    }


def ranges(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, Log],
    *,
    fail_on_data_loss: bool,
) -> list[OffsetRange]:
    """Returns the ranges to be read, without empty ones. Offsets that the log does not have are an error, or, without
    `fail_on_data_loss`, left out. Raises SourceRejected."""
    result = []
    for tp, log in sorted(logs.items()):
        start, end = starts[tp], ends[tp]
        if fail_on_data_loss:
            problem = _lost(tp, start, end, log)
            if problem is not None:
                raise SourceRejected(problem)
        start, end = max(start, log.start), min(end, log.end)
        if start < end:
            result.append(OffsetRange(tp, log.topic_id, start, end))
    return result


def verify_there(offsets: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, Log]) -> None:
    """Raises SourceRejected where a log does not have an offset."""
    for tp, offset in sorted(offsets.items()):
        problem = _lost(tp, offset, offset, logs[tp])
        if problem is not None:
            raise SourceRejected(problem)


def verify_order(
    start: Where,
    end: Where,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    fail_on_data_loss: bool,
) -> None:
    """Raises SourceRejected where a partition would be read from behind its end. Not where only time has made it so:
    records that come meanwhile, and, without `fail_on_data_loss`, retention."""
    for tp, first in sorted(starts.items()):
        if first <= ends[tp]:
            continue
        if isinstance(start, AtTime | EachTime):
            until = _time_of(end, tp)
            wrong = isinstance(end, Each) or (until is not None and (_time_of(start, tp) or 0) > until)
        else:
            wrong = fail_on_data_loss or (isinstance(start, Each) and isinstance(start.offsets[tp], int))
        if wrong and end is not LogEdge.LATEST:
            raise SourceRejected(
                f"{tp.topic}-{tp.partition} begins at offset {first}, behind its end at {ends[tp]}"
            )


def _time_of(where: Where, tp: TopicPartition) -> int | None:
    if isinstance(where, AtTime):
        return where.timestamp
    return where.times[tp] if isinstance(where, EachTime) else None


def _lost(tp: TopicPartition, start: int, end: int, log: Log) -> str | None:
    name = f"{tp.topic}-{tp.partition}"
    if start < log.start:
        what = f"offsets {start} to {log.start - 1} of {name} are gone: its log begins at {log.start}"
    elif max(start, end) > log.end:
        what = f"{name} has no offset {max(start, end)}: its log ends at {log.end}"
    else:
        return None
    return f"{what}; failOnDataLoss=false reads what there is"


def _same_partitions(
    option: str, what: str, named: Mapping[TopicPartition, object], logs: Mapping[TopicPartition, Log]
) -> None:
    missing = _names(logs.keys() - named.keys())
    if missing:
        raise SourceRejected(f"option {option} names no {what} of {missing}")
    strange = _names(named.keys() - logs.keys())
    if strange:
        raise SourceRejected(f"option {option} names {strange}, which is not read")


def _names(partitions: Iterable[TopicPartition]) -> str:
    names = [f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _edge(edge: LogEdge, log: Log) -> int:
    return log.start if edge is LogEdge.EARLIEST else log.end


def _by_partition(option: str, text: str, right: str) -> Iterable[tuple[TopicPartition, int]]:
    for topic, partitions in _json_object(text, f"option {option} {right}").items():
        if not isinstance(partitions, dict):
            raise SourceRejected(f"option {option} {right}; that of topic {_short(topic)} is not")
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int:
                raise SourceRejected(f"option {option} {right}; that of topic {_short(topic)} is not")
            yield TopicPartition(topic, int(partition)), offset


def _json_object(text: str, right: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise SourceRejected(f"{right}; this is no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise SourceRejected(right)
    return parsed


def _number(edges: Collection[LogEdge]) -> int:
    return _EARLIEST if LogEdge.EARLIEST in edges else _LATEST


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


@dataclass(frozen=True)
class StreamPositions:
    """An offset for each partition, and the id of each topic. `start`: where the stream begins, in the end of its first
    micro-batch."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    start: StreamPositions | None = None


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
    known = {
        tp: log
        for tp, log in logs.items()
        if tp in end.offsets and log.topic_id == end.topic_ids.get(tp.topic)
    }
    starts = {tp: _begin(start, tp, log) for tp, log in known.items()}
    ends = {tp: end.offsets[tp] for tp in known}
    return ranges(starts, ends, known, fail_on_data_loss=fail_on_data_loss)


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

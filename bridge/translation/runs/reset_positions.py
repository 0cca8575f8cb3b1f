"""Plans a reset: reads where an operator wants copying to go on, and decides what that means for each partition
(KIP-875)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from bridge.model.values import Bounds, TopicPartition
from bridge.translation.runs.runs import OffsetRun


class ResetTo(StrEnum):
    """Where copying is to go on, as Kafka's OffsetSpec names it."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


class Destination(NamedTuple):
    """Where a partition's copying is to go on. `value`: an offset, or a timestamp in ms."""

    kind: ResetTo
    value: int = 0


EARLIEST, LATEST = Destination(ResetTo.EARLIEST), Destination(ResetTo.LATEST)


def destination(text: str) -> Destination:
    """Reads `earliest`, `latest`, an offset, or a time as ISO 8601 has it; without a zone it is UTC.

    Raises ValueError, with the forms that are allowed.
    """
    if text in (ResetTo.EARLIEST, ResetTo.LATEST):
        return Destination(ResetTo(text))
    if text.isascii() and text.isdigit():
        return Destination(ResetTo.OFFSET, int(text))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither earliest nor latest, nor an offset, nor a time such as 2026-11-22T21:00:00Z"
        ) from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return Destination(ResetTo.TIMESTAMP, int(at.timestamp() * 1000))


class ResetOutcome(StrEnum):
    """What a reset does to one partition."""

    AGAIN = "copied again"
    SKIPPED = "skipped"
    """Records between the two positions are not copied."""
    UNCHANGED = "unchanged"
    MADE_AGAIN = "topic made again"
    """After the last copy: all that it holds now is copied anyway."""
    HANDED_BACK = "handed back"
    """Copying goes on where Connect's source offsets say."""
    GONE = "no such topic"


class PartitionReset(NamedTuple):
    """The reset of one partition. `position`: where copying would have gone on, or begun again; `to`: where it goes on,
    `position` where nothing is changed."""

    source: TopicPartition
    target_topic: str
    position: int
    to: int
    outcome: ResetOutcome

    @property
    def changes(self) -> bool:
        return self.outcome in (ResetOutcome.AGAIN, ResetOutcome.SKIPPED)


class OutOfRange(Exception):
    """Raised for an offset that a log does not have; the text names the partition, the offset and the log's range."""


def plan(
    newest: Mapping[TopicPartition, OffsetRun],
    destinations: Mapping[TopicPartition, Destination],
    topic_ids: Mapping[str, str | None],
    logs: Mapping[TopicPartition, Bounds],
    at_time: Mapping[TopicPartition, int],
    again: Mapping[TopicPartition, int],
) -> list[PartitionReset]:
    """Plans the reset of each partition that is requested and was copied, in order.

    `newest`: the newest run of each copied partition; `topic_ids`: those of the source now, None for topics that it
    does not have; `logs`: where the source's logs begin and end; `at_time`: the first offset at or after each
    timestamp that is requested; `again`: where copying would begin again of itself. Raises OutOfRange for the first
    offset that its log does not have: then nothing is to be done.
    """
    rows = []
    for tp in sorted(destinations.keys() & newest.keys()):
        last, topic_id = newest[tp], topic_ids[tp.topic]
        fixed = _unchangeable(last, topic_id)
        position = again.get(tp, last.position)
        to = position if fixed else _offset(tp, destinations[tp], logs[tp], at_time)
        outcome = fixed or _outcome(position, to)
        rows.append(PartitionReset(tp, last.target_topic, position, to, outcome))
    return rows


def _unchangeable(last: OffsetRun, topic_id: str | None) -> ResetOutcome | None:
    """Returns why nothing can be changed, None where it can."""
    if last.handed_back:
        return ResetOutcome.HANDED_BACK
    if topic_id is None:
        return ResetOutcome.GONE
    if topic_id and last.source_topic_id and topic_id != last.source_topic_id:
        return ResetOutcome.MADE_AGAIN
    return None


def _outcome(position: int, to: int) -> ResetOutcome:
    if to == position:
        return ResetOutcome.UNCHANGED
    return ResetOutcome.AGAIN if to < position else ResetOutcome.SKIPPED


def _offset(
    tp: TopicPartition, destination: Destination, log: Bounds, at_time: Mapping[TopicPartition, int]
) -> int:
    match destination.kind:
        case ResetTo.EARLIEST:
            return log.start
        case ResetTo.LATEST:
            return log.end
        case ResetTo.TIMESTAMP:
            return min(max(at_time[tp], log.start), log.end)
        case ResetTo.OFFSET:
            if not log.start <= destination.value <= log.end:
                raise OutOfRange(
                    f"{tp.topic}-{tp.partition} has no offset {destination.value}: its log begins at {log.start} and "
                    f"ends at {log.end}"
                )
            return destination.value

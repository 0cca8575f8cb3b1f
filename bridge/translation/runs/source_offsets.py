"""Plans a hand-back: converts positions of copying to source offsets that stock's MirrorSourceConnector goes on from
(stock §2)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from bridge.model.values import TopicPartition
from bridge.translation.runs.partition_runs import PartitionRuns


class HandBackOutcome(StrEnum):
    """What a hand-back does to one partition."""

    HANDED_BACK = "handed back"
    FROM_RESET = "no offset"
    """Nothing was copied yet: stock begins where consumer.auto.offset.reset says."""
    MADE_AGAIN = "topic made again"
    """After the last copy: stock begins where consumer.auto.offset.reset says."""
    ALREADY = "handed back before"
    """And left as it is: stock may have copied since."""
    GONE = "no such topic"


class PartitionHandBack(NamedTuple):
    """The hand-back of one partition. `position`: the first offset of the source that is not copied; `offset`: stock's
    new source offset, that of the last record copied, None for none."""

    source: TopicPartition
    position: int
    offset: int | None
    outcome: HandBackOutcome

    @property
    def written(self) -> bool:
        return self.outcome in (
            HandBackOutcome.HANDED_BACK,
            HandBackOutcome.FROM_RESET,
            HandBackOutcome.MADE_AGAIN,
        )


def plan(
    runs: Mapping[TopicPartition, PartitionRuns], topic_ids: Mapping[str, str | None]
) -> list[PartitionHandBack]:
    """Plans the hand-back of each partition. `topic_ids`: those of the source now, None for topics that it does not
    have."""
    return [_row(tp, run, topic_ids[tp.topic]) for tp, run in sorted(runs.items())]


def _row(tp: TopicPartition, runs: PartitionRuns, topic_id: str | None) -> PartitionHandBack:
    last = runs.last
    assert last is not None, "read_runs knows partitions by their runs"
    if topic_id is None:
        return PartitionHandBack(tp, last.position, None, HandBackOutcome.GONE)
    if last.handed_back:
        return PartitionHandBack(tp, last.position, None, HandBackOutcome.ALREADY)
    if topic_id and last.source_topic_id and topic_id != last.source_topic_id:
        return PartitionHandBack(tp, last.position, None, HandBackOutcome.MADE_AGAIN)
    if last.position == 0:
        return PartitionHandBack(tp, 0, None, HandBackOutcome.FROM_RESET)
    return PartitionHandBack(tp, last.position, last.position - 1, HandBackOutcome.HANDED_BACK)

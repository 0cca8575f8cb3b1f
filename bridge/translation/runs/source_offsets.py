"""What copying has come to, as source offsets that stock's MirrorSourceConnector goes on from (stock §2)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from bridge.model.values import TopicPartition
from bridge.translation.runs.partition_runs import PartitionRuns


class Outcome(StrEnum):
    HANDED_BACK = "handed back"
    FROM_RESET = "no offset"
    """Nothing was copied yet: stock begins where consumer.auto.offset.reset says."""
    MADE_AGAIN = "topic made again"
    """After the last copy: stock begins where consumer.auto.offset.reset says."""
    ALREADY = "handed back before"
    """And left as it is: stock may have copied since."""
    GONE = "no such topic"


class Row(NamedTuple):
    """`position`: the first offset of the source that is not copied; `offset`: what stock's source offset becomes, that
    of the last record copied, None for none."""

    source: TopicPartition
    position: int
    offset: int | None
    outcome: Outcome

    @property
    def written(self) -> bool:
        return self.outcome in (Outcome.HANDED_BACK, Outcome.FROM_RESET, Outcome.MADE_AGAIN)


def plan(runs: Mapping[TopicPartition, PartitionRuns], topic_ids: Mapping[str, str | None]) -> list[Row]:
    """By partition; `topic_ids` are those that the source has now, None for topics that it has not."""
    return [_row(place, each, topic_ids[place.topic]) for place, each in sorted(runs.items())]


def _row(place: TopicPartition, runs: PartitionRuns, topic_id: str | None) -> Row:
    last = runs.last
    assert last is not None, "read_runs knows partitions by their runs"
    if topic_id is None:
        return Row(place, last.position, None, Outcome.GONE)
    if last.handed_back:
        return Row(place, last.position, None, Outcome.ALREADY)
    if topic_id and last.source_topic_id and topic_id != last.source_topic_id:
        return Row(place, last.position, None, Outcome.MADE_AGAIN)
    if last.position == 0:
        return Row(place, 0, None, Outcome.FROM_RESET)
    return Row(place, last.position, last.position - 1, Outcome.HANDED_BACK)

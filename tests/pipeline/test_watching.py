"""Progress from committed runs."""

from __future__ import annotations

import pytest

from bridge.pipeline.watching import advanced
from bridge.translation.copying import Progress
from bridge.translation.model import TopicPartition
from bridge.translation.runs import OffsetRun

PLACE = TopicPartition("orders", 0)
BEGAN = 5_000


def run(
    start: int, count: int, *, skipped: int = 0, stamp: int = 5_900, position: int | None = None
) -> OffsetRun:
    return OffsetRun(
        source=PLACE,
        source_topic_id="s",
        target_topic="A.orders",
        target_topic_id="t",
        covered_from=start,
        upstream_start=start,
        downstream_start=start,
        upstream_count=count,
        skipped=skipped,
        extra=0,
        leader_epoch=0,
        position=start + count if position is None else position,
        last_timestamp=stamp,
        size=count * 100,
    )


def test_a_run_that_is_new_counts() -> None:
    before = Progress(PLACE, 10, 30, 10, 1000, 1, 1)
    assert advanced(before, run(10, 5), 6_000, BEGAN) == Progress(PLACE, 15, 30, 15, 1500, 100, 100)
    assert advanced(before, run(10, 5, skipped=2), 6_000, BEGAN).records == 13
    assert advanced(before, run(10, 5, stamp=-1), 6_000, BEGAN).replication_latency_ms == -1


def test_the_first_that_is_known_of_a_partition_is_where_it_begins() -> None:
    assert advanced(None, run(0, 5), 6_000, BEGAN) == Progress(PLACE, 5)


@pytest.mark.parametrize(
    ("found", "written_ms", "position"),
    [
        (run(10, 5), BEGAN - 1, 15),
        (run(0, 10), 6_000, 10),
        (run(0, 15), 6_000, 15),
        (run(10, 0, position=20), 6_000, 20),
        (run(0, 5), 6_000, 10),
    ],
    ids=["from before", "merged", "merged and more", "a position only", "older"],
)
def test_what_was_not_copied_just_now_moves_the_position_only(
    found: OffsetRun, written_ms: int, position: int
) -> None:
    before = Progress(PLACE, 10, 30, 10, 1000, 1, 1)
    assert advanced(before, found, written_ms, BEGAN) == Progress(PLACE, position, 30, 10, 1000, 1, 1)

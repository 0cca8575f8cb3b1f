"""What a translation asks of the brokers once the start of the log is known."""

from __future__ import annotations

from itertools import count

import pytest

from bridge.model.values import Judgement
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.partition_cache import PartitionMemory
from tests.unit.translation.logs import Partition, Row

BATCH = 50


def mirrored(stamps: list[int], *, first: int = 0) -> Partition:
    """A plain log from source offset `first` on, and all of it on the target from 0 on, in batches."""
    partition = Partition()
    partition.source.start = partition.source.end = first
    rows = [Row(0, stamp, b"k", b"v%d" % number) for number, stamp in enumerate(stamps)]
    for at in range(0, len(rows), BATCH):
        partition.source.append(rows[at : at + BATCH])
        partition.target.append(
            [row._replace(origin=row.offset) for row in partition.source.rows[at : at + BATCH]]
        )
    return partition


def costs(partition: Partition, offsets: list[int]) -> list[tuple[int, int]]:
    """Reads and time searches of each translation but the first; every one is exact."""
    memory = PartitionMemory()
    delta = partition.target.start - partition.source.start
    collected = []
    for offset in offsets:
        partition.reads = partition.times = 0
        source, target = partition.source.bounds(), partition.target.bounds()
        verdict = partition.translate(bracket(offset, source, target, memory))
        assert (verdict.judgement, verdict.offset) == (Judgement.EXACT, offset + delta), verdict
        collected.append((partition.reads, partition.times))
    return collected[1:]


@pytest.mark.parametrize(
    "stamps",
    [
        pytest.param([1_000 + number for number in range(3_000)], id="one_a_millisecond"),
        pytest.param([1_000 + number * 7 % 500 for number in range(3_000)], id="out_of_order"),
        pytest.param([1_000 - number for number in range(3_000)], id="falling_to_negative"),
        pytest.param(
            [1_900_000_000_000 if n % 3 == 0 else n for n in range(3_000)], id="every_third_in_2030"
        ),
        pytest.param([-1] * 3_000, id="no_timestamps"),
    ],
)
def test_a_plain_log_costs_one_fetch_on_each_side_and_no_time_search(stamps: list[int]) -> None:
    partition = mirrored(stamps, first=400)
    offsets = [400, 401, 430, 451, 1_777, 2_900, 3_398, 3_399, 3_400]
    assert costs(partition, [1_000, *offsets]) == [(2, 0)] * len(offsets)


def test_ten_thousand_records_in_one_millisecond_cost_the_same() -> None:
    stamps = [999] * 100 + [1_000] * 10_000 + [1_001] * 100
    partition = mirrored(stamps)
    offsets = [100, 101, 150, 5_000, 9_876, 10_099, 10_100, 10_200]
    assert costs(partition, [50, *offsets]) == [(2, 0)] * len(offsets)


def test_the_first_translation_of_a_partition_finds_the_start_of_the_log_once() -> None:
    partition = mirrored(list(range(3_000)))
    memory = PartitionMemory()
    bounds = partition.source.bounds(), partition.target.bounds()
    partition.translate(bracket(2_000, *bounds, memory))
    assert partition.times <= 1
    assert partition.reads <= 5


def test_after_a_restart_of_the_mirror_its_new_delta_costs_no_time_search_either() -> None:
    partition = mirrored(list(range(1_000)))
    again = [row._replace(origin=row.offset) for row in partition.source.rows[900:]]
    partition.target.append(again)
    fresh = [Row(0, 1_000 + number, b"k", b"w%d" % number) for number in range(2_000)]
    for at in range(0, 2_000, BATCH):
        partition.source.append(fresh[at : at + BATCH])
        partition.target.append(partition.source.rows[-BATCH:])
    memory = PartitionMemory()
    asked = []
    for offset in (50, 2_000, 2_500, 2_950, 3_000):
        partition.times = 0
        verdict = partition.translate(
            bracket(offset, partition.source.bounds(), partition.target.bounds(), memory)
        )
        assert verdict.judgement is Judgement.EXACT
        assert verdict.offset == offset + (100 if offset > 1_000 else 0)
        asked.append(partition.times)
    # The first finds the start of the log, the second proves the first copy above the restart, the rest guess from it.
    assert asked[2:] == [0, 0, 0]


def test_records_of_a_window_are_compared_not_searched() -> None:
    """The hot path looks at a few records around the offset, however many a window holds."""
    touched = count()

    class Counting(Row):
        def __getattribute__(self, name: str) -> object:
            if name == "timestamp":
                next(touched)
            return super().__getattribute__(name)

    partition = mirrored(list(range(3_000)))
    memory = PartitionMemory()
    partition.translate(bracket(1_000, partition.source.bounds(), partition.target.bounds(), memory))
    for log in (partition.source, partition.target):
        log.rows = [Counting(*row) for row in log.rows]
        log.changed()
    partition.translate(bracket(2_000, partition.source.bounds(), partition.target.bounds(), memory))
    assert next(touched) < 200

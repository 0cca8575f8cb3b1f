"""Each kind of committed offset as a plain example: what the verdict on it is, and why."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridge.model.values import Evidence, Flag, Judgement, Reason, Verdict
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.log_window import Caps, LogBounds
from bridge.translation.records.partition_cache import PartitionMemory
from tests.unit.translation.logs import EPOCH, Partition, Row

CONTROL = Row(0, 0, None, None, control=True)


def records(count: int, *, stamp: int = 1_000, aborted: bool = False) -> list[Row]:
    return [Row(0, stamp + n, b"k%d" % n, b"%d-%d" % (stamp, n), aborted=aborted) for n in range(count)]


def mirrored(
    *batches: Sequence[Row], committed_only: bool = False, committed_known: bool = False
) -> Partition:
    """`batches` on the source, and their data on the target; without aborted data if `committed_only`."""
    partition = Partition(committed_only=committed_known)
    for batch in batches:
        partition.source.append(list(batch))
    for row in partition.source.rows:
        if not row.control and not (committed_only and row.aborted):
            partition.target.append([row._replace(origin=row.offset, aborted=False)])
    return partition


def translated(partition: Partition, offset: int, caps: Caps | None = None) -> Verdict:
    source, target = partition.source.bounds(), partition.target.bounds()
    return partition.translate(bracket(offset, source, target, PartitionMemory(), caps))


def assert_exact(verdict: Verdict, offset: int, *flags: Flag) -> None:
    assert (verdict.judgement, verdict.offset, verdict.bound) == (Judgement.EXACT, offset, 0), verdict
    assert (verdict.evidence, verdict.reason, verdict.flags) == (Evidence.VERIFIED, None, flags)


@pytest.mark.parametrize("offset", [0, 1, 7, 19, 39])
def test_a_record(offset: int) -> None:
    verdict = translated(mirrored(records(40)), offset)
    assert_exact(verdict, offset)
    assert verdict.leader_epoch == EPOCH


def test_past_the_log_end() -> None:
    """Truncated or re-created under the group: not caught up."""
    partition = mirrored(records(10))
    verdict = translated(partition, 11)
    assert (verdict.judgement, verdict.reason) == (Judgement.PENDING, Reason.OFFSET_BEYOND_END)
    assert (partition.reads, partition.times) == (0, 0)


def test_past_the_end_of_an_empty_log() -> None:
    assert translated(Partition(), 1).reason is Reason.OFFSET_BEYOND_END


def test_below_the_log_start() -> None:
    partition = mirrored(records(40))
    partition.source.retain_from(25)
    verdict = translated(partition, 5)
    assert verdict.flags == (Flag.TRUNCATED,)
    assert (verdict.judgement, verdict.offset) == (Judgement.BOUNDED, 0), (
        "what expired is still on the target"
    )
    assert verdict.bound == 25
    partition.target.retain_from(25)
    assert_exact(translated(partition, 5), 25, Flag.TRUNCATED)


def test_at_the_log_start_after_retention() -> None:
    partition = mirrored(records(40))
    partition.source.retain_from(25)
    memory = PartitionMemory()
    bounds = partition.source.bounds(), partition.target.bounds()
    assert_exact(partition.translate(bracket(25, *bounds, memory)), 25)


def test_empty_on_both_sides() -> None:
    partition = Partition()
    assert_exact(translated(partition, 0), 0)
    assert (partition.reads, partition.times) == (0, 0)


def test_everything_has_expired_on_both_sides() -> None:
    partition = mirrored(records(20))
    partition.source.retain_from(20)
    partition.target.retain_from(20)
    assert_exact(translated(partition, 20), 20)


def test_the_target_is_still_empty() -> None:
    partition = Partition()
    partition.source.append(records(10))
    assert_exact(translated(partition, 0), 0)
    verdict = translated(partition, 6)
    assert (verdict.judgement, verdict.offset, verdict.bound) == (Judgement.BOUNDED, 0, 6)
    assert verdict.flags == (Flag.AHEAD_OF_MIRROR,)


def test_caught_up() -> None:
    assert_exact(translated(mirrored(records(40)), 40), 40)
    assert_exact(translated(mirrored(records(3)), 3), 3)


def test_caught_up_behind_control_records() -> None:
    partition = mirrored(records(20), [CONTROL], records(3, stamp=2_000), [CONTROL])
    assert partition.source.end == 25
    for offset in (24, 25):
        assert_exact(translated(partition, offset), 23)


def test_caught_up_with_control_records_at_the_end_of_the_target() -> None:
    partition = mirrored(records(20))
    partition.target.append([CONTROL])
    verdict = translated(partition, 20)
    assert_exact(verdict, 20)


def test_ahead_of_the_mirror() -> None:
    partition = mirrored(records(30))
    partition.source.append(records(10, stamp=2_000))
    assert_exact(translated(partition, 30), 30)
    verdict = translated(partition, 37)
    assert (verdict.judgement, verdict.offset, verdict.bound) == (Judgement.BOUNDED, 30, 7)
    assert verdict.flags == (Flag.AHEAD_OF_MIRROR,)


def test_before_the_mirror_began() -> None:
    """A mirror that started at latest: the group's first unprocessed record on the target is the first there is."""
    partition = Partition()
    partition.source.append(records(20))
    for row in records(30, stamp=2_000):
        partition.source.append([row])
        partition.target.append([row._replace(origin=partition.source.end - 1)])
    for offset in (3, 20):
        assert_exact(translated(partition, offset), 0)
    assert_exact(translated(partition, 21), 1)


def test_negative_timestamps_are_never_sent_to_list_offsets() -> None:
    """The model refuses one: -1 means latest there."""
    rows = [row._replace(timestamp=-1 - row.timestamp % 3) for row in records(40)]
    for offset in (0, 1, 20, 40):
        assert_exact(translated(mirrored(rows), offset), offset)
    gaps = mirrored(rows[:20], [CONTROL], rows[20:])
    for offset, place in ((20, 20), (21, 20), (30, 29), (41, 40)):
        assert_exact(translated(gaps, offset), place)


@pytest.mark.parametrize("offset", [10, 11, 14, 15])
def test_a_hole(offset: int) -> None:
    """Compaction has taken 10 to 14 on the source; its cleaner is ahead of the target's."""
    partition = mirrored(records(40))
    partition.source.rows = [row for row in partition.source.rows if not 10 <= row.offset < 15]
    partition.source.changed()
    verdict = translated(partition, offset)
    # Whatever the group has not read of 10 to 14 may still be wanted.
    assert verdict.offset == 10
    assert (verdict.judgement, verdict.bound) == (Judgement.BOUNDED, 5)


def test_a_hole_on_both_sides() -> None:
    partition = mirrored(records(40))
    for log in (partition.source, partition.target):
        log.rows = [row for row in log.rows if not 10 <= row.offset < 15]
        log.changed()
    for offset in (10, 12, 15):
        assert_exact(translated(partition, offset), 10)


def test_aborted_data_that_the_mirror_copied() -> None:
    partition = mirrored(
        records(10), records(5, stamp=2_000, aborted=True), [CONTROL], records(10, stamp=3_000)
    )
    assert_exact(translated(partition, 12), 12)
    assert_exact(translated(partition, 15), 15)
    assert_exact(translated(partition, 16), 15)


@pytest.mark.parametrize("committed_known", [False, True], ids=["unknown", "known"])
def test_aborted_data_that_the_mirror_left_out(committed_known: bool) -> None:
    """Known to copy committed data only, or not: between aborted records the answer is the same, and exact where
    translation may take them for no data."""
    batches = (
        records(10),
        records(5, stamp=2_000, aborted=True),
        [CONTROL],
        records(10, stamp=3_000),
        [CONTROL],
    )
    partition = mirrored(*batches, committed_only=True, committed_known=committed_known)
    for offset in (9, 17, 20):
        assert_exact(translated(partition, offset), offset if offset < 10 else offset - 6)
    verdict = translated(partition, 12)
    assert verdict.offset == 10
    if committed_known:
        assert_exact(verdict, 10)


def test_a_burst_of_ten_thousand_in_one_millisecond() -> None:
    partition = Partition()
    for at in range(0, 10_000, 100):
        batch = [Row(0, 1_000, b"k", b"%d" % number) for number in range(at, at + 100)]
        partition.source.append(batch)
        partition.target.append(batch)
    for offset in (0, 1, 4_321, 9_999, 10_000):
        assert_exact(translated(partition, offset), offset)


def test_an_open_transaction_on_the_target() -> None:
    """What it holds may be aborted yet: nothing at or above the last stable offset is an answer."""
    partition = mirrored(records(40))
    partition.target.open_from = 30
    assert_exact(translated(partition, 29), 29)
    assert_exact(translated(partition, 30), 30)
    verdict = translated(partition, 35)
    assert (verdict.judgement, verdict.offset, verdict.bound) == (Judgement.BOUNDED, 30, 5)


def test_an_open_transaction_at_the_start_of_the_target() -> None:
    partition = mirrored(records(10))
    partition.target.open_from = 0
    assert translated(partition, 4).offset == 0


def test_a_copy_that_cannot_be_found() -> None:
    """The target holds nothing of the source: never an unverified offset."""
    partition = Partition()
    partition.source.append(records(20))
    partition.target.append(records(20, stamp=5_000))
    verdict = translated(partition, 10)
    assert (verdict.judgement, verdict.offset, verdict.reason) == (
        Judgement.PENDING,
        None,
        Reason.COPY_NOT_FOUND,
    )


def test_a_spent_byte_budget() -> None:
    partition = mirrored(records(20), [CONTROL], *([row] for row in records(20, stamp=2_000)))
    verdict = translated(partition, 30, Caps(read_bytes=1, search_bytes=1))
    assert (verdict.judgement, verdict.reason) == (Judgement.PENDING, Reason.COPY_NOT_FOUND)


def test_windows_are_cut_to_the_bounds_that_translation_was_given() -> None:
    """Logs grow and expire while a round runs; the bounds of its beginning hold for all of it."""
    partition = mirrored(records(40))
    verdict = partition.translate(bracket(20, LogBounds(5, 30), LogBounds(3, 25), PartitionMemory()))
    assert_exact(verdict, 20)
    verdict = partition.translate(bracket(30, LogBounds(5, 30), LogBounds(3, 25), PartitionMemory()))
    assert (verdict.judgement, verdict.offset, verdict.bound) == (Judgement.BOUNDED, 25, 5)

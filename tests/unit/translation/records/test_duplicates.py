"""Identical records whose copies were taken for each other's: answers that said `exact` and were not, bounds that were
too small, and answers that skipped."""

from __future__ import annotations

import pytest

from bridge.model.values import Judgement, Verdict
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.log_window import Caps
from bridge.translation.records.partition_cache import PartitionMemory
from tests.unit.translation.logs import RECORD_BYTES, Log, Partition, Row


def fill(log: Log, start: int, rows: list[Row]) -> None:
    log.start = log.end = start
    for row in rows:
        log.end = row.offset
        log.append([row])


def record(offset: int, value: bytes, stamp: int, *, key: bytes = b"k", origin: int | None = None) -> Row:
    return Row(offset, stamp, key, value, (), origin)


def translated(partition: Partition, offset: int) -> Verdict:
    source, target = partition.source.bounds(), partition.target.bounds()
    return partition.translate(bracket(offset, source, target, PartitionMemory()))


def test_a_twin_at_the_end_of_the_log_that_the_mirror_wrote_twice() -> None:
    """Source 17 to 21 are alike, and the copy of 19 stands twice: that of 21 stands at 23."""
    partition = Partition()
    unlike = [record(at, b"%d" % at, 1_000 + at) for at in range(17)]
    twins = [record(at, b"same", 5_000) for at in range(17, 22)]
    fill(partition.source, 0, unlike + twins)
    copies = [row._replace(offset=row.offset + 1, origin=row.offset) for row in unlike]
    again = [record(18 + at, b"same", 5_000, origin=of) for at, of in enumerate([17, 18, 19, 19, 20, 21])]
    fill(partition.target, 1, copies + again)
    verdict = translated(partition, 21)
    assert (verdict.judgement, verdict.offset) == (Judgement.BOUNDED, 22)
    assert verdict.detail["alike"] == 22
    assert verdict.bound is not None
    assert verdict.bound >= 1


def test_a_twin_that_compaction_took_from_the_source() -> None:
    """The copy of 7 stands at 9, and compaction took 7 since 8 is the same: a reader from 9 reads it again."""
    partition = Partition()
    left = [record(3, b"b", 3), record(6, b"a", 6), record(8, b"same", 8, key=b"c")]
    fill(partition.source, 0, left + [record(9 + at, b"w%d" % at, 9 + at) for at in range(4)])
    values = [b"x0", b"x1", b"x2", b"b", b"x4", b"x5", b"a"]
    copies = [record(at + 2, value, at, origin=at) for at, value in enumerate(values)]
    fill(partition.target, 2, [*copies, record(9, b"same", 8, key=b"c", origin=7)])
    verdict = translated(partition, 8)
    assert (verdict.judgement, verdict.offset) == (Judgement.BOUNDED, 9)
    assert verdict.detail["alike"] == 9
    assert verdict.bound is not None
    assert verdict.bound >= 1


def marker(offset: int) -> Row:
    return Row(offset, 0, None, None, control=True)


@pytest.mark.parametrize(("ahead", "reread"), [(0, 3), (1, 4)])
def test_markers_and_compaction_on_both_sides_while_the_mirror_is_behind(ahead: int, reread: int) -> None:
    """The target's 12 is the copy of 9, which compaction took from the source since 14 is the same. The mirror has
    still to copy 11, 13 and 14, which the group has read."""
    partition = Partition()
    left = [record(2, b"v2", 1_045, key=b"k5"), record(8, b"v6", 1_126, key=b"k6")]
    read = [record(11, b"v9", 1_167, key=b"k7"), record(13, b"v10", 1_167, key=b"k1")]
    left += [*read, record(14, b"v7", 1_166, key=b"k4"), marker(15)]
    left += [record(at, b"v%d" % at, 1_172 + at, key=b"n%d" % at) for at in range(16, 40)]
    fill(partition.source, 0, [*left, marker(40)])
    copies = [record(3, b"v2", 1_045, key=b"k5", origin=2), record(10, b"v6", 1_126, key=b"k6", origin=8)]
    copies += [marker(11), record(12, b"v7", 1_166, key=b"k4", origin=9), marker(13)]
    copies += [record(14, b"v8", 1_166, key=b"k1", origin=10), marker(15)][: 2 * ahead]
    fill(partition.target, 0, copies)
    verdict = translated(partition, 15)
    assert (verdict.judgement, verdict.offset) == (Judgement.BOUNDED, 13)
    assert verdict.bound is not None
    assert verdict.bound >= reread


FAR = 25
"""Where the record at 5 is sent once more, with its timestamp: so far behind that no search finds it."""


def far_twins() -> list[Row]:
    rows = [record(at, b"v%d" % at, 1_000 + 10 * at, key=b"k%d" % at) for at in range(40)]
    rows[FAR] = rows[5]._replace(offset=FAR)
    return rows


@pytest.mark.parametrize("lost", [pytest.param(0, id="retention"), pytest.param(1, id="compaction")])
def test_a_record_sent_again_much_later_whose_first_copy_the_target_has_lost(lost: int) -> None:
    """A group that is to read on at 6 would have gone on behind the copy of the second one."""
    partition = Partition()
    rows = far_twins()
    fill(partition.source, 0, rows)
    fill(partition.target, 0, [row._replace(origin=row.offset) for row in rows])
    if lost:
        kept = [row for row in partition.target.rows if row.offset in (0, 1) or row.offset >= 15]
        partition.target.rows = kept
        partition.target.changed()
    else:
        partition.target.retain_from(15)
    verdict = translated(partition, 6)
    assert verdict.offset is None or verdict.offset <= 15


def test_a_record_sent_again_much_later_that_the_mirror_began_behind() -> None:
    """The mirror began at 15: of the record at 5 it has copied the second one only."""
    partition = Partition()
    rows = far_twins()
    fill(partition.source, 0, rows)
    fill(partition.target, 0, [row._replace(offset=row.offset - 15, origin=row.offset) for row in rows[15:]])
    verdict = translated(partition, 6)
    assert (verdict.judgement, verdict.offset) == (Judgement.EXACT, 0)


def test_a_whole_run_sent_again_much_later_after_retention_on_the_target() -> None:
    """Translation has seen the target from its start; then retention takes the first copies of all of the run."""
    partition, memory = Partition(), PartitionMemory()
    rows = [record(at, b"v%d" % at, 1_000 + 10 * at, key=b"k%d" % at) for at in range(60)]
    rows += [row._replace(offset=at) for at, row in enumerate(rows[:20], 60)]
    rows += [record(at, b"v%d" % at, 1_000 + 10 * at, key=b"k%d" % at) for at in range(80, 100)]
    fill(partition.source, 0, rows)
    fill(partition.target, 0, [row._replace(origin=row.offset) for row in rows])

    def ask(offset: int) -> Verdict:
        source, target = partition.source.bounds(), partition.target.bounds()
        return partition.translate(bracket(offset, source, target, memory, Caps(10 * RECORD_BYTES)))

    assert ask(95).offset == 95
    partition.target.retain_from(40)
    for offset in (10, 11, 19):
        assert (ask(offset).judgement, ask(offset).offset) == (Judgement.EXACT, 40)


def test_as_many_copied_again_as_were_lost_is_no_plain_log() -> None:
    """The mirror lost 100 records by retention on the source, and copies 100 again: the places that were known before
    are right no more, though the records around the offset are alike."""
    partition, memory = Partition(), PartitionMemory()

    def produce(count: int) -> None:
        for at in range(partition.source.end, partition.source.end + count):
            partition.source.append([record(at, b"v%d" % at, 1_000 + at)])

    def mirror(start: int, end: int) -> None:
        for row in partition.source.rows:
            if start <= row.offset < end:
                partition.target.append([row._replace(origin=row.offset)])

    def ask(offset: int) -> Verdict:
        source, target = partition.source.bounds(), partition.target.bounds()
        return partition.translate(bracket(offset, source, target, memory))

    produce(100)
    mirror(0, 100)
    assert ask(50).offset == 50
    produce(300)
    partition.source.retain_from(200)
    mirror(200, 400)
    mirror(300, 351)
    assert ask(340).offset == 240

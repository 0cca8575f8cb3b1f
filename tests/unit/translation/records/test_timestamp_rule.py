"""The plain rule (`translation.verify=false`) by what the proposal for it says, and its table in both modes."""

from __future__ import annotations

import pytest

from bridge.model.values import Evidence, Judgement, Reason, Verdict
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.partition_cache import PartitionMemory
from bridge.translation.records.timestamp_rule import by_timestamp
from tests.unit.translation.logs import Partition, Row

STAMPS = {"P": 400, "O": 600, "L": 700, "K": 800, "I": 900, "G": 960, "E": 980, "B": 1_000, "A": 1_001}
"""Times of the proposal's table, by the proposal's letters."""


@pytest.fixture(scope="module")
def proposal() -> Partition:
    """Source offsets 400 to 1001, of which all but the last are mirrored, from target offset 0 on; the record at each
    offset of the proposal's table has the table's time, and 980 to 990 share one."""
    partition = Partition()
    partition.source.start = partition.source.end = 400
    for offset in range(400, 1_002):
        stamp = STAMPS["E"] if 980 <= offset <= 990 else offset
        partition.source.append([Row(0, stamp, b"k", b"v%d" % offset)])
    mirror(partition, until=1_001)
    return partition


def mirror(partition: Partition, *, until: int) -> None:
    for row in partition.source.rows:
        if row.offset < until and not row.control:
            partition.target.append([row._replace(origin=row.offset)])


def logs(*rows: Row, mirrored: int | None = None) -> Partition:
    partition = Partition()
    for row in rows:
        partition.source.append([row])
    mirror(partition, until=len(rows) if mirrored is None else mirrored)
    return partition


def plain(partition: Partition, offset: int) -> Verdict:
    return partition.translate(by_timestamp(offset, partition.source.bounds(), partition.target.bounds()))


def verified(partition: Partition, offset: int) -> Verdict:
    bounds = partition.source.bounds(), partition.target.bounds()
    return partition.translate(bracket(offset, *bounds, PartitionMemory()))


TABLE = [
    # source offset, its time, actual target offset, the plain rule's answer
    (1001, "A", None, None),
    (1000, "B", 600, 600),
    (990, "E", 590, 580),
    (980, "E", 580, 580),
    (960, "G", 560, 560),
    (900, "I", 500, 500),
    (800, "K", 400, 400),
    (700, "L", 300, 300),
    (600, "O", 200, 200),
    (400, "P", 0, 0),
]


@pytest.mark.parametrize(("offset", "letter", "actual", "translated"), TABLE)
def test_the_proposals_table_in_plain_mode(
    proposal: Partition, offset: int, letter: str, actual: int | None, translated: int | None
) -> None:
    assert next(row.timestamp for row in proposal.source.rows if row.offset == offset) == STAMPS[letter]
    verdict = plain(proposal, offset)
    if translated is None:
        assert (verdict.judgement, verdict.reason) == (Judgement.PENDING, Reason.NOT_MIRRORED_YET)
        return
    assert actual is not None
    assert verdict.judgement is Judgement.BOUNDED
    assert (verdict.offset, verdict.bound, verdict.evidence) == (translated, None, Evidence.TIMESTAMP)
    assert verdict.offset is not None
    assert verdict.offset <= actual


@pytest.mark.parametrize(("offset", "letter", "actual", "translated"), TABLE)
def test_the_proposals_table_in_verified_mode(
    proposal: Partition, offset: int, letter: str, actual: int | None, translated: int | None
) -> None:
    verdict = verified(proposal, offset)
    assert (verdict.judgement, verdict.evidence) == (Judgement.EXACT, Evidence.VERIFIED)
    if actual is None:
        # Not mirrored yet: the group has read all that the target holds, and its next record will come there.
        assert verdict.offset == proposal.target.end == 601
    else:
        assert verdict.offset == actual


def test_the_earliest_of_several_offsets_that_share_a_timestamp() -> None:
    partition = logs(*(Row(0, 10, None, b"%d" % number) for number in range(5)))
    assert [plain(partition, offset).offset for offset in range(5)] == [0] * 5


def test_a_timestamp_that_the_target_does_not_hold_gives_the_next_later_one() -> None:
    partition = logs(Row(0, 10, None, b"a"), Row(0, 20, None, b"b"), Row(0, 30, None, b"c"))
    del partition.target.rows[1]
    partition.target.changed()
    assert plain(partition, 1).offset == 2


def test_a_record_that_is_gone_is_deferred_to_the_next_interval() -> None:
    partition = logs(*(Row(0, number, None, b"v") for number in range(6)))
    partition.source.retain_from(2)
    del partition.source.rows[1]
    partition.source.changed()
    assert [plain(partition, offset).reason for offset in (1, 3)] == [Reason.RECORD_GONE] * 2
    assert plain(partition, 4).offset == 4


def test_an_offset_without_a_data_record_is_deferred() -> None:
    partition = logs(Row(0, 1, None, b"a"), Row(0, 2, None, None, control=True), Row(0, 3, None, b"c"))
    assert plain(partition, 1).reason is Reason.RECORD_GONE


def test_not_mirrored_yet_is_pending() -> None:
    partition = logs(Row(0, 1, None, b"a"), Row(0, 2, None, b"b"), mirrored=1)
    assert plain(partition, 1).reason is Reason.NOT_MIRRORED_YET


def test_a_caught_up_group_waits_for_a_record() -> None:
    partition = logs(Row(0, 1, None, b"a"))
    assert plain(partition, 1).reason is Reason.NOT_MIRRORED_YET
    assert (partition.reads, partition.times) == (0, 0)


def test_past_the_log_end_is_not_caught_up() -> None:
    assert plain(logs(Row(0, 1, None, b"a")), 2).reason is Reason.OFFSET_BEYOND_END


def test_a_negative_timestamp_is_never_searched() -> None:
    partition = logs(Row(0, -1, None, b"a"), Row(0, -2, None, b"b"))
    assert [plain(partition, offset).reason for offset in (0, 1)] == [Reason.TIMESTAMP_UNUSABLE] * 2
    assert partition.times == 0


def test_nothing_at_or_above_the_last_stable_offset_is_an_answer() -> None:
    partition = logs(Row(0, 1, None, b"a"), Row(0, 2, None, b"b"))
    partition.target.open_from = 1
    assert plain(partition, 0).offset == 0
    assert plain(partition, 1).reason is Reason.NOT_MIRRORED_YET


def test_it_costs_a_fetch_of_either_side_and_one_time_search() -> None:
    partition = logs(*(Row(0, number, None, b"v") for number in range(6)))
    plain(partition, 3)
    assert (partition.reads, partition.times) == (2, 1)


def test_only_a_copy_of_the_record_itself_proves_that_what_follows_is_there() -> None:
    partition = logs(*(Row(0, number, None, b"v%d" % number) for number in range(6)))
    assert plain(partition, 3).not_on_target == 0
    partition.target.retain_from(4)
    assert (plain(partition, 3).offset, plain(partition, 3).not_on_target) == (4, None)
    alike = logs(*(Row(0, 10, None, b"v%d" % number) for number in range(6)))
    assert [plain(alike, offset).not_on_target for offset in (0, 5)] == [0, 0]
    alike.target.retain_from(4)
    assert [plain(alike, offset).not_on_target for offset in (3, 4)] == [None, 0]


def test_it_skips_where_timestamps_fall_and_verified_mode_does_not() -> None:
    """Why verified mode is the default: with a record stamped too late in front, the rule is right; with timestamps
    that fall, the earliest later time stands past the first unprocessed record."""
    partition = logs(
        Row(0, 5, None, b"a"), Row(0, 30, None, b"b"), Row(0, 20, None, b"c"), Row(0, 40, None, b"d")
    )
    partition.target.retain_from(2)
    assert plain(partition, 1).offset == 3
    assert verified(partition, 1).offset == 2

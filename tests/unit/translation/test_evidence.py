"""Offset syncs and records together: R1 and R2 on random histories whose mirror writes syncs as stock's does, and what
happens where the two contradict each other."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from bridge.mm2.offset_sync_store import SyncBounds
from bridge.mm2.records import OffsetSync
from bridge.model.values import Evidence, Judgement, Reason, Verdict
from bridge.translation.evidence import agrees, both, by_syncs
from bridge.translation.records.log_window import LogBounds
from bridge.translation.records.partition_cache import PartitionMemory
from tests.unit.translation.history import Kind
from tests.unit.translation.kinds import HISTORIES, KINDS, count
from tests.unit.translation.logs import Partition, Row
from tests.unit.translation.promises import caps_of, check
from tests.unit.translation.synced import PLACE, Synced

TOLD = os.environ.get("MIRROR_BRIDGE_HISTORIES")


def forgets_first_copies(kind: Kind) -> bool:
    """The cleaner may take from the target a first copy that a sync tells of, and leave the second."""
    return kind.copies_again and kind.target_compaction and kind.rolled


@pytest.mark.parametrize("which", HISTORIES)
@pytest.mark.parametrize("name", KINDS)
def test_records_within_syncs_never_skip_and_never_read_more_than_the_bound(name: str, which: str) -> None:
    seen: Counter[str] = Counter()
    for number in range(count(name, which, TOLD, 8, 200, 20, part=4)):
        seed = f"both-{name}-{number}"
        history = Synced(KINDS[name], seed)
        memory = PartitionMemory()
        for _round in range(2):
            caps = caps_of(history)
            offsets = [history.random.randint(0, history.source.end + 1) for _ in range(4)]
            for offset in [*offsets, history.source.end, history.source.start]:
                logs = history.source.bounds(), history.target.bounds()
                verdict = history.translate(both(offset, *logs, memory, history.bounds(offset), caps))
                note = f"seed {seed!r}, offset {offset}, {caps}, {history.bounds(offset)}, {verdict}"
                check(history, offset, verdict, note)
                assert verdict.reason is not Reason.EVIDENCE_DISAGREES or forgets_first_copies(KINDS[name]), (
                    note
                )
                seen[verdict.judgement] += 1
                seen[verdict.evidence or "none"] += 1
            for _ in range(3):
                history.step()
    assert seen["exact"] > 0
    assert seen["verified"] > 0


def partition(copies: int = 20, *, shift: int = 5) -> Partition:
    """`copies` records, and their copies `shift` places further on."""
    result = Partition()
    rows = [Row(0, 1_000 + at, b"k", b"v%d" % at) for at in range(copies)]
    result.source.append(rows)
    result.target.append([Row(0, 1, b"k", b"junk%d" % at) for at in range(shift)])
    result.target.append([row._replace(origin=at) for at, row in enumerate(rows)])
    return result


def sync(upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(PLACE, upstream, downstream)


def weigh(logs: Partition, offset: int, lower: OffsetSync | None, upper: OffsetSync | None) -> Verdict:
    bounds = SyncBounds(lower, upper)
    return logs.translate(both(offset, logs.source.bounds(), logs.target.bounds(), PartitionMemory(), bounds))


def test_agreeing_evidence_shows_the_stronger_one() -> None:
    verdict = weigh(partition(), 10, sync(7, 12), sync(15, 20))
    assert (verdict.judgement, verdict.offset, verdict.evidence) == (Judgement.EXACT, 15, Evidence.VERIFIED)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        # The record at 12 stands at 13, says the sync: an answer of 15 would skip it.
        (sync(7, 12), sync(12, 13), (12, 13)),
        (sync(10, 11), sync(10, 11), (10, 11)),
        # All before 10 stands at 18 or below it, says the sync, and what it tells of is not there.
        (sync(9, 18), None, (9, 18)),
    ],
)
def test_a_sync_that_speaks_against_the_records_is_a_reason_and_nothing_is_answered(
    lower: OffsetSync, upper: OffsetSync | None, expected: tuple[int, int]
) -> None:
    verdict = weigh(partition(), 10, lower, upper)
    assert (verdict.judgement, verdict.offset) == (Judgement.PENDING, None)
    assert verdict.reason is Reason.EVIDENCE_DISAGREES
    assert (verdict.detail["sync_upstream"], verdict.detail["sync_downstream"]) == expected
    assert verdict.detail["answer"] == 15


def test_syncs_of_second_copies_do_not_speak_against_the_first() -> None:
    logs = partition()
    logs.target.append([row._replace(origin=at) for at, row in enumerate(logs.source.rows)])
    verdict = weigh(logs, 10, sync(8, 33), None)
    assert verdict.offset is not None
    assert verdict.offset <= 15
    assert verdict.reason is None


def test_syncs_past_the_end_of_a_target_that_was_cut_back_count_for_nothing() -> None:
    logs = partition()
    assert weigh(logs, 10, sync(9, 5_000), None).offset == 15
    assert weigh(logs, 10, None, sync(12, 5_000)).offset == 15
    assert weigh(logs, 10, sync(7, 12), sync(12, 5_000)).judgement is Judgement.EXACT


def test_what_retention_took_from_the_target_is_not_skipped() -> None:
    logs = partition()
    logs.target.retain_from(18)
    verdict = weigh(logs, 10, sync(7, 12), sync(12, 17))
    assert (verdict.offset, verdict.reason) == (18, None)


@pytest.mark.parametrize(
    ("offset", "translated", "lower", "upper", "expected"),
    [
        (100, 200, sync(100, 200), sync(100, 200), (Judgement.EXACT, 200, 0, Evidence.SYNC, None)),
        (150, 201, sync(100, 200), sync(300, 390), (Judgement.BOUNDED, 201, 189, Evidence.SYNC_PLUS_1, None)),
        (150, 201, sync(100, 200), None, (Judgement.BOUNDED, 201, 299 + 49, Evidence.SYNC_PLUS_1, None)),
        (50, -1, None, sync(100, 200), (Judgement.PENDING, None, None, None, Reason.OLDER_THAN_SYNCS)),
        (50, None, None, None, (Judgement.PENDING, None, None, None, Reason.NO_OFFSET_SYNCS)),
        (700, 601, sync(650, 600), None, (Judgement.PENDING, None, None, None, Reason.EVIDENCE_DISAGREES)),
    ],
)
def test_stocks_answer_as_a_verdict(
    offset: int, translated: int | None, lower: OffsetSync | None, upper: OffsetSync | None, expected: object
) -> None:
    bounds = None if translated is None else SyncBounds(lower, upper)
    verdict = by_syncs(offset, translated, bounds, LogBounds(0, 500))
    assert (verdict.judgement, verdict.offset, verdict.bound, verdict.evidence, verdict.reason) == expected


def test_a_remembered_verdict_is_held_against_syncs_that_came_later() -> None:
    logs = partition()
    verdict = weigh(logs, 10, None, None)
    assert agrees(verdict, 10, SyncBounds(sync(7, 12), None), logs.target.bounds())
    assert not agrees(verdict, 10, SyncBounds(sync(7, 12), sync(12, 13)), logs.target.bounds())

"""What takes no look-up: remembered verdicts, syncs, and targets that overwrite timestamps."""

from __future__ import annotations

import pytest

from bridge.mm2.offset_sync_store import OffsetSyncStore
from bridge.mm2.records import OffsetSync
from bridge.model.values import Evidence, Judgement, Reason, TopicPartition, Verdict
from bridge.translation.records.log_window import LogBounds
from connectors.group_translation.translating.pairs import PairIdentity
from connectors.group_translation.translating.strategies import (
    ByBoth,
    ByRecords,
    BySyncs,
    ByTimestamp,
    Question,
)

PLACE = TopicPartition("orders", 0)
EXACT = Verdict(Judgement.EXACT, 215, 0, Evidence.VERIFIED, detail={"next_copy": 215})


def syncs(*pairs: tuple[int, int]) -> OffsetSyncStore:
    store = OffsetSyncStore(must_read_to_end=False, mended=True)
    for pair in pairs:
        store.apply(OffsetSync(PLACE, *pair))
    store.finish_start()
    return store


def asked(offset: int, *, log_append_time: bool) -> Question:
    return Question(
        PLACE,
        "A.orders",
        offset,
        LogBounds(0, 500),
        LogBounds(0, 600),
        log_append_time,
        PairIdentity("s", 0, "t", 0),
    )


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (100, (Judgement.EXACT, 200, Evidence.SYNC, None)),
        (115, (Judgement.BOUNDED, 201, Evidence.SYNC_PLUS_1, None)),
        (50, (Judgement.PENDING, None, None, Reason.TARGET_TIMESTAMP_TYPE)),
    ],
)
def test_where_the_target_overwrites_timestamps_syncs_answer_and_no_record_is_looked_at(
    offset: int, expected: object
) -> None:
    verdict = ByBoth(syncs((100, 200), (300, 390))).at_once(asked(offset, log_append_time=True), None)
    assert verdict is not None
    assert (verdict.judgement, verdict.offset, verdict.evidence, verdict.reason) == expected


def test_where_the_target_keeps_timestamps_the_records_are_looked_at() -> None:
    assert ByBoth(syncs((100, 200))).at_once(asked(115, log_append_time=False), None) is None


def test_a_remembered_verdict_stands_until_a_sync_speaks_against_it() -> None:
    question = asked(115, log_append_time=False)
    assert ByBoth(syncs((100, 200))).at_once(question, EXACT) is EXACT
    assert ByBoth(syncs((100, 200), (120, 210))).at_once(question, EXACT) is None
    assert ByRecords().at_once(question, EXACT) is EXACT


def test_stocks_answer_takes_no_look_up_whatever_is_remembered() -> None:
    verdict = BySyncs(syncs((100, 200))).at_once(asked(115, log_append_time=False), EXACT)
    assert verdict is not None
    assert (verdict.offset, verdict.evidence) == (201, Evidence.SYNC_PLUS_1)


def test_the_plain_rule_needs_the_targets_timestamps() -> None:
    verdict = ByTimestamp().at_once(asked(115, log_append_time=True), None)
    assert verdict == Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE)
    assert ByTimestamp().at_once(asked(115, log_append_time=False), EXACT) is None

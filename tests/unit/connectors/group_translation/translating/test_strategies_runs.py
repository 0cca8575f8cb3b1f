"""Offset runs before other evidence: what they settle without a look, what one look at the newest shows, and what
comes of a bound."""

from __future__ import annotations

import pytest

from bridge.model.lookups import FindTime, Need, Read, Window
from bridge.model.values import (
    CopyId,
    Evidence,
    Flag,
    Judgement,
    Reason,
    Side,
    TopicPartition,
    Verdict,
)
from bridge.translation.records.log_window import LogBounds
from bridge.translation.records.partition_cache import PartitionMemory
from bridge.translation.runs.run_evidence import ConsistentRuns, stronger
from bridge.translation.runs.runs import OffsetRun
from connectors.group_translation.translating.pairs import PairIdentity
from connectors.group_translation.translating.strategies import ByRecords, ByRuns, Question
from tests.unit.connectors.fake_clusters import Row

PLACE = TopicPartition("orders", 0)
HERE = PairIdentity("s", 3, "t", 5)
EXACT, BOUNDED = Judgement.EXACT, Judgement.BOUNDED


def run(upstream: int, downstream: int, count: int, *, skipped: int = 0) -> OffsetRun:
    end = upstream + count
    return OffsetRun(PLACE, "s", "A.orders", "t", 0, upstream, downstream, count, skipped, 0, 0, end, -1)


class Known:
    reads = 1

    def __init__(self, *runs: OffsetRun) -> None:
        self.runs = runs

    def get_runs(self, copy: CopyId) -> ConsistentRuns:
        return ConsistentRuns(self.runs if copy == (PLACE, "A.orders") else ())


def asked(offset: int, *, log_append_time: bool = False, identity: PairIdentity = HERE) -> Question:
    return Question(
        PLACE, "A.orders", offset, LogBounds(0, 100), LogBounds(0, 200), log_append_time, identity
    )


def row(offset: int, number: int) -> Row:
    return Row(offset, 1000 + number, b"key", b"%d" % number)


class Logs:
    """100 records on the source; their copies stand `delta` further on."""

    def __init__(self, delta: int) -> None:
        self.delta = delta
        self.asked: list[Need] = []

    def verdict(self, strategy: ByRuns, question: Question) -> Verdict:
        at_once = strategy.at_once(question, None)
        if at_once is not None:
            return at_once
        steps = strategy.steps(question, PartitionMemory())
        answer: Window | int | None = None
        try:
            while True:
                answer = self._answer(steps.send(answer))
        except StopIteration as stop:
            verdict: Verdict = stop.value
            return verdict

    def _answer(self, need: Need) -> Window | int | None:
        self.asked.append(need)
        shift = self.delta if need.side == "target" else 0
        if isinstance(need, FindTime):
            return need.timestamp - 1000 + shift
        rows = [row(at, at - shift) for at in range(need.offset, 100 + shift)]
        return Window(need.offset, need.offset + len(rows), rows, 5)


def test_one_look_on_either_side_settles_a_partition_until_something_changes() -> None:
    logs, known = Logs(50), Known(run(0, 50, 40))
    strategy = ByRuns(known, ByRecords())
    verdict = logs.verdict(strategy, asked(10))
    assert (verdict.judgement, verdict.offset, verdict.evidence) == (EXACT, 60, Evidence.RUN)
    looked = [(need.side, need.offset) for need in logs.asked if isinstance(need, Read)]
    assert looked == [(Side.SOURCE, 39), (Side.TARGET, 89)]
    for offset in range(41):
        assert logs.verdict(strategy, asked(offset)).offset == 50 + offset
    assert len(logs.asked) == 2
    logs.verdict(strategy, asked(10, identity=PairIdentity("s", 4, "t", 5)))
    assert len(logs.asked) == 4
    known.runs = (run(0, 50, 41),)
    assert logs.verdict(strategy, asked(10, identity=PairIdentity("s", 4, "t", 5))).offset == 60
    assert len(logs.asked) == 6


def test_what_was_seen_of_a_copy_ends_with_its_runs() -> None:
    logs, known = Logs(50), Known(run(0, 50, 40))
    strategy = ByRuns(known, ByRecords())
    logs.verdict(strategy, asked(10))
    strategy.end_round()
    assert strategy.remembered == 1
    known.runs = ()
    strategy.end_round()
    assert strategy.remembered == 0


def test_a_newest_run_that_does_not_hold_is_disagreement_whatever_else_is_known() -> None:
    logs = Logs(51)
    strategy = ByRuns(Known(run(0, 50, 40)), ByRecords())
    for _ in range(2):
        verdict = logs.verdict(strategy, asked(10))
        assert (verdict.judgement, verdict.offset, verdict.reason) == (
            Judgement.PENDING,
            None,
            Reason.EVIDENCE_DISAGREES,
        )
    assert len(logs.asked) == 2


def test_where_runs_say_nothing_the_records_do() -> None:
    strategy = ByRuns(Known(), ByRecords())
    verdict = Logs(50).verdict(strategy, asked(10))
    assert (verdict.judgement, verdict.offset, verdict.evidence) == (EXACT, 60, Evidence.VERIFIED)
    made_anew = PairIdentity("s", 3, "other", 5)
    assert Logs(50).verdict(
        ByRuns(Known(run(0, 50, 40)), ByRecords()), asked(10, identity=made_anew)
    ).evidence is (Evidence.VERIFIED)


def test_a_bound_is_refined_by_the_records() -> None:
    strategy = ByRuns(Known(run(0, 40, 40, skipped=10)), ByRecords())
    # A run that is merged says [40, 59] of offset 19; its last record stands at 69, where Logs(30) has it.
    verdict = Logs(30).verdict(strategy, asked(19))
    assert (verdict.judgement, verdict.offset, verdict.evidence) == (EXACT, 49, Evidence.VERIFIED)


def test_where_the_target_overwrites_timestamps_runs_are_taken_as_they_are() -> None:
    logs = Logs(51)
    verdict = logs.verdict(ByRuns(Known(run(0, 50, 40)), ByRecords()), asked(10, log_append_time=True))
    assert (verdict.judgement, verdict.offset) == (EXACT, 60)
    assert logs.asked == []


def test_runs_that_disagreed_before_it_was_known_that_timestamps_are_overwritten_are_taken_again() -> None:
    logs, strategy = Logs(51), ByRuns(Known(run(0, 50, 40)), ByRecords())
    assert logs.verdict(strategy, asked(10)).reason is Reason.EVIDENCE_DISAGREES
    verdict = logs.verdict(strategy, asked(10, log_append_time=True))
    assert (verdict.judgement, verdict.offset) == (EXACT, 60)
    assert strategy.at_once(asked(10, log_append_time=True), None) == verdict


def transformed(last_timestamp: int, *, skipped: int = 0) -> Known:
    return Known(run(0, 50, 40, skipped=skipped)._replace(transformed=True, last_timestamp=last_timestamp))


@pytest.mark.parametrize("last_timestamp", [1000 + 89 - 51, -1], ids=["of the last copy", "not known"])
def test_copies_that_went_through_transforms_are_not_held_against_their_records(last_timestamp: int) -> None:
    """What stands there is another record: with a run that is not transformed that is disagreement."""
    logs = Logs(51)
    verdict = logs.verdict(ByRuns(transformed(last_timestamp), ByRecords()), asked(10))
    assert (verdict.judgement, verdict.offset, verdict.evidence) == (EXACT, 60, Evidence.RUN)
    assert {need.side for need in logs.asked} <= {Side.TARGET}
    verdict = logs.verdict(ByRuns(Known(run(0, 50, 40)), ByRecords()), asked(10))
    assert verdict.reason is Reason.EVIDENCE_DISAGREES


def test_the_timestamp_of_the_last_copy_tells_that_the_target_is_another_log() -> None:
    verdict = Logs(51).verdict(ByRuns(transformed(77), ByRecords()), asked(10))
    assert verdict.reason is Reason.EVIDENCE_DISAGREES


def test_a_bound_of_transformed_copies_is_not_refined_by_the_records() -> None:
    """They would say of a copy that it is another record's."""
    logs = Logs(30)
    strategy = ByRuns(transformed(-1, skipped=10), ByRecords())
    for _ in range(2):
        verdict = logs.verdict(strategy, asked(19))
        assert (verdict.judgement, verdict.offset, verdict.bound, verdict.evidence) == (
            BOUNDED,
            59,
            10,
            Evidence.RUN,
        )
    assert logs.asked == []


def test_a_remembered_answer_of_runs_ends_with_them() -> None:
    strategy = ByRuns(Known(), ByRecords())
    assert strategy.at_once(asked(10), Verdict(EXACT, 60, 0, Evidence.RUN)) is None
    kept = Verdict(EXACT, 60, 0, Evidence.VERIFIED)
    assert strategy.at_once(asked(10), kept) is kept


BY_RUN = Verdict(BOUNDED, 100, 20, Evidence.RUN)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Verdict(EXACT, 110, 0, Evidence.VERIFIED, detail={"next_copy": 112}), (EXACT, 110, None)),
        (Verdict(EXACT, 99, 0, Evidence.VERIFIED, detail={"next_copy": 100}), (EXACT, 99, None)),
        (
            Verdict(EXACT, 98, 0, Evidence.VERIFIED, detail={"next_copy": 99}),
            (None, None, Reason.EVIDENCE_DISAGREES),
        ),
        (Verdict(EXACT, 121, 0, Evidence.VERIFIED), (None, None, Reason.EVIDENCE_DISAGREES)),
        (Verdict(BOUNDED, 90, 30, Evidence.SYNC_PLUS_1), (BOUNDED, 100, None)),
        (Verdict(BOUNDED, 105, 5, Evidence.VERIFIED), (BOUNDED, 105, None)),
        (Verdict(BOUNDED, 105, None, Evidence.TIMESTAMP), (BOUNDED, 100, None)),
        (Verdict.pending(Reason.COPY_NOT_FOUND), (BOUNDED, 100, None)),
        (Verdict.pending(Reason.EVIDENCE_DISAGREES), (None, None, Reason.EVIDENCE_DISAGREES)),
    ],
)
def test_of_what_agrees_the_stronger_is_shown(
    other: Verdict, expected: tuple[Judgement | None, int | None, Reason | None]
) -> None:
    verdict = stronger(BY_RUN, other)
    assert (verdict.judgement if verdict.offset else None, verdict.offset, verdict.reason) == expected


def test_what_is_still_to_be_copied_has_no_upper_end() -> None:
    ahead = Verdict(BOUNDED, 100, 20, Evidence.RUN, flags=(Flag.AHEAD_OF_MIRROR,))
    assert stronger(ahead, Verdict(EXACT, 130, 0, Evidence.VERIFIED)).offset == 130

"""What runs say of a committed offset: sentence by sentence of the model, and against brute force."""

from __future__ import annotations

import pytest

from bridge.model.lookups import Scanned
from bridge.model.values import Evidence, Flag, Judgement, TopicPartition
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs import holes, markers, partition_runs
from bridge.translation.runs.markers import RunScan
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun
from tests.support.forms import mostly_long
from tests.unit.translation.copied import CopiedPartition

PLACE = TopicPartition("orders", 0)
SOURCE, TARGET = LogBounds(0, 500), LogBounds(0, 2000)
EXACT, BOUNDED = Judgement.EXACT, Judgement.BOUNDED


def run(
    upstream: int, downstream: int, count: int, *, skipped: int = 0, extra: int = 0, covered: int | None = None,
    position: int | None = None,
) -> OffsetRun:  # fmt: skip
    return OffsetRun(
        PLACE, "s", "A.orders", "t", upstream if covered is None else covered, upstream, downstream, count, skipped,
        extra, 0, upstream + count if position is None else position, -1,
    )  # fmt: skip


RUNS = [
    run(100, 1000, 20),
    run(130, 1021, 10, covered=120),
    run(200, 1050, 40, skipped=3, extra=4, position=245),
]
"""Between the first two nothing was copied; between the others nobody knows."""


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        pytest.param(100, (EXACT, 1000, 0), id="the start of a run"),
        pytest.param(119, (EXACT, 1019, 0), id="inside a run"),
        pytest.param(120, (EXACT, 1021, 0), id="a covered gap is a hole: the start of the next run"),
        pytest.param(129, (EXACT, 1021, 0), id="the end of a hole"),
        pytest.param(130, (EXACT, 1021, 0), id="the run after it"),
        pytest.param(140, (BOUNDED, 1031, 19), id="an uncovered gap: the end of the run before"),
        pytest.param(199, (BOUNDED, 1031, 19), id="the end of an uncovered gap"),
        pytest.param(200, (EXACT, 1050, 0), id="the start of a merged run"),
        pytest.param(201, (BOUNDED, 1050, 5), id="a merged run: fewer before it than were skipped"),
        pytest.param(220, (BOUNDED, 1067, 7), id="a merged run: skipped + extra"),
        pytest.param(239, (BOUNDED, 1086, 4), id="a merged run: its last place is of its last record"),
        pytest.param(240, (EXACT, 1091, 0), id="past the last run, and nothing can come"),
        pytest.param(245, (EXACT, 1091, 0), id="where copying goes on"),
        pytest.param(300, (BOUNDED, 1091, 55), id="past where copying goes on"),
        pytest.param(99, None, id="before the first run, which covers nothing"),
        pytest.param(501, None, id="past the end of the source"),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_by_runs(offset: int, expected: object, order: int) -> None:
    verdict = ConsistentRuns(RUNS[::order]).translate(offset, "t", TARGET, "s", SOURCE)
    assert (verdict and (verdict.judgement, verdict.offset, verdict.bound)) == expected
    if verdict:
        assert verdict.evidence is Evidence.RUN
        assert verdict.flags == ((Flag.AHEAD_OF_MIRROR,) if offset > 245 else ())


def test_the_same_without_the_source() -> None:
    known = ConsistentRuns(RUNS)
    for offset in range(100, 500):
        assert known.translate(offset, "t", TARGET) == known.translate(offset, "t", TARGET, "s", SOURCE)
    verdict = known.translate(501, "t", TARGET)
    assert verdict is not None
    assert (verdict.offset, verdict.bound) == (1091, 256)


def test_before_the_first_run_where_it_covers() -> None:
    known = ConsistentRuns([run(100, 1000, 20, covered=60)])
    verdict = known.translate(60, "t", TARGET)
    assert verdict is not None
    assert (verdict.judgement, verdict.offset) == (EXACT, 1000)
    assert known.translate(59, "t", TARGET) is None


def test_an_offset_that_has_expired_on_the_source() -> None:
    truncated = ConsistentRuns(RUNS).translate(110, "t", TARGET, "s", LogBounds(280, 500))
    assert truncated is not None
    assert (truncated.offset, truncated.bound, truncated.flags) == (1010, 0, (Flag.TRUNCATED,))


@pytest.mark.parametrize(
    ("offset", "start", "expected"),
    [
        (110, 1005, (EXACT, 1010, 0)),
        (110, 1015, (EXACT, 1015, 0)),
        (220, 1070, (BOUNDED, 1070, 4)),
        (220, 1080, (EXACT, 1080, 0)),
        (300, 1095, (BOUNDED, 1095, 55)),
    ],
)
def test_below_the_targets_log_start_the_target_holds_nothing(
    offset: int, start: int, expected: tuple[Judgement, int, int]
) -> None:
    verdict = ConsistentRuns(RUNS).translate(offset, "t", LogBounds(start, 2000))
    assert verdict is not None
    assert (verdict.judgement, verdict.offset, verdict.bound) == expected


def test_runs_say_nothing_of_other_topics() -> None:
    known = ConsistentRuns(RUNS)
    assert known.translate(110, "made anew", TARGET) is None
    assert known.translate(110, "t", TARGET, "made anew", SOURCE) is None
    assert ConsistentRuns([]).translate(110, "t", TARGET) is None
    assert ConsistentRuns([run(100, 0, 0)]).translate(100, "t", TARGET) is None


def test_no_answer_past_the_targets_end() -> None:
    known = ConsistentRuns(RUNS)
    assert known.translate(110, "t", LogBounds(0, 1009)) is None
    verdict = known.translate(110, "t", LogBounds(0, 1010))
    assert verdict is not None
    assert verdict.offset == 1010


def test_a_source_that_was_cut_back_means_other_records() -> None:
    assert ConsistentRuns(RUNS).translate(110, "t", TARGET, "s", LogBounds(0, 244)) is None
    assert ConsistentRuns(RUNS).translate(110, "t", TARGET, "s", LogBounds(0, 245)) is not None


def test_a_later_run_that_stands_lower_takes_those_above_it_back() -> None:
    known = ConsistentRuns([*RUNS, run(300, 1025, 10, covered=245)])
    answers = {at: known.translate(at, "t", TARGET) for at in (110, 135, 220, 305)}
    assert {at: each and (each.offset, each.bound) for at, each in answers.items()} == {
        110: (1010, 0),
        135: (1020, 5),  # of the run that is left, up to the later one
        220: (1020, 5),
        305: (1030, 0),
    }


# -- against brute force ---------------------------------------------------------------------------------------------


LISTS = [0, 5, 8, 2048]
"""Bytes of a run's list of holes."""


@pytest.mark.parametrize("part", mostly_long(range(4), 2))
def test_an_answer_may_be_low_never_high(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "MOST_BYTES", LISTS[part])
    monkeypatch.setattr(markers, "RATIO", 4)
    monkeypatch.setattr(partition_runs, "KEPT", 3)
    monkeypatch.setattr(partition_runs, "MERGED_AT_ONCE", 1)
    judged = {EXACT: 0, BOUNDED: 0}
    merged = listed = 0
    for number in range(150):
        seed = f"{part}-{number}"
        history = CopiedPartition(seed)
        runs = history.runs()
        some = [each for each in runs if history.random.random() < 0.7]
        merged += sum(markers.looseness(each) > 0 for each in runs)
        listed += sum(bool(each.holes) for each in runs)
        for seen in (runs, some, history.runs(history.older)):
            known = ConsistentRuns(seen)
            for offset in range(len(history.source) + 1):
                given = history.copied.source_topic_id, history.source_bounds
                verdict = known.translate(
                    offset, history.copied.target_topic_id, history.target_bounds, *given
                )
                if verdict is None:
                    continue
                assert verdict.offset is not None
                assert verdict.bound is not None
                assert not history.skipped(offset, verdict.offset), (seed, offset, verdict)
                assert history.reread(offset, verdict.offset) <= verdict.bound, (seed, offset, verdict)
                if (held := known.held(offset)) is not None and not markers.looseness(held):
                    assert verdict.judgement is EXACT, (seed, offset, verdict)
                judged[verdict.judgement] += 1
    assert min(judged.values()) > 400, judged
    assert (merged > 100) == (part < 3), merged
    assert (listed > 100) == (part > 0), listed


@pytest.mark.parametrize("part", mostly_long(range(4), 2))
def test_places_that_are_known_make_answers_closer_and_never_wrong(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the places without a copy some hold records of others, and of some compaction took what was there: headers
    don't tell these from copies. Nor do those of the source tell what compaction took there before it was copied."""
    monkeypatch.setattr(holes, "MOST_BYTES", LISTS[part])
    monkeypatch.setattr(markers, "RATIO", 1)
    monkeypatch.setattr(partition_runs, "KEPT", 2)
    monkeypatch.setattr(partition_runs, "MERGED_AT_ONCE", 1)
    settled = closer = merged = counted = 0
    for number in range(100):
        seed = f"places-{part}-{number}"
        history = CopiedPartition(seed)
        rest = 0.0 if number % 3 else 0.3
        given = [
            at for at, copy in enumerate(history.target) if copy is None and history.random.random() >= rest
        ]
        source_rest = 0.0 if number % 5 else 0.3
        source_told = [
            at
            for at, serial in enumerate(history.source)
            if serial is None and history.random.random() >= source_rest
        ]
        runs = history.runs()
        places = {run: RunScan(run) for run in runs if run.extra or run.skipped}
        for each in places.values():
            same = each.run.source_topic_id == history.copied.source_topic_id
            while number % 2 and same and each.source_unread and history.random.random() < 0.95:
                end = each.source_read_to + history.random.randint(1, 20)
                without = [(at, at + 1) for at in source_told if each.source_read_to <= at < end]
                epoch = max(history.epochs[each.source_read_to : end], default=-1)
                each.learn_source(Scanned(each.source_read_to, end, without, 1, epoch))
                counted += not each.uncounted
            while each.read_to < each.run.downstream_end and history.random.random() < 0.9:
                end = each.read_to + history.random.randint(1, 20)
                empty = [(at, at + 1) for at in given if each.read_to <= at < end]
                each.learn(Scanned(each.read_to, end, empty, 1))
            # Only where a log was cut back has it lost what a run tells of.
            cut = history.was_cut or (number % 2 and history.source_was_cut)
            assert cut or not each.impossible, (seed, each.run)
        known = ConsistentRuns(runs)
        for offset in range(len(history.source) + 1):
            asked = history.copied.target_topic_id, history.target_bounds
            of_source = history.copied.source_topic_id, history.source_bounds
            before = known.translate(offset, *asked, *of_source)
            verdict = known.translate(offset, *asked, *of_source, places)
            if (held := known.held(offset)) in places and places[held].impossible:
                assert verdict is None, (seed, offset)
                continue
            if before is None or verdict is None:
                # A lowest place past the target's end is none; it can only have come nearer to that.
                assert verdict is None, (seed, offset)
                continue
            assert None not in (verdict.offset, verdict.bound, before.offset, before.bound)
            assert not history.skipped(offset, verdict.offset or 0), (seed, offset, verdict)
            assert history.reread(offset, verdict.offset or 0) <= (verdict.bound or 0), (
                seed,
                offset,
                verdict,
            )
            assert (before.offset or 0) <= (verdict.offset or 0), (seed, offset)
            assert (verdict.bound or 0) <= (before.bound or 0), (seed, offset)
            if held not in places or held is None:
                continue
            merged += 1
            closer += verdict.bound != before.bound
            settled += verdict.judgement is EXACT and before.judgement is not EXACT
            fewest, most = places[held].before(offset)
            if fewest == most and not places[held].hidden:
                assert verdict.judgement is EXACT, (seed, offset, held)
    assert merged > 300
    if part < 3:
        assert min(closer, settled) > 50, (merged, closer, settled)
        assert counted > 10, counted
    else:
        assert (closer, settled, counted) == (0, 0, 0), "lists leave nothing to be found"


def test_a_run_with_more_places_without_a_copy_than_it_can_have_says_nothing() -> None:
    """Or with one where its first or last record has to stand: the target was cut back there, and has grown again."""
    for empty in ([(1052, 1057)], [(1050, 1051)], [(1086, 1100)]):
        places = RunScan(RUNS[2])
        places.learn(Scanned(1050, 1091, empty, 1))
        assert ConsistentRuns(RUNS).translate(220, "t", TARGET, scans={RUNS[2]: places}) is None
        assert ConsistentRuns(RUNS).translate(119, "t", TARGET, scans={RUNS[2]: places}) is not None

"""Merged runs settled by the target's batch headers: when they are read, how much of them, and what comes of it."""

from __future__ import annotations

import pytest

from bridge.model.lookups import LookupResult, Need, Scan, Scanned
from bridge.model.values import (
    CopyId,
    Evidence,
    Judgement,
    Reason,
    Side,
    TopicPartition,
    Verdict,
)
from bridge.translation.records.log_window import LogBounds, Steps
from bridge.translation.records.partition_cache import PartitionMemory
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun
from connectors.group_translation.translating import strategies
from connectors.group_translation.translating.pairs import PairIdentity
from connectors.group_translation.translating.strategies import ByRuns, Question

PLACE = TopicPartition("orders", 0)
HERE = PairIdentity("s", 3, "t", 5)
EXACT, BOUNDED = Judgement.EXACT, Judgement.BOUNDED
START, END = 1000, 1110
MARKERS = range(START + 10, END, 11)
"""Behind each 10 copies of 100; the last one ends the transaction of the run's last record, and is not of the run."""
WHOLE = OffsetRun(PLACE, "s", "A.orders", "t", 0, 0, START, 100, 0, 9, 0, 100, -1, 5000)
NEWEST = OffsetRun(PLACE, "s", "A.orders", "t", 100, 100, END, 10, 0, 0, 0, 110, -1, 500)
TARGET = LogBounds(0, END + 11)
SOURCE = LogBounds(0, 110)


def place(offset: int) -> int:
    return START + offset + offset // 10


class Runs:
    reads = 1

    def __init__(self, *runs: OffsetRun) -> None:
        self.runs = runs

    def get_runs(self, _copy: CopyId) -> ConsistentRuns:
        return ConsistentRuns(self.runs)


class Otherwise:
    """Another way, which says what it is told."""

    def __init__(self, *, at_once: bool) -> None:
        self.says, self._at_once = Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE), at_once

    def at_once(self, asked: Question, remembered: Verdict | None) -> Verdict | None:
        return self.says if self._at_once else None

    def steps(self, asked: Question, memory: PartitionMemory) -> Steps[Verdict]:
        yield from ()
        return self.says

    def reached(self, place: TopicPartition, source_end: int, target_end: int) -> int | None:
        return None


class Headers:
    """The target, and the source, read for their markers, `each` places of 10 bytes at a time."""

    def __init__(
        self, strategy: ByRuns, *, each: int = 20, markers: object = MARKERS, source_markers: object = ()
    ) -> None:
        self.strategy, self.each, self.markers, self.source_markers = strategy, each, markers, source_markers
        self.asked: list[int] = []
        self.asked_source: list[int] = []
        self.readable, self.epoch = True, 3

    def verdict(
        self,
        offset: int,
        *,
        log_append_time: bool = True,
        target: LogBounds = TARGET,
        source: LogBounds = SOURCE,
    ) -> Verdict:
        question = Question(PLACE, "A.orders", offset, source, target, log_append_time, HERE)
        at_once = self.strategy.at_once(question, None)
        if at_once is not None:
            return at_once
        return self.run(self.strategy.steps(question, PartitionMemory()))

    def alone(self, offset: int, target: LogBounds = TARGET) -> Verdict | None:
        return self.run(self.strategy.without_source(CopyId(PLACE, "A.orders"), offset, "t", target))  # type: ignore[arg-type]

    def run(self, steps: Steps[Verdict]) -> Verdict:
        answer: LookupResult = None
        try:
            while True:
                answer = self._answer(steps.send(answer))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _answer(self, need: Need) -> Scanned | None:
        assert isinstance(need, Scan)
        on_source = need.side is Side.SOURCE
        (self.asked_source if on_source else self.asked).append(need.offset)
        if not self.readable:
            return None
        end = min(need.offset + self.each, (SOURCE if on_source else TARGET).end)
        markers = self.source_markers if on_source else self.markers
        empty = [(at, at + 1) for at in markers if need.offset <= at < end]  # type: ignore[attr-defined]
        return Scanned(need.offset, end, empty, 10 * (end - need.offset), self.epoch)


@pytest.fixture(params=[False, True], ids=["steps", "at once"])
def strategy(request: pytest.FixtureRequest) -> ByRuns:
    return ByRuns(Runs(WHOLE, NEWEST), Otherwise(at_once=bool(request.param)))


def answer(verdict: Verdict | None) -> tuple[object, ...] | None:
    if verdict is None:
        return None
    return verdict.judgement, verdict.offset, verdict.bound, verdict.evidence


def exact(offset: int) -> tuple[object, ...]:
    return EXACT, place(offset), 0, Evidence.RUN


def test_headers_settle_what_nothing_else_does(strategy: ByRuns) -> None:
    headers = Headers(strategy)
    assert answer(headers.verdict(55)) == exact(55)
    assert headers.asked == [1000, 1020, 1040, 1060, 1080]  # the ninth marker stands at 1098
    assert [answer(headers.verdict(offset)) for offset in range(100)] == [exact(at) for at in range(100)]
    assert len(headers.asked) == 5


def test_they_work_with_the_source_dead(strategy: ByRuns) -> None:
    headers = Headers(strategy)
    assert [answer(headers.alone(offset)) for offset in range(100)] == [exact(at) for at in range(100)]
    assert len(headers.asked) == 5


def test_where_records_settle_it_no_header_is_read() -> None:
    other = Otherwise(at_once=False)
    other.says = Verdict(EXACT, place(55), 0, Evidence.VERIFIED)
    headers = Headers(ByRuns(Runs(WHOLE, NEWEST), other))
    assert headers.verdict(55).evidence is Evidence.VERIFIED
    assert headers.asked == []


def test_a_round_reads_so_much_and_the_next_one_goes_on(
    strategy: ByRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategies, "ROUND_BYTES", 800)  # of which one run has half
    headers = Headers(strategy)
    strategy.end_round()
    first, second = headers.verdict(55), headers.verdict(56)
    # Three of the five markers before it are found: closer already.
    assert (answer(first), answer(second)) == (
        (BOUNDED, 1058, 6, Evidence.RUN),
        (BOUNDED, 1059, 6, Evidence.RUN),
    )
    assert headers.asked == [1000, 1020]
    strategy.end_round()
    headers.verdict(55)
    strategy.end_round()
    assert answer(headers.verdict(55)) == exact(55)
    assert headers.asked == [1000, 1020, 1040, 1060, 1080]


def test_what_can_not_be_read_leaves_the_bound(strategy: ByRuns) -> None:
    headers = Headers(strategy)
    headers.readable = False
    assert answer(headers.alone(55)) == (BOUNDED, 1055, 9, Evidence.RUN)
    headers.readable = True
    assert answer(headers.alone(55)) == exact(55)


def test_records_of_others_among_the_copies_leave_a_bound() -> None:
    """Headers don't tell them from copies: of the nine places without a copy seven are found."""
    headers = Headers(ByRuns(Runs(WHOLE, NEWEST), Otherwise(at_once=True)), markers=list(MARKERS)[2:9])
    verdict = headers.alone(55)
    assert answer(verdict) == (BOUNDED, 1058, 2, Evidence.RUN)
    assert verdict is not None
    assert verdict.offset is not None
    assert verdict.offset <= place(55) <= verdict.offset + 2
    asked = len(headers.asked)
    assert answer(headers.alone(55)) == answer(verdict)
    assert len(headers.asked) == asked  # all is read, there is no more to be found


@pytest.mark.parametrize(
    ("run", "offset"),
    [
        pytest.param(
            WHOLE._replace(skipped=3, upstream_count=103), 55, id="holes upstream, nobody knows where"
        ),
        pytest.param(WHOLE, 0, id="its first record"),
        pytest.param(WHOLE, 100, id="behind it"),
    ],
)
def test_where_headers_prove_nothing_none_is_read(run: OffsetRun, offset: int) -> None:
    newest = NEWEST._replace(covered_from=run.upstream_end, upstream_start=run.upstream_end, position=200)
    headers = Headers(ByRuns(Runs(run, newest), Otherwise(at_once=True)))
    headers.alone(offset)
    assert headers.asked == []


def test_the_last_record_is_exact_whatever_was_skipped() -> None:
    run = WHOLE._replace(skipped=3, upstream_count=103)
    headers = Headers(ByRuns(Runs(run), Otherwise(at_once=True)))
    assert answer(headers.alone(102)) == (EXACT, END - 2, 0, Evidence.RUN)


def test_what_retention_took_is_not_read() -> None:
    headers = Headers(ByRuns(Runs(WHOLE, NEWEST), Otherwise(at_once=True)))
    verdict = headers.alone(95, LogBounds(1050, TARGET.end))
    assert headers.asked[0] == 1050
    # Below the log's start nobody can count any more; those four may stand anywhere there.
    assert verdict is not None
    assert verdict.offset is not None
    assert verdict.bound is not None
    assert verdict.offset <= place(95) <= verdict.offset + verdict.bound
    assert verdict.bound <= 4


def test_a_log_that_was_cut_back_and_grew_again_is_not_the_runs() -> None:
    headers = Headers(ByRuns(Runs(WHOLE, NEWEST), Otherwise(at_once=True)), markers=range(1040, 1060))
    assert headers.alone(55) is None
    assert headers.verdict(55).reason is Reason.TARGET_TIMESTAMP_TYPE
    assert answer(headers.alone(105)) == (EXACT, END + 5, 0, Evidence.RUN)


LONG = WHOLE._replace(size=500 << 30)


def test_a_run_from_before_they_were_short_is_read_over_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no list of its holes either."""
    monkeypatch.setattr(strategies, "SOURCE_DOWN_BYTES", 400)
    strategy = ByRuns(Runs(LONG, NEWEST), Otherwise(at_once=True))
    headers, rounds = Headers(strategy), 1
    while headers.alone(55).judgement is not EXACT:  # type: ignore[union-attr]
        assert strategy.unfinished
        strategy.end_round(whole=False)
        rounds += 1
    assert not strategy.unfinished
    assert (rounds, headers.asked) == (5, [1000, 1020, 1040, 1060, 1080])


HOLED = LONG._replace(skipped=9, upstream_count=109, size=2000, position=109, leader_epoch=3)
"""Of before runs listed their holes: behind each 10 records of the source stands a marker, as behind each 10 copies."""
SOURCE_MARKERS = range(10, 109, 11)


def copy_of(offset: int) -> int:
    return place(offset - offset // 11)


def holed(offset: int) -> tuple[object, ...]:
    return EXACT, copy_of(offset), 0, Evidence.RUN


def test_runs_written_before_that_skipped_are_settled_while_the_source_lives() -> None:
    """The target overwrites timestamps, so that records tell nothing. Both logs are read once; what was exact stays so
    when the source is gone, and only of offsets that come up then the bound stays."""
    strategy = ByRuns(Runs(HOLED), Otherwise(at_once=True))
    headers = Headers(strategy, source_markers=SOURCE_MARKERS)
    offsets = [*range(0, 109, 3), 21]
    assert [answer(headers.verdict(offset)) for offset in offsets] == [holed(offset) for offset in offsets]
    assert headers.asked_source == [0, 20, 40, 60, 80]
    assert headers.asked == [1000, 1020, 1040, 1060, 1080]
    for _ in range(2):
        strategy.end_round()
        assert [answer(headers.alone(offset)) for offset in offsets] == [holed(offset) for offset in offsets]
    assert len(headers.asked) + len(headers.asked_source) == 10
    assert not any(each.held for each in strategy.scans.values())
    verdict = headers.alone(56)
    assert verdict is not None
    assert (verdict.judgement, verdict.bound) == (BOUNDED, 18)
    assert len(headers.asked) + len(headers.asked_source) == 10


def test_both_logs_are_read_over_as_many_rounds_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "ROUND_BYTES", 800)  # of which one run has half: two answers of 200 bytes
    strategy = ByRuns(Runs(HOLED), Otherwise(at_once=True))
    headers = Headers(strategy, source_markers=SOURCE_MARKERS)
    for rounds in range(1, 10):
        if headers.verdict(55).judgement is EXACT:
            break
        assert len(headers.asked) + len(headers.asked_source) <= 2 * rounds
        strategy.end_round()
    assert rounds == 5
    assert answer(headers.verdict(55)) == holed(55)


def test_a_source_that_goes_away_half_read_leaves_a_bound_that_is_closer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strategies, "ROUND_BYTES", 800)
    strategy = ByRuns(Runs(HOLED), Otherwise(at_once=True))
    headers = Headers(strategy, source_markers=SOURCE_MARKERS)
    headers.verdict(77)
    strategy.end_round()
    verdict = headers.alone(77)
    assert verdict is not None
    assert verdict.offset is not None
    assert verdict.bound is not None
    assert verdict.offset <= copy_of(77) <= verdict.offset + verdict.bound
    assert verdict.bound < 18


@pytest.mark.parametrize(
    ("run", "markers", "source"),
    [
        pytest.param(
            HOLED, SOURCE_MARKERS[1:], LogBounds(0, 109), id="compaction took a marker of the source"
        ),
        pytest.param(HOLED, SOURCE_MARKERS, LogBounds(1, 109), id="retention took the beginning"),
        pytest.param(
            HOLED._replace(transformed=True), SOURCE_MARKERS, LogBounds(0, 109), id="transforms drop some"
        ),
    ],
)
def test_where_the_source_can_not_tell_the_bound_stays(
    run: OffsetRun, markers: range, source: LogBounds
) -> None:
    """It is read once at most, and the target not at all."""
    strategy = ByRuns(Runs(run), Otherwise(at_once=True))
    headers = Headers(strategy, source_markers=markers)
    for offset in (55, 56, 77):
        assert headers.verdict(offset, source=source).bound == 18
        strategy.end_round(whole=False)
    assert len(headers.asked_source) == (6 if markers != SOURCE_MARKERS else 0)
    assert headers.asked == []


def test_a_source_with_more_markers_than_were_skipped_is_not_the_runs() -> None:
    headers = Headers(ByRuns(Runs(HOLED), Otherwise(at_once=True)), source_markers=range(5, 109, 5))
    assert headers.verdict(55).reason is Reason.TARGET_TIMESTAMP_TYPE
    assert headers.alone(55) is None


@pytest.mark.parametrize("epochs", [(3, 4), (-1, 3)])
def test_a_source_that_was_cut_back_and_grew_again_tells_nothing(epochs: tuple[int, int]) -> None:
    """Its markers are others, and may happen to be as many. A run of an unknown epoch can't be held against it."""
    run = HOLED._replace(leader_epoch=epochs[0])
    headers = Headers(ByRuns(Runs(run), Otherwise(at_once=True)), source_markers=SOURCE_MARKERS)
    headers.epoch = epochs[1]
    for _ in range(2):
        assert headers.verdict(55).bound == 18
    assert headers.asked_source in ([0], [])
    assert headers.asked == []


def test_of_runs_written_before_that_skipped_the_bound_stays_without_the_source() -> None:
    run = LONG._replace(skipped=3, upstream_count=103)
    headers = Headers(ByRuns(Runs(run), Otherwise(at_once=True)))
    assert answer(headers.alone(55)) == (BOUNDED, 1052, 12, Evidence.RUN)
    assert headers.asked == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_group_that_does_not_move_is_not_read_for_again(strategy: ByRuns, whole: bool) -> None:
    headers = Headers(strategy)
    for _ in range(3):
        assert answer(headers.alone(55)) == exact(55)
        assert answer(headers.verdict(77)) == exact(77)
        strategy.end_round(whole=whole)
        assert len(headers.asked) == 5
    assert not any(each.held for each in strategy.scans.values())
    # One that does is; and what nobody asks about any more is forgotten.
    assert answer(headers.alone(56)) == exact(56)
    assert len(headers.asked) == 10
    strategy.end_round()
    strategy.end_round()
    assert not strategy.scans


class Many(Runs):
    """A run in each of many partitions."""

    def get_runs(self, copy: CopyId) -> ConsistentRuns:
        return ConsistentRuns([WHOLE._replace(source=copy.source)])


def test_all_are_settled_in_as_many_rounds_as_they_take_and_none_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 40 partitions some groups move all the time, so that each round asks for more than it can read: the others get
    their turn all the same, and what is read in a round stays below its limit."""
    monkeypatch.setattr(strategies, "READ_BYTES", 100)
    monkeypatch.setattr(strategies, "SOURCE_DOWN_BYTES", 20_000)
    strategy = ByRuns(Many(), Otherwise(at_once=True))
    headers = Headers(strategy)
    copies = [CopyId(TopicPartition("orders", number), "A.orders") for number in range(40)]
    settled: dict[int, int] = {}
    for number in range(40):
        before = len(headers.asked)
        for at, copy in enumerate(copies):
            offset = 11 + number if at < 20 else 55
            verdict = headers.run(strategy.without_source(copy, offset, "t", TARGET))  # type: ignore[arg-type]
            if verdict.judgement is EXACT and at >= 20:
                settled.setdefault(at, number)
        assert (len(headers.asked) - before) * 10 * headers.each <= 20_000
        strategy.end_round(whole=False)
        if len(settled) == 20:
            break
    # Each takes up 7,200 bytes with what may be read twice, of which two fit into a round.
    assert max(settled.values()) <= 40 / 2


class OneLong(Runs):
    """A run in each of many partitions, the first of which is from before they were short."""

    def get_runs(self, copy: CopyId) -> ConsistentRuns:
        run = WHOLE if copy.source.partition else LONG
        return ConsistentRuns([run._replace(source=copy.source)])


def test_what_is_long_leaves_half_of_a_round_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "READ_BYTES", 1)
    monkeypatch.setattr(strategies, "SOURCE_DOWN_BYTES", 16_000)
    strategy = ByRuns(OneLong(), Otherwise(at_once=True))
    headers = Headers(strategy, each=1)
    settled: list[int] = []
    for _ in range(7):
        for number in set(range(6)) - set(settled):
            copy = CopyId(TopicPartition("orders", number), "A.orders")
            verdict = headers.run(strategy.without_source(copy, 55, "t", TARGET))  # type: ignore[arg-type]
            settled += [number] * (verdict.judgement is EXACT)
        strategy.end_round(whole=False)
    assert sorted(settled) == [0, 1, 2, 3, 4, 5]


def test_what_is_remembered_of_runs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "MOST_RUNS", 2)
    runs = Runs(WHOLE)
    strategy = ByRuns(runs, Otherwise(at_once=True))
    headers = Headers(strategy)
    for topic_id in ("s", "s2", "s3", "s3"):
        runs.runs = (WHOLE._replace(source_topic_id=topic_id),)
        headers.alone(55)
    assert len(headers.asked) == 15
    assert len(strategy.scans) == 2

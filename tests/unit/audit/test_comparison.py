"""Differences between a log and its copy, planted one by one: each is found where it is, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.audit.comparison import compared
from bridge.audit.report import DifferenceKind, Findings, NotCompared
from bridge.audit.stretches import NO_SPANS, Free, LogPair, Numbers, Offsets, Rules, Stretch
from bridge.model.values import TopicPartition

SIDES = LogPair(TopicPartition("orders", 0), "a", TopicPartition("A.orders", 0), "b")
HOUR = 3_600_000
RULES = Rules(HOUR)
Row = tuple[int, int, int, int, int]
Shown = tuple[DifferenceKind, int | None, int | None]


@dataclass
class Logs:
    """Records of both sides (offset, timestamp, digest, key, tombstone), and where a run says that copies stand."""

    source: list[Row] = field(default_factory=list)
    target: list[Row] = field(default_factory=list)
    spans: list[tuple[int, int, int, int]] = field(default_factory=list)

    def compare(self, *, by_runs: bool, rules: Rules = RULES, **flags: bool) -> Findings:
        last = max([0, *(row[0] + 1 for row in (*self.source, *self.target))]) + 10
        whole = Offsets(0, last)
        spans = np.array(self.spans, np.int64).reshape(-1, 4).T if by_runs else NO_SPANS
        free = () if by_runs else (Free(whole, whole),)
        stretch = Stretch(SIDES, 0, whole, whole, spans, free, **flags)
        return compared(stretch, numbers(self.source), numbers(self.target), rules)


def numbers(rows: Sequence[Row]) -> Numbers:
    return np.ascontiguousarray(np.array(sorted(rows), np.int64).reshape(-1, 5).T)


def shown(findings: Findings) -> list[Shown]:
    return sorted((each.kind, each.source_offset, each.target_offset) for each in findings.differences)


@st.composite
def logs(draw: st.DrawFn) -> Logs:
    """A copy with nothing wrong: holes in the source, extra places on the target, several runs."""
    result = Logs()
    upstream, downstream = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    for _ in range(draw(st.integers(2, 6))):
        count, run = draw(st.integers(3, 8)), upstream
        for number in range(2):
            result.spans.append((upstream, downstream, count, run))
            for step in range(count):
                offset = upstream + step
                row = (offset * 60_000, 1000 + offset, 1 + offset % 5 if number else 0, 0)
                result.source.append((offset, *row))
                result.target.append((downstream + step, *row))
            upstream += count + draw(st.integers(0, 2))
            downstream += count + draw(st.integers(1, 2))
    return result


@given(logs(), st.booleans())
def test_equal_logs_are_equal(given_logs: Logs, by_runs: bool) -> None:
    found = given_logs.compare(by_runs=by_runs)
    assert shown(found) == []
    windows = found.windows.values()
    assert sum(each.source_records for each in windows) == len(given_logs.source)
    assert sum(each.same for each in windows) == len(given_logs.source)
    assert all(each.source_digest == each.target_digest for each in found.windows.values())


@given(logs(), st.booleans(), st.data())
def test_a_lost_copy_is_missing(given_logs: Logs, by_runs: bool, data: st.DataObject) -> None:
    # The last one may be not copied yet, which only runs tell.
    index = data.draw(st.integers(0, len(given_logs.target) - 2))
    del given_logs.target[index]
    assert shown(given_logs.compare(by_runs=by_runs)) == [
        (DifferenceKind.MISSING, given_logs.source[index][0], None)
    ]


@given(logs(), st.booleans(), st.data())
def test_a_record_of_others_is_extra(given_logs: Logs, by_runs: bool, data: st.DataObject) -> None:
    offset = data.draw(st.sampled_from(places(given_logs)))
    given_logs.target.append((offset, 5, 7, 99, 0))
    assert shown(given_logs.compare(by_runs=by_runs)) == [(DifferenceKind.EXTRA, None, offset)]


@given(logs(), st.booleans(), st.data())
def test_another_content_is_changed(given_logs: Logs, by_runs: bool, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(given_logs.target) - 1))
    offset, time, _, key, tombstone = given_logs.target[index]
    given_logs.target[index] = (offset, time, 7, key, tombstone)
    found = given_logs.compare(by_runs=by_runs)
    assert shown(found) == [(DifferenceKind.CHANGED, given_logs.source[index][0], offset)]


@given(logs(), st.booleans(), st.data())
def test_a_second_copy_is_twice(given_logs: Logs, by_runs: bool, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(given_logs.target) - 1))
    here, there = given_logs.source[index], given_logs.target[index]
    # Without runs nobody can tell which of two neighbours that are the same is one too many.
    far = [each for each in places(given_logs) if by_runs or each > there[0]]
    offset = data.draw(st.sampled_from(far))
    given_logs.target.append((offset, *there[1:]))
    found = given_logs.compare(by_runs=by_runs)
    (difference,) = found.differences
    assert (difference.kind, difference.source_offset) == (DifferenceKind.TWICE, here[0])
    assert {difference.target_offset, difference.copy_offset} == {offset, there[0]}
    assert not by_runs or difference.target_offset == offset


@given(logs(), st.data())
def test_records_in_each_others_places_are_out_of_order(given_logs: Logs, data: st.DataObject) -> None:
    size = len(given_logs.target)
    one = data.draw(st.integers(0, size - 2))
    other = data.draw(st.integers(one + 1, size - 1))
    first, second = given_logs.target[one], given_logs.target[other]
    given_logs.target[one], given_logs.target[other] = (first[0], *second[1:]), (second[0], *first[1:])
    both = [
        (DifferenceKind.OUT_OF_ORDER, given_logs.source[one][0], second[0]),
        (DifferenceKind.OUT_OF_ORDER, given_logs.source[other][0], first[0]),
    ]
    assert shown(given_logs.compare(by_runs=True)) == both
    by_content = shown(given_logs.compare(by_runs=False))
    if other - one > 2:
        assert by_content == both
    else:  # what has moved past what is not told by two or three neighbours
        assert [each[0] for each in by_content] == [DifferenceKind.OUT_OF_ORDER] * (other - one)
        offsets = {row[0] for row in given_logs.source[one : other + 1]}
        assert {each[1] for each in by_content} <= offsets


@given(logs(), st.data(), st.sampled_from([-1, 1]))
def test_a_run_that_is_not_true_is_named(given_logs: Logs, data: st.DataObject, shift: int) -> None:
    run = data.draw(st.sampled_from(sorted({span[3] for span in given_logs.spans})))
    given_logs.spans = [
        (up, down + shift if mine == run else down, count, mine) for up, down, count, mine in given_logs.spans
    ]
    (difference,) = given_logs.compare(by_runs=True).differences
    assert (difference.kind, difference.run) == (DifferenceKind.WRONG_RUN, run)
    first = next(span for span in given_logs.spans if span[3] == run)
    claimed = sum(span[2] for span in given_logs.spans if span[3] == run)
    assert difference.source_offset == first[0]
    assert difference.claimed_offset == first[1]
    assert difference.target_offset == first[1] - shift
    assert difference.records == claimed


@given(logs(), st.booleans(), st.data())
def test_several_differences_are_all_found(given_logs: Logs, by_runs: bool, data: st.DataObject) -> None:
    size = len(given_logs.target)
    some = data.draw(st.lists(st.integers(0, size - 2), min_size=1, max_size=4, unique=True))
    # Neighbours that are lost and changed can't be told apart without runs: each has an equal one between.
    some = [each for each in some if by_runs or not {each - 1, each + 1} & set(some)]
    expected: list[Shown] = []
    gone = set[int]()
    for number, index in enumerate(some):
        here, there = given_logs.source[index], given_logs.target[index]
        if number % 2:
            gone.add(index)
            expected.append((DifferenceKind.MISSING, here[0], None))
        else:
            given_logs.target[index] = (there[0], there[1], 7 + number, *there[3:])
            expected.append((DifferenceKind.CHANGED, here[0], there[0]))
    given_logs.target = [row for index, row in enumerate(given_logs.target) if index not in gone]
    assert shown(given_logs.compare(by_runs=by_runs)) == sorted(expected)


@given(logs(), st.data())
def test_what_the_source_has_deleted_is_not_compared(given_logs: Logs, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(given_logs.source) - 1))
    given_logs.source = given_logs.source[cut:]
    found = given_logs.compare(by_runs=False, source_cut=True)
    assert shown(found) == []
    assert found.not_compared == {NotCompared.BELOW_SOURCE_START: cut}


@given(logs(), st.data())
def test_what_the_target_has_deleted_is_not_compared(given_logs: Logs, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(given_logs.source) - 1))
    given_logs.target = given_logs.target[cut:]
    found = given_logs.compare(by_runs=False, target_cut=True)
    assert shown(found) == []
    assert found.not_compared == {NotCompared.BELOW_TARGET_START: cut}


@given(logs(), st.data())
def test_lag_is_no_difference(given_logs: Logs, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(given_logs.source) - 1))
    lag = len(given_logs.source) - cut
    given_logs.target = given_logs.target[:cut]
    found = given_logs.compare(by_runs=False, ends=True)
    assert shown(found) == []
    assert found.not_compared == {NotCompared.NOT_COPIED_YET: lag}


@given(logs(), st.booleans(), st.booleans(), st.data())
def test_what_compaction_has_taken_is_unknown(
    given_logs: Logs, by_runs: bool, on_target: bool, data: st.DataObject
) -> None:
    """Every record has one of a few keys; what is left of each on the compacted side is the newest, and some more."""
    given_logs.source = [(*row[:3], 1 + row[0] % 5, 0) for row in given_logs.source]
    given_logs.target = [
        (row[0], *here[1:]) for row, here in zip(given_logs.target, given_logs.source, strict=True)
    ]
    side = given_logs.target if on_target else given_logs.source
    newest = {row[3]: row[0] for row in side}
    older = [row for row in side if newest[row[3]] != row[0]]
    taken = data.draw(st.lists(st.sampled_from(older), unique=True)) if older else []
    side[:] = [row for row in side if row not in taken]
    rules = RULES._replace(source_compacted=not on_target, target_compacted=on_target)
    found = given_logs.compare(by_runs=by_runs, rules=rules)
    assert shown(found) == []
    assert sum(each.unknown for each in found.windows.values()) == len(taken)


@pytest.mark.parametrize("by_runs", [True, False])
def test_the_newest_of_a_key_is_missing_from_a_compacted_copy(by_runs: bool) -> None:
    rows: list[Row] = [(offset, 0, 10 + offset, 1 + offset % 2, 0) for offset in range(6)]
    given_logs = Logs(rows, [row for row in rows if row[0] != 4], [(0, 0, 6, 0)])
    found = given_logs.compare(by_runs=by_runs, rules=RULES._replace(target_compacted=True))
    assert shown(found) == [(DifferenceKind.MISSING, 4, None)]


@pytest.mark.parametrize("by_runs", [True, False])
@pytest.mark.parametrize("on_target", [True, False])
def test_compaction_takes_a_tombstone_after_all_of_its_key(by_runs: bool, on_target: bool) -> None:
    """A deletion that is on one side only, where the other still has a value, makes them different."""
    rows: list[Row] = [(0, 0, 10, 1, 0), (1, 0, 11, 2, 0), (2, 0, 12, 1, 1)]
    rules = RULES._replace(source_compacted=not on_target, target_compacted=on_target)
    for left, lost in ((rows[:2], True), (rows[1:2], False)):
        sides = (rows, list(left)) if on_target else (list(left), rows)
        found = Logs(*sides, [(0, 0, 3, 0)]).compare(by_runs=by_runs, rules=rules)
        kind = DifferenceKind.MISSING if on_target else DifferenceKind.EXTRA
        offsets = (2, None) if on_target else (None, 2)
        assert shown(found) == ([(kind, *offsets)] if lost else [])


def test_windows_have_counts_of_their_own() -> None:
    rows: list[Row] = [(offset, offset * HOUR // 2, 10 + offset, 0, 0) for offset in range(4)]
    found = Logs(rows, rows[:3], [(0, 0, 4, 0)]).compare(by_runs=True)
    counts = {
        number: (each.source_records, each.target_records, each.same)
        for number, each in found.windows.items()
    }
    assert counts == {0: (2, 2, 2), 1: (2, 1, 1)}
    assert found.windows[1].found == {DifferenceKind.MISSING: 1}
    assert found.windows[1].source_digest != found.windows[1].target_digest


def test_differences_beyond_the_limit_are_counted() -> None:
    rows: list[Row] = [(offset, 0, 10 + offset, 0, 0) for offset in range(20)]
    found = Logs(rows, [], [(0, 0, 20, 0)]).compare(by_runs=True, rules=RULES._replace(listed=5))
    assert (len(found.differences), found.left_out, found.found) == (5, 15, {DifferenceKind.MISSING: 20})


def places(given_logs: Logs) -> list[int]:
    """Offsets between copies that hold none, and one behind them."""
    taken = {row[0] for row in given_logs.target}
    last = max(taken)
    return [offset for offset in range(min(taken), last + 2) if offset not in taken]

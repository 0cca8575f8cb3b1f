"""Slow matches of a pattern: how much of them it may take in all before it is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import regex

from bridge import patterns
from bridge.patterns import MATCH_SECONDS, NO_LINE_BREAK, WINDOW_SECONDS, JavaPattern, PatternTooSlow


class Clock:
    """What `time.perf_counter` answers: the time of each match goes by between its two calls."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.took = 0.0
        self._within = False

    def perf_counter(self) -> float:
        if self._within:
            self.now += self.took
        self._within = not self._within
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(patterns, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    return clock


@pytest.fixture
def pattern() -> JavaPattern:
    return JavaPattern("(a|b)*c", "(a|b)*c", quick=False, key="topics")


def matches(pattern: JavaPattern, clock: Clock, took: float, most: int = 100) -> int:
    """How many matches of so many seconds it makes before it is refused; `most` if it never is."""
    clock.took = took
    for number in range(most):
        try:
            assert pattern.fullmatch("abc")
        except PatternTooSlow:
            return number
    return most


def test_slow_matches_add_up(pattern: JavaPattern, clock: Clock) -> None:
    assert matches(pattern, clock, 0.06) == 9  # half a second and what goes beyond it
    with pytest.raises(PatternTooSlow, match=r"^topics: .*\(a\|b\)\*c"):
        pattern.fullmatch("c")


def test_quick_matches_do_not(pattern: JavaPattern, clock: Clock) -> None:
    assert matches(pattern, clock, 0.009, 1000) == 1000


def test_a_match_that_ends_counts_for_a_fifth_at_most(pattern: JavaPattern, clock: Clock) -> None:
    """A machine that was suspended is not the pattern's fault."""
    assert matches(pattern, clock, 30.0, 1) == 1
    assert matches(pattern, clock, MATCH_SECONDS / 5, 100) == 5


def test_what_was_slow_before_the_window_is_forgotten(pattern: JavaPattern, clock: Clock) -> None:
    assert matches(pattern, clock, 0.06, 8) == 8
    clock.now += WINDOW_SECONDS + 1
    assert matches(pattern, clock, 0.06, 8) == 8


def test_a_pattern_that_was_refused_stays_so(pattern: JavaPattern, clock: Clock) -> None:
    assert matches(pattern, clock, 0.06) == 9
    clock.now += WINDOW_SECONDS + 1
    assert matches(pattern, clock, 0.0) == 0


def test_one_match_without_an_end_is_enough(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class EndlessOnce:
        def __init__(self) -> None:
            self.matched = 0

        def fullmatch(self, text: str, timeout: float) -> bool:
            self.matched += 1
            if self.matched == 1:
                raise TimeoutError
            return True

    compiled = EndlessOnce()
    monkeypatch.setattr(regex, "compile", lambda *_: compiled)
    pattern = JavaPattern("(a|b)*c", "(a|b)*c", quick=False, key="topics")
    assert matches(pattern, clock, 0.5, 1) == 0
    assert matches(pattern, clock, 0.0) == 0
    assert compiled.matched == 1


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("char", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_a_dot_matches_no_line_break(quick: bool, char: str) -> None:
    pattern = JavaPattern("a.*", f"a{NO_LINE_BREAK}*", quick=quick)
    assert not pattern.fullmatch(f"a{char}")
    assert not pattern.fullmatch(f"ab{char}b")


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("char", ["b", ".", " ", "\t", "\x00", "\x0b", "é", "\U0001f600", "\ue000"])
def test_a_dot_matches_all_else(quick: bool, char: str) -> None:
    assert JavaPattern("a.", f"a{NO_LINE_BREAK}", quick=quick).fullmatch(f"a{char}")


def test_dots_need_no_class_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 of them took two seconds to compile."""
    compiled: list[str] = []
    monkeypatch.setattr("bridge.patterns.re.compile", lambda text, flags: compiled.append(text))
    JavaPattern("a.*", f"a{NO_LINE_BREAK}*", quick=True)
    assert compiled == ["a.*"]

"""How much may be in flight to links of all kinds, simulated: the window fills each, and none is ever late."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest

from bridge.kafka.network.in_flight import FIRST, LEAST, MOST, InFlightWindow

BATCH = 114_688


@dataclass
class Link:
    """Takes `rate` bytes per second, and answers a round trip later. `burst` bytes go at once: a quota."""

    rate: float
    round_trip: float
    burst: float = 0.0
    now: float = 0.0
    free: float = 0.0
    in_flight: deque[tuple[float, float, int]] = field(default_factory=deque)
    """Batches: when they are answered, when they were handed over, and how many bytes were in flight then."""

    def takes(self, size: int) -> float:
        """When a batch that is handed over now is answered."""
        let_through = min(size, self.burst)
        self.burst -= let_through
        self.free = max(self.now, self.free) + (size - let_through) / self.rate
        return self.free + self.round_trip

    def copy(self, window: InFlightWindow, seconds: float, batch: int = BATCH) -> Copied:
        """A backlog is sent as the copier does it: when no more is in flight than the window."""
        end, sent, latest = self.now + seconds, 0, 0.0
        while self.now < end:
            flying = batch * len(self.in_flight)
            if flying <= window.size:
                self.in_flight.append((self.takes(batch), self.now, flying + batch))
            else:
                answered, handed_over, together = self.in_flight.popleft()
                self.now = max(self.now, answered)
                sent, latest = sent + batch, max(latest, self.now - handed_over)
                window.acknowledged(batch, together, self.now - handed_over, self.round_trip)
        return Copied(sent / seconds, latest)


@dataclass
class Copied:
    rate: float
    latest: float
    """Seconds that the slowest answer took."""


@pytest.mark.parametrize("rate", [50e3, 500e3, 10e6, 500e6, pytest.param(2e9, marks=pytest.mark.long)])
@pytest.mark.parametrize("round_trip", [0.001, 0.05, 0.5, 3.0])
def test_every_link_is_filled_and_answers_soon(rate: float, round_trip: float) -> None:
    link, window = Link(rate, round_trip), InFlightWindow()
    link.copy(window, 60.0 + 40 * round_trip)  # has found its size by then
    result = link.copy(window, 20.0 + 20 * round_trip)
    assert result.rate >= 0.8 * min(rate, MOST / round_trip)
    assert result.latest <= 2.5 * (1.0 + 2 * round_trip) + BATCH / rate


def test_a_fast_link_near_by_is_filled_in_an_instant() -> None:
    link, window = Link(500e6, 0.002), InFlightWindow()
    link.copy(window, 0.3)
    assert window.size == MOST
    assert Link(500e6, 0.002).copy(InFlightWindow(), 0.1).rate > 0.8 * 500e6


@pytest.mark.parametrize("slices", [1, 2, 4])
def test_what_a_quota_lets_through_at_once_is_no_measure_of_it(slices: int) -> None:
    """Ten seconds' worth goes at once. What is in flight when it throttles is answered in time all the same."""
    share = 500e3 / slices
    result = Link(share, 0.002, burst=10 * share).copy(InFlightWindow(), 60.0)
    assert result.latest < 12.0
    assert result.rate > share


def test_a_link_that_gets_slow_has_little_in_flight_soon() -> None:
    link, window = Link(500e6, 0.002), InFlightWindow()
    link.copy(window, 1.0)
    link.rate = 5e6
    assert link.copy(window, 20.0).latest < 12.0
    assert link.copy(window, 10.0).latest < 2.1
    assert LEAST < window.size < 8 * 1024 * 1024


def test_what_timed_out_begins_smaller_and_grows_again() -> None:
    window = InFlightWindow()
    sizes = []
    for _ in range(5):
        window.timed_out()
        sizes.append(window.size)
    assert sizes == [FIRST // 2, FIRST // 4, FIRST // 8, LEAST, LEAST]
    large = InFlightWindow(MOST)
    large.timed_out()
    assert large.size == FIRST // 2
    Link(500e6, 0.002).copy(large, 0.3)
    assert large.size == MOST


def test_what_can_not_be_cut_smaller_gets_more_time() -> None:
    window = InFlightWindow(LEAST)
    patience = []
    for _ in range(6):
        window.timed_out()
        patience.append(window.patience)
    assert patience == [2, 4, 8, 16, 16, 16]
    window.acknowledged(1_000_000, 1_000_000, 20.0, 0.001)
    assert (window.size, window.patience) == (LEAST, 16)


def test_a_quota_needs_as_much_time_as_it_looks_back() -> None:
    window = InFlightWindow()
    window.acknowledged(1000, 1000, 0.002, 0.001, throttle=0.5)
    assert (window.size, window.patience) == (FIRST, 2)
    window.acknowledged(1_000_000, 1_000_000, 0.002, 0.001, throttle=4.0)
    assert 230_000 < window.size < 260_000


def test_an_idle_link_says_nothing_about_a_full_one() -> None:
    window = InFlightWindow()
    for _ in range(1000):
        window.acknowledged(2000, 2000, 0.002, 0.002)
        window.acknowledged(2000, 2000, 15.0, 0.002)
    assert window.size == FIRST

"""When the open transaction of a slice is committed."""

from __future__ import annotations

import pytest

from bridge.pipeline.slices import transaction
from bridge.pipeline.slices.throttle import longest_transaction
from bridge.pipeline.slices.transaction import TransactionClock


class Near:
    round_trip, timeout = 0.001, 15.0


class Far:
    round_trip, timeout = 0.05, 15.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in a list of one, for tests to set."""
    times = [100.0]
    monkeypatch.setattr("bridge.pipeline.slices.transaction.time.monotonic", lambda: times[0])
    return times


def test_what_has_come_is_committed_soon(now: list[float]) -> None:
    open_transaction = TransactionClock(0.1, Near())
    open_transaction.begin()
    assert not open_transaction.due()
    assert open_transaction.patience() == pytest.approx(0.005)
    now[0] += 0.006
    assert open_transaction.due()


@pytest.mark.parametrize(("took", "length"), [(0.001, 0.005), (0.01, 0.02), (0.03, 0.06), (2.0, 0.1)])
def test_commits_take_a_third_of_the_time_at_most_as_far_as_the_interval_allows(
    now: list[float], took: float, length: float
) -> None:
    open_transaction = TransactionClock(0.1, Near())
    for _ in range(2):
        open_transaction.begin()
        open_transaction.end(took)
    open_transaction.begin()
    assert open_transaction.patience() == pytest.approx(length)


def test_one_slow_commit_makes_no_long_transaction(now: list[float]) -> None:
    open_transaction = TransactionClock(0.1, Near())
    for took in (0.003, 0.04):
        open_transaction.begin()
        open_transaction.end(took)
    open_transaction.begin()
    assert open_transaction.patience() == pytest.approx(0.006)


def test_the_interval_is_the_upper_bound(now: list[float]) -> None:
    open_transaction = TransactionClock(0.003, Near())
    open_transaction.begin()
    assert open_transaction.patience() == pytest.approx(0.003)


@pytest.mark.parametrize(("target", "length"), [(Near(), 0.1), (Far(), 0.4)])
def test_a_backlog_is_committed_at_the_interval_and_seldom_over_a_distance(
    now: list[float], target: transaction.Target, length: float
) -> None:
    open_transaction = TransactionClock(0.1, target)
    open_transaction.begin()
    open_transaction.backlog = True
    assert open_transaction.patience() == pytest.approx(length)


def test_what_belongs_together_waits_for_the_longest_transaction(now: list[float]) -> None:
    open_transaction = TransactionClock(0.1, Near())
    open_transaction.begin()
    now[0] += longest_transaction(Near.timeout) - 0.1
    assert open_transaction.due()
    assert not open_transaction.overdue()
    now[0] += 0.2
    assert open_transaction.overdue()


def test_positions_alone_are_committed_after_ten_seconds(now: list[float]) -> None:
    open_transaction = TransactionClock(0.1, Near())
    open_transaction.move()
    now[0] += 9.9
    assert not open_transaction.due()
    assert not open_transaction.overdue()
    now[0] += 0.2
    assert open_transaction.due()
    assert open_transaction.overdue()

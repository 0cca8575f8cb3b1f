"""The token bucket, and how slices share a limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.model.copying import Progress
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.rate_limit import (
    BURST,
    STALL,
    ShareUse,
    Sharing,
    TokenBucket,
    differs_enough,
    equal_shares,
    new_shares,
)
from tests.unit.pipeline.values import copied, spec

RATES = st.floats(10, 1e9)
SIZES = st.integers(1, 1_000_000)


@given(RATES, st.lists(st.tuples(SIZES, st.floats(0, 2)), min_size=1, max_size=60))
def test_in_no_time_is_more_taken_than_the_rate_allows(rate: float, batches: list[tuple[int, float]]) -> None:
    """Batches come after pauses of the source, and wait as long as the bucket says."""
    now, bucket = 0.0, TokenBucket(rate, 0.0)
    taken: list[tuple[float, int]] = []
    for size, pause in batches:
        now += pause
        now += bucket.wait(now) * (1 + 1e-9) + 1e-12
        assert bucket.wait(now) <= 1e-6
        bucket.take(size)
        taken.append((now, size))
    largest = max(size for _, size in taken)
    for first in range(len(taken)):
        total = 0
        for at, size in taken[first:]:
            total += size
            allowed = rate * (at - taken[first][0] + STALL) + largest
            assert total <= allowed * (1 + 1e-6) + 1


@given(RATES, st.lists(SIZES, min_size=2, max_size=60))
def test_a_backlog_is_copied_at_the_rate(rate: float, sizes: list[int]) -> None:
    """To the byte: between the first batch and the last one."""
    now, bucket = 0.0, TokenBucket(rate, 0.0)
    for size in sizes:
        now += bucket.wait(now)
        bucket.take(size)
    expected = sum(sizes[:-1]) / rate
    assert abs(now - expected) <= 1e-6 * expected + 1e-6


@given(st.lists(st.tuples(RATES, st.floats(0.01, 5)), min_size=1, max_size=20), SIZES)
def test_a_rate_that_changes_counts_from_then_on(changes: list[tuple[float, float]], size: int) -> None:
    now, bucket, taken = 0.0, TokenBucket(changes[0][0], 0.0), 0
    allowed = 0.0
    for rate, seconds in changes:
        bucket.set_rate(rate, now)
        end = now + seconds
        while (at := now + bucket.wait(now) * (1 + 1e-9) + 1e-12) < end:
            now = at
            bucket.take(size)
            taken += size
            if taken > 200 * size:
                return
        now = end
        allowed += rate * seconds
    most = max(rate for rate, _ in changes)
    assert taken <= allowed * (1 + 1e-6) + most * STALL + size


@given(RATES, st.floats(0, 100))
def test_a_slice_without_records_saves_little(rate: float, seconds: float) -> None:
    bucket = TokenBucket(rate, 0.0)
    bucket.idle(seconds)
    bucket.take(int(rate * BURST) + 1)
    assert bucket.wait(seconds) >= 0
    bucket.take(int(rate) + 1)
    assert bucket.wait(seconds) > 0.9


USES = st.lists(st.tuples(st.floats(0, 1e8), st.booleans()), min_size=1, max_size=50)


@given(st.integers(10_000, 10**9), USES)
def test_shares_are_the_limit_and_no_slice_is_left_without(
    limit: int, uses: list[tuple[float, bool]]
) -> None:
    shares = equal_shares(limit, len(uses))
    newer = new_shares(limit, shares, [ShareUse(*each) for each in uses])
    assert limit * 0.98 <= sum(newer) <= limit + len(uses)
    assert min(newer) >= min(int(limit / len(uses) / 51), max(newer))


def test_the_share_of_idle_slices_goes_to_busy_ones_within_two_looks() -> None:
    limit = 1_000_000
    shares = equal_shares(limit, 4)
    assert shares == (250_000,) * 4
    idle, busy = ShareUse(0, backlog=False), ShareUse(250_000, backlog=True)
    shares = new_shares(limit, shares, [busy, idle, idle, idle])
    assert shares[0] >= 0.98 * limit
    assert sum(shares) <= limit
    # One that wakes up uses what little it has, and is given an equal share of what two can have.
    woken = ShareUse(shares[1], backlog=True)
    assert new_shares(limit, shares, [ShareUse(shares[0], backlog=True), woken, idle, idle])[:2] == (
        495_000,
        495_000,
    )


def test_a_slow_slice_with_a_backlog_keeps_an_equal_share_and_no_more() -> None:
    slow, busy = ShareUse(1_000, backlog=True), ShareUse(500_000, backlog=True)
    assert new_shares(1_000_000, (500_000, 500_000), [slow, busy]) == (500_000, 500_000)
    assert new_shares(1_000_000, (100_000, 900_000), [slow, busy]) == (500_000, 500_000)


def test_the_only_slice_with_a_backlog_keeps_all_that_idle_ones_leave_whatever_it_has_used() -> None:
    """What it has used is seen by what is committed and read at times: it jitters."""
    idle = ShareUse(0, backlog=False)
    assert (
        new_shares(
            1_000_000, (940_000, 20_000, 20_000, 20_000), [ShareUse(1_000, backlog=True), *[idle] * 3]
        )[0]
        > 980_000
    )


def test_without_a_backlog_all_keep_room() -> None:
    shares = new_shares(900, (300, 300, 300), [ShareUse(200, False), ShareUse(0, False), ShareUse(0, False)])
    assert shares[0] > 300
    assert min(shares) > 100


def test_small_changes_are_not_told() -> None:
    assert not differs_enough((100, 100), (109, 91))
    assert differs_enough((100, 100), (111, 89))


def work(slot: int, *partitions: int) -> Slice:
    return Slice(spec(), 1, slot, 60.0, [copied(number) for number in partitions], [])


def progress(**given: int) -> Progress:
    return Progress("orders", 0, "A.orders", 10, **given)


def test_shares_follow_what_partitions_have_copied() -> None:
    sharing = Sharing(1_000, [work(0, 0, 1), work(1, 2)])
    one, other, third = (TopicPartition("orders", number) for number in range(3))
    before = {
        one: progress(bytes=0, source_end=99),
        other: progress(bytes=0, source_end=10),
        third: progress(bytes=0, source_end=10),
    }
    assert sharing.shares(before, (500, 500), 1.0) is None
    after = {**before, one: progress(bytes=1_000, source_end=99)}
    newer = sharing.shares(after, (500, 500), 3.0)
    assert newer is not None
    assert newer[0] > 980
    assert sharing.shares(after, newer, 3.0) is None

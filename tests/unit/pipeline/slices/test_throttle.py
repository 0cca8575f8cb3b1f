"""How batches, fetches and transactions fit the way to the target."""

from __future__ import annotations

import pytest

from bridge.kafka.network.in_flight import FIRST, LEAST, MOST, UNKNOWN
from bridge.kafka.producer.transaction_coordinator import transaction_timeout_ms
from bridge.kafka.record.compression import Compression
from bridge.kafka.record.rebuilding import CodecSizes, TopicLimits
from bridge.pipeline.slices.throttle import (
    backlog_seconds,
    batch_bytes,
    batch_policy,
    fetch_bytes,
    longest_transaction,
)


@pytest.mark.parametrize(
    ("batch_size", "round_trip", "size"),
    [
        (16384, UNKNOWN, 114_688),
        (16384, 0.005, 114_688),
        (16384, 0.05, 163_840),
        (16384, 0.1, 327_680),
        (16384, 3.0, 1_000_000),
        (200_000, 0.001, 1_000_000),
        (5_000_000, 0.1, 5_000_000),
    ],
)
def test_batches_of_a_backlog_grow_with_the_round_trip_and_never_get_smaller_than_configured(
    batch_size: int, round_trip: float, size: int
) -> None:
    assert batch_bytes(batch_size, round_trip) == size


def coalesced(round_trip: float, compression: str = "") -> CodecSizes:
    expected = Compression.named(compression) if compression else None
    return batch_policy(16384, TopicLimits(1_000_000), round_trip, expected).coalesced


def test_near_by_compressed_batches_are_rebuilt_only_when_their_codec_is_quicker_than_a_batch() -> None:
    near = coalesced(UNKNOWN)
    assert near == coalesced(0.005)
    assert near.gzip == 2048
    assert near.snappy == near.lz4 == near.zstd == 16384
    assert near.none > 10**9
    assert min(coalesced(0.006)) > 10**9


def test_batches_of_another_codec_than_the_targets_are_coalesced_whatever_their_size() -> None:
    expected = coalesced(0.001, "lz4")
    assert expected.lz4 == coalesced(0.001).lz4
    assert min(expected.gzip, expected.snappy, expected.zstd) > 10**9


def test_transactions_of_a_backlog_get_longer_with_the_round_trip() -> None:
    assert backlog_seconds(0.1, 0.05, 15.0) == pytest.approx(0.4)
    assert backlog_seconds(0.1, 0.001, 15.0) == 0.1
    assert backlog_seconds(0.1, UNKNOWN, 15.0) == 0.1


@pytest.mark.parametrize("round_trip", [0.0, 0.05, 0.5, 3.0, 10.0])
@pytest.mark.parametrize("interval", [0.001, 5.0])
def test_a_transaction_leaves_time_for_what_is_under_way_and_for_its_commit(
    round_trip: float, interval: float
) -> None:
    """Two round trips and a second for what is under way, four to write the runs and to commit."""
    timeout = transaction_timeout_ms(15_000, round_trip, 1) / 1000
    length = backlog_seconds(interval, round_trip, timeout)
    assert length <= longest_transaction(timeout) <= timeout / 3
    assert length + 1 + 6 * round_trip <= 0.8 * timeout


def test_what_is_fetched_ahead_is_some_windows() -> None:
    assert fetch_bytes(LEAST) == FIRST
    assert fetch_bytes(FIRST) == 8 * FIRST
    assert fetch_bytes(MOST) == MOST

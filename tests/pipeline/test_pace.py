"""How batches and transactions grow with the way to the target."""

from __future__ import annotations

import pytest

from bridge.kafka.codecs import Compression
from bridge.pipeline.pace import UNKNOWN, batch_bytes, in_flight_bytes, small, transaction_seconds


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


def test_near_by_compressed_batches_are_rebuilt_only_when_their_codec_is_quicker_than_a_batch() -> None:
    near = small(UNKNOWN)
    assert near == small(0.005)
    assert near.gzip == 2048
    assert near.snappy == near.lz4 == near.zstd == 16384
    assert near.none > 10**9
    assert min(small(0.006)) > 10**9


def test_batches_of_another_codec_than_is_wanted_are_put_together_whatever_their_size() -> None:
    wanted = small(0.001, Compression.named("lz4"))
    assert wanted.lz4 == small(0.001).lz4
    assert min(wanted.gzip, wanted.snappy, wanted.zstd) > 10**9


def test_transactions_get_longer_for_a_backlog_only() -> None:
    assert transaction_seconds(0.1, 0.05, backlog=True) == pytest.approx(0.4)
    assert transaction_seconds(0.1, 0.05, backlog=False) == 0.1
    assert transaction_seconds(0.1, 0.001, backlog=True) == 0.1
    assert transaction_seconds(0.1, UNKNOWN, backlog=True) == 0.1


def test_little_is_sent_before_the_first_answer() -> None:
    most = 32 * 1024 * 1024
    assert in_flight_bytes(most, UNKNOWN) < in_flight_bytes(most, 0.001) == in_flight_bytes(most, 0.5) == most
    assert in_flight_bytes(1000, UNKNOWN) == 1000

"""Record batches as fetched, into windows: built by the library's own builders, cut and joined as brokers do."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal

import pytest

from bridge.kafka.record.decoding import decode_log, window
from bridge.model.lookups import Window
from tests.unit.kafka.record.raw_batches import (
    ABORT,
    COMMIT,
    GZIP,
    LZ4,
    NONE,
    NOW,
    SNAPPY,
    ZSTD,
    batch,
    legacy,
    marker,
)


def opened(
    data: bytes, offset: int, end: int = 100, aborted: Sequence[tuple[int, int]] = ()
) -> tuple[int, int, list[int]]:
    result = window(data, offset, end, aborted)
    assert isinstance(result, Window)
    return result.start, result.end, [record.offset for record in result.records]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_every_codec(codec: int) -> None:
    result = window(batch(10, 200, codec=codec), 10, 500, ())
    assert result is not None
    assert (result.start, result.end, result.epoch) == (10, 210, 5)
    assert [record.offset for record in result.records] == list(range(10, 210))
    last = result.records[-1]
    assert (last.timestamp, last.key, last.value, list(last.headers)) == (  # type: ignore[call-overload]
        NOW + 209,
        b"key",
        b"value-209",
        [("h", b"1")],
    )


def test_a_batch_that_begins_below_the_offset_is_kept_whole() -> None:
    assert opened(batch(10, 5) + batch(15, 2), 13) == (10, 17, [10, 11, 12, 13, 14, 15, 16])


def test_batches_with_a_gap_before_and_between_them_cover_it() -> None:
    # Compaction has taken 10 to 19 and 23 to 29: a known nothing.
    assert opened(batch(20, 3) + batch(30, 1), 10) == (10, 31, [20, 21, 22, 30])


def test_holes_inside_and_at_the_end_of_a_batch() -> None:
    assert opened(batch(10, 5, without=(1, 4)), 10) == (10, 15, [10, 12, 13])
    # An empty batch, kept for its producer's sequence.
    assert opened(batch(10, 3, without=(0, 1, 2)), 10) == (10, 13, [])


def test_a_batch_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    whole = batch(10, 3)
    for cut in (1, 12, 60, 61, len(whole) - 1):
        assert opened(whole + batch(13, 3)[:cut], 10) == (10, 13, [10, 11, 12])


def test_only_a_part_of_a_batch_asks_for_more() -> None:
    data = batch(10, 3)
    for cut in (1, 16, 17, 60, 61, len(data) - 1):
        assert window(data[:cut], 10, 100, ()) is None


def test_nothing_there_covers_up_to_the_end_of_what_may_be_read() -> None:
    assert opened(b"", 40, end=60) == (40, 60, [])  # a compacted tail
    assert opened(b"", 60, end=60) == (60, 60, [])  # the end of the log
    assert opened(b"", 61, end=60) == (61, 61, [])


def test_append_time_overrides_the_timestamps_of_records() -> None:
    result = window(batch(10, 3, append_time=NOW * 2), 10, 100, ())
    assert result is not None
    assert [record.timestamp for record in result.records] == [NOW * 2] * 3


def test_the_epoch_is_that_of_every_batch_or_none() -> None:
    one = window(batch(10, epoch=5) + batch(13, epoch=5), 10, 100, ())
    two = window(batch(10, epoch=5) + batch(13, epoch=9), 10, 100, ())
    assert one is not None
    assert two is not None
    assert (one.epoch, two.epoch) == (5, -1)


def test_control_records_are_no_data_but_take_their_place() -> None:
    data = batch(10, 2, producer=7) + marker(12, COMMIT, 7) + batch(13, 1)
    assert opened(data, 10) == (10, 14, [10, 11, 13])
    assert opened(marker(12, COMMIT, 7), 12) == (12, 13, [])


def test_aborted_data_is_left_out_until_its_marker() -> None:
    data = (
        batch(10, 2, producer=7)
        + batch(12, 1, producer=8)
        + batch(13, 1)
        + batch(14, 1, producer=7)
        + marker(15, ABORT, 7)
        + batch(16, 1, producer=7)
        + marker(17, COMMIT, 8)
    )
    assert opened(data, 10, aborted=[(7, 10)]) == (10, 18, [12, 13, 16])
    # Read uncommitted: the broker lists none, and all data counts.
    assert opened(data, 10) == (10, 18, [10, 11, 12, 13, 14, 16])


def test_two_aborted_transactions_of_one_producer() -> None:
    data = b"".join(
        (
            batch(10, 1, producer=7),
            marker(11, ABORT, 7),
            batch(12, 1, producer=7),
            marker(13, COMMIT, 7),
            batch(14, 1, producer=7),
            marker(15, ABORT, 7),
        )
    )
    # In any order: a broker sorts them by their end.
    for aborted in ([(7, 10), (7, 14)], [(7, 14), (7, 10)]):
        assert opened(data, 10, aborted=aborted) == (10, 16, [12])


def test_a_transaction_that_was_aborted_later_on_does_not_count_before_it_began() -> None:
    data = batch(10, 1, producer=7) + marker(11, COMMIT, 7) + batch(12, 1, producer=7)
    assert opened(data, 10, aborted=[(7, 12)]) == (10, 13, [10])


def test_an_aborted_transaction_that_began_below_the_fetch() -> None:
    assert opened(batch(10, 2, producer=7) + batch(12, 1), 11, aborted=[(7, 3)]) == (10, 13, [12])


def test_plain_records_of_a_producer_that_aborted_something_count() -> None:
    plain = bytearray(batch(13, 1))
    struct.pack_into(">q", plain, 43, 7)
    data = batch(10, 3, producer=7) + bytes(plain)
    assert opened(data, 10, aborted=[(7, 10)]) == (10, 14, [13])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY])
def test_messages_from_before_0_11(magic: Literal[0, 1], codec: int) -> None:
    data = legacy(magic, codec, 10)
    result = window(data, 10, 100, ())
    assert result is not None
    assert (result.start, result.end, result.epoch) == (10, 13, -1)
    assert [(record.offset, record.key, record.value) for record in result.records] == [
        (offset, b"key", b"value") for offset in (10, 11, 12)
    ]
    assert [record.timestamp for record in result.records] == [NOW + at if magic else -1 for at in range(3)]
    assert result.records[0].headers == []
    log = decode_log(data, 11)
    assert log is not None
    assert (list(log.records), len(log.records), log.unreadable) == (
        [(each.offset, each.timestamp, each.key, each.value) for each in result.records[1:]],
        2,
        0,
    )


def test_a_compressed_message_from_before_0_11_that_begins_below_the_offset() -> None:
    assert opened(legacy(1, GZIP, 10, 5), 13) == (10, 15, [10, 11, 12, 13, 14])


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_from_before_0_11_that_is_smaller_than_a_batch_header_of_today(
    magic: Literal[0, 1],
) -> None:
    data = legacy(magic, NONE, 10, 1, b"v")
    assert len(data) < 61
    assert opened(data, 10) == (10, 11, [10])
    assert opened(legacy(magic, NONE, 9, 1) + data, 9) == (9, 11, [9, 10])
    assert window(data[:-1], 10, 100, ()) is None


def test_old_messages_before_new_batches() -> None:
    assert opened(legacy(1, NONE, 8, 2) + batch(10, 2), 8) == (8, 12, [8, 9, 10, 11])

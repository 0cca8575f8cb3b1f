"""What follows a batch that can't be read."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest

from bridge.kafka.record.batch import CorruptBatch, damage
from bridge.kafka.record.coalescing import DataBatches
from tests.unit.kafka.record.raw_batches import batch

FIRST, SECOND, THIRD = bytes(batch(10, 3)), bytes(batch(13, 2)), bytes(batch(17, 1))
"""Offsets 15 and 16 are compacted away."""
END = 18


def flipped(data: bytes, at: int, bit: int = 4) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)


@pytest.mark.parametrize("at", range(len(SECOND)))
@pytest.mark.parametrize("bit", range(8))
def test_each_bit_that_is_damaged_is_seen_or_means_nothing(at: int, bit: int) -> None:
    """The base offset and the leader epoch stand outside of the checksum: a base offset that fits is believed."""
    second = flipped(SECOND, at, bit)
    good = DataBatches.committed(FIRST + second + THIRD, 10, None, until_damage=True)
    if good.next_offset == END:
        assert at in (*range(8), *range(12, 16)), "nobody has noticed"
        return
    assert (good.next_offset, len(good.batches)) == (13, 1), "what stands before it is copied first"
    if at in range(8):
        return
    with suppress(CorruptBatch):
        assert DataBatches.committed(second + THIRD, 13, None, until_damage=True).incomplete
    found = damage(second + THIRD, 13, END)
    assert found.offset == 13
    assert found.end == (None if at in range(8, 12) else 17), "where the next batch begins"


def test_the_last_batch_ends_where_the_log_does() -> None:
    assert damage(flipped(THIRD, 40), 17, END).end == END
    assert damage(flipped(THIRD, 40), 17, END + 5).end is None, "more is to come, and it may be its own"
    wrong = bytearray(THIRD)
    struct.pack_into(">i", wrong, 23, 1 << 20)
    assert damage(wrong, 17, END).end is None


def test_of_two_damaged_batches_nobody_knows_where_the_first_one_ends() -> None:
    assert damage(flipped(SECOND, 40) + flipped(THIRD, 40), 13, END).end is None


def test_a_fetch_may_begin_in_the_middle_of_a_batch() -> None:
    found = damage(flipped(SECOND, 40) + THIRD, 14, END)
    assert (found.offset, found.end) == (14, 17)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 40, 2**31 - 1])
def test_a_length_that_does_not_fit_leaves_the_end_open(length: int) -> None:
    wrong = bytearray(SECOND + THIRD)
    struct.pack_into(">i", wrong, 8, length)
    found = damage(wrong, 13, END)
    assert (found.offset, found.end) == (13, None)
    assert "13" in found.why

"""Checksums of batches side by side: the library's, and the first batch that is damaged is found."""

from __future__ import annotations

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record import loops
from bridge.kafka.record.coalescing import crc, joint, undamaged
from bridge.kafka.record.loops import Numbers, as_bytes
from tests.unit.kafka.record.raw_batches import Plain, batch_of

VALUES = st.lists(st.binary(max_size=700), min_size=1, max_size=6)


def batches(values: list[bytes]) -> bytes:
    return b"".join(batch_of([Plain(5, None, value)], at, epoch=5) for at, value in enumerate(values))


def walked(data: bytes | bytearray) -> Numbers:
    heads = np.empty((len(data) // 61 + 1, loops.COLUMNS), np.int64)
    return heads[: loops.walk(as_bytes(data), 2**31 - 1, 0, 5, False, heads)]


@given(st.binary(max_size=600), st.integers(0, 600))
def test_the_checksum_is_the_librarys(data: bytes, at: int) -> None:
    at = min(at, len(data))
    assert crc(as_bytes(data), at, len(data)) == crc32c(data[at:])


@given(VALUES)
def test_what_batches_say_is_what_is_so_of_all_of_them(values: list[bytes]) -> None:
    data = batches(values)
    heads = walked(data)
    assert len(heads) == len(values)
    assert joint(as_bytes(data), heads) == crc32c(data)
    assert undamaged(memoryview(data), heads) == len(values)


def test_a_batch_may_be_as_long_as_batches_can_be() -> None:
    data = batches([b"short", bytes(20_000_000), b"short"])
    assert joint(as_bytes(data), walked(data)) == crc32c(data)


@given(VALUES, st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=3))
def test_the_first_that_is_damaged_is_found(values: list[bytes], changes: list[tuple[int, int]]) -> None:
    data = bytearray(batches(values))
    for at, byte in changes:
        data[at % len(data)] = byte
    heads = walked(data)
    wrong = [crc32c(data[at - 40 : end]) != stored for at, end, stored in heads[:, : loops.CRC + 1].tolist()]
    assert undamaged(memoryview(data), heads) == (wrong.index(True) if any(wrong) else len(heads))


@pytest.mark.parametrize("place", [21, 40, 61, 68])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_damage_is_seen(number: int, place: int) -> None:
    data = bytearray(batches([b"abc"] * 3))
    data[number * len(data) // 3 + place] ^= 16
    heads = walked(bytes(batches([b"abc"] * 3)))
    assert undamaged(memoryview(data), heads) == number


def test_nothing_is_not_damaged() -> None:
    assert undamaged(memoryview(b""), walked(b"")) == 0

"""Compiled loops: the same as what is not compiled, and within the given bytes whatever these are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record import loops
from bridge.kafka.record.loops import as_bytes
from tests.unit.kafka.record.guard_pages import guarded, guarded_copy
from tests.unit.kafka.record.raw_batches import batch

NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(NUMBERS, st.binary(max_size=300)), min_size=1, max_size=40))
def test_what_is_put_is_cut_again(records: list[tuple[int, bytes]]) -> None:
    data = b"".join(rest for _, rest in records)
    ends = np.cumsum([len(rest) for _, rest in records])
    columns = np.array([np.arange(len(records)), [time for time, _ in records], [0, *ends[:-1]], ends])
    out = guarded(loops.put_size(columns))
    assert loops.put(guarded_copy(data), columns, out, 0) == len(out)
    heads = np.array([[0, len(out), -1, len(records), 0, records[0][0], len(records) - 1]])
    result = np.empty((4, len(records)), np.int64)
    assert loops.cut(out, heads, False, result) == 1
    assert result[0].tolist() == columns[0].tolist()
    assert result[1].tolist() == columns[1].tolist()
    assert [bytes(out[begin:end]) for begin, end in result[2:].T] == [rest for _, rest in records]


@given(
    st.binary(max_size=60) | st.lists(st.sampled_from([0, 2, 8, 255]), max_size=40).map(bytes),
    st.integers(0, 9),
    st.sampled_from([0, 20]),
)
def test_whatever_is_cut_lies_within(data: bytes, count: int, behind: int) -> None:
    """Nothing behind what a batch has is read as a record, and no number past its end."""
    end = len(data)
    heads, result = np.array([[0, end, -1, count, 10, 20, 10 + count]]), np.empty((4, count), np.int64)
    answer = loops.cut(guarded_copy(data + bytes(behind)), heads, False, result)
    assert answer in (1, loops.CUT_SHORT, loops.BYTES_LEFT, loops.OTHER_OFFSETS)
    if answer == 1:
        assert all(10 <= offset <= 10 + count for offset in result[0])
        begins, ends = result[2], result[3]
        assert all(0 < begin <= stop <= end for begin, stop in zip(begins, ends, strict=True))
        assert sorted(ends.tolist()) == ends.tolist()


@given(st.integers(0, 400), st.integers(0, 255), st.integers(0, 8), st.integers(100, 500))
def test_a_walk_ends_before_what_is_cut_off_or_too_large(
    at: int, byte: int, missing: int, large: int
) -> None:
    whole = b"".join(batch(10 + number, 1) for number in range(5))
    data = bytearray(whole)
    data[min(at, len(data) - 1)] = byte
    del data[len(data) - missing :]
    heads = np.empty((len(data) // 61 + 1, loops.COLUMNS), np.int64)
    rows = loops.walk(guarded_copy(data), large, 0, 5, False, heads)
    size, following = len(whole) // 5, 0
    assert missing or data != whole or rows == (5 if size <= large else 0)
    for begin, end, crc in heads[:rows, : loops.CRC + 1].tolist():
        assert begin == following + 61
        assert begin <= end <= min(len(data), following + large)
        assert crc == int.from_bytes(data[begin - 44 : begin - 40], "big")
        following = end


def test_a_walk_fills_what_it_is_given() -> None:
    data = b"".join(batch(10 + number, 1) for number in range(5))
    heads = np.empty((3, loops.COLUMNS), np.int64)
    assert loops.walk(as_bytes(data), 1000, 0, 5, False, heads) == 3
    assert heads[:, loops.LAST].tolist() == [10, 11, 12]

"""Records in columns of keys, values and headers, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record import arrow_columns
from bridge.kafka.record.batch import parse
from bridge.kafka.record.columns import Records
from bridge.kafka.record.compression import Compression
from bridge.kafka.record.loops import as_bytes
from tests.unit.kafka.record.raw_batches import NONE, NOW, Plain, batch_of, plain_records

BYTES = st.none() | st.binary(max_size=30)
PLAIN = st.builds(
    Plain,
    st.sampled_from([-1, 0, NOW, NOW + 1]),
    BYTES,
    BYTES,
    st.lists(st.tuples(st.text("aä", max_size=2), BYTES), max_size=3).map(tuple),
)


def records(plain: list[Plain | None], base: int = 0) -> Records:
    (batch,) = parse(batch_of(plain, base))
    return Records.from_batch(batch)


def texts(column: arrow_columns.Texts, rows: int) -> list[bytes | None]:
    return [
        bytes(column.data[column.ends[row] : column.ends[row + 1]])
        if not len(column.validity) or column.validity[row >> 3] >> (row & 7) & 1
        else None
        for row in range(rows)
    ]


@given(st.lists(st.none() | PLAIN, min_size=1, max_size=20).filter(any))
def test_columns_hold_what_the_records_do_and_become_the_same_records(plain: list[Plain | None]) -> None:
    given_ = records(plain, 7)
    validity = [(7 + at, each) for at, each in enumerate(plain) if each is not None]
    result = arrow_columns.cut(given_)
    assert list(result.offsets) == [at for at, _ in validity]
    assert list(result.timestamps) == [each.timestamp for _, each in validity]
    assert texts(result.keys, len(validity)) == [each.key for _, each in validity]
    assert texts(result.values, len(validity)) == [each.value for _, each in validity]
    headers = [header for _, each in validity for header in each.headers]
    assert texts(result.header_keys, len(headers)) == [key.encode() for key, _ in headers]
    assert texts(result.header_values, len(headers)) == [value for _, value in headers]
    assert list(np.diff(result.lists)) == [len(each.headers) for _, each in validity]
    back = arrow_columns.joined(result)
    one, other = given_.chunk(Compression(NONE), 0), back.chunk(Compression(NONE), 0)
    assert bytes(one.data) == bytes(other.data)
    assert one.segments == other.segments
    assert plain_records(bytes(other.data)) == [each for _, each in validity]


@given(st.binary(max_size=60), st.integers(1, 3))
def test_whatever_bytes_a_record_holds_nothing_outside_of_them_is_read(data: bytes, count: int) -> None:
    """They lie at the end of their memory."""
    edges = np.linspace(0, len(data), count + 1).astype(np.int64)
    columns = np.array([range(count), [NOW] * count, edges[:-1], edges[1:]], np.int64)
    expected = Records(as_bytes(data), columns)
    try:
        result = arrow_columns.cut(expected)
    except arrow_columns.BrokenRecord:
        return
    back = arrow_columns.joined(result)
    assert arrow_columns.cut(back).keys.data.tobytes() == result.keys.data.tobytes()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01",
        b"\x01\x01",
        b"\x01\x01\x02",
        b"\x01\x01\x02\x01\x01",
        b"\x01\x01\x00\x00",
        b"\x04a\x01\x00",
        b"\x03",
    ],
)
def test_a_record_that_does_not_hold_what_it_says_is_named(body: bytes) -> None:
    sound = b"\x01\x01\x00"
    data = as_bytes(sound + body)
    columns = np.array([[5, 6], [NOW] * 2, [0, len(sound)], [len(sound), len(data)]], np.int64)
    with pytest.raises(arrow_columns.BrokenRecord) as caught:
        arrow_columns.cut(Records(data, columns))
    assert caught.value.row == 1


def test_columns_that_do_not_fit_together_are_refused() -> None:
    sound = arrow_columns.cut(records([Plain(NOW, b"key", b"value", (("h", b"1"),))] * 3))
    broken = sound.values._replace(ends=np.array([0, 5, 4, 99], np.int32))
    short = sound.keys._replace(ends=sound.keys.ends[:2])
    for wrong in (
        sound._replace(values=broken),
        sound._replace(keys=short),
        sound._replace(lists=np.array([0, 1, 2, 9], np.int32)),
        sound._replace(lists=np.array([0, 2, 1, 3], np.int32)),
        sound._replace(lists=np.array([0, 1], np.int32)),
        sound._replace(timestamps=sound.timestamps[:1]),
        sound._replace(header_keys=sound.header_keys._replace(validity=np.zeros(1, np.uint8))),
    ):
        with pytest.raises(ValueError, match="column"):
            arrow_columns.joined(wrong)

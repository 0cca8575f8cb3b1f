"""Keys, values and headers of records in columns of their own, laid out as Arrow lays them out.

`cut` copies them out of records (`Records`), `joined` makes records of them again. Bytes are copied once in each
direction; a record that nothing has changed comes back bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.kafka.record.columns import Records
from bridge.kafka.record.loops import IN, Bytes, Numbers, compiled, part, put_varint, varint, width

Ends = NDArray[np.int32]
_KEYS, _VALUES, _HEADERS, _HEADER_KEYS, _HEADER_VALUES = range(5)
_EVERY = np.empty(0, np.uint8)
_TEXT = f"{IN}, Array(int32, 1, 'C', readonly=True), {IN}"
_OUT = "uint8[::1], int32[::1], uint8[::1]"


class Texts(NamedTuple):
    """Byte strings, one after the other in `data`: of row `n` from `ends[n]` to `ends[n + 1]`. `validity`: a bit for
    each row, the lowest first, 0 where it is null; empty when none is."""

    validity: Bytes
    ends: Ends
    data: Bytes

    @classmethod
    def empty(cls, rows: int, size: int) -> Texts:
        """Allocates columns with room for rows of `size` bytes together."""
        validity, ends = np.zeros((rows + 7) // 8, np.uint8), np.zeros(rows + 1, np.int32)
        return cls(validity, ends, np.empty(size, np.uint8))

    def row(self, number: int) -> bytes | None:
        """One of them, by itself."""
        if len(self.validity) and not self.validity[number >> 3] >> (number & 7) & 1:
            return None
        return self.data[self.ends[number] : self.ends[number + 1]].tobytes()

    def holds(self, rows: int) -> bool:
        return len(self.ends) > rows and (not len(self.validity) or len(self.validity) * 8 >= rows)


class Fields(NamedTuple):
    """The fields of as many records as `offsets` has rows. Timestamps in ms, -1 for none. `lists`: the headers of row
    `n` are rows `lists[n]` to `lists[n + 1]` of the header columns."""

    offsets: Numbers
    timestamps: Numbers
    keys: Texts
    values: Texts
    lists: Ends
    header_keys: Texts
    header_values: Texts


class BrokenRecord(ValueError):
    """Key, value and headers do not take the bytes that the record says."""

    def __init__(self, row: int) -> None:
        super().__init__("key, value and headers do not end where the record does")
        self.row = row


def cut(records: Records) -> Fields:
    """Raises BrokenRecord for the first that is none."""
    rows, sizes = records.count, np.zeros(5, np.int64)
    sound = measure(records.data, records.columns, sizes)
    if sound < rows:
        raise BrokenRecord(sound)
    headers = int(sizes[_HEADERS])
    keys, values = Texts.empty(rows, int(sizes[_KEYS])), Texts.empty(rows, int(sizes[_VALUES]))
    header_keys = Texts.empty(headers, int(sizes[_HEADER_KEYS]))
    header_values = Texts.empty(headers, int(sizes[_HEADER_VALUES]))
    lists = np.zeros(rows + 1, np.int32)
    spread(records.data, records.columns, *keys, *values, lists, *header_keys, *header_values)
    offsets, timestamps = (np.ascontiguousarray(column) for column in records.columns[:2])
    return Fields(
        offsets, timestamps, keys, values, lists, header_keys._replace(validity=_EVERY), header_values
    )


def joined(fields: Fields) -> Records:
    """Raises ValueError for columns that do not fit together."""
    rows = len(fields.offsets)
    headers = int(fields.lists[rows]) if len(fields.lists) > rows else -1
    whole = fields.keys.holds(rows) and fields.values.holds(rows) and len(fields.timestamps) == rows
    if (
        not whole
        or headers < 0
        or not (fields.header_keys.holds(headers) and fields.header_values.holds(headers))
    ):
        raise ValueError("columns are not of one length")
    arrays = (*fields.keys, *fields.values, fields.lists, *fields.header_keys, *fields.header_values)
    columns = np.empty((4, rows), np.int64)
    columns[0], columns[1] = fields.offsets, fields.timestamps
    size = measure_joined(*arrays, columns)
    if size < 0:
        raise ValueError("a column does not end where it says")
    data = np.empty(size, np.uint8)
    join(*arrays, columns, data)
    return Records(data, columns)


@part
def _copy(data: Bytes, begin: int, end: int, out: Bytes, at: int) -> int:
    """Copies bytes; returns where the copy ends."""
    piece, room = data[begin:end], out[at : at + end - begin]
    for index in range(len(piece)):
        room[index] = piece[index]
    return at + end - begin


@part
def _text(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Returns where a byte string with its length in front begins and ends: -1 as its end when it does not fit; for
    null it begins behind its end."""
    length, at = varint(data, at, end)
    if at < 0 or length < -1 or length > end - at:
        return 0, -1
    return (at + 1, at) if length < 0 else (at, at + length)


@compiled(f"int64({IN}, int64[:, :], int64[::1])")
def measure(data: Bytes, records: Numbers, sizes: Numbers) -> int:
    """Counts headers, and the bytes that each column takes. Returns how many records are sound, up to the first that is
    not."""
    for row in range(records.shape[1]):
        position, stop = records[2, row], records[3, row]
        for column in range(2):
            begin, end = _text(data, position, stop)
            if end < 0:
                return row
            sizes[column] += max(0, end - begin)
            position = end
        count, position = varint(data, position, stop)
        if position < 0 or count < 0 or count > stop - position:
            return row
        sizes[_HEADERS] += count
        for _ in range(count):
            begin, end = _text(data, position, stop)
            if end < begin:
                return row
            sizes[_HEADER_KEYS] += end - begin
            begin, end = _text(data, end, stop)
            if end < 0:
                return row
            sizes[_HEADER_VALUES] += max(0, end - begin)
            position = end
        if position != stop:
            return row
    return int(records.shape[1])


@part
def _copy_out(data: Bytes, at: int, stop: int, row: int, validity: Bytes, ends: Ends, out: Bytes) -> int:
    """Copies a byte string into its row; answers where it ends in `data`."""
    begin, end = _text(data, at, stop)
    ends[row + 1] = ends[row]
    if begin <= end:
        validity[row >> 3] |= 1 << (row & 7)
        ends[row + 1] = _copy(data, begin, end, out, ends[row])
    return end


@compiled(f"void({IN}, int64[:, :], {_OUT}, {_OUT}, int32[::1], {_OUT}, {_OUT})")
def spread(
    data: Bytes,
    records: Numbers,
    key_validity: Bytes,
    key_ends: Ends,
    keys: Bytes,
    value_validity: Bytes,
    value_ends: Ends,
    values: Bytes,
    lists: Ends,
    header_key_validity: Bytes,
    header_key_ends: Ends,
    header_keys: Bytes,
    header_value_validity: Bytes,
    header_value_ends: Ends,
    header_values: Bytes,
) -> None:
    """Fills columns that are as large as `measure` has found, of records that it has found sound."""
    header = 0
    for row in range(records.shape[1]):
        position, stop = records[2, row], records[3, row]
        position = _copy_out(data, position, stop, row, key_validity, key_ends, keys)
        position = _copy_out(data, position, stop, row, value_validity, value_ends, values)
        count, position = varint(data, position, stop)
        for _ in range(count):
            position = _copy_out(
                data, position, stop, header, header_key_validity, header_key_ends, header_keys
            )
            position = _copy_out(
                data, position, stop, header, header_value_validity, header_value_ends, header_values
            )
            header += 1
        lists[row + 1] = header


@part
def _length(row: int, validity: Bytes, ends: Ends, data: Bytes) -> int:
    """The length of a row: -1 for null, -2 for one that lies outside of `data`."""
    if len(validity) and not validity[row >> 3] >> (row & 7) & 1:
        return -1
    begin, end = int(ends[row]), int(ends[row + 1])
    if begin < 0 or end < begin or end > len(data):
        return -2
    return end - begin


@compiled(f"int64({_TEXT}, {_TEXT}, Array(int32, 1, 'C', readonly=True), {_TEXT}, {_TEXT}, int64[:, ::1])")
def measure_joined(
    key_validity: Bytes,
    key_ends: Ends,
    keys: Bytes,
    value_validity: Bytes,
    value_ends: Ends,
    values: Bytes,
    lists: Ends,
    header_key_validity: Bytes,
    header_key_ends: Ends,
    header_keys: Bytes,
    header_value_validity: Bytes,
    header_value_ends: Ends,
    header_values: Bytes,
    records: Numbers,
) -> int:
    """Writes down where each record will begin and end; answers how many bytes they take, or -1 for columns that do not
    hold what they say."""
    position, most = 0, min(len(header_key_ends), len(header_value_ends)) - 1
    for row in range(records.shape[1]):
        records[2, row] = position
        key, value = (
            _length(row, key_validity, key_ends, keys),
            _length(row, value_validity, value_ends, values),
        )
        first, last = lists[row], lists[row + 1]
        if key < -1 or value < -1 or not 0 <= first <= last <= most:
            return -1
        position += width(key) + max(0, key) + width(value) + max(0, value) + width(last - first)
        for header in range(first, last):
            name = _length(header, header_key_validity, header_key_ends, header_keys)
            content = _length(header, header_value_validity, header_value_ends, header_values)
            if name < 0 or content < -1:
                return -1
            position += width(name) + name + width(content) + max(0, content)
        records[3, row] = position
    return position


@part
def _put_text(row: int, validity: Bytes, ends: Ends, data: Bytes, out: Bytes, at: int) -> int:
    """Writes a row with its length in front; answers where it ends."""
    length = _length(row, validity, ends, data)
    at = put_varint(out, at, length)
    return at if length < 0 else _copy(data, ends[row], ends[row + 1], out, at)


@compiled(
    f"void({_TEXT}, {_TEXT}, Array(int32, 1, 'C', readonly=True), {_TEXT}, {_TEXT}, int64[:, ::1], uint8[::1])"
)
def join(
    key_validity: Bytes,
    key_ends: Ends,
    keys: Bytes,
    value_validity: Bytes,
    value_ends: Ends,
    values: Bytes,
    lists: Ends,
    header_key_validity: Bytes,
    header_key_ends: Ends,
    header_keys: Bytes,
    header_value_validity: Bytes,
    header_value_ends: Ends,
    header_values: Bytes,
    records: Numbers,
    out: Bytes,
) -> None:
    """Writes what `measure_joined` has measured, and found sound."""
    position = 0
    for row in range(records.shape[1]):
        position = _put_text(row, key_validity, key_ends, keys, out, position)
        position = _put_text(row, value_validity, value_ends, values, out, position)
        position = put_varint(out, position, lists[row + 1] - lists[row])
        for header in range(lists[row], lists[row + 1]):
            position = _put_text(header, header_key_validity, header_key_ends, header_keys, out, position)
            position = _put_text(
                header, header_value_validity, header_value_ends, header_values, out, position
            )

"""Hashes of records in compiled loops: of keys, by which a partition is chosen, and of whole records, to compare them.

Kafka's default partitioner for records with a key: murmur2 of the key, as Java's producer has it
(BuiltInPartitioner).

A loop over columns of keys as Arrow lays them out.

Digests of records: 64 bits of key, value and headers as Kafka means them, whatever batch they come in.

Two records that differ have the same digest once in 2^64 pairs; the function is no cryptographic one. It is the same in
every version and on every machine, so that digests of today can be held against those of a year ago.
"""

from __future__ import annotations

import numpy as np

from bridge.kafka.record.arrow_columns import BrokenRecord, Ends, Texts
from bridge.kafka.record.columns import Records
from bridge.kafka.record.loops import IN, Bytes, Numbers, compiled, part, varint, word

OFFSET, TIMESTAMP, DIGEST, KEY, TOMBSTONE = range(5)
"""Rows of what `digested` returns. KEY: the digest of the key, 0 without one. TOMBSTONE: 1 where the value is null."""
ROWS = 5
_SEED, _KEY_SEED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_A, _B = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_HALF, _SHIFT, _BYTE, _NULL = np.uint64(32), np.uint64(33), np.uint64(8), np.uint64(0xFFFFFFFFFFFFFFFF)
NO_KEY = -1
_MURMUR_SEED, _MURMUR_M = 0x9747B28C, 0x5BD1E995
_LOW, _POSITIVE = 0xFFFFFFFF, 0x7FFFFFFF


@part
def _mixed(state: np.uint64, number: np.uint64) -> np.uint64:
    number = (number ^ (number >> _SHIFT)) * _A
    state = (state ^ number ^ (number >> _SHIFT)) * _B
    return state ^ (state >> _SHIFT)


@part
def _bytes(state: np.uint64, data: Bytes, at: int, end: int) -> np.uint64:
    state = _mixed(state, np.uint64(end - at))
    while at + 8 <= end:
        state = _mixed(state, np.uint64(word(data, at)) | np.uint64(word(data, at + 4)) << _HALF)
        at += 8
    if at < end:
        last = np.uint64(0)
        while at < end:
            last = last << _BYTE | np.uint64(data[at])
            at += 1
        state = _mixed(state, last)
    return state


@part
def _text(state: np.uint64, data: Bytes, at: int, end: int) -> tuple[np.uint64, int, int]:
    """The state behind a byte string, where the string ends (-1 when it does not fit), and its length, -1 for null."""
    length, at = varint(data, at, end)
    if at < 0 or length < -1 or length > end - at:
        return state, -1, -1
    if length < 0:
        return _mixed(state, _NULL), at, -1
    return _bytes(state, data, at, at + length), at + length, length


@compiled(f"int64({IN}, int64[:, :], boolean, int64[:, ::1])")
def _digest(data: Bytes, records: Numbers, timed: bool, out: Numbers) -> int:
    """Fills `out`; answers how many records are sound, up to the first that is not."""
    for row in range(records.shape[1]):
        position, stop = records[2, row], records[3, row]
        key, _, length = _text(_KEY_SEED, data, position, stop)
        out[3, row] = 0 if length < 0 else np.int64(key)
        state, position, _ = _text(_SEED, data, position, stop)
        if position < 0:
            return row
        state, position, length = _text(state, data, position, stop)
        if position < 0:
            return row
        out[4, row] = length < 0
        count, position = varint(data, position, stop)
        if position < 0 or count < 0 or count > stop - position:
            return row
        state = _mixed(state, np.uint64(count))
        for _ in range(count):
            state, position, length = _text(state, data, position, stop)
            if position < 0 or length < 0:
                return row
            state, position, _ = _text(state, data, position, stop)
            if position < 0:
                return row
        if position != stop:
            return row
        if timed:
            state = _mixed(state, np.uint64(records[1, row]))
        out[0, row], out[1, row], out[2, row] = records[0, row], records[1, row], np.int64(state)
    return int(records.shape[1])


def digested(records: Records, *, timed: bool) -> Numbers:
    """Rows OFFSET to TOMBSTONE, a column for each record; timestamps in ms, -1 for none. `timed`: the timestamp is part
    of the digest. Raises BrokenRecord for the first record that is none."""
    result = np.empty((ROWS, records.count), np.int64)
    sound = _digest(records.data, records.columns, timed, result)
    if sound < records.count:
        raise BrokenRecord(sound)
    return result


def keyed_partitions(keys: Texts, rows: int, partitions: int) -> Numbers:
    """The partition of each key, in a topic that has so many; NO_KEY where the key is null. Raises ValueError for
    columns that do not end where they say."""
    found = np.empty(rows, np.int64)
    if not keys.holds(rows) or place(*keys, partitions, found) < 0:
        raise ValueError("a column does not end where it says")
    return found


@compiled(f"int64({IN}, Array(int32, 1, 'C', readonly=True), {IN}, int64, int64[::1])")
def place(valid: Bytes, ends: Ends, data: Bytes, partitions: int, out: Numbers) -> int:
    """Fills `out`; answers -1 for a row that lies outside of `data`, else 0."""
    for row in range(len(out)):
        if len(valid) and not valid[row >> 3] >> (row & 7) & 1:
            out[row] = NO_KEY
            continue
        begin, end = int(ends[row]), int(ends[row + 1])
        if begin < 0 or end < begin or end > len(data):
            return -1
        size = end - begin
        # Products of two numbers of 32 bits may be one bit too large for 64: their lower half is right all the same.
        hashed = (_MURMUR_SEED ^ size) & _LOW
        position = begin
        while position + 4 <= end:
            word = (
                int(data[position])
                | int(data[position + 1]) << 8
                | int(data[position + 2]) << 16
                | int(data[position + 3]) << 24
            )
            word = word * _MURMUR_M & _LOW
            word = (word ^ word >> 24) * _MURMUR_M & _LOW
            hashed = hashed * _MURMUR_M & _LOW ^ word
            position += 4
        if position < end:
            for step in range(end - position - 1, -1, -1):
                hashed ^= int(data[position + step]) << 8 * step
            hashed = hashed * _MURMUR_M & _LOW
        hashed = (hashed ^ hashed >> 13) * _MURMUR_M & _LOW
        out[row] = ((hashed ^ hashed >> 15) & _POSITIVE) % partitions
    return 0

"""Kafka's default partitioner for records with a key: murmur2 of the key, as Java's producer has it
(BuiltInPartitioner).

A loop over columns of keys as Arrow lays them out.
"""

from __future__ import annotations

import numpy as np

from bridge.kafka.record.arrow_columns import Ends, Texts
from bridge.kafka.record.jit import IN, Bytes, Numbers, compiled

NO_KEY = -1
_SEED, _M = 0x9747B28C, 0x5BD1E995
_LOW, _POSITIVE = 0xFFFFFFFF, 0x7FFFFFFF


def keyed_partitions(keys: Texts, rows: int, partitions: int) -> Numbers:
    """The partition of each key, in a topic that has so many; NO_KEY where the key is null. Raises ValueError for
    columns that do not end where they say."""
    found = np.empty(rows, np.int64)
    if not keys.holds(rows) or place(*keys, partitions, found) < 0:
        raise ValueError("a column does not end where it says")
    return found


@compiled(f"int64({IN}, Array(int32, 1, 'C', readonly=True), {IN}, int64, int64[::1])")
def place(there: Bytes, ends: Ends, data: Bytes, partitions: int, out: Numbers) -> int:
    """Fills `out`; answers -1 for a row that lies outside of `data`, else 0."""
    for row in range(len(out)):
        if len(there) and not there[row >> 3] >> (row & 7) & 1:
            out[row] = NO_KEY
            continue
        begin, end = int(ends[row]), int(ends[row + 1])
        if begin < 0 or end < begin or end > len(data):
            return -1
        size = end - begin
        # Products of two numbers of 32 bits may be one bit too large for 64: their lower half is right all the same.
        hashed = (_SEED ^ size) & _LOW
        at = begin
        while at + 4 <= end:
            word = int(data[at]) | int(data[at + 1]) << 8 | int(data[at + 2]) << 16 | int(data[at + 3]) << 24
            word = word * _M & _LOW
            word = (word ^ word >> 24) * _M & _LOW
            hashed = hashed * _M & _LOW ^ word
            at += 4
        if at < end:
            for step in range(end - at - 1, -1, -1):
                hashed ^= int(data[at + step]) << 8 * step
            hashed = hashed * _M & _LOW
        hashed = (hashed ^ hashed >> 13) * _M & _LOW
        out[row] = ((hashed ^ hashed >> 15) & _POSITIVE) % partitions
    return 0

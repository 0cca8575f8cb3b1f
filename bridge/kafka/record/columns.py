"""Cuts records out of batches, into columns, and makes batches of them again.

A record is cut at its key and copied from there on, so that key, value and headers stay bit for bit; only its length,
timestamp delta and offset delta are written again. The library's own builder would not do: it reads header keys as
UTF-8, and takes a first timestamp of -1 for none (aiokafka 0.14).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from aiokafka.record.util import encode_varint

from bridge.kafka.protocol.wire import BytesLike
from bridge.kafka.record import loops
from bridge.kafka.record.batch import APPEND_TIME, CODEC, HEADER_SIZE, Chunk, RawBatch, headed
from bridge.kafka.record.compression import (
    LZ4,
    LZ4_FLAGS_AT,
    LZ4_RATIO,
    LZ4_SIZE,
    Compression,
    decoded,
    lz4_frame,
)
from bridge.kafka.record.decoding import messages
from bridge.kafka.record.loops import Bytes, Numbers, as_bytes
from bridge.model.copying import BYTES_A_RECORD, MOST_BYTES, Overlarge, limit

_OVERHEAD = 8
"""Bytes of a record in a batch beside key, value and headers, about."""
_MOST_OVERHEAD = 21
"""The most: length, attributes, timestamp delta and offset delta."""
_LEGACY_PART = 4
"""Of the most bytes, for messages that are read one by one."""
_NO_HEADER = bytes(HEADER_SIZE)
_WRONG = {
    loops.CUT_SHORT: "a record does not end where it says",
    loops.BYTES_LEFT: "bytes are left behind its records",
    loops.OTHER_OFFSETS: "its records have other offsets than it says",
}


@dataclass(frozen=True, slots=True)
class Records:
    """Decoded records, as columns. `columns`: offset, timestamp in ms, and where in `data` key, value and headers begin
    and end; one record each."""

    data: Bytes
    columns: Numbers

    @property
    def count(self) -> int:
        return len(self.columns[0])

    @property
    def first(self) -> int:
        """Its offset."""
        return int(self.columns[0, 0])

    @property
    def last(self) -> int:
        """Its offset."""
        return int(self.columns[0, -1])

    @classmethod
    def from_batch(cls, batch: RawBatch, most: int = MOST_BYTES) -> Self:
        """At least one. Raises what the codecs do, Overlarge for more than `most` bytes, and ValueError for what is no
        record."""
        data, columns = _legacy(batch, most) if batch.magic < 2 else split(batch, most)
        if not len(columns[0]):
            raise ValueError("it has no records")
        return cls(data, columns)

    @classmethod
    def together(cls, several: Sequence[Records]) -> Self:
        """At least one."""
        if len(several) == 1:
            return cls(several[0].data, several[0].columns)
        columns = np.concatenate([records.columns for records in several], axis=1)
        row = shift = 0
        for records in several:
            columns[2:, row : row + records.count] += shift
            row, shift = row + records.count, shift + len(records.data)
        return cls(np.concatenate([records.data for records in several]), columns)

    @property
    def size(self) -> int:
        """Bytes of their keys, values and headers."""
        return int((self.columns[3] - self.columns[2]).sum())

    @property
    def max_stored_size(self) -> int:
        """Bytes of a batch of them without compression, at most."""
        return HEADER_SIZE + self.size + _MOST_OVERHEAD * self.count

    def since(self, offset: int) -> Self:
        """The records from `offset` on; perhaps none."""
        if not self.count or self.first >= offset:
            return self
        return replace(self, columns=self.columns[:, self.columns[0] >= offset])

    def halves(self) -> tuple[Self, Self]:
        middle = self.count // 2
        return (
            replace(self, columns=self.columns[:, :middle]),
            replace(self, columns=self.columns[:, middle:]),
        )

    def parts(self, size: int) -> Iterator[Self]:
        """Splits them, in order, into parts of about so many bytes at most, or a single record."""
        ends = np.cumsum(self.columns[3] - self.columns[2] + _OVERHEAD)
        begin, before = 0, 0
        while begin < self.count:
            end = max(begin + 1, int(np.searchsorted(ends, before + size, "right")))
            yield self if end - begin == self.count else replace(self, columns=self.columns[:, begin:end])
            begin, before = end, int(ends[end - 1])

    def numbered(self, segments: Iterable[tuple[int, int]]) -> Self:
        """Gives them the offsets of these (first, count) instead of their own."""
        columns = self.columns.copy()
        columns[0] = np.concatenate([np.arange(first, first + count) for first, count in segments])
        return replace(self, columns=columns)

    def chunk(self, compression: Compression, leader_epoch: int) -> Chunk:
        """Makes one batch of them all."""
        codec = compression.codec
        timestamps = self.columns[1]
        begin = 0 if codec else HEADER_SIZE
        room = np.empty(begin + loops.put_size(self.columns), np.uint8)
        loops.put(self.data, self.columns, room, begin)
        data = bytearray().join((_NO_HEADER, compression.encode(room.tobytes()))) if codec else room.data
        headed(data, codec, self.count, int(timestamps[0]), int(timestamps.max()))
        return Chunk(data, self.count, self._segments(), int(timestamps[-1]), leader_epoch)

    def _segments(self) -> tuple[tuple[int, int], ...]:
        offsets = self.columns[0]
        first = self.first
        if int(offsets[-1]) - first + 1 == self.count:
            return ((first, self.count),)
        starts = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist()]
        return tuple(
            (int(offsets[start]), end - start)
            for start, end in zip(starts, [*starts[1:], self.count], strict=True)
        )


def split(batch: RawBatch, most: int) -> tuple[Bytes, Numbers]:
    append = bool(batch.attributes & APPEND_TIME)
    if batch.heads is None:
        time = batch.max_timestamp if append else batch.first_timestamp
        row = (HEADER_SIZE, len(batch.data), -1, batch.count, batch.base_offset, time, batch.last_offset)
        heads = np.array([row], np.int64)
    else:
        heads = batch.heads
    count = int(heads[:, loops.COUNT].sum())
    if count > most // BYTES_A_RECORD:
        raise Overlarge(most)
    data = as_bytes(batch.data)
    if codec := batch.attributes & CODEC:
        heads = heads.copy()
        data = _decoded(codec, batch.data, heads, limit(len(batch.data), most))
    if count > len(data) // loops.LEAST:
        raise ValueError(_WRONG[loops.CUT_SHORT])
    columns = np.empty((4, count), np.int64)
    result = loops.cut(data, heads, append, columns)
    if result < 0:
        raise ValueError(_WRONG[result])
    return data, columns


def _decoded(codec: int, data: memoryview, heads: Numbers, room: int) -> Bytes:
    """Decodes the records of all batches, one after the other, and `heads` with where each batch's are in that instead.
    Raises Overlarge for more than `room` bytes."""
    bounds = heads[:, : loops.END + 1]
    if codec == LZ4 and LZ4_RATIO * len(data) <= room and not _any_states_its_size(as_bytes(data), bounds):
        # They hold no more than there is room for, and state nothing that would be allocated: as fast as it goes.
        pieces: Sequence[BytesLike] = [lz4_frame(data[at:end]) for at, end in bounds.tolist()]
    else:
        pieces = _decoded_each(codec, data, bounds, room)
    bounds[:, loops.END] = np.cumsum([len(piece) for piece in pieces])
    bounds[0, loops.AT], bounds[1:, loops.AT] = 0, bounds[:-1, loops.END]
    return as_bytes(b"".join(pieces))


def _any_states_its_size(data: Bytes, bounds: Numbers) -> bool:
    """Whether one of the LZ4 frames says how large its content is."""
    flags = data.take(bounds[:, loops.AT] + LZ4_FLAGS_AT, mode="clip")
    return bool((flags & LZ4_SIZE).any())


def _decoded_each(codec: int, data: memoryview, bounds: Numbers, room: int) -> list[BytesLike]:
    pieces = list[BytesLike]()
    for at, end in bounds.tolist():
        pieces.append(decoded(codec, data[at:end], room))
        room -= len(pieces[-1])
    return pieces


def _legacy(batch: RawBatch, most: int) -> tuple[Bytes, Numbers]:
    """Reads messages: without headers; before 0.10 without a timestamp."""
    rows, data = list[tuple[int, int, int, int]](), bytearray()
    for record in messages(batch.data, most // _LEGACY_PART):
        begin = len(data)
        for part in (record.key, record.value):
            encode_varint(-1 if part is None else len(part), data.append)
            data += part or b""
        data.append(0)
        rows.append((record.offset, record.timestamp, begin, len(data)))
    return as_bytes(data), np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, 4).T)

"""Reads what is to be copied of a fetch: the batches that hold data, neighbours among them as one batch.

Verifies CRC-32C of batches side by side, all in one call of the library: for batches of a record a call of it for
each costs more than its bytes.

The checksum of two pieces in a row follows from those of both (as in zlib's crc32_combine): the first one's, moved on
by the length of the second, xor the second one's. So what the batches say, and the few bytes between what they say it
of, tell what the checksum of all of it is, if nothing is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from bridge.kafka.protocol.wire import BytesLike
from bridge.kafka.record import loops
from bridge.kafka.record.batch import (
    APPEND_TIME,
    CHECKED_FROM,
    CODEC,
    HEADER_SIZE,
    TRANSACTIONAL,
    CorruptBatch,
    DataFilter,
    RawBatch,
    batch_at,
)
from bridge.kafka.record.loops import AT, CRC, END, IN, Bytes, Numbers, as_bytes, compiled, part, word
from bridge.kafka.record.rebuilding import BatchPolicy

_FROM = HEADER_SIZE - CHECKED_FROM
"""How far before a batch's records begins what its checksum is of."""
_LENGTHS = 31
"""Bits of a length."""
_LEAST = HEADER_SIZE + loops.LEAST
"""Bytes of a batch with a record."""


def undamaged(data: memoryview, heads: Numbers) -> int:
    """Rows of `heads` (see loops: batches side by side from the beginning of `data`) before the first one with a
    wrong checksum."""
    if not len(heads) or crc32c(data[: int(heads[-1, END])]) == joint(as_bytes(data), heads):
        return len(heads)
    rows: list[list[int]] = heads[:, : CRC + 1].tolist()
    return next(
        (
            row
            for row, (position, end, stated) in enumerate(rows)
            if crc32c(data[position - _FROM : end]) != stated
        ),
        len(rows),
    )


def _table() -> NDArray[np.uint32]:
    """Eight bytes at a time: row k is for a byte with k more behind it."""
    table = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table[0, byte] = crc
    for row in range(1, 8):
        table[row] = table[0, table[row - 1] & 0xFF] ^ table[row - 1] >> np.uint32(8)
    return table


_CRC = _table()


def _moves() -> NDArray[np.uint32]:
    """Returns tables that move a checksum by 2 to the power of the row bytes, by 0 to 255 in each of the four bytes of
    a checksum."""
    moves = np.zeros((_LENGTHS, 4, 256), np.uint32)
    bytes_ = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    moves[0] = _CRC[0, bytes_ & 0xFF] ^ bytes_ >> np.uint32(8)
    for row in range(1, _LENGTHS):
        once = moves[row - 1]
        moves[row] = (
            once[0, once & 0xFF]
            ^ once[1, once >> 8 & 0xFF]
            ^ once[2, once >> 16 & 0xFF]
            ^ once[3, once >> 24]
        )
    return moves


_MOVES = _moves()


@compiled(f"uint32({IN}, int64, int64)")
def crc(data: Bytes, at: int, end: int) -> np.uint32:
    """CRC-32C of the bytes from `at` to `end`."""
    crc_so_far, byte = np.uint32(0xFFFFFFFF), np.uint32(0xFF)
    while at + 8 <= end:
        low, high = crc_so_far ^ word(data, at), word(data, at + 4)
        crc_so_far = _CRC[7, low & byte] ^ _CRC[6, low >> np.uint32(8) & byte]
        crc_so_far ^= _CRC[5, low >> np.uint32(16) & byte] ^ _CRC[4, low >> np.uint32(24)]
        crc_so_far ^= _CRC[3, high & byte] ^ _CRC[2, high >> np.uint32(8) & byte]
        crc_so_far ^= _CRC[1, high >> np.uint32(16) & byte] ^ _CRC[0, high >> np.uint32(24)]
        at += 8
    while at < end:
        crc_so_far = _CRC[0, (crc_so_far ^ np.uint32(data[at])) & byte] ^ crc_so_far >> np.uint32(8)
        at += 1
    return np.uint32(crc_so_far ^ np.uint32(0xFFFFFFFF))


@part
def _moved(crc_so_far: np.uint32, length: int) -> np.uint32:
    """Moves a checksum on by so many zero bytes, before those that come are counted."""
    row, byte = 0, np.uint32(0xFF)
    while length:
        if length & 1:
            low = _MOVES[row, 0, crc_so_far & byte] ^ _MOVES[row, 1, crc_so_far >> np.uint32(8) & byte]
            crc_so_far = (
                low
                ^ _MOVES[row, 2, crc_so_far >> np.uint32(16) & byte]
                ^ _MOVES[row, 3, crc_so_far >> np.uint32(24)]
            )
        length, row = length >> 1, row + 1
    return crc_so_far


@compiled(f"uint32({IN}, int64[:, ::1])")
def joint(data: Bytes, heads: Numbers) -> np.uint32:
    """The checksum of all from the beginning of `data` to the end of the last batch, by what each batch says of
    itself."""
    crc_so_far, behind = np.uint32(0), 0
    for row in range(len(heads)):
        begin, end = heads[row, AT] - _FROM, heads[row, END]
        crc_so_far = _moved(crc_so_far, begin - behind) ^ crc(data, behind, begin)
        crc_so_far = _moved(crc_so_far, end - begin) ^ np.uint32(heads[row, CRC])
        behind = end
    return crc_so_far


class DataBatches(NamedTuple):
    """The data of one fetch. `next_offset`: past the last complete batch, control and aborted ones too; the fetch's
    own offset when there is none. `leader_epoch`: of that batch, -1 for none or unknown. `incomplete`: bytes have
    come, and no complete batch among them: ask for more."""

    batches: list[RawBatch]
    next_offset: int
    leader_epoch: int
    incomplete: bool

    @classmethod
    def committed(
        cls,
        data: BytesLike,
        offset: int,
        aborted: Sequence[tuple[int, int]] | None,
        policy: BatchPolicy | None = None,
        *,
        until_damage: bool = False,
    ) -> DataBatches:
        """Reads what is to be copied of a fetch at `offset`: batches that hold data at or after it. `aborted` is None
        where data of open and aborted transactions is copied too. `policy`: which neighbours are coalesced, None for
        none. Raises CorruptBatch; with `until_damage` only where the first batch is damaged, and ends before another
        one."""
        batches: list[RawBatch] = []
        following, epoch, position, end = offset, -1, 0, 0
        before = following, epoch, position, 0
        data_filter = DataFilter(aborted or ())
        # Where transactions were aborted, each batch is looked at by itself.
        others = ~(CODEC | APPEND_TIME | (0 if aborted else TRANSACTIONAL))
        sizes = policy.with_room if policy is not None else ()
        view = memoryview(data)
        try:
            while (batch := batch_at(view, position, checked=True)) is not None:
                if (
                    policy is not None
                    and not batch.attributes & others
                    and batch.magic == 2
                    and len(batch.data) <= sizes[batch.attributes & CODEC]
                ):
                    batch = neighbours(view, position, batch, policy) or batch
                if until_damage and batch.last_offset < offset:
                    raise CorruptBatch(batch.base_offset)
                if batch.base_offset < end:
                    raise _Overlap(batch.base_offset)
                is_data = data_filter.is_data(batch)
                before = following, epoch, position, len(batches)
                position, end = position + len(batch.data), batch.last_offset + 1
                if batch.last_offset >= following:
                    following = batch.last_offset + 1
                epoch = batch.leader_epoch
                # A batch without records is what compaction keeps of a producer's last sequence.
                if is_data and batch.count and batch.last_offset >= offset:
                    batches.append(batch)
        except _Overlap:
            if (
                until_damage and policy is not None
            ):  # which batch it is shows where none is joined with others
                return cls.committed(data, offset, aborted, until_damage=True)
            if not until_damage:
                raise
            # The base offset of the one before may be what is wrong, since no checksum has it; but not of the one that
            # the broker has found for this offset.
            if not (len(batches) == 1 and batches[0].base_offset <= offset):
                following, epoch, position, kept = before
                if not position:
                    raise
                del batches[kept:]
        except CorruptBatch:
            if not (until_damage and position):
                raise
        return cls(batches, following, epoch, bool(data) and not position)


class _Overlap(CorruptBatch):
    """A batch begins before the one in front of it ends."""


def neighbours(view: memoryview, start: int, first: RawBatch, policy: BatchPolicy) -> RawBatch | None:
    """The batch at `start`, which is `first`, and those behind it that are of its kind, as one; None when there are
    none. What is damaged is not among them."""
    room = min(policy.room, len(view) - start)
    heads = np.empty((room // _LEAST, loops.COLUMNS), np.int64)
    append = bool(first.attributes & APPEND_TIME)
    data = view[start : start + room]
    largest = policy.coalesced[first.attributes & CODEC]
    rows = loops.walk(as_bytes(data), largest, first.attributes, first.leader_epoch, append, heads)
    heads = heads[: undamaged(data, heads[:rows])]
    if len(heads) < 2:
        return None
    return replace(
        first,
        last_offset=int(heads[-1, loops.LAST]),
        count=int(heads[:, loops.COUNT].sum()),
        data=data[: int(heads[-1, loops.END])],
        heads=heads,
    )

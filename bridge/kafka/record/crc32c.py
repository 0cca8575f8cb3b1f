"""Verifies CRC-32C of batches side by side, all in one call of the library: for batches of a record a call of it for
each costs more than its bytes.

The checksum of two pieces in a row follows from those of both (as in zlib's crc32_combine): the first one's, moved on
by the length of the second, xor the second one's. So what the batches say, and the few bytes between what they say it
of, tell what the checksum of all of it is, if nothing is damaged.
"""

from __future__ import annotations

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from bridge.kafka.record.batch import CHECKED_FROM, HEADER_SIZE
from bridge.kafka.record.jit import IN, Bytes, Numbers, as_bytes, compiled, part, word
from bridge.kafka.record.loops import AT, CRC, END

_FROM = HEADER_SIZE - CHECKED_FROM
"""How far before a batch's records begins what its checksum is of."""
_LENGTHS = 31
"""Bits of a length."""


def undamaged(data: memoryview, heads: Numbers) -> int:
    """Rows of `heads` (see loops: batches side by side from the beginning of `data`) before the first one with a
    wrong checksum."""
    if not len(heads) or crc32c(data[: int(heads[-1, END])]) == joint(as_bytes(data), heads):
        return len(heads)
    rows: list[list[int]] = heads[:, : CRC + 1].tolist()
    return next(
        (row for row, (at, end, stated) in enumerate(rows) if crc32c(data[at - _FROM : end]) != stated),
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

"""LZ4 frames of many small batches, decoded in one call: of a record, a call of the library costs more than its bytes.

The formats are the LZ4 project's (Frame 1.6, Block, XXH32). What is not plain, whatever is wrong with it, is left to
the library, which has the words for it. Nothing is read or written outside the given arrays, whatever bytes they hold.
"""

from __future__ import annotations

import numpy as np

from bridge.kafka.record.jit import IN, WIDE, Bytes, Numbers, compiled, copy_wide, part, word

SHORT = 2048
"""Bytes of a frame and a batch's header, on average: longer ones the library decodes as fast."""
EXPANDED = 8
"""How many times as large as the frames their content may be here."""
_MAGIC = 0x184D2204
_VERSION, _RESERVED_AND_DICTIONARY = 0x40, 0xC3
_INDEPENDENT, _BLOCK_CHECKSUMS, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
"""Flags of a frame."""
_STORED, _SIZE = 31, 0x7FFFFFFF
"""Of a block's size: the bit that says it is not compressed, and the rest."""
_LEAST_MATCH, _LONGER = 4, 15
_NO = -1
_P1, _P2, _P3, _P4, _P5 = (
    np.uint32(prime) for prime in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
)


def plain(data: Bytes, places: Numbers) -> Bytes | None:
    """What the frames that begin and end at `places` contain, one after the other, and `places` with where each begins
    and ends in that instead; None, and `places` as they were, when one of them is not plain, or they are long."""
    if len(data) > SHORT * len(places):
        return None
    found, out = places.copy(), np.empty(EXPANDED * len(data) + WIDE, np.uint8)
    end = expand(data, found, out)
    if end < 0:
        return None
    places[:] = found
    return out[:end]


@part
def _byte(data: Bytes, at: int) -> int:
    # As it is, numba would have its int unsigned, and the sum of that and a signed one a float.
    return int(np.int64(data[at]))


@part
def _turned(value: np.uint32, bits: int) -> np.uint32:
    return np.uint32(value << np.uint32(bits)) | value >> np.uint32(32 - bits)


@part
def _mixed(lane: np.uint32, more: np.uint32) -> np.uint32:
    return np.uint32(_turned(np.uint32(lane + np.uint32(more * _P2)), 13) * _P1)


@part
def _last_mixed(value: np.uint32, bits: int, prime: np.uint32) -> np.uint32:
    return np.uint32((value ^ value >> np.uint32(bits)) * prime)


@compiled(f"uint32({IN}, int64, int64)")
def xxh32(data: Bytes, at: int, end: int) -> np.uint32:
    """Of what lies between, seed 0."""
    found, size = _P5, np.uint32(end - at)
    if size >= 16:
        one, two, three, four = np.uint32(_P1 + _P2), _P2, np.uint32(0), np.uint32(~_P1 + np.uint32(1))
        while end - at >= 16:
            one, two = _mixed(one, word(data, at)), _mixed(two, word(data, at + 4))
            three, four = _mixed(three, word(data, at + 8)), _mixed(four, word(data, at + 12))
            at += 16
        found = np.uint32(_turned(one, 1) + _turned(two, 7) + _turned(three, 12) + _turned(four, 18))
    found = np.uint32(found + size)
    while end - at >= 4:
        found = np.uint32(_turned(np.uint32(found + np.uint32(word(data, at) * _P3)), 17) * _P4)
        at += 4
    while at < end:
        found = np.uint32(_turned(np.uint32(found + np.uint32(np.uint32(data[at]) * _P5)), 11) * _P1)
        at += 1
    return _last_mixed(_last_mixed(_last_mixed(found, 15, _P2), 13, _P3), 16, np.uint32(1))


@part
def _copy(data: Bytes, at: int, size: int, out: Bytes, put: int) -> None:
    """More than asked for, where there is room: what comes next is written over it."""
    if at + size + WIDE <= len(data) and put + size + WIDE <= len(out):
        copy_wide(data, at, out, put)
        for done in range(WIDE, size, WIDE):
            copy_wide(data, at + done, out, put + done)
    else:
        for done in range(size):
            out[put + done] = data[at + done]


@part
def _size(data: Bytes, at: int, end: int, size: int) -> tuple[int, int]:
    """Of literals or a match, from its four bits and the bytes behind them, and where these end; _NO for cut short."""
    if size < _LONGER:
        return size, at
    while at < end:
        more = _byte(data, at)
        at, size = at + 1, size + more
        if more < 255:
            return size, at
    return 0, _NO


@part
def _block(data: Bytes, at: int, end: int, out: Bytes, window: int, put: int) -> int:
    """Where its content ends, which begins at `put` and refers back as far as `window`."""
    while at < end:
        token = _byte(data, at)
        size, at = _size(data, at + 1, end, token >> 4)
        if at < 0 or size > end - at or size > len(out) - put:
            return _NO
        _copy(data, at, size, out, put)
        at, put = at + size, put + size
        if at == end:
            return put
        if end - at < 2:
            return _NO
        back = _byte(data, at) | _byte(data, at + 1) << 8
        size, at = _size(data, at + 2, end, token & 15)
        size += _LEAST_MATCH
        if at < 0 or back < 1 or back > put - window or size > len(out) - put:
            return _NO
        if back >= WIDE:
            _copy(out, put - back, size, out, put)
        else:  # it repeats what it writes
            for place in range(put, put + size):
                out[place] = out[place - back]
        put += size
    return _NO


@part
def _header(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Flags, the most bytes that a block's content may have, and where the header ends."""
    head = at + 4
    if end - at < 7 or word(data, at) != np.uint32(_MAGIC):
        return 0, 0, _NO
    flags, kind = _byte(data, head), _byte(data, head + 1)
    if flags & _RESERVED_AND_DICTIONARY != _VERSION or kind & 0x8F or kind < 0x40:
        return 0, 0, _NO
    at = head + (10 if flags & _CONTENT_SIZE else 2)
    if at >= end or int(np.int64(xxh32(data, head, at))) >> 8 & 0xFF != _byte(data, at):
        return 0, 0, _NO
    return flags, 1 << 8 + 2 * (kind >> 4), at + 1


@part
def _frame(data: Bytes, start: int, end: int, out: Bytes, begin: int) -> int:
    """Where its content ends, which begins at `begin`."""
    flags, largest, at = _header(data, start, end)
    check, put = 4 if flags & _BLOCK_CHECKSUMS else 0, begin
    while at >= 0:
        if end - at < 4:
            return _NO
        said = int(np.int64(word(data, at)))
        at += 4
        if said == 0:
            break
        size, before = said & _SIZE, put
        stop = at + size
        if size > largest or size > end - at - check:
            return _NO
        if check and xxh32(data, at, stop) != word(data, stop):
            return _NO
        if not said >> _STORED:
            put = _block(data, at, stop, out, put if flags & _INDEPENDENT else begin, put)
            if put < 0 or put - before > largest:
                return _NO
        elif size > len(out) - put:
            return _NO
        else:
            _copy(data, at, size, out, put)
            put += size
        at = stop + check
    if flags & _CONTENT_CHECKSUM:
        if end - at < 4 or xxh32(out, begin, put) != word(data, at):
            return _NO
        at += 4
    if flags & _CONTENT_SIZE:
        length = np.int64(word(data, start + 6)) | np.int64(word(data, start + 10)) << 32
        if length != put - begin:
            return _NO
    return put if at == end else _NO


@compiled(f"int64({IN}, int64[:, ::1], uint8[::1])")
def expand(data: Bytes, places: Numbers, out: Bytes) -> int:
    """Frames that begin and end at `places`, which become those of their content in `out`. Answers where the last one
    ends; _NO when one is not plain or `out` has no room for it."""
    put = 0
    for row in range(len(places)):
        end = _frame(data, places[row, 0], places[row, 1], out, put)
        if end < 0:
            return _NO
        places[row, 0], places[row, 1] = put, end
        put = end
    return put

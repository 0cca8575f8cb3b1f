"""Loops over batches and records, compiled: what is done for each record is what batches of a few of them cost.

Nothing is read or written outside the given arrays, whatever bytes they hold. Sizes and positions are in bytes.

Compiles loops over bytes with numba, and holds the operations that the loops share.

Machine code is made when the module that has a loop is first imported (some seconds), and kept beside it, or in
NUMBA_CACHE_DIR, for the imports after it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from bridge.kafka.protocol.wire import BytesLike
from bridge.kafka.record.batch import HEADER_SIZE

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
IN = "Array(uint8, 1, 'C', readonly=True)"
"""In a signature: bytes that are only read."""
WIDE = 16
"""Bytes that `copy_wide` copies."""
_F = TypeVar("_F", bound=Callable[..., Any])
AT, END, CRC, COUNT, BASE, TIME, LAST = range(7)
"""Columns of heads, a row for each batch: where its records begin and end, its checksum, how many records, offset and
timestamp of the first, offset of the last."""
COLUMNS = 7
LEAST = 7
"""Bytes of a record without key, value and headers."""
_POSITIVE, _WITHOUT_7 = (1 << 63) - 1, (1 << 57) - 1
"""Bits of a number that was shifted right by 1 and by 7, which would repeat its sign."""
CUT_SHORT, BYTES_LEFT, OTHER_OFFSETS = -1, -2, -3
"""What `cut` answers for a record that does not end where it says, for bytes behind the last one, and for records that
do not follow each other from the batch's first offset to its last."""


def as_bytes(data: BytesLike) -> Bytes:
    """The bytes as an array over the same memory: nothing is copied."""
    return np.frombuffer(data, np.uint8)


def compiled(signature: str) -> Callable[[_F], _F]:
    """Compiles a function when its module is imported, and caches the machine code where that can be written."""

    def decorate(function: _F) -> _F:
        try:
            return cast(_F, njit(signature, cache=True)(function))
        except RuntimeError:  # numba finds no place that it may write a cache to
            return cast(_F, njit(signature)(function))

    return decorate


def part(function: _F) -> _F:
    """Compiles a function as part of each loop that calls it."""
    return cast(_F, njit(function))


def _pointer(context: Any, builder: Any, array: Any, value: Any, index: Any, kind: Any) -> Any:
    """Points to the element at an index of an array."""
    begin = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(begin, [index]), kind.as_pointer())


def _word(_context: Any, data: Any, at: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(32))
        loaded = builder.load(pointer, align=1)
        return builder.bswap(loaded) if sys.byteorder == "big" else loaded

    return types.uint32(data, at), generate


def _copy_wide(_context: Any, data: Any, at: Any, out: Any, put: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), WIDE)
        source = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], kind)
        target = _pointer(context, builder, signature.args[2], arguments[2], arguments[3], kind)
        builder.store(builder.load(source, align=1), target, align=1)
        return context.get_dummy_value()

    return types.void(data, at, out, put), generate


def _plain(_context: Any, data: Any, at: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), WIDE)
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], kind)
        loaded = builder.load(pointer, align=1)

        def all_of(byte: int) -> Any:
            return ir.Constant(kind, [byte] * WIDE)

        odd = builder.or_(
            builder.or_(
                builder.icmp_unsigned("==", loaded, all_of(0x22)),
                builder.icmp_unsigned("==", loaded, all_of(0x5C)),
            ),
            builder.icmp_unsigned("<", loaded, all_of(0x20)),
        )
        bits = builder.bitcast(odd, ir.IntType(WIDE))
        return builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(WIDE), 0))

    return types.boolean(data, at), generate


# Each is one load, and one store at most; a loop over single bytes is several times as slow. Nothing is checked: the
# caller makes sure that the arrays are long enough.
word = cast(Callable[[Bytes, int], np.uint32], intrinsic(_word))
"""Four bytes, the lowest first."""


plain = cast(Callable[[Bytes, int], bool], intrinsic(_plain))
"""Whether WIDE bytes have neither quotes nor backslashes nor control characters."""


copy_wide = cast(Callable[[Bytes, int, Bytes, int], None], intrinsic(_copy_wide))
"""WIDE bytes of one array to another, or further on in the same one, where they may not overlap."""


@part
def _number(data: Bytes, at: int, size: int) -> int:
    """Reads a number of a header, of `size` bytes with the first one's sign."""
    value = int(np.int8(data[at]))
    for step in range(1, size):
        value = value << 8 | int(data[at + step])
    return value


@part
def varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends: -1 for one that is longer than ten bytes, or than what there is."""
    value = shift = 0
    while at < end and shift < 70:
        byte = int(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 & _POSITIVE ^ -(value & 1), at
        shift += 7
    return 0, -1


@compiled(f"int64({IN}, int64, int64, int64, boolean, int64[:, ::1])")
def walk(data: Bytes, large: int, flags: int, epoch: int, append: bool, heads: Numbers) -> int:
    """Batches side by side, whole ones from the beginning on, of these flags and this leader epoch, of `large` bytes
    each at most. Fills `heads`; answers how many. Checks no checksum. `append`: a batch's timestamp is the greatest,
    for all its records."""
    position = row = 0
    while row < len(heads) and position + HEADER_SIZE <= len(data):
        size = _number(data, position + 8, 4) + 12
        if size < HEADER_SIZE or size > large or size > len(data) - position or data[position + 16] != 2:
            break
        if _number(data, position + 21, 2) != flags or _number(data, position + 12, 4) != epoch:
            break
        count, base = _number(data, position + 57, 4), _number(data, position, 8)
        last = base + _number(data, position + 23, 4)
        if count < 1 or last < base or (row and base <= heads[row - 1, LAST]):
            break
        heads[row, AT], heads[row, END] = position + HEADER_SIZE, position + size
        heads[row, CRC] = _number(data, position + 17, 4) & 0xFFFFFFFF
        heads[row, COUNT] = count
        heads[row, BASE], heads[row, TIME] = base, _number(data, position + (35 if append else 27), 8)
        heads[row, LAST] = last
        position, row = position + size, row + 1
    return row


@compiled(f"int64({IN}, int64[:, ::1], boolean, int64[:, ::1])")
def cut(data: Bytes, heads: Numbers, append: bool, records: Numbers) -> int:
    """Cuts the records out of uncompressed batches, as the rows of `records` (see columns.Records), which is as long as
    there are records. Answers the number of batches, or what is wrong: CUT_SHORT, BYTES_LEFT or OTHER_OFFSETS."""
    row = 0
    for number in range(len(heads)):
        position, end = heads[number, AT], heads[number, END]
        before, last = -1, heads[number, LAST] - heads[number, BASE]
        for _ in range(heads[number, COUNT]):
            length, position = varint(data, position, end)
            stop = position + length
            if position < 0 or length < 1 or length > end - position or row >= records.shape[1]:
                return CUT_SHORT
            delta, position = varint(
                data, position + 1, stop
            )  # behind the record's attributes, which are unused
            if position < 0:
                return CUT_SHORT
            offset, position = varint(data, position, stop)
            if position < 0:
                return CUT_SHORT
            if offset <= before or offset > last:
                return OTHER_OFFSETS
            before = offset
            records[0, row] = heads[number, BASE] + offset
            records[1, row] = heads[number, TIME] + (0 if append else delta)
            records[2, row], records[3, row] = position, stop
            position, row = stop, row + 1
        if position != end:
            return BYTES_LEFT
    return len(heads)


@part
def width(value: int) -> int:
    """Bytes of a zigzag varint."""
    rest, size = value << 1 ^ value >> 63, 1
    while rest & ~0x7F:
        rest, size = rest >> 7 & _WITHOUT_7, size + 1
    return size


@part
def put_varint(out: Bytes, at: int, value: int) -> int:
    rest = value << 1 ^ value >> 63
    while rest & ~0x7F:
        out[at] = rest & 0x7F | 0x80
        rest, at = rest >> 7 & _WITHOUT_7, at + 1
    out[at] = rest
    return at + 1


@compiled("int64(int64[:, :])")
def put_size(records: Numbers) -> int:
    """Bytes of what `put` writes."""
    size = 0
    for row in range(records.shape[1]):
        own = 1 + width(records[1, row] - records[1, 0]) + width(row) + records[3, row] - records[2, row]
        size += width(own) + own
    return size


@compiled(f"int64({IN}, int64[:, :], uint8[::1], int64)")
def put(data: Bytes, records: Numbers, out: Bytes, at: int) -> int:
    """Writes records as those of one batch, whose first timestamp is the first one's; `out` has room for them. Answers
    where they end."""
    for row in range(records.shape[1]):
        begin, end, delta = records[2, row], records[3, row], records[1, row] - records[1, 0]
        at = put_varint(out, at, 1 + width(delta) + width(row) + end - begin)
        out[at] = 0
        at = put_varint(out, at + 1, delta)
        at = put_varint(out, at, row)
        piece, room = data[begin:end], out[at : at + end - begin]
        for index in range(len(piece)):  # as one slice into the other, it would be byte by byte
            room[index] = piece[index]
        at += end - begin
    return at

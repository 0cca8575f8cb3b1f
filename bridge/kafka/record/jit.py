"""Compiles loops over bytes, by numba, and has what they share.

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

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
IN = "Array(uint8, 1, 'C', readonly=True)"
"""In a signature: bytes that are only read."""
WIDE = 16
"""Bytes that `copy_wide` copies."""
_F = TypeVar("_F", bound=Callable[..., Any])


def as_bytes(data: BytesLike) -> Bytes:
    """The same memory."""
    return np.frombuffer(data, np.uint8)


def compiled(signature: str) -> Callable[[_F], _F]:
    def decorate(function: _F) -> _F:
        try:
            return cast(_F, njit(signature, cache=True)(function))
        except RuntimeError:  # nowhere to keep it: what is read-only has no room for a cache
            return cast(_F, njit(signature)(function))

    return decorate


def part(function: _F) -> _F:
    """Compiled into whatever calls it."""
    return cast(_F, njit(function))


def _pointer(context: Any, builder: Any, array: Any, value: Any, index: Any, kind: Any) -> Any:
    """Pointer to what is at an index of an array."""
    begin = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(begin, [index]), kind.as_pointer())


def _word(_context: Any, data: Any, at: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(32))
        found = builder.load(pointer, align=1)
        return builder.bswap(found) if sys.byteorder == "big" else found

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
        found = builder.load(pointer, align=1)

        def all_of(byte: int) -> Any:
            return ir.Constant(kind, [byte] * WIDE)

        odd = builder.or_(
            builder.or_(
                builder.icmp_unsigned("==", found, all_of(0x22)),
                builder.icmp_unsigned("==", found, all_of(0x5C)),
            ),
            builder.icmp_unsigned("<", found, all_of(0x20)),
        )
        bits = builder.bitcast(odd, ir.IntType(WIDE))
        return builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(WIDE), 0))

    return types.boolean(data, at), generate


# One load, and one store. From bytes one by one, and as loops over them, they are several times as slow. Whether there
# is room is the caller's care: nothing is checked.
word = cast(Callable[[Bytes, int], np.uint32], intrinsic(_word))
"""Four bytes, the lowest first."""
plain = cast(Callable[[Bytes, int], bool], intrinsic(_plain))
"""Whether WIDE bytes have neither quotes nor backslashes nor control characters."""
copy_wide = cast(Callable[[Bytes, int, Bytes, int], None], intrinsic(_copy_wide))
"""WIDE bytes of one array to another, or further on in the same one, where they may not overlap."""

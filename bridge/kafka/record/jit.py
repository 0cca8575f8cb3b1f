"""Compiles loops over bytes with numba, and holds the operations that the loops share.

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

"""Memory with a guard page behind it, for loops that check their own bounds: touching the page ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from bridge.kafka.record.loops import Bytes


def guarded(size: int) -> Bytes:
    """Bytes whose end is the end of what the process may touch."""
    page = mmap.PAGESIZE
    room = -(-size // page) * page
    whole = np.frombuffer(mmap.mmap(-1, room + page), np.uint8)
    assert (
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(whole.ctypes.data + room), ctypes.c_size_t(page), 0) == 0
    )
    return whole[room - size : room]


def guarded_copy(data: bytes | bytearray) -> Bytes:
    result = guarded(len(data))
    result[:] = np.frombuffer(data, np.uint8)
    return result

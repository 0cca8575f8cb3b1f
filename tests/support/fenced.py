"""Memory for loops that check their own bounds: what they touch behind its end ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from bridge.kafka.record.jit import Bytes


def fenced(size: int) -> Bytes:
    """Bytes whose end is the end of what the process may touch."""
    page = mmap.PAGESIZE
    room = -(-size // page) * page
    whole = np.frombuffer(mmap.mmap(-1, room + page), np.uint8)
    assert (
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(whole.ctypes.data + room), ctypes.c_size_t(page), 0) == 0
    )
    return whole[room - size : room]


def fenced_copy(data: bytes | bytearray) -> Bytes:
    found = fenced(len(data))
    found[:] = np.frombuffer(data, np.uint8)
    return found

"""Files that are in memory only, for code that takes nothing but a path: none outlives its process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(data: bytes) -> Iterator[int | None]:
    """A descriptor of an open file with the data, for the time of the block; None where the system has no such files.

    Its path is `path_of(descriptor)`: here, and in a child that inherits the descriptor. It is empty after the block
    for whoever still has it open.
    """
    try:
        descriptor = os.memfd_create("mirror-bridge")
    except (AttributeError, OSError):
        yield None
        return
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield descriptor
    finally:
        os.ftruncate(descriptor, 0)
        os.close(descriptor)


def path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"

"""The frames between the HTTP process and the rounds process, length-prefixed, over a pipe.

    frame  := length u32 | kind u8 | payload
    DESIRED (down)          JSON: all connectors, their configurations and assignments; replaces the one before
    STOP (down)             empty: close everything and exit
    HEARTBEAT (up)          empty, once a second: the event loop runs
    SUMMARY (up)            JSON
    INSTANCE (up)           JSON: an instance started, or failed and waits
    GROUPS (up)             header length u32 | JSON header | the reports, compressed, one after the other
    RECORDS (up)            records for Connect to write (checkpoint_records.py)
    PROGRESS (up)           JSON: sums of a pipeline, partitions that changed, gaps, what was copied meanwhile
    BACKLOG (up)            JSON: records missing on the target, of partitions where their number changed
    OFFSET_REQUEST (up)     JSON: source partitions whose offsets Connect is asked for (state/source_offsets.py)
    STORED_OFFSETS (down)   JSON: Connect's answer
    OPERATION (down)        JSON: an operation for an instance (state/operations.py)
    OPERATION_RESULT (up)   JSON: its answer or error

A frame over the limit is never written: whoever reads one takes the stream for broken, and the rounds process would be
restarted, and write it again. What does not fit is divided, or is an error of its request or connector.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import TypeVar

from bridge.errors import TooLarge

T = TypeVar("T")

HEAD = struct.Struct(">IB")
MOST_BYTES = 64 << 20
PORTION_BYTES = 8 << 20
"""A frame of several items has no more, unless it has one item."""


class Frame(IntEnum):
    DESIRED = 1
    STOP = 2
    HEARTBEAT = 3
    SUMMARY = 4
    INSTANCE = 5
    GROUPS = 6
    RECORDS = 7
    PROGRESS = 8
    OFFSET_REQUEST = 9
    STORED_OFFSETS = 10
    BACKLOG = 11
    OPERATION = 12
    OPERATION_RESULT = 13


class FrameTooLarge(TooLarge):
    """A message that does not fit into a frame."""


def frame(kind: Frame, payload: bytes = b"") -> bytes:
    """Raises FrameTooLarge."""
    if len(payload) > MOST_BYTES:
        what = kind.name.lower().replace("_", " ")
        raise FrameTooLarge(
            f"{what}: it has {len(payload)} bytes, and the limit of a message is {MOST_BYTES}"
        )
    return HEAD.pack(len(payload), kind) + payload


async def read_frame(reader: asyncio.StreamReader) -> tuple[Frame, bytes] | None:
    """Reads the next frame; None at the end of the stream (a frame that is cut short counts as the end)."""
    try:
        length, kind = HEAD.unpack(await reader.readexactly(HEAD.size))
        if length > MOST_BYTES:
            raise ValueError(f"a frame of {length} bytes")
        return Frame(kind), await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


def in_portions(items: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Divides items into portions of `most` at most, and of PORTION_BYTES where that is more than one."""
    portion: list[T] = []
    filled = 0
    for item in items:
        added = size(item)
        if portion and (len(portion) == most or filled + added > PORTION_BYTES):
            yield portion
            portion, filled = [], 0
        portion.append(item)
        filled += added
    if portion:
        yield portion

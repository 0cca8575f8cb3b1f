"""The records of one side of a stretch, in the order of their log: five rows of numbers, a column for each record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
OFFSET, TIMESTAMP, DIGEST, KEY, TOMBSTONE = range(5)
"""Rows of a sequence (bridge.kafka.record.digests makes them)."""
ROWS = 5


def joined(parts: Sequence[Numbers]) -> Numbers:
    """One sequence of several, in their order."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, axis=1) if parts else np.empty((ROWS, 0), np.int64)


def between(sequence: Numbers, start: int, end: int) -> slice:
    """Which records have offsets from `start` to before `end`."""
    first, last = np.searchsorted(sequence[OFFSET], [start, end])
    return slice(int(first), int(last))


class RecordPlace(NamedTuple):
    """One record of a sequence: its offset, its timestamp (ms, -1 for unknown) and its digests."""

    offset: int
    timestamp: int
    digest: int
    key: int
    tombstone: bool


def place(sequence: Numbers, index: int) -> RecordPlace:
    offset, timestamp, digest, key, tombstone = sequence[:, index].tolist()
    return RecordPlace(offset, timestamp, digest, key, bool(tombstone))

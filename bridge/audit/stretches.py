"""Stretches of a partition's two logs that belong together, and what is claimed of the records in them.

The records of one side of a stretch, in the order of their log: five rows of numbers, a column for each record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.model.values import TopicPartition

Numbers = NDArray[np.int64]
OFFSET, TIMESTAMP, DIGEST, KEY, TOMBSTONE = range(5)
"""Rows of a sequence (bridge.kafka.record.hashes makes them)."""
ROWS = 5
UPSTREAM, DOWNSTREAM, COUNT, RUN = range(4)
"""Rows of spans: `count` records from `upstream` on are claimed to stand from `downstream` on, by the run that starts
at `run`."""
NO_SPANS = np.empty((4, 0), np.int64)


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


class Offsets(NamedTuple):
    """From `start` to before `end`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)


class Free(NamedTuple):
    """Offsets on both sides that nothing is claimed of: records go together by content."""

    source: Offsets
    target: Offsets


class LogPair(NamedTuple):
    """A partition and its copy, with the topics' ids."""

    source: TopicPartition
    source_id: str
    target: TopicPartition
    target_id: str


class Rules(NamedTuple):
    """How records are compared. `window_ms`: of a time window. `listed`: differences of a stretch that are listed; all
    are counted. `timed`: timestamps count. `source_compacted`, `target_compacted`: the topic's cleanup.policy."""

    window_ms: int
    listed: int = 10_000
    timed: bool = True
    source_compacted: bool = False
    target_compacted: bool = False


class Stretch(NamedTuple):
    """Offsets of both sides that are compared with each other. `number`: in the order of the partition's stretches.
    `spans`: four rows of numbers, a column for each stretch of records that runs claim to be copied without a hole.
    `source_cut`, `target_cut`: that log begins there, above its first offset: what precedes the first pair on the other
    side may have been deleted here. `ends`: what the source has behind the last pair may not be copied yet; `behind`:
    it has more than is compared here."""

    sides: LogPair
    number: int
    source: Offsets
    target: Offsets
    spans: Numbers
    free: tuple[Free, ...] = ()
    source_cut: bool = False
    target_cut: bool = False
    ends: bool = False
    behind: bool = False


def claimed(spans: Numbers, offsets: Numbers) -> Numbers:
    """The target offset that is claimed for each source offset; -1 for none."""
    if not spans.shape[1] or not len(offsets):
        return np.full(len(offsets), -1, np.int64)
    at = np.searchsorted(spans[UPSTREAM], offsets, "right") - 1
    inside = (at >= 0) & (offsets < spans[UPSTREAM, at] + spans[COUNT, at])
    return np.where(inside, offsets - spans[UPSTREAM, at] + spans[DOWNSTREAM, at], -1)


def run_of(spans: Numbers, offset: int) -> int | None:
    """The run that a source offset is claimed, or skipped, by."""
    position = int(np.searchsorted(spans[UPSTREAM], offset, "right")) - 1
    return int(spans[RUN, position]) if position >= 0 else None

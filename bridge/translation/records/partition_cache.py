"""Remembers, for one partition between look-ups, its anchors, the disorder of its timestamps, and whether its logs have
gaps.

Valid for one pair of topic ids and leader epochs; the owner drops it when either moves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from bridge.model.values import RecordView

_MOST_ANCHORS = 128
_MOST_SAMPLES = 32
_MOST_OBSERVED = 256
_STRAYS = 2
"""Neighbouring records stamped too late that count as strays, not as disorder: with one record stamped 2030 taken for
disorder, no search for a twin would ever end in that partition again. Of records stamped too early one is a stray."""


class Anchor(NamedTuple):
    """The record at `upstream` has its lowest copy at `downstream`: seen, not computed."""

    upstream: int
    downstream: int

    @property
    def delta(self) -> int:
        return self.downstream - self.upstream


class PartitionMemory:
    """What was learned of one pair of partitions: anchors in upstream order, and the largest disorder of timestamps
    (ms)."""

    def __init__(self) -> None:
        self.low: Anchor | None = None
        """The first record of the target that has an original, and that original."""
        self.low_sought = False
        self.gapless = True
        """Whether every offset seen so far on either side had a data record: then these are plain logs."""
        self.reached = 0
        """The source offset up to which the mirror has copied everything, at least."""
        self.tail_seen: tuple[int, int] | None = None
        """The ends of both logs when the end of the target was last read for how far the mirror has come."""
        self.disorder = 0
        self.append_time = False
        """Whether brokers have overwritten timestamps in what was read of the target last (LogAppendTime)."""
        self._anchors: list[Anchor] = []
        self._samples: list[tuple[int, int, int, int]] = []
        self._observed: set[tuple[int, int]] = set()

    def add(self, anchor: Anchor) -> None:
        position = bisect_left(self._anchors, anchor)
        if position < len(self._anchors) and self._anchors[position] == anchor:
            return
        self._anchors.insert(position, anchor)
        if len(self._anchors) > _MOST_ANCHORS:
            # Thin, keeping both ends: a guess needs a neighbour, not every neighbour.
            self._anchors = self._anchors[:1] + self._anchors[1:-1:2] + self._anchors[-1:]

    def reach(self, offset: int) -> None:
        self.reached = max(self.reached, offset)

    def below(self, offset: int) -> Anchor | None:
        """Returns the nearest anchor whose record was processed by a group committed at `offset`."""
        position = bisect_left(self._anchors, (offset,))
        return self._anchors[position - 1] if position else None

    def at_or_above(self, offset: int) -> int | None:
        """Returns the lowest known target offset of a record that a group committed at `offset` has not processed."""
        position = bisect_left(self._anchors, (offset,))
        anchors = [*self._anchors[position : position + 1], *([self.low] if self.low else [])]
        return min((anchor.downstream for anchor in anchors if anchor.upstream >= offset), default=None)

    def deltas(self, offset: int) -> list[int]:
        """Returns guesses for downstream minus upstream near `offset`: of the nearest anchors on either side and of the
        log's start. In a plain log that one comes first."""
        position = bisect_right(self._anchors, (offset, 1 << 63))
        near = [anchor.delta for anchor in self._anchors[max(0, position - 1) : position + 1]]
        low = [self.low.delta] if self.low else []
        return list(dict.fromkeys(low + near if self.gapless else near + low))

    def observe(self, records: Sequence[RecordView]) -> None:
        """Learns by how much timestamps of the source go back: within these records, and between them and those
        observed before. Negative timestamps are left out."""
        if not records or (window := (records[0].offset, records[-1].offset)) in self._observed:
            return
        if len(self._observed) >= _MOST_OBSERVED:
            self._observed.clear()
        self._observed.add(window)
        stamps = [record.timestamp for record in records if record.timestamp >= 0]
        if len(stamps) <= _STRAYS:
            return
        floors = list(map(min, stamps, stamps[1:], stamps[2:]))
        tops = list(map(max, stamps[3:], stamps[4:]))
        back = (peak - top for peak, top in zip(accumulate(floors, max), tops, strict=False))
        self.disorder = max(self.disorder, *back, 0)
        low, peak = min(map(max, stamps, stamps[1:])), max(floors)
        for first, last, other_low, other_peak in self._samples:
            if last < window[0]:
                self.disorder = max(self.disorder, other_peak - low)
            elif first > window[1]:
                self.disorder = max(self.disorder, peak - other_low)
        insort(self._samples, (*window, low, peak))
        if len(self._samples) > _MOST_SAMPLES:
            self._samples = self._samples[:1] + self._samples[1:-1:2] + self._samples[-1:]

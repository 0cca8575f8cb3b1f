"""What translation remembers of one partition between look-ups: verified anchors and the disorder of its timestamps.

Valid for one pair of topic ids and leader epochs; the owner drops it when either moves (design 5.4).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import NamedTuple

from bridge.translation.model import RecordView

BLOCK = 8
"""Timestamps are judged in blocks of 8: one stray record (stamped 2030, say) must not count as disorder, or no
search for a twin would ever end in that partition again."""

_MOST_ANCHORS = 128
_MOST_SAMPLES = 32


class Anchor(NamedTuple):
    """The record at `upstream` has its copy at `downstream`: seen, not computed."""

    upstream: int
    downstream: int

    @property
    def delta(self) -> int:
        return self.downstream - self.upstream


class PartitionMemory:
    """Anchors in upstream order, the lowest one apart, and the largest disorder seen (ms)."""

    def __init__(self) -> None:
        self.low: Anchor | None = None
        self.low_sought = False
        self.disorder = 0
        self._anchors: list[Anchor] = []
        self._samples: list[tuple[int, int, int]] = []

    def add(self, anchor: Anchor) -> None:
        at = bisect_left(self._anchors, anchor)
        if at < len(self._anchors) and self._anchors[at] == anchor:
            return
        self._anchors.insert(at, anchor)
        if len(self._anchors) > _MOST_ANCHORS:
            # Thin, keeping both ends: a guess needs a neighbour, not every neighbour.
            self._anchors = self._anchors[:1] + self._anchors[1:-1:2] + self._anchors[-1:]

    def below(self, offset: int) -> Anchor | None:
        """The nearest anchor whose record was processed by a group committed at `offset`."""
        at = bisect_left(self._anchors, (offset,))
        return self._anchors[at - 1] if at else None

    def lowest_at_or_above(self, offset: int) -> int | None:
        """The smallest downstream place of an anchor at or after `offset`: no answer may lie above it."""
        at = bisect_left(self._anchors, (offset,))
        return min((anchor.downstream for anchor in self._anchors[at:]), default=None)

    def deltas(self, offset: int) -> list[int]:
        """Guesses for downstream minus upstream near `offset`: of the log start first (right in a plain log, and the
        lowest wherever the mirror ever copied twice), then of the nearest anchors on either side."""
        at = bisect_right(self._anchors, (offset, 1 << 63))
        near = self._anchors[max(0, at - 1) : at + 1]
        found = [self.low.delta] if self.low else []
        return list(dict.fromkeys(found + [anchor.delta for anchor in near]))

    def observe(self, records: Sequence[RecordView]) -> None:
        """Learns the disorder of a stretch of source records: by how much a later block of 8 lies before an earlier."""
        if not records:
            return
        stamps = [record.timestamp for record in records]
        floors = [min(stamps[at : at + BLOCK]) for at in range(0, max(1, len(stamps) - BLOCK + 1), BLOCK)]
        peak = floors[0]
        for floor in floors:
            self.disorder = max(self.disorder, peak - floor)
            peak = max(peak, floor)
        first, low = records[0].offset, min(floors)
        for offset, other_low, other_peak in self._samples:
            if offset < first:
                self.disorder = max(self.disorder, other_peak - low)
            elif offset > first:
                self.disorder = max(self.disorder, peak - other_low)
        if all(offset != first for offset, _, _ in self._samples):
            insort(self._samples, (first, low, peak))
            if len(self._samples) > _MOST_SAMPLES:
                self._samples = self._samples[:1] + self._samples[1:-1:2] + self._samples[-1:]

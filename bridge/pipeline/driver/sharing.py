"""Redistributes a connector's byte limit among the slices of a layout, by what their partitions have copied. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.model.copying import Progress
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.rate_limit import ShareUse, differs_enough, new_shares

REDISTRIBUTE_SECONDS = 2.0
"""Seconds between two looks at who uses what."""


class Sharing:
    """What the slices of one layout had copied at the last look."""

    def __init__(self, limit: int, slices: Sequence[Slice]) -> None:
        self._limit = limit
        self._partitions = [[each.source for each in work.partitions] for work in slices]
        self._last: tuple[float, list[int]] | None = None

    def shares(
        self, progress: Mapping[TopicPartition, Progress], shares: Sequence[int], now: float
    ) -> Sequence[int] | None:
        """Returns new shares, None to keep the present ones. `now` in seconds."""
        known = [[progress.get(tp) for tp in held] for held in self._partitions]
        copied = [sum(each.bytes for each in held if each is not None) for held in known]
        last, self._last = self._last, (now, copied)
        if last is None or now <= last[0]:
            return None
        used = [
            ShareUse((after - before) / (now - last[0]), any(each is None or each.lag != 0 for each in held))
            for after, before, held in zip(copied, last[1], known, strict=True)
        ]
        newer = new_shares(self._limit, shares, used)
        return newer if differs_enough(shares, newer) else None

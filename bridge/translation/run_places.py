"""Which places of a merged run hold no copy, as far as batch headers of the target have told (design 5.1).

    downstream   d0 [c c c M c c c c M c c M c) end      c: a copy; M: a marker of ours

A run says how many places hold no copy (`extra`), not which. Control batches and those of aborted transactions hold
none; what else may hold none is a record of another producer, or a marker that compaction took, and headers do not tell
these from copies. So an answer is exact when two things are known: how many copies stand before it, which takes that
nothing was skipped upstream (but for the first and the last record of the run), and that as many places without a copy
were found as there are. Every other answer is still closer than without.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from bridge.translation.lookups import Scanned
from bridge.translation.runs import OffsetRun


class RunPlaces:
    """Of one run; made longer by what is read from `read_to` on."""

    def __init__(self, run: OffsetRun) -> None:
        self.run = run
        self.read_to = run.downstream_start
        self._empty = array("q")

    @property
    def hidden(self) -> int:
        """Places without a copy that are not found."""
        return self.run.extra - len(self._empty)

    @property
    def impossible(self) -> bool:
        """Too many places hold no copy, or the first or the last one: the target has lost some of the run's copies, and
        has been written on from there."""
        ends = self.run.downstream_start, self.run.downstream_end - 1
        return self.hidden < 0 or (
            bool(self._empty) and (self._empty[0] == ends[0] or self._empty[-1] == ends[1])
        )

    def learn(self, scanned: Scanned) -> None:
        run = self.run
        for first, end in scanned.without_data:
            self._empty.extend(range(max(first, self.read_to), min(end, run.downstream_end)))
            if self.hidden < 0:
                break
        self.read_to = max(self.read_to, scanned.end)

    def before(self, offset: int) -> tuple[int, int]:
        """How many copies the run has at least, and at most, before that of the first record at or after `offset`."""
        run = self.run
        upstream = offset - run.upstream_start
        most = min(upstream, run.upstream_count - run.skipped - 1)
        return max(0, upstream - run.skipped), most

    def of(self, offset: int) -> tuple[int, int]:
        """The lowest and the highest place where the copy of the first record at or after `offset` can stand. The run's
        first and last place hold a copy."""
        fewest, most = self.before(offset)
        return self._place(fewest), self._place(most + self.hidden) if most else self.run.downstream_start

    def _place(self, number: int) -> int:
        """Of the places that are not known to be empty the one after `number` others."""
        start, empty = self.run.downstream_start, self._empty
        passed = bisect_right(range(len(empty)), number, key=lambda at: empty[at] - start - at)
        return start + number + passed

"""Where in a run the copy of a record stands (design 5.1).

    downstream   d0 [c c c M c c c c M c c M c) end      c: a copy; M: a marker of ours

A run says how many places hold no copy (`extra`), and mostly which: its list of holes tells. Where it does not, batch
headers of the target may: control batches and those of aborted transactions hold no copy. What else may hold none is a
record of another producer, or a marker that compaction took, and headers do not tell these from copies. So an answer is
exact when two things are known: how many copies stand before it, which the list tells unless nothing was skipped, and
the places without a copy, from the list, or because as many were found as there are. Every other answer is still closer
than without.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from bridge.translation.fields import SchemaError
from bridge.translation.holes import Holes, decoded
from bridge.translation.lookups import Scanned
from bridge.translation.merging import MARKER_BYTES
from bridge.translation.runs import OffsetRun


class RunPlaces:
    """Of one run; made longer by what is read from `read_to` on."""

    def __init__(self, run: OffsetRun) -> None:
        self.run = run
        self.read_to = run.downstream_start
        self._empty = array("q")
        self._holes, self._sound = holes_of(run)
        self._answers: dict[int, tuple[int, int]] = {}
        self._asked: set[int] = set()

    @property
    def unread(self) -> int:
        """About how many bytes of the target are still to be read."""
        run = self.run
        left, places = run.downstream_end - self.read_to, run.downstream_end - run.downstream_start
        return max(0, (run.size + MARKER_BYTES * run.extra) * left // max(1, places))

    @property
    def hidden(self) -> int:
        """Places without a copy that are not found."""
        listed = self._holes is not None and self._holes.tells_extra
        return 0 if listed else self.run.extra - len(self._empty)

    @property
    def impossible(self) -> bool:
        """Its list is not that of this run; or too many places hold no copy, or the first or the last one: the target
        has lost some of the run's copies, and has been written on from there."""
        ends = self.run.downstream_start, self.run.downstream_end - 1
        return (
            not self._sound
            or self.hidden < 0
            or (bool(self._empty) and (self._empty[0] == ends[0] or self._empty[-1] == ends[1]))
        )

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be found."""
        return self.hidden <= 0 or self.read_to >= self.run.downstream_end

    def unsettled(self, offset: int) -> bool:
        """Whether the answer for an offset can become exact by reading."""
        fewest, most = self.before(offset)
        return 0 < fewest == most and self.hidden > 0 and offset not in self._answers

    def end_round(self, *, whole: bool) -> bool:
        """Lets go of the places of what is read to the end, and keeps the answers; `whole`: of those offsets only that
        were asked about since the last call. Answers whether anything is left."""
        if self.finished and self._empty:
            self._sound = not self.impossible
            self._empty, self.read_to = array("q"), self.run.downstream_start
        asked, self._asked = self._asked, set()
        if whole:
            self._answers = {offset: known for offset, known in self._answers.items() if offset in asked}
        return bool(asked) or not whole

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
        if self._holes is not None:
            copies = self._holes.copies_before(upstream)
            return copies, copies
        return max(0, upstream - run.skipped), min(upstream, run.copies - 1)

    def of(self, offset: int) -> tuple[int, int]:
        """The lowest and the highest place where the copy of the first record at or after `offset` can stand. The run's
        first and last place hold a copy."""
        self._asked.add(offset)
        if offset in self._answers:
            return self._answers[offset]
        fewest, most = self.before(offset)
        low = self._place(fewest)
        found = low, self._place(most + self.hidden) if most else self.run.downstream_start
        if self.finished:
            self._answers[offset] = found
        return found

    def _place(self, number: int) -> int:
        """Of the places that are not known to be empty the one after `number` others."""
        start, empty = self.run.downstream_start, self._empty
        if self._holes is not None and self._holes.tells_extra:
            return start + self._holes.downstream(number)
        passed = bisect_right(range(len(empty)), number, key=lambda at: empty[at] - start - at)
        return start + number + passed


def holes_of(run: OffsetRun) -> tuple[Holes | None, bool]:
    """What the run's list tells, None where it has none; and whether it is a list of this run."""
    if not run.holes:
        return None, True
    try:
        holes = decoded(run.holes)
    except SchemaError:
        return None, False
    extra = run.extra if holes.tells_extra else 0
    sound = (holes.copies, holes.skipped, holes.extra) == (run.copies, run.skipped, extra)
    return holes, sound

"""Finds where in a run the copy of a record stands (docs/offset-runs.md).

    downstream   d0 [c c c M c c c c M c c M c) end      c: a copy; M: a marker of ours

A run has the number of target offsets without a copy (`extra`) and of source offsets without one (`skipped`), and
mostly lists which they are. Where it does not, batch headers of either log may show them: control batches and those of
aborted transactions hold nothing that is copied, and are no copies. Headers do not show records of other producers, nor
what compaction took. So an answer is exact when two things are known: how many copies stand before it, and the target
offsets without a copy; each from the list, or because as many were found as there are. Every other answer is still
closer than without a scan.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from bridge.model.lookups import Scanned
from bridge.model.state_records.fields import SchemaError
from bridge.translation.runs.holes import Holes, decoded
from bridge.translation.runs.merging import MARKER_BYTES
from bridge.translation.runs.runs import OffsetRun


class RunScan:
    """The offsets without a copy of one run, as far as they are known: from its list, and from headers of the target up
    to `read_to` and of the source up to `source_read_to`."""

    def __init__(self, run: OffsetRun) -> None:
        self.run = run
        self.read_to, self.source_read_to = run.downstream_start, run.upstream_start
        self._empty, self._skipped = array("q"), array("q")
        """Offsets of the target that hold no copy, and of the source that have none: those that were found."""
        self._source_helps = True
        """False once the source was read to the run's end and did not show all skipped offsets."""
        self._holes, self._sound = holes_of(run)
        self._answers: dict[int, tuple[int, int]] = {}
        self._requested: set[int] = set()

    @property
    def unread(self) -> int:
        """About how many bytes of the target are still to be read."""
        run = self.run
        left, width = run.downstream_end - self.read_to, run.downstream_end - run.downstream_start
        return max(0, (run.size + MARKER_BYTES * run.extra) * left // max(1, width))

    @property
    def source_unread(self) -> int:
        """About how many bytes of the source are still to be read; 0 where it shows nothing more."""
        left = self.run.upstream_end - self.source_read_to
        return self.run.size * left // max(1, self.run.upstream_count) + 1 if self._source_readable else 0

    @property
    def uncounted(self) -> int:
        """How many skipped offsets are not found yet."""
        return 0 if self._holes is not None else self.run.skipped - len(self._skipped)

    @property
    def _source_readable(self) -> bool:
        run = self.run
        return (
            self._source_helps
            and run.leader_epoch >= 0
            and self.uncounted > 0
            and self.source_read_to < run.upstream_end
        )

    @property
    def hidden(self) -> int:
        """How many target offsets without a copy are not found yet."""
        listed = self._holes is not None and self._holes.tells_extra
        return 0 if listed else self.run.extra - len(self._empty)

    @property
    def impossible(self) -> bool:
        """Whether run and logs contradict each other: the list is not that of this run; or too many target offsets hold
        no copy, or the first or the last one: the target has lost some of the run's copies, and was written on from
        there. The same of the source: what was copied was another log."""
        run = self.run
        return (
            not self._sound
            or min(self.hidden, self.uncounted) < 0
            or _at_an_end(self._empty, run.downstream_start, run.downstream_end)
            or _at_an_end(self._skipped, run.upstream_start, run.upstream_end)
        )

    @property
    def held(self) -> int:
        """How many offsets without a copy are in memory, besides the run's list."""
        return len(self._empty) + len(self._skipped)

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be found."""
        target_read = self.hidden <= 0 or self.read_to >= self.run.downstream_end
        return target_read and (not self._source_helps or self.uncounted <= 0)

    def unsettled(self, offset: int) -> bool:
        """Whether the answer for an offset can become exact by reading the target."""
        fewest, most = self.before(offset)
        return 0 < fewest == most and self.hidden > 0 and offset not in self._answers

    def uncounted_before(self, offset: int) -> bool:
        """Whether reading the source can show how many copies stand before that of an offset."""
        fewest, most = self.before(offset)
        return fewest < most and self._source_readable and offset not in self._answers

    def end_round(self, *, whole: bool) -> bool:
        """Drops the offsets of what was read to the end, and keeps the answers; with `whole` only those for offsets
        that were asked for since the last call. Returns whether anything is left."""
        if self.finished and (self._empty or self._skipped):
            self._sound = not self.impossible
            self._empty, self.read_to = array("q"), self.run.downstream_start
            self._skipped, self.source_read_to = array("q"), self.run.upstream_start
        requested, self._requested = self._requested, set()
        if whole:
            self._answers = {
                offset: answer for offset, answer in self._answers.items() if offset in requested
            }
        return bool(requested) or not whole

    def learn(self, scanned: Scanned) -> None:
        """Takes in a scan of the target."""
        run = self.run
        for first, end in scanned.without_data:
            self._empty.extend(range(max(first, self.read_to), min(end, run.downstream_end)))
            if self.hidden < 0:
                break
        self.read_to = max(self.read_to, scanned.end)

    def learn_source(self, scanned: Scanned) -> None:
        """Takes in a scan of the source. What it has not shown by the end of the run it never will: compaction had
        taken it before it was copied. Nor does a log that another leader has written anew since: its first batches are
        of a later epoch than the run's last one."""
        run = self.run
        if scanned.epoch > run.leader_epoch:
            self._source_helps, self._skipped = False, array("q")
            return
        for first, end in scanned.without_data:
            self._skipped.extend(range(max(first, self.source_read_to), min(end, run.upstream_end)))
            if self.uncounted < 0:
                break
        self.source_read_to = max(self.source_read_to, scanned.end)
        if self.uncounted > 0 and self.source_read_to >= run.upstream_end:
            self._source_helps, self._skipped = False, array("q")

    def before(self, offset: int) -> tuple[int, int]:
        """Returns how many copies the run has at least, and at most, before that of the first record at or after
        `offset`."""
        run = self.run
        upstream = offset - run.upstream_start
        if self._holes is not None:
            copies = self._holes.copies_before(upstream)
            return copies, copies
        upstream -= bisect_left(self._skipped, offset)
        return max(0, upstream - self.uncounted), min(upstream, run.copies - 1)

    def of(self, offset: int) -> tuple[int, int]:
        """Returns the lowest and the highest target offset where the copy of the first record at or after `offset` can
        stand. The run's first and last offset hold a copy."""
        self._requested.add(offset)
        if offset in self._answers:
            return self._answers[offset]
        fewest, most = self.before(offset)
        low = self._downstream(fewest)
        answer = low, self._downstream(most + self.hidden) if most else self.run.downstream_start
        if self.finished:
            self._answers[offset] = answer
        return answer

    def _downstream(self, number: int) -> int:
        """Returns the target offset of copy `number`, counting offsets that are not known to be empty."""
        start, empty = self.run.downstream_start, self._empty
        if self._holes is not None and self._holes.tells_extra:
            return start + self._holes.downstream(number)
        passed = bisect_right(range(len(empty)), number, key=lambda at: empty[at] - start - at)
        return start + number + passed


def _at_an_end(offsets: array[int], start: int, end: int) -> bool:
    return bool(offsets) and (offsets[0] == start or offsets[-1] == end - 1)


def holes_of(run: OffsetRun) -> tuple[Holes | None, bool]:
    """Returns the run's list of holes, None where it has none; and whether it is a list of this run."""
    if not run.holes:
        return None, True
    try:
        holes = decoded(run.holes)
    except SchemaError:
        return None, False
    extra = run.extra if holes.tells_extra else 0
    sound = (holes.copies, holes.skipped, holes.extra) == (run.copies, run.skipped, extra)
    return holes, sound

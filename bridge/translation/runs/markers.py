"""Finds where in a run the copy of a record stands (docs/offset-runs.md).

    downstream   d0 [c c c M c c c c M c c M c) end      c: a copy; M: a marker of ours

A run has the number of target offsets without a copy (`extra`) and of source offsets without one (`skipped`), and
mostly lists which they are. Where it does not, batch headers of either log may show them: control batches and those of
aborted transactions hold nothing that is copied, and are no copies. Headers do not show records of other producers, nor
what compaction took. So an answer is exact when two things are known: how many copies stand before it, and the target
offsets without a copy; each from the list, or because as many were found as there are. Every other answer is still
closer than without a scan.

Merges runs of one partition where their answers stay close enough. Pure.

A merged run lists its holes as far as the list stays short, so that answers inside it stay exact without reading
either log. A longer list is left out only so far from the newest copy that an answer may be `looseness` records too
low: the RATIO-th part of the distance at most. Where nothing was skipped the target's batch headers still show the
holes; so that there is never more to read for an answer, no run takes up more than ANCHOR_BYTES.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from bridge.model.copying import Copied
from bridge.model.lookups import Scanned
from bridge.model.state_records.fields import SchemaError
from bridge.translation.runs.holes import (
    EVERYTHING,
    CopySpan,
    Holes,
    beginning,
    decoded,
    fits,
    join,
    room,
    short,
    whole,
)
from bridge.translation.runs.runs import OffsetRun, Segment

ANCHOR_BYTES = 64 * 1024 * 1024
"""Bytes of the target that a run takes up at most; its ends are offsets that are known on both sides."""
ANCHORS = 4096
"""Further back than so many times ANCHOR_BYTES a run may take up this part of its distance from the newest copy: else
those of a compacted topic, whose log never ends at its beginning, would grow without end."""
MARKER_BYTES = 78
"""What a transaction's marker takes up; it stands behind each commit."""
RATIO = 256


def new_runs(segments: Sequence[Segment], copied: Copied) -> list[OffsetRun]:
    """Returns the runs of new segments: as few as can list all holes, and separate ones where it is not known whether
    records between them were copied."""
    if len(segments) == 1:
        return [new_run(segments, copied)]
    new: list[OffsetRun] = []
    begin = 0
    for end in range(1, len(segments) + 1):
        if end == len(segments) or segments[end].covered_from > segments[end - 1].upstream_end:
            new += (new_run(portion, copied) for portion in _portions(segments[begin:end]))
            begin = end
    return new


def _portions(segments: Sequence[Segment]) -> list[Sequence[Segment]]:
    """Groups neighbours whose holes fit into one list, and that stay below ANCHOR_BYTES. Merging leaves few of them: a
    limit here would make answers close behind the newest copy lower than its distance allows."""
    begins, length, size = [0], 0, 0
    for number, span in enumerate(_spans(segments)):
        length, size = length + room(span), size + segments[number].size
        if not fits(length) or size > ANCHOR_BYTES:
            length, size = room(span), segments[number].size
            if number:
                begins.append(number)
    return [segments[begin:end] for begin, end in pairwise([*begins, len(segments)])]


def _spans(segments: Sequence[Segment]) -> list[CopySpan]:
    holes = [
        (newer.upstream_start - older.upstream_end, newer.downstream_start - older.downstream_end)
        for older, newer in pairwise(segments)
    ]
    return [CopySpan(segment.count, *hole) for segment, hole in zip(segments, [*holes, (0, 0)], strict=True)]


def new_run(segments: Sequence[Segment], copied: Copied) -> OffsetRun:
    """Returns one run of neighbouring segments, between which nothing was copied."""
    first, last = segments[0], segments[-1]
    copies = sum(segment.count for segment in segments)
    run = OffsetRun(
        copied.source,
        copied.source_topic_id,
        copied.target_topic,
        copied.target_topic_id,
        first.covered_from,
        first.upstream_start,
        first.downstream_start,
        last.upstream_end - first.upstream_start,
        last.upstream_end - first.upstream_start - copies,
        last.downstream_end - first.downstream_start - copies,
        last.leader_epoch,
        last.upstream_end,
        last.last_timestamp,
        sum(segment.size for segment in segments),
        transformed=bool(copied.transforms),
    )
    return run if len(segments) == 1 else _listing(run, short(_spans(segments), run.size))


def one_of(older: OffsetRun, newer: OffsetRun, end: int, beyond: int, target_start: int) -> OffsetRun | None:
    """Merges two runs, where that is allowed; else None. `end`: of the newest copy; `beyond`: bytes copied since."""
    if newer.covered_from > older.position or newer.again:
        return None
    if newer.downstream_end <= target_start:
        return _sum(older, newer)  # where nothing is left, every answer is the log's start
    extra = older.extra + newer.extra + newer.downstream_start - older.downstream_end
    if older.size + newer.size + MARKER_BYTES * extra > max(ANCHOR_BYTES, beyond // ANCHORS):
        return None
    holes = older.skipped + newer.skipped + newer.upstream_start - older.upstream_end + extra
    loose = min(holes, newer.downstream_end - older.downstream_start)
    if loose * RATIO <= end - newer.downstream_end:
        return joined(older, newer)
    if not fits(len(older.holes) + len(newer.holes)) or older.leader_epoch != newer.leader_epoch:
        return None
    merged = joined(older, newer)
    return None if looseness(merged) else merged


def joined(older: OffsetRun, newer: OffsetRun) -> OffsetRun:
    """Merges two runs; what lies between them has been skipped, or is no copy."""
    skipped, extra = newer.upstream_start - older.upstream_end, newer.downstream_start - older.downstream_end
    try:
        hole_list = join(_hole_list(older), skipped, extra, _hole_list(newer), older.size + newer.size)
    except SchemaError:
        hole_list = b""
    return _listing(_sum(older, newer), hole_list)


def _sum(older: OffsetRun, newer: OffsetRun) -> OffsetRun:
    """Merges two runs without a list of holes."""
    return older._replace(
        upstream_count=newer.upstream_end - older.upstream_start,
        skipped=older.skipped + newer.skipped + newer.upstream_start - older.upstream_end,
        extra=older.extra + newer.extra + newer.downstream_start - older.downstream_end,
        leader_epoch=newer.leader_epoch,
        position=newer.position,
        last_timestamp=newer.last_timestamp,
        size=older.size + newer.size,
        holes=b"",
        transformed=older.transformed or newer.transformed,
        found=older.found or newer.found,
        recopy_end=newer.recopy_end,
    )


def _hole_list(run: OffsetRun) -> bytes:
    """Returns the list of the run's holes, b"" where it is not known."""
    return run.holes or (b"" if run.skipped else whole(run.copies, extra_known=not run.extra))


def _listing(run: OffsetRun, hole_list: bytes) -> OffsetRun:
    """Returns the run with that list, unless its numbers say the same."""
    everything = hole_list[:1] == EVERYTHING
    return run._replace(holes=hole_list) if run.skipped or (everything and run.extra) else run


def looseness(run: OffsetRun) -> int:
    """Returns how many records too low an answer inside the run can be; 0 where every answer is exact."""
    if run.holes[:1] == EVERYTHING:
        return 0
    return min(run.skipped + run.extra, run.downstream_end - run.downstream_start)


def cut_off(run: OffsetRun, upstream: int, downstream: int | None) -> OffsetRun | None:
    """Returns the part of the run below both offsets, which count from its start; None where that is nothing, or
    unknown."""
    if upstream <= 0 or looseness(run):
        return None
    hole_list = _hole_list(run)
    try:
        holes = decoded(hole_list)
    except SchemaError:
        return None
    keep = holes.copies_before(upstream)
    if downstream is not None:
        keep = min(keep, holes.copies_below(downstream))
    if keep <= 0:
        return None
    count, places = holes.upstream(keep - 1) + 1, holes.downstream(keep - 1) + 1
    cut = run._replace(
        upstream_count=count,
        skipped=count - keep,
        extra=places - keep,
        leader_epoch=-1,
        position=run.upstream_start + count,
        last_timestamp=-1,
        holes=b"",
    )
    return _listing(cut, beginning(hole_list, keep))


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

    def find_bounds(self, offset: int) -> tuple[int, int]:
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

"""Merges runs of one partition where their answers stay close enough. Pure.

A merged run lists its holes as far as the list stays short, so that answers inside it stay exact without reading
either log. A longer list is left out only so far from the newest copy that an answer may be `looseness` records too
low: the RATIO-th part of the distance at most. Where nothing was skipped the target's batch headers still show the
holes; so that there is never more to read for an answer, no run takes up more than ANCHOR_BYTES.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from bridge.model.copying import Copied
from bridge.model.state_records.fields import SchemaError
from bridge.translation.runs.holes import (
    EVERYTHING,
    CopySpan,
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
    return [CopySpan(each.count, *hole) for each, hole in zip(segments, [*holes, (0, 0)], strict=True)]


def new_run(segments: Sequence[Segment], copied: Copied) -> OffsetRun:
    """Returns one run of neighbouring segments, between which nothing was copied."""
    first, last = segments[0], segments[-1]
    copies = sum(each.count for each in segments)
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
        sum(each.size for each in segments),
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

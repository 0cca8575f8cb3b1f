"""Decides whether the newest run of a partition can be true, given the logs as they are. Pure.

Copying goes on where the newest run ends. One that goes beyond the logs (a bug, or somebody who may write to the runs
topic) would have all skipped that is not copied yet. It may be true all the same, where a log was cut back: then the
other cluster still has the record that it ends with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridge.model.copying import Copied
from bridge.model.lookups import Window
from bridge.model.values import Bounds, Side
from bridge.translation.runs.markers import holes_of
from bridge.translation.runs.runs import OffsetRun


class RunCheck(NamedTuple):
    """The record that has to be there if the run is true. `timestamp`: -1 for not known."""

    side: Side
    offset: int
    timestamp: int

    def confirms(self, window: Window) -> bool:
        return any(
            record.offset == self.offset and self.timestamp in (-1, record.timestamp)
            for record in window.records
        )


def doubted(
    run: OffsetRun, copied: Copied, source: Bounds, target: Bounds, others: Iterable[OffsetRun]
) -> RunCheck | str | None:
    """Compares a run with the logs: None where nothing contradicts it; why it can't be true; or the record that would
    prove it. `others`: the runs of the partition that it contradicts.

    A position beyond the source's end is not checked here: nothing was copied between the run's records and it
    (see gaps.resume).
    """
    rivals = any(_of_these(other, copied) for other in others)
    if not _of_these(run, copied):
        return "its topics were deleted, and other runs are of the topics that exist" if rivals else None
    beyond_source = run.upstream_end > source.end
    beyond_target = run.upstream_count > 0 and run.downstream_end > target.end
    if rivals and (beyond_source or beyond_target):
        return "a log ends before it, and other runs contradict it"
    if beyond_source and (beyond_target or not run.upstream_count):
        return "both logs end before it"
    if beyond_source:
        return RunCheck(Side.TARGET, run.downstream_end - 1, run.last_timestamp)
    if beyond_target:
        # What a transform made of the timestamp is the copy's, and not the record's.
        return RunCheck(Side.SOURCE, run.upstream_end - 1, -1 if run.transformed else run.last_timestamp)
    return None


def reach(runs: Sequence[OffsetRun], end: int) -> int | None:
    """The offset up to which a log that ends at `end`, below what was copied, was copied for sure; None where no run
    tells of it. `runs`: in the order of both logs. A run that lists its holes accounts for each offset; of another one
    as many offsets are copied for sure as it has copies, and what lies between is copied again."""
    for run in reversed(runs):
        if run.upstream_start < end or not run.upstream_start:
            holes, sound = holes_of(run)
            listed = holes is not None and sound
            return min(end, run.upstream_end if listed else run.upstream_start + run.copies)
    return None


def _of_these(run: OffsetRun, copied: Copied) -> bool:
    """Whether the run is of the topics that are there now; of unknown ids it is."""
    pairs = (run.source_topic_id, copied.source_topic_id), (run.target_topic_id, copied.target_topic_id)
    return all(one == other or not (one and other) for one, other in pairs)

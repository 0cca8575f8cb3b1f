"""Finds how far the copies of another mirror reach, by the first and the last of them.

    source   ... [p  a . . . . . . b   T) ...     what no run of ours covers: another mirror may have copied it
    target   ... [   A . . x . . . B    ) ...     where its copies can stand; x: what others have sent

Such a mirror copies in order and leaves no ledger: what lies between its first and its last copy counts as copied.
Compaction takes records from either end, so there a difference says nothing.

Sans-I/O, as `bracketing`.
"""

from __future__ import annotations

from typing import NamedTuple

from bridge.model.values import RecordView, Side
from bridge.translation.records.copies import Copies
from bridge.translation.records.duplicates import BLOCK
from bridge.translation.records.log_window import Budget, CapReached, Caps, LogBounds, LogReader, Steps
from bridge.translation.records.partition_cache import PartitionMemory


class Extent(NamedTuple):
    """Source offsets [begin, end) of which the target holds the copies; both are the end of what was looked at where it
    holds none."""

    begin: int
    end: int


def reach_of_target(
    source: LogBounds, target: LogBounds, memory: PartitionMemory, caps: Caps | None = None
) -> Steps[None]:
    """Has `memory` learn from the last records of the target how far the mirror has come."""
    budget = Budget(caps or Caps())
    origin, goal = (LogReader(side, bounds, budget, memory) for side, bounds in _sides(source, target))
    try:
        yield from Copies(origin, goal, memory, budget).see_tail()
    except CapReached:
        return


def extent_of(
    source: LogBounds,
    target: LogBounds,
    *,
    compacted: bool | None = False,
    recognisable: bool = True,
    caps: Caps | None = None,
) -> Steps[Extent | None]:
    """Finds which source offsets of `source` the target holds in `target`; None where that is not known. Offsets
    without a record at either end count as held. `recognisable`: copies equal their records."""
    whole, nothing = Extent(source.start, source.end), Extent(source.end, source.end)
    memory, budget = PartitionMemory(), Budget(caps or Caps())
    origin, goal = (LogReader(side, bounds, budget, memory) for side, bounds in _sides(source, target))
    try:
        if source.start >= source.end:
            return whole
        log = yield from origin.open(source.start)
        first = yield from log.first_from(source.start)
        if first is None:
            return whole
        if target.start >= target.end:
            return nothing
        log = yield from origin.open(source.end - 1)
        last = yield from log.last_before(source.end)
        copies = Copies(origin, goal, memory, budget)
        if not recognisable:
            log = yield from copies.open_target(target.start)
            return nothing if (yield from log.first_from(target.start)) is None else None
        low = yield from _first_original(copies, goal, first)
        high = None if low is None else (yield from _original(copies, target.end, forward=False))
    except (CapReached, _OnlyOthers):
        return None
    if low is None or high is None or last is None:
        return nothing if compacted is False else None
    held = Extent(
        source.start if low.offset <= first.offset else low.offset,
        source.end if high.offset >= last.offset else high.offset + 1,
    )
    return held if compacted is False or held == whole else None


class _OnlyOthers(Exception):
    """Raised where a BLOCK of records has no original: others have sent them, and what lies beyond is not known."""


def _sides(source: LogBounds, target: LogBounds) -> tuple[tuple[Side, LogBounds], tuple[Side, LogBounds]]:
    return (Side.SOURCE, source), (Side.TARGET, target)


def _first_original(copies: Copies, target: LogReader, first: RecordView) -> Steps[RecordView | None]:
    """Finds the original of the first copy. Where the source's retention has taken the originals of many, one is looked
    for from the time of the first record that is left: what stands before it then counts as no copy."""
    try:
        return (yield from _original(copies, copies.target.start, forward=True))
    except _OnlyOthers:
        begin = yield from target.first_at_time(first.timestamp)
        if begin is None:
            return None
        return (yield from _original(copies, begin, forward=True))


def _original(copies: Copies, begin: int, *, forward: bool) -> Steps[RecordView | None]:
    """Finds the original of the next copy from an offset on, or before it; what others have sent is passed over."""
    section = yield from copies.open_target(begin if forward else begin - 1)
    for _ in range(BLOCK):
        copy = yield from (section.first_from(begin) if forward else section.last_before(begin))
        if copy is None:
            return None
        original = yield from copies.original_of(copy)
        if original is not None:
            return original
        begin = copy.offset + forward
    raise _OnlyOthers

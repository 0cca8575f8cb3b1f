"""Combines offset syncs with bracketing (decision 0010): syncs bound the answer, bracketing gives it, and where they
disagree the verdict is pending.

A sync (u, d) says that the record at `u` of the source stands at `d` of the target. So the first record at or after
an offset `o` stands above `d` where u < o, at `d` where u = o, and not above `d` where u > o.

Where the two contradict each other one of them is wrong, and an offset written on a guess could skip: nothing is
written. With one exception: a mirror that died copies again what it had copied, and syncs then tell of the second
copies. The sync's own record, read on both sides, shows that both are right, and the first copy is the answer.
"""

from __future__ import annotations

from dataclasses import replace

from bridge.mm2.offset_sync_store import SyncBounds
from bridge.mm2.records import OffsetSync
from bridge.model.values import Evidence, Judgement, Reason, Side, Verdict
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.log_window import Budget, CapReached, Caps, LogBounds, LogReader, Steps, same
from bridge.translation.records.partition_cache import PartitionMemory


def by_syncs(offset: int, translated: int | None, bounds: SyncBounds | None, target: LogBounds) -> Verdict:
    """Returns stock's answer as a verdict; `translated` is the result of OffsetSyncStore.translate.

    R1 holds unless the mirror went back and some of what it had copied was gone before it copied again. An answer past
    the target's end, which the target was cut back below, is none (stock writes it: out of range there, and skips once
    the log has grown).
    """
    if translated is None or bounds is None:
        return Verdict.pending(Reason.NO_OFFSET_SYNCS)
    if translated < 0 or bounds.lower is None:
        return Verdict.pending(
            Reason.OLDER_THAN_SYNCS, oldest_sync=bounds.upper.upstream_offset if bounds.upper else None
        )
    if translated > target.end:
        return Verdict.pending(Reason.EVIDENCE_DISAGREES, answer=translated, target_end=target.end)
    return replace(_of_syncs(offset, bounds.lower, bounds.upper, target), offset=translated)


def both(
    offset: int,
    source: LogBounds,
    target: LogBounds,
    memory: PartitionMemory,
    bounds: SyncBounds | None,
    caps: Caps | None = None,
    *,
    compacted: bool | None = False,
) -> Steps[Verdict]:
    """Translates by bracketing and compares the verdict with the syncs. Raises nothing; see `bracket`."""
    verdict = yield from bracket(offset, source, target, memory, caps, compacted=compacted)
    if agrees(verdict, offset, bounds, target):
        return verdict
    current = _current(bounds, target)
    assert current is not None
    assert verdict.offset is not None
    if _above(verdict.offset, offset, current, target):
        return _disagreement(verdict, current.upper or current.lower)
    assert current.lower is not None
    held = yield from are_copies(
        current.lower.upstream_offset, current.lower.downstream_offset, source, target, memory, caps
    )
    return _disagreement(verdict, current.lower) if held is False else verdict


def agrees(verdict: Verdict, offset: int, bounds: SyncBounds | None, target: LogBounds) -> bool:
    """Whether no sync contradicts a verdict by bracketing."""
    current = _current(bounds, target)
    if current is None or verdict.offset is None:
        return True
    if _above(verdict.offset, offset, current, target):
        return False
    if current.lower is None or verdict.bound is None:
        return True
    return verdict.offset + verdict.bound >= _low(offset, current.lower)


def _current(bounds: SyncBounds | None, target: LogBounds) -> SyncBounds | None:
    """Leaves out syncs past the target's end: the target was cut back, or its end was read before them."""
    if bounds is None:
        return None
    lower, upper = bounds.lower, bounds.upper
    if lower is not None and lower.downstream_offset >= target.end:
        return None
    if upper is not None and upper.downstream_offset >= target.end:
        upper = None
    return SyncBounds(lower, upper) if lower is not None or upper is not None else None


def _above(answer: int, offset: int, bounds: SyncBounds, target: LogBounds) -> bool:
    """Whether an answer skips a record that a sync names. What retention has taken is not skipped."""
    first = bounds.upper
    if bounds.lower is not None and bounds.lower.upstream_offset == offset:
        first = bounds.lower
    return first is not None and answer > max(first.downstream_offset, target.start)


def _low(offset: int, lower: OffsetSync) -> int:
    return lower.downstream_offset + (lower.upstream_offset < offset)


def _of_syncs(offset: int, lower: OffsetSync, upper: OffsetSync | None, target: LogBounds) -> Verdict:
    low = _low(offset, lower)
    answer = max(low, target.start)
    # Below its log start the target has lost copies: of which records no sync tells.
    not_on_target = 0 if low >= target.start else None
    detail: dict[str, str | int | None] = {
        "sync_upstream": lower.upstream_offset,
        "sync_downstream": lower.downstream_offset,
    }
    if lower.upstream_offset == offset and lower.downstream_offset >= target.start:
        return Verdict(Judgement.EXACT, answer, 0, Evidence.SYNC, detail=detail, not_on_target=not_on_target)
    if upper is not None and upper.downstream_offset < target.start:
        upper = None
    # Past the newest sync all that the target holds may have been read, and what is before the offset may still arrive.
    to_come = 0 if upper else max(0, offset - lower.upstream_offset - 1)
    ceiling = min(target.end, upper.downstream_offset) if upper else target.end
    bound = max(0, ceiling - answer) + to_come
    return Verdict(
        Judgement.BOUNDED, answer, bound, Evidence.SYNC_PLUS_1, detail=detail, not_on_target=not_on_target
    )


def _disagreement(verdict: Verdict, sync: OffsetSync | None) -> Verdict:
    assert sync is not None
    return Verdict.pending(
        Reason.EVIDENCE_DISAGREES,
        answer=verdict.offset,
        sync_upstream=sync.upstream_offset,
        sync_downstream=sync.downstream_offset,
    )


def ends_at(
    downstream: int, timestamp: int, target: LogBounds, memory: PartitionMemory, caps: Caps | None = None
) -> Steps[bool | None]:
    """Whether the target's record at `downstream` has this timestamp; None when it is gone, the timestamp is not known
    (-1), or brokers have overwritten it."""
    if timestamp < 0 or not target.start <= downstream < target.end:
        return None
    try:
        section = yield from LogReader(Side.TARGET, target, Budget(caps or Caps()), memory).open(downstream)
    except CapReached:
        return None
    record = section.at(downstream)
    return None if record is None or section.append_time else record.timestamp == timestamp


def are_copies(
    upstream: int,
    downstream: int,
    source: LogBounds,
    target: LogBounds,
    memory: PartitionMemory,
    caps: Caps | None = None,
) -> Steps[bool | None]:
    """Whether the target holds at `downstream` what the source has at `upstream`; None when either is gone, or the
    target's brokers have overwritten timestamps there."""
    budget = Budget(caps or Caps())
    records = []
    try:
        for side, bounds, position in (
            (Side.SOURCE, source, upstream),
            (Side.TARGET, target, downstream),
        ):
            if not bounds.start <= position < bounds.end:
                return None
            section = yield from LogReader(side, bounds, budget, memory).open(position)
            records.append(None if side is Side.TARGET and section.append_time else section.at(position))
    except CapReached:
        return None
    one, other = records
    return None if one is None or other is None else same(one, other)

"""Offset syncs beside bracketing (design 5.4): syncs give the bounds, bracketing the answer, disagreement a reason.

A sync (u, d) says that the record at `u` of the source stands at `d` of the target. So the first record at or after
an offset `o` stands above `d` where u < o, at `d` where u = o, and not above `d` where u > o.

Where the two contradict each other one of them is wrong, and an offset written on a guess could skip: nothing is
written. With one exception: a mirror that died copies again what it had copied, and syncs then tell of the second
copies. The sync's own record, read on both sides, shows that both are right, and the first copy is the answer.
"""

from __future__ import annotations

from bridge.translation.bracketing import bracket
from bridge.translation.memory import PartitionMemory
from bridge.translation.mm2_records import OffsetSync
from bridge.translation.model import Evidence, Judgement, Reason, Side, Verdict
from bridge.translation.stretch import Budget, CapReached, Caps, Log, LogBounds, Steps, same
from bridge.translation.sync_store import SyncBounds

_BEYOND_SYNCS = (Reason.OFFSET_BEYOND_END,)
"""Reasons that syncs know nothing against: the source was cut back or made anew under the group."""


def by_syncs(offset: int, translated: int | None, bounds: SyncBounds | None, target_end: int) -> Verdict:
    """Stock's answer as a verdict; `translated` is OffsetSyncStore.translate's. An answer past the target's end, which
    the target was cut back below, is none (stock writes it: out of range there, and skips once the log has grown)."""
    if translated is None or bounds is None:
        return Verdict.pending(Reason.NO_OFFSET_SYNCS)
    if translated < 0 or bounds.lower is None:
        return Verdict.pending(
            Reason.OLDER_THAN_SYNCS, oldest_sync=bounds.upper.upstream_offset if bounds.upper else None
        )
    if translated > target_end:
        return Verdict.pending(Reason.EVIDENCE_DISAGREES, answer=translated, target_end=target_end)
    return _of_syncs(offset, bounds.lower, bounds.upper, target_end)


def both(
    offset: int,
    source: LogBounds,
    target: LogBounds,
    memory: PartitionMemory,
    bounds: SyncBounds | None,
    caps: Caps | None = None,
) -> Steps[Verdict]:
    """The verdict by bracketing within what syncs say. Raises nothing; see `bracket`."""
    verdict = yield from bracket(offset, source, target, memory, caps)
    if agrees(verdict, offset, bounds, target.end):
        return verdict
    known = _current(bounds, target.end)
    assert known is not None
    if verdict.offset is None:
        return _instead(verdict, offset, known, target.end)
    high = _high(offset, known)
    if high is not None and verdict.offset > high:
        return _disagreement(verdict, known.upper or known.lower)
    assert known.lower is not None
    held = yield from _held(known.lower, source, target, memory, caps or Caps())
    low = _low(offset, known.lower)
    contradicted = verdict.bound is not None and verdict.offset + verdict.bound < low
    if held is False:
        return _disagreement(verdict, known.lower) if contradicted else verdict
    if held and not contradicted and verdict.bound is not None:
        raised = verdict.offset + verdict.bound - low
        judgement = Judgement.BOUNDED if raised else Judgement.EXACT
        return Verdict(judgement, low, raised, verdict.evidence, None, verdict.flags, -1, verdict.detail)
    return verdict


def agrees(verdict: Verdict, offset: int, bounds: SyncBounds | None, target_end: int) -> bool:
    """Whether a verdict by bracketing needs nothing of the syncs, and none of them speaks against it."""
    known = _current(bounds, target_end)
    if known is None:
        return True
    if verdict.offset is None:
        return verdict.reason in _BEYOND_SYNCS or known.lower is None
    high = _high(offset, known)
    if high is not None and verdict.offset > high:
        return False
    return known.lower is None or _low(offset, known.lower) <= verdict.offset


def _current(bounds: SyncBounds | None, target_end: int) -> SyncBounds | None:
    """Without the syncs that tell of what the target does not hold: it was cut back, or is read behind them."""
    if bounds is None:
        return None
    lower, upper = bounds.lower, bounds.upper
    if lower is not None and lower.downstream_offset >= target_end:
        return None
    if upper is not None and upper.downstream_offset >= target_end:
        upper = None
    return SyncBounds(lower, upper) if lower is not None or upper is not None else None


def _low(offset: int, lower: OffsetSync) -> int:
    return lower.downstream_offset + (lower.upstream_offset < offset)


def _high(offset: int, bounds: SyncBounds) -> int | None:
    if bounds.lower is not None and bounds.lower.upstream_offset == offset:
        return bounds.lower.downstream_offset
    return bounds.upper.downstream_offset if bounds.upper else None


def _of_syncs(offset: int, lower: OffsetSync, upper: OffsetSync | None, target_end: int) -> Verdict:
    answer = _low(offset, lower)
    detail: dict[str, str | int | None] = {
        "sync_upstream": lower.upstream_offset,
        "sync_downstream": lower.downstream_offset,
    }
    if lower.upstream_offset == offset:
        return Verdict(Judgement.EXACT, answer, 0, Evidence.SYNC, detail=detail)
    ceiling = min(target_end, upper.downstream_offset) if upper else target_end
    return Verdict(Judgement.BOUNDED, answer, max(0, ceiling - answer), Evidence.SYNC_PLUS_1, detail=detail)


def _instead(verdict: Verdict, offset: int, known: SyncBounds, target_end: int) -> Verdict:
    """Syncs alone, where records gave no answer (timestamps overwritten on the target, say)."""
    if known.lower is None:
        return verdict
    return _of_syncs(offset, known.lower, known.upper, target_end)


def _disagreement(verdict: Verdict, sync: OffsetSync | None) -> Verdict:
    assert sync is not None
    return Verdict.pending(
        Reason.EVIDENCE_DISAGREES,
        answer=verdict.offset,
        sync_upstream=sync.upstream_offset,
        sync_downstream=sync.downstream_offset,
    )


def _held(
    sync: OffsetSync, source: LogBounds, target: LogBounds, memory: PartitionMemory, caps: Caps
) -> Steps[bool | None]:
    """Whether the target holds, where the sync says, the record that it says; None when either is gone."""
    budget = Budget(caps)
    found = []
    try:
        for side, bounds, at in (
            (Side.SOURCE, source, sync.upstream_offset),
            (Side.TARGET, target, sync.downstream_offset),
        ):
            if not bounds.start <= at < bounds.end:
                return None
            stretch = yield from Log(side, bounds, budget, memory).open(at)
            found.append(stretch.at(at))
    except CapReached:
        return None
    one, other = found
    return None if one is None or other is None else same(one, other)

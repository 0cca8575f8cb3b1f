"""Decides which offset is right for a group of several sources whose copies share a partition of the target. Pure.

    source A   ... committed            source B   ... committed
                       \\                               \\
    target     a b b a  ^ lowest  a a a b a b ... highest ^ b a b

An offset on the target lies behind records of all sources, so right is the lowest of what their flows translate: none
of them skips anything. What the others have processed between there and the highest is read twice, and counted.

Each flow decides by itself, from its own verdict and what the others have said last. A group moves on on its source, so
an earlier word of theirs is a lower offset: late, and never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from bridge.model.values import Committed, Flag, Judgement, Reason, Verdict
from bridge.translation.plan import OwnCommit, Translated


class OtherFlow(NamedTuple):
    """What another flow says of a group that it has too, in one partition of the target."""

    name: str
    offset: int | None
    """What it translates to; None where that is not known: `reason` and `said` say why."""
    bound: int | None = None
    reason: Reason | None = None
    """Why nothing is ready that it has a part in, also where its offset is known."""
    said: str = ""
    outdated: bool = False
    """Whether it has said that too long ago to be the present."""


def with_standing(
    row: Translated, standing: Committed | None, earlier: Iterable[OwnCommit | None], end: int | None = None
) -> Translated:
    """Returns the row with its own offset no lower than what stands on the target, where this flow has said of that or
    of a higher one that it is right, for an offset not above the present one: it is right now. `earlier`: what it has
    said before; `end`: where the target's log ends, which may have lost what was there then."""
    alone = row.alone
    if standing is not None and end is not None and standing.offset > end:
        return row
    if alone is None or alone.offset is None or standing is None or standing.offset <= alone.offset:
        return row
    for each in earlier:
        right = -1 if each is None or each.verdict.offset is None else each.verdict.offset
        if each is not None and each.upstream <= row.committed.offset and standing.offset <= right:
            return row._replace(alone=replace(alone, offset=standing.offset, leader_epoch=-1))
    return row


def told(row: Translated, last: OwnCommit | None) -> OwnCommit | None:
    """Returns what this flow has said by itself of the group, for the next round: the highest for an offset not above
    the present one."""
    alone = row.alone
    if alone is None or alone.offset is None:
        return last
    higher = last is not None and (last.verdict.offset or 0) >= alone.offset
    if higher and last is not None and last.upstream <= row.committed.offset:
        return last
    return OwnCommit(row.committed.offset, alone)


def together(row: Translated, others: Sequence[OtherFlow]) -> Translated:
    """Returns the row with the verdict that is right for all flows. `others`: those that have the group, or may."""
    alone = row.alone
    if alone is None:
        return row
    if alone.offset is None or not others:
        return row._replace(verdict=alone)
    waits = next((other for other in others if other.offset is None), None)
    if waits is not None:
        reason = waits.reason or Reason.OTHER_SOURCE_UNKNOWN
        pending = Verdict.pending(reason, said=waits.said, alone=alone.offset)
        return row._replace(verdict=replace(pending, not_on_target=alone.not_on_target))
    return row._replace(verdict=_lowest(alone, others))


def _lowest(alone: Verdict, others: Sequence[OtherFlow]) -> Verdict:
    assert alone.offset is not None
    offsets = [alone.offset, *(other.offset for other in others if other.offset is not None)]
    bounds = [alone.bound, *(other.bound for other in others)]
    known = [bound for bound in bounds if bound is not None]
    low = min(offsets)
    bound = sum(known) + sum(offset - low for offset in offsets) if len(known) == len(bounds) else None
    detail = alone.detail | {
        "alone": alone.offset,
        "other_flows": ", ".join(f"{other.name} at {other.offset}" for other in others),
    }
    flags = list(alone.flags)
    said = [other.said for other in others if other.said]
    if any(other.reason for other in others):
        flags.append(Flag.OTHER_SOURCE_NOT_READY)
    elif any(other.outdated for other in others):
        flags.append(Flag.OTHER_SOURCE_OUTDATED)
    if said:
        detail["other_flow_said"] = "; ".join(said)
    return replace(
        alone,
        judgement=alone.judgement if bound == 0 else Judgement.BOUNDED,
        offset=low,
        bound=bound,
        leader_epoch=alone.leader_epoch if low == alone.offset else -1,
        flags=tuple(flags),
        detail=detail,
    )


def accepted(row: Translated, verdict: Verdict, standing: int | None) -> OwnCommit | None:
    """Returns, as a commit of this flow, an offset that stands on the target and that is right for this flow, whoever
    has committed it; None where it is none. `verdict`: the plan's on the row."""
    alone = row.alone
    if alone is None or alone.offset is None or standing is None or standing > alone.offset:
        return None
    if verdict.judgement is Judgement.PENDING:
        return None
    return OwnCommit(row.committed.offset, replace(alone, offset=standing, leader_epoch=-1))

r"""Decides what to commit on the target for one group, without touching it (R3).

Only groups that are Empty there, or do not exist; never lower than what stands there, partition by partition. A state
that is not known counts as active: stock takes it for absent and rewinds running groups (KAFKA-19794).

Decides which offset is right for a group of several sources whose copies share a partition of the target. Pure.

    source A   ... committed            source B   ... committed
                       \                               \
    target     a b b a  ^ lowest  a a a b a b ... highest ^ b a b

An offset on the target lies behind records of all sources, so right is the lowest of what their flows translate: none
of them skips anything. What the others have processed between there and the highest is read twice, and counted.

Each flow decides by itself, from its own verdict and what the others have said last. A group moves on on its source, so
an earlier word of theirs is a lower offset: late, and never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bridge.model.values import (
    Committed,
    Flag,
    GroupState,
    Judgement,
    Reason,
    TopicPartition,
    Verdict,
)

SYNCED_TYPES = frozenset({"classic", "consumer"})
_READ_TWICE = ("copied_twice", "others_unknown")
"""Details of a verdict: up to where on the target copies of others stand, or may stand."""


class Translated(NamedTuple):
    """One partition of a group: what is committed on the source, and the verdict on it."""

    source: TopicPartition
    target: TopicPartition
    committed: Committed
    verdict: Verdict
    kept_back: Verdict | None = None
    """The verdict on an offset that the mirror itself has put there on the source: nothing is committed for it. Beside
    partitions that consumers have moved it counts where the group stands at its offset on the target, or before it;
    in a group that nobody has moved only where the target lacks records."""
    alone: Verdict | None = None
    """The verdict by this flow alone, where other sources are copied to the same partition (bridge.translation.plan);
    None where none is."""


class OwnCommit(NamedTuple):
    """An offset that this connector committed on the target: for which offset of the source, by which verdict."""

    upstream: int
    verdict: Verdict


class PartitionPlan(NamedTuple):
    """The plan for one partition of a group; `write`: what to commit, None to leave what stands there."""

    source: TopicPartition
    target: TopicPartition
    committed: Committed
    verdict: Verdict
    standing: int | None
    """The offset on the target before the plan is carried out."""
    write: Committed | None


class NotCopied(NamedTuple):
    """A topic that a group reads and the flow does not copy, and what key leaves it out: "" for an internal one."""

    topic: str
    key: str


class NotBegun(NamedTuple):
    """A partition of the source in which a group has committed nothing, so that it will read it from the log's start.
    `not_on_target`: at most so many records that the copy is past are not on the target; None for not known.
    `target_start`: the target's log start then, from which on it may lose more; None where that is not known."""

    topic: str
    partition: int
    not_on_target: int | None
    target_start: int | None = None


@dataclass(frozen=True, slots=True)
class GroupPlan:
    group: str
    rows: tuple[PartitionPlan, ...]
    reason: Reason | None = None
    """Why nothing is written for the whole group."""
    not_copied: tuple[NotCopied, ...] = ()
    not_begun: tuple[NotBegun, ...] = ()

    @property
    def writes(self) -> dict[TopicPartition, Committed]:
        return {row.target: row.write for row in self.rows if row.write is not None}


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """A group as the target has it."""

    state: GroupState
    type: str
    offsets: Mapping[TopicPartition, Committed]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the logs of the target end, as far as they were asked for."""


def plan_group(
    group: str,
    translated: Sequence[Translated],
    target: TargetGroup,
    written: Mapping[TopicPartition, OwnCommit],
    *,
    rewind: bool = False,
    dry_run: bool = False,
) -> GroupPlan:
    """Plans one group. `written` is what we committed before, by target partition; `rewind` allows to move back
    what is still as we left it (sync.group.offsets.rewind=empty-groups)."""
    reason = _untouchable(target)
    if all(row.kept_back is not None for row in translated):
        translated = [
            row if _lacks_records(row, target) else row._replace(kept_back=None) for row in translated
        ]
    rows = tuple(_row(each, target, written.get(each.target), reason, rewind=rewind) for each in translated)
    if dry_run and reason is None and any(row.write for row in rows):
        # What would be written is the answer; that nothing was is the reason.
        return GroupPlan(group, tuple(row._replace(write=None) for row in rows), Reason.DRY_RUN)
    return GroupPlan(group, rows, reason)


def _untouchable(target: TargetGroup) -> Reason | None:
    if target.state is GroupState.NOT_FOUND:
        return None
    if target.type not in SYNCED_TYPES:
        return Reason.GROUP_TYPE_UNSUPPORTED
    if target.state is GroupState.UNKNOWN:
        return Reason.GROUP_STATE_UNKNOWN
    return None if target.state in (GroupState.EMPTY, GroupState.DEAD) else Reason.GROUP_ACTIVE_ON_TARGET


def _row(
    translated: Translated,
    target: TargetGroup,
    written: OwnCommit | None,
    reason: Reason | None,
    *,
    rewind: bool,
) -> PartitionPlan:
    standing = target.offsets.get(translated.target)
    verdict, write = translated.verdict, None
    if reason is not None:
        detail = verdict.detail | {"answer": verdict.offset}
        verdict = replace(verdict, judgement=Judgement.PENDING, reason=reason, detail=detail)
    elif translated.kept_back is not None:
        verdict = _in_place(translated.kept_back, standing) or verdict
    elif verdict.offset is not None:
        end = target.ends.get(translated.target)
        verdict, write = _decide(translated, standing, written, end, rewind=rewind)
    return PartitionPlan(
        translated.source,
        translated.target,
        translated.committed,
        verdict,
        standing.offset if standing else None,
        write,
    )


def _lacks_records(row: Translated, target: TargetGroup) -> bool:
    verdict = None if row.kept_back is None else _in_place(row.kept_back, target.offsets.get(row.target))
    return verdict is not None and bool(verdict.not_on_target)


def _in_place(verdict: Verdict, standing: Committed | None) -> Verdict | None:
    """Returns the verdict on an offset that nothing is committed for, by where the group stands on the target; None
    where that is behind records that it has not read, or nowhere."""
    if verdict.offset is None or standing is None or standing.offset > verdict.offset:
        return None
    lower = verdict.offset - standing.offset
    if not lower:
        return verdict
    bound = None if verdict.bound is None else verdict.bound + lower
    return replace(verdict, judgement=Judgement.BOUNDED, offset=standing.offset, bound=bound)


def _decide(
    translated: Translated,
    standing: Committed | None,
    written: OwnCommit | None,
    end: int | None,
    *,
    rewind: bool,
) -> tuple[Verdict, Committed | None]:
    verdict = translated.verdict
    assert verdict.offset is not None
    committed = Committed(verdict.offset, translated.committed.metadata, verdict.leader_epoch)
    if standing is None or standing.offset < verdict.offset:
        return verdict, committed
    if standing.offset == verdict.offset:
        return verdict, None
    ours = written is not None and written.verdict.offset == standing.offset
    sound = verdict.judgement is not Judgement.EXACT
    if (
        ours
        and sound
        and (end is None or standing.offset <= end)
        and translated.alone is None
        and written is not None
        and written.upstream <= translated.committed.offset
    ):
        # Our own earlier answer, for an offset not above this one, is higher: it was verified then and is safe now. Not
        # so where this one is exact, or beyond the log's end: then a replica leads that lacked what came last, and
        # copies stand there anew, or will.
        return _standing(verdict, written, standing.offset, translated.committed.offset), None
    if ours and rewind:
        return replace(verdict, flags=(*verdict.flags, Flag.REWOUND)), committed
    ahead: dict[str, str | int | None] = {
        "target_ahead_by": standing.offset - verdict.offset,
        "answer": verdict.offset,
    }
    return (
        replace(
            verdict, judgement=Judgement.PENDING, reason=Reason.TARGET_AHEAD, detail=verdict.detail | ahead
        ),
        None,
    )


def _standing(verdict: Verdict, written: OwnCommit, standing: int, upstream: int) -> Verdict:
    if written.upstream != upstream:
        return replace(verdict, offset=standing)
    kept = replace(written.verdict, not_on_target=verdict.not_on_target)
    seen = {word: verdict.detail[word] for word in _READ_TWICE if word in verdict.detail}
    if not seen or kept.judgement is not Judgement.EXACT:
        return kept
    # Copies of others that were found since are read twice from there on too.
    return replace(kept, judgement=Judgement.BOUNDED, bound=verdict.bound, detail=kept.detail | seen)


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
    for commit in earlier:
        right = -1 if commit is None or commit.verdict.offset is None else commit.verdict.offset
        if commit is not None and commit.upstream <= row.committed.offset and standing.offset <= right:
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

"""Decides what to commit on the target for one group, without touching it (R3).

Only groups that are Empty there, or do not exist; never lower than what stands there, partition by partition. A state
that is not known counts as active: stock takes it for absent and rewinds running groups (KAFKA-19794).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """The verdict by this flow alone, where other sources are copied to the same partition (bridge.translation.shared);
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
    each: Translated, target: TargetGroup, written: OwnCommit | None, reason: Reason | None, *, rewind: bool
) -> PartitionPlan:
    standing = target.offsets.get(each.target)
    verdict, write = each.verdict, None
    if reason is not None:
        detail = verdict.detail | {"answer": verdict.offset}
        verdict = replace(verdict, judgement=Judgement.PENDING, reason=reason, detail=detail)
    elif each.kept_back is not None:
        verdict = _in_place(each.kept_back, standing) or verdict
    elif verdict.offset is not None:
        end = target.ends.get(each.target)
        verdict, write = _decide(each, standing, written, end, rewind=rewind)
    return PartitionPlan(
        each.source, each.target, each.committed, verdict, standing.offset if standing else None, write
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
    each: Translated, standing: Committed | None, written: OwnCommit | None, end: int | None, *, rewind: bool
) -> tuple[Verdict, Committed | None]:
    verdict = each.verdict
    assert verdict.offset is not None
    committed = Committed(verdict.offset, each.committed.metadata, verdict.leader_epoch)
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
        and each.alone is None
        and written is not None
        and written.upstream <= each.committed.offset
    ):
        # Our own earlier answer, for an offset not above this one, is higher: it was verified then and is safe now. Not
        # so where this one is exact, or beyond the log's end: then a replica leads that lacked what came last, and
        # copies stand there anew, or will.
        return _standing(verdict, written, standing.offset, each.committed.offset), None
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

"""Moves groups to the target: this connector commits them no more, until they are rolled back or given back.

One record in the readiness topic moves a group, and holds all that a later step needs. So a move, a rollback and giving
a group back are one write each: whatever is killed in the middle, a repetition completes it, and nothing is answered
that the target has not acknowledged.

Decides whether a group may be moved to the target, and makes the record that moves it. Pure.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bridge.errors import KafkaFailure, OperationRefused
from bridge.model.state_records.move_record import (
    MOVED,
    RETURNED,
    MoveRecord,
    MoveRow,
    NotBegunMoved,
    Standing,
)
from bridge.model.values import (
    Committed,
    Evidence,
    GroupState,
    Judgement,
    Reason,
    Side,
    TopicPartition,
    Verdict,
    task_of,
)
from bridge.protocol.messages import GroupReport, PartitionReport
from bridge.translation.plan import OwnCommit
from connectors.base import Publisher
from connectors.cluster_away import ClusterAway, ask, reason_of
from connectors.group_translation.options import GroupOptions
from connectors.group_translation.stored import StoredState
from connectors.ports import Cluster

Refusal = tuple[str, str]
"""A reason code and a sentence."""
Offsets = Mapping[TopicPartition, Committed]
QUIET = (GroupState.EMPTY, GroupState.DEAD, GroupState.NOT_FOUND)
"""States of groups without members."""
AT_ONCE = 200
"""Groups that are read, or written, together."""


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """What the decision rests on beside the group itself."""

    as_of_ms: int
    source_away: bool
    missing_since_ms: int | None
    missing: Mapping[tuple[str, int], int]
    """Records, by source partition."""
    not_begun: tuple[NotBegunMoved, ...] = ()


def planned(
    report: GroupReport | None,
    state: GroupState,
    target_offsets: Offsets | KafkaFailure,
    facts: MoveFacts,
    now_ms: int,
) -> MoveRecord | Refusal:
    """Returns the record that moves a group, or why it can't be moved: it must have committed on the target, now, what
    the last round translated."""
    if report is None or not report.partitions:
        return "not_looked_at_yet", "the group has no report of the last round"
    if isinstance(target_offsets, KafkaFailure):
        return reason_of(Side.TARGET, target_offsets).value, str(target_offsets)
    if state is GroupState.UNKNOWN:
        return Reason.GROUP_STATE_UNKNOWN.value, "the group's state on the target can't be read: try again"
    if state not in QUIET:
        active = Reason.GROUP_ACTIVE_ON_TARGET
        return active.value, f"the group is {state.value} on the target: stop its consumers there"
    rows = []
    for part in report.partitions:
        standing = target_offsets.get(TopicPartition(part.target_topic, part.partition))
        if part.verdict == "pending" or part.target_offset is None:
            return part.reason or "not_looked_at_yet", f"{part.topic}-{part.partition} is pending"
        place = f"{part.target_topic}-{part.partition}"
        if standing is None:
            return (
                "not_looked_at_yet",
                f"the group has committed nothing in {place} on the target: a checkpoint connector commits groups "
                "only with sync.group.offsets.enabled=true",
            )
        if standing.offset != part.target_offset:
            said = (
                f"the committed offset of {place} is {standing.offset} and not {part.target_offset} any more"
            )
            return "not_looked_at_yet", said
        rows.append(
            MoveRow(
                part.topic,
                part.partition,
                part.committed,
                part.target_topic,
                part.target_offset,
                part.verdict,
                part.bound,
                facts.missing.get((part.topic, part.partition)),
            )
        )
    snapshot = tuple(standing_of(tp, at) for tp, at in sorted(target_offsets.items()))
    since = facts.missing_since_ms
    return MoveRecord(
        MOVED, now_ms, facts.as_of_ms, facts.source_away, since, tuple(rows), snapshot, facts.not_begun
    )


def standing_of(tp: TopicPartition, at: Committed) -> Standing:
    return Standing(tp.topic, tp.partition, at.offset, at.metadata, at.leader_epoch)


def pairs_of(
    record: MoveRecord,
) -> tuple[Mapping[TopicPartition, Committed], Mapping[TopicPartition, OwnCommit]]:
    """Returns, for a group that was given back, its offsets on the source and the equivalent ones on the target. These
    may stand behind a transaction marker where a translation stands before it: a consumer reads the same from both."""
    source = {TopicPartition(row.topic, row.partition): Committed(row.offset) for row in record.rows}
    target = {
        TopicPartition(row.target_topic, row.partition): OwnCommit(
            row.offset, Verdict(Judgement(row.verdict), row.target_offset, row.bound, Evidence.VERIFIED)
        )
        for row in record.rows
    }
    return source, target


class Moves:
    """The moved groups of one connector. `moved` is shared: it changes as groups are moved and come back."""

    def __init__(
        self,
        name: str,
        options: GroupOptions,
        target: Cluster,
        store: StoredState,
        moved: dict[str, MoveRecord],
        publisher: Publisher,
        forget: Callable[[str], None],
    ) -> None:
        """`forget` is called with groups whose last report from a round counts no more."""
        self.connector, self._options, self._target, self._store = name, options, target, store
        self._publisher, self._forget_report = publisher, forget
        self.moved = moved
        self.task_count = 1
        self._meanings: dict[str, int] = {}
        """By group, the meaning of its record."""
        self._published: dict[str, tuple[int, int]] = {}
        """By group, meaning and task of the report that was published last."""
        self._lost = 0
        self._returned: dict[str, MoveRecord] = {}

    @property
    def enabled(self) -> bool:
        """Whether groups may be moved: the readiness topic is written (emit.group-readiness.enabled)."""
        return self._options.readiness_enabled

    @property
    def remarks(self) -> Sequence[str]:
        """Why the topic can't be read or written. With emit.group-readiness.enabled=false no right on it is needed, and
        earlier moves still hold where it can be read."""
        return self._store.remarks if self._options.readiness_enabled else ()

    # -- what stands in the topic ------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Reads the topic before anything is reported, if the target answers."""
        with contextlib.suppress(ClusterAway):
            await self.follow()

    async def follow(self) -> None:
        """Reads the topic and takes over its moves; moves that were lost with the topic are written again, and hold
        until they are. Raises ClusterAway."""
        await self._store.follow()
        if self._store.lost != self._lost:
            try:
                await self._store.put(
                    {(MoveRecord.kind, name): record for name, record in self.moved.items()}
                )
            except KafkaFailure:
                return  # the store's remarks say why, and the next round tries again
            self._lost = self._store.lost
        names = self._store.names(MoveRecord)
        for name in self._meanings.keys() - set(names):
            self._forget(name)
        for name in names:
            meaning = self._store.meaning(MoveRecord, name)
            if meaning is not None and self._meanings.get(name) != meaning:
                self._accept(name, self._store.get(MoveRecord, name))
        self.publish()

    def _accept(self, name: str, record: MoveRecord | None) -> None:
        if record is None:
            return
        self._meanings[name] = record.meaning
        if record.state == MOVED:
            self.moved[name] = record
        else:
            self.moved.pop(name, None)
            self._returned[name] = record

    def _forget(self, name: str) -> None:
        self._meanings.pop(name, None)
        self.moved.pop(name, None)

    # -- reports -----------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Publishes the reports of moved groups that have changed, of all tasks; None for groups that are moved no
        more."""
        changed: dict[str, GroupReport | None] = {}
        for name in self._published.keys() - self.moved.keys():
            del self._published[name]
            changed[name] = None
        for name, record in self.moved.items():
            task = task_of(name, self.task_count)
            mark = self._meanings[name], task
            if self._published.get(name) != mark:
                self._published[name] = mark
                changed[name] = self._report(name, task, record)
        for name in changed:
            self._forget_report(name)
        if changed:
            self._publisher.groups(changed)

    def _report(self, name: str, task: int, record: MoveRecord) -> GroupReport:
        bounds = [row.bound for row in record.rows]
        known_bounds = [bound for bound in bounds if bound is not None]
        return GroupReport(
            group=name,
            connector=self.connector,
            source=self._options.source_alias,
            target=self._options.target_alias,
            task=task,
            ready=False,
            verdict="bounded" if any(row.verdict == "bounded" for row in record.rows) else "exact",
            bound=sum(known_bounds) if len(known_bounds) == len(bounds) else None,
            target_state="MOVED",
            synced_at_ms=record.at_ms,
            reason=Reason.MOVED.value,
            partitions=[_partition(row) for row in record.rows],
            moved_at_ms=record.at_ms,
        )

    # -- steps -------------------------------------------------------------------------------------------------------

    async def move(
        self,
        facts: Mapping[str, MoveFacts],
        report_of: Callable[[str], GroupReport | None],
        *,
        dry_run: bool,
    ) -> tuple[dict[str, MoveRecord], dict[str, Refusal]]:
        """Moves all of these groups, or none; a group that is moved already keeps its record. Raises KafkaFailure and
        ClusterAway: then some may be moved."""
        records = {name: self.moved[name] for name in facts if name in self.moved}
        rest = [name for name in facts if name not in records]
        states, offsets = await self._states_and_offsets(rest)
        refused: dict[str, Refusal] = {}
        now_ms = int(time.time() * 1000)
        for name in rest:
            made = planned(report_of(name), states[name], offsets[name], facts[name], now_ms)
            if isinstance(made, MoveRecord):
                records[name] = made
            else:
                refused[name] = made
        if refused or dry_run:
            return records, refused
        for few in _portions(rest):
            await self._put({name: records[name] for name in few})
        return records, {}

    async def roll_back(self, names: Sequence[str]) -> dict[str, list[Standing]]:
        """Sets the offsets on the target back to what they were when each group was moved, and ends the moves; returns
        what the group has committed there beside them. Raises OperationRefused before anything is done, and
        KafkaFailure: then some may be set back, and all are moved."""
        states, offsets = await self._states_and_offsets(names)
        left: dict[str, list[Standing]] = {}
        for name in names:
            if name not in self.moved:
                raise OperationRefused(f"group {name} is not moved: there is nothing to roll back")
            self._refuse_active(name, states[name])
            target_offsets = _offsets_or_raise(Side.TARGET, offsets[name])
            in_snapshot = {(standing.topic, standing.partition) for standing in self.moved[name].snapshot}
            left[name] = [standing_of(tp, at) for tp, at in target_offsets.items() if tp not in in_snapshot]
        for name in names:
            previous = {
                TopicPartition(standing.topic, standing.partition): Committed(
                    standing.offset, standing.metadata, standing.leader_epoch
                )
                for standing in self.moved[name].snapshot
            }
            if previous:
                failed = (await self._target.alter(name, previous)).values()
                if first := next((failure for failure in failed if failure is not None), None):
                    raise first
        await self._store.put({(MoveRecord.kind, name): None for name in names})
        for name in names:
            self._forget(name)
        return left

    async def give_back(self, pairs: Mapping[str, Sequence[MoveRow]]) -> None:
        """Gives back groups whose consumers go on on the source: `pairs` are equivalent offsets, and those on the
        target are what the consumers there have committed last. They stay, and the flow goes on from them. Raises
        OperationRefused before anything is done, and KafkaFailure: then some are given back."""
        states, offsets = await self._states_and_offsets(list(pairs))
        now_ms = int(time.time() * 1000)
        records: dict[str, MoveRecord] = {}
        for name, rows in pairs.items():
            self._refuse_active(name, states[name])
            target_offsets = _offsets_or_raise(Side.TARGET, offsets[name])
            for row in rows:
                at = target_offsets.get(TopicPartition(row.target_topic, row.partition))
                if at is None or at.offset != row.target_offset:
                    raise OperationRefused(
                        f"group {name} has committed another offset of {row.target_topic}-{row.partition} on "
                        f"{self._options.target_alias} meanwhile: stop its consumers there and repeat"
                    )
            records[name] = MoveRecord(RETURNED, now_ms, now_ms, False, None, tuple(rows))
        for few in _portions(list(records)):
            await self._put({name: records[name] for name in few})

    def drain_returned(self) -> dict[str, MoveRecord]:
        """Returns the groups that were given back since the last call."""
        returned, self._returned = self._returned, {}
        return returned

    def _refuse_active(self, name: str, state: GroupState) -> None:
        if state not in QUIET:
            raise OperationRefused(
                f"group {name} is {state.value} on {self._options.target_alias}: stop its consumers there and repeat"
            )

    async def _states_and_offsets(
        self, names: Sequence[str]
    ) -> tuple[Mapping[str, GroupState], Mapping[str, Offsets | KafkaFailure]]:
        """Reads states, and then offsets: what a member commits after its group was seen empty is among them."""
        states: dict[str, GroupState] = {}
        offsets: dict[str, Offsets | KafkaFailure] = {}
        wait = self._options.admin_timeout_ms
        for few in _portions(names):
            states |= await ask(Side.TARGET, self._target.group_states(few), wait)
            offsets |= await ask(Side.TARGET, self._target.committed(few, right="READ"), wait)
        return states, offsets

    async def _put(self, records: Mapping[str, MoveRecord]) -> None:
        await self._store.put({(MoveRecord.kind, name): record for name, record in records.items()})
        for name, record in records.items():
            self._accept(name, record)


def _partition(row: MoveRow) -> PartitionReport:
    return PartitionReport(
        topic=row.topic,
        partition=row.partition,
        target_topic=row.target_topic,
        committed=row.offset,
        target_offset=row.target_offset,
        written=row.target_offset,
        verdict=row.verdict,
        bound=row.bound,
    )


def _offsets_or_raise(side: Side, offsets: Offsets | KafkaFailure) -> Offsets:
    if isinstance(offsets, KafkaFailure):
        raise ClusterAway(side, offsets).with_side()
    return offsets


def _portions(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE))

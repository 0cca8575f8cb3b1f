"""Runs BridgeMirrorCheckpointConnector: emits checkpoints through Connect and, where configured, commits group offsets.

Stock's MirrorCheckpointTask (stock §3.8) with other answers: by default those of bracketing within what the offset
syncs say. Both intervals begin when the connector starts, and a start is due at once.

Keeps track of checkpoints: those in the topic, and those that Connect has yet to write.

Follows the offset-syncs topic into an OffsetSyncStore.

BridgeMirrorCheckpointConnector as a kind of connector.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from bridge.mm2.checkpoints import CheckpointStore, emit
from bridge.mm2.offset_sync_store import OffsetSyncStore, SyncBounds
from bridge.mm2.records import Checkpoint, OffsetSync, SyncColumns
from bridge.model.values import Committed, GroupState, LogRecord, LogRecords, Side, TopicPartition, Verdict
from bridge.translation.plan import GroupPlan, TargetGroup, Translated, plan_group
from connectors.base import CheckedOnOpen, ConnectorKind, EmittedRecord, Instance, Publisher
from connectors.checkpoint.options import (
    DEFINITION,
    REPLICATION_FACTOR,
    CheckpointOptions,
    Evidences,
    validate,
)
from connectors.config.configdef import given
from connectors.config.key_effects import FOR_GROUPS
from connectors.group_translation.instance import GroupsInstance, OpenClusters, Translation
from connectors.group_translation.round import RoundOutcome
from connectors.group_translation.translating.followed_topics import FollowedRuns, ReverseFlow, TopicFollower
from connectors.group_translation.translating.strategies import (
    ByBoth,
    ByRecords,
    ByRuns,
    BySyncs,
    Runs,
    Strategy,
    Syncs,
)
from connectors.internal_topics import make
from connectors.ports import Cluster, Clusters, Pipelines, Tail

Key = tuple[str, TopicPartition]


class Checkpoints:
    """The newest checkpoints of all groups; follows the topic as long as the connector runs. Stock reads the topic
    once, at the start of each task: it does not see what another connector writes there, and takes for written what
    Connect never wrote."""

    def __init__(self, side: Side, tail: Tail, timeout_ms: int) -> None:
        self._in_topic = CheckpointStore()
        self._in_flight: dict[Key, Checkpoint] = {}
        """Handed to Connect, which writes them sooner or later."""
        self.log = TopicFollower(side, tail, self._apply, self._restart, timeout_ms)

    async def follow(self) -> None:
        """Reads what is new in the topic. Raises ClusterAway."""
        await self.log.follow()

    def last(self, group: str, tp: TopicPartition) -> Checkpoint | None:
        """Returns the newest checkpoint of a group and remote partition, written or in flight."""
        return self._in_flight.get((group, tp)) or self._in_topic.get(group, tp)

    def written(self, group: str, tp: TopicPartition) -> Checkpoint | None:
        return self._in_topic.get(group, tp)

    def emit(
        self, group: str, rows: Sequence[Translated], target_end: Callable[[TopicPartition], int | None]
    ) -> list[Checkpoint]:
        """Returns the checkpoints that are due for a group (stock §3.8), and counts them as in flight. A last one that
        points past the target's end counts as none: the target was truncated or created again, and nothing would ever
        be more recent."""
        answers = {row.source: row.verdict.offset for row in rows}
        topics = {row.source.topic: row.target.topic for row in rows}
        last: dict[TopicPartition, Checkpoint] = {}
        for row in rows:
            checkpoint, end = self.last(group, row.target), target_end(row.target)
            if checkpoint is not None and (end is None or checkpoint.downstream_offset <= end):
                last[row.target] = checkpoint
        due = emit(
            group,
            {row.source: row.committed for row in rows},
            lambda tp, _: answers[tp],
            topics.__getitem__,
            last,
        )
        self._in_flight.update({(group, checkpoint.topic_partition): checkpoint for checkpoint in due})
        return due

    def _apply(self, record: LogRecord) -> None:
        checkpoint = Checkpoint.checked(record.key, record.value)
        key = (checkpoint.group, checkpoint.topic_partition)
        if self._in_flight.get(key) == checkpoint:
            del self._in_flight[key]
        self._in_topic.apply(checkpoint)

    def _restart(self) -> None:
        """Forgets all: a topic that was emptied gets its checkpoints again, those in flight too, for they may have been
        written to the old one."""
        self._in_topic = CheckpointStore()
        self._in_flight = {}


class FollowedSyncs:
    """The offset syncs, read to the end before each round, so that no answer rests on half a log. `mended`: see
    OffsetSyncStore."""

    def __init__(self, side: Side, tail: Tail, timeout_ms: int, *, mended: bool) -> None:
        self.side, self._mended = side, mended
        self._store = OffsetSyncStore(must_read_to_end=False, mended=mended)
        self._begun = self._only_last = False
        self.log = TopicFollower(
            side, tail, self._apply, self._restart, timeout_ms, apply_all=self._apply_all
        )

    async def follow(self, *, must_read_to_end: bool) -> None:
        """Follows the syncs. `must_read_to_end` counts until the end is reached for the first time: which checkpoints
        were emitted before is not known. Raises ClusterAway; what was read until then is kept."""
        if not self._begun:
            self._only_last = must_read_to_end
            self._store.begin(must_read_to_end=must_read_to_end)
        await self.log.follow()
        if self.log.remark is None or self.log.missing:
            self._begun, self._only_last = True, False
            self._store.finish_start()

    @property
    def store(self) -> OffsetSyncStore:
        return self._store

    def translate(self, tp: TopicPartition, offset: int) -> int | None:
        return self._store.translate(tp, offset)

    def bounds(self, tp: TopicPartition, offset: int) -> SyncBounds | None:
        return self._store.bounds(tp, offset)

    def _apply(self, record: LogRecord) -> None:
        self._store.apply(OffsetSync.checked(record.key, record.value))

    def _apply_all(self, records: LogRecords) -> bool:
        columns = SyncColumns.decode([(record.key, record.value) for record in records])
        if columns is None:
            return False
        self._store.apply_all(columns)
        return True

    def _restart(self) -> None:
        self._store = OffsetSyncStore(self._only_last, self._mended)


class CheckpointInstance(GroupsInstance[CheckpointOptions]):
    """One connector, running; see connectors.base.Instance."""

    def __init__(
        self,
        name: str,
        options: CheckpointOptions,
        clusters: Clusters,
        props: Mapping[str, str],
        publisher: Publisher,
    ) -> None:
        opened = OpenClusters.open(name, clusters, props)
        self._topic = options.policy.checkpoints_topic(options.source_alias)
        self._topic_error: str | None = None
        self._topic_made = False
        wait = options.admin_timeout_ms
        self._checkpoints = Checkpoints(Side.TARGET, opened.target.tail(self._topic), wait)
        self._syncs = syncs_of(options, (opened.source, opened.target))
        self._emit_at = self._sync_at = time.monotonic()
        runs = FollowedRuns(options, opened.target) if options.evidence is Evidences.BOTH else None
        translation = Translation(
            strategy_of(options.evidence, self._syncs, runs),
            runs,
            pairs_reversed(options),
            ReverseFlow(options, opened.source, known_only=False) if options.reverse else None,
        )
        super().__init__(name, options, opened, publisher, translation, options.emit_interval)

    # -- when --------------------------------------------------------------------------------------------------------

    def _due(self, began: float) -> float:
        options = self._options
        self._emit_at = _next(self._emit_at, options.emit_interval, began)
        self._sync_at = _next(self._sync_at, options.sync_interval, began)
        return min(self._emit_at, self._sync_at) if options.sync_enabled else self._emit_at

    def _all_due(self, began: float) -> None:
        super()._all_due(began)
        self._emit_at = self._sync_at = began

    # -- what --------------------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        await super()._prepare()
        options = self._options
        if not self._topic_made and not options.dry_run:
            factor, wait = options.checkpoints_replication_factor, options.admin_timeout_ms
            failure = await make(
                self._target, self._topic, factor, wait, holds="checkpoints", key=REPLICATION_FACTOR
            )
            self._topic_made, self._topic_error = failure is None, str(failure) if failure else None
        await self._checkpoints.follow()
        if self._checkpoints.log.missing:
            # Deleted. Whatever Connect gets now would make it anew, by the broker's defaults.
            self._topic_made = False
        source_down = self._rounds.source_failure is not None
        if options.evidence is not Evidences.TIMESTAMPS and not (
            source_down and self._syncs.side is Side.SOURCE
        ):
            await self._syncs.follow(must_read_to_end=self._checkpoints.log.remark is not None)

    async def _portion(self, groups: Sequence[str]) -> RoundOutcome:
        options, now = self._options, time.monotonic()
        outcome = RoundOutcome()
        translated = await self._rounds.translated(groups, outcome)
        if now >= self._emit_at and self._topic_made and not options.dry_run:
            outcome.checkpoints = self._emit(translated)
        if options.sync_enabled:
            if options.evidence is Evidences.SYNCS:
                translated = {group: self._as_emitted(group, rows) for group, rows in translated.items()}
            await self._rounds.write(translated, outcome, commit=now >= self._sync_at)
        else:
            outcome.plans = {group: self._as_written(group, rows) for group, rows in translated.items()}
            self._rounds.name_left(outcome.plans)
            await self._rounds.tell(translated)
        return outcome

    def _remarks(self) -> Sequence[str]:
        remarks = (self._topic_error, self._checkpoints.log.remark, self._syncs.log.remark)
        return [*super()._remarks(), *(remark for remark in remarks if remark is not None)]

    def _unreadable(self) -> Mapping[str, int]:
        return {**super()._unreadable(), **self._checkpoints.log.unreadable, **self._syncs.log.unreadable}

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def _emit(self, translated: Mapping[str, Sequence[Translated]]) -> int:
        """Emits the checkpoints that are due; returns how many."""
        now_ms = int(time.time() * 1000)
        records = [
            self._record(checkpoint, now_ms)
            for group, rows in translated.items()
            for checkpoint in self._checkpoints.emit(group, rows, self._rounds.target_end)
        ]
        if records:
            self._publisher.records(records)
        return len(records)

    def _record(self, checkpoint: Checkpoint, now_ms: int) -> EmittedRecord:
        topic, partition = checkpoint.topic_partition
        return EmittedRecord(
            affinity=checkpoint.group,
            source_partition={"group": checkpoint.group, "topic": topic, "partition": partition},
            source_offset={"offset": 0},
            topic=self._topic,
            key=checkpoint.key(),
            value=checkpoint.value(),
            timestamp=now_ms,
        )

    def _as_emitted(self, group: str, rows: Sequence[Translated]) -> list[Translated]:
        """Returns the rows that stock would sync: the last checkpoint of each partition, which a suppressed one does
        not replace."""

        def emitted(row: Translated) -> Translated:
            last = None if row.alone is not None else self._checkpoints.last(group, row.target)
            if last is None or row.verdict.offset is None or last.downstream_offset <= row.verdict.offset:
                return row
            committed = Committed(last.upstream_offset, last.metadata)
            return row._replace(committed=committed, verdict=_moved(row.verdict, last.downstream_offset))

        return [emitted(row) for row in rows]

    def _as_written(self, group: str, rows: Sequence[Translated]) -> GroupPlan:
        """Returns a plan for reports without group sync: the checkpoint in the topic counts as committed, for a group
        that fails over by MirrorClient resumes there."""
        standing = {
            row.target: Committed(written.downstream_offset, written.metadata)
            for row in rows
            if (written := self._checkpoints.written(group, row.target)) is not None
        }
        target_group = TargetGroup(GroupState.EMPTY, "classic", standing)
        plan = plan_group(group, rows, target_group, {}, dry_run=self._options.dry_run)
        return GroupPlan(group, tuple(row._replace(write=None) for row in plan.rows), plan.reason)


def _moved(verdict: Verdict, offset: int) -> Verdict:
    bound = None if verdict.bound is None else max(0, verdict.bound - (offset - (verdict.offset or 0)))
    return Verdict(
        verdict.judgement,
        offset,
        bound,
        verdict.evidence,
        detail=verdict.detail,
        not_on_target=verdict.not_on_target,
    )


def _next(due: float, interval: float, began: float) -> float:
    """Returns when something is due again after a round that began at `began`."""
    return due if due > began else began + interval


def syncs_of(options: CheckpointOptions, sides: tuple[Cluster, Cluster]) -> FollowedSyncs:
    """Returns the offset syncs of the flow, of which nothing is read yet; `sides`: source and target."""
    on_target = options.offset_syncs_on_target
    alias = options.source_alias if on_target else options.target_alias
    tail = sides[on_target].tail(options.policy.offset_syncs_topic(alias))
    # Stock's answers to the letter include those that a target which was cut back makes wrong.
    mended = options.evidence is not Evidences.SYNCS
    side = Side.TARGET if on_target else Side.SOURCE
    return FollowedSyncs(side, tail, options.admin_timeout_ms, mended=mended)


def pairs_reversed(options: CheckpointOptions) -> bool:
    """Whether copies of the target's own topics are paired with those, as stock does."""
    return options.reverse or options.evidence is Evidences.SYNCS


def strategy_of(evidence: Evidences, syncs: Syncs, runs: Runs | None) -> Strategy:
    """Returns the strategy for `translation.evidence`; runs count with `both` only."""
    if evidence is Evidences.SYNCS:
        return BySyncs(syncs)
    return ByRecords() if runs is None else ByRuns(runs, ByBoth(syncs))


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    _pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:

    options = CheckpointOptions.from_props(props, CheckedOnOpen())
    return CheckpointInstance(name, options, clusters, given(props), publisher)


KIND = ConnectorKind(
    "checkpoint", "dev.mirrorbridge.BridgeMirrorCheckpointConnector", DEFINITION, FOR_GROUPS, validate, _make
)

"""Follows topics that translation reads to their end: the mirror's offset runs, and checkpoints of the reverse flow.

Guards failback against loops: an offset that the reverse flow has committed is not sent back.

Follows an internal topic, record by record.

Follows the mirror's offset-runs topic on the target (docs/offset-runs.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from bridge.errors import KafkaFault
from bridge.mm2.records import Checkpoint, SchemaError
from bridge.model.state_records.fields import UnreadableRecords
from bridge.model.state_records.group_record import Furthest, FurthestRecord
from bridge.model.state_records.move_record import MoveRecord
from bridge.model.state_records.readiness_records import (
    RecordKey,
    TaskRecord,
    decode_key,
    decode_value,
    tell_all,
)
from bridge.model.values import CopyId, LogRecord, LogRecords, Reason, Side, TopicPartition, Verdict
from bridge.translation.plan import Translated
from bridge.translation.runs.run_evidence import ConsistentRuns, RunTable
from bridge.translation.runs.runs import OffsetRun, decode_change
from connectors.cluster_away import ClusterAway, ask
from connectors.group_translation.options import GroupOptions
from connectors.ports import Cluster, Tail

log = logging.getLogger(__name__)


_TOPIC_FAULTS = (KafkaFault.UNKNOWN_TOPIC, KafkaFault.NOT_AUTHORIZED)
_NOT_MOVED_ON = Verdict.pending(Reason.MOVED_BY_MIRROR)
_KINDS = FurthestRecord.kind, MoveRecord.kind


class TopicFollower:
    """Reads a topic to its end, again and again. `apply` gets every record in the log's order, `restart` is called
    before the first one of a topic that was created again or is gone. A record that `apply` can't decode (SchemaError)
    is skipped alone (stock loses the rest of the batch, and all that follows a null value): of such a record `apply`
    keeps at most that it has replaced an earlier one."""

    def __init__(
        self,
        side: Side,
        tail: Tail,
        apply: Callable[[LogRecord], None],
        restart: Callable[[], None],
        timeout_ms: int,
        *,
        apply_all: Callable[[LogRecords], bool] | None = None,
        optional: bool = False,
    ) -> None:
        """`apply_all` applies what was read together, if it can: False has each applied by itself. `optional`: it is no
        error that there is no such topic."""
        self._side, self._tail, self._timeout_ms = side, tail, timeout_ms
        self._apply, self._restart = apply, restart
        self._apply_all, self._optional = apply_all, optional
        self._unreadable = UnreadableRecords([tail.topic])
        self.remark: str | None = None
        """Why the topic can't be read now."""
        self.missing = False
        """Whether there is no such topic."""

    @property
    def unreadable(self) -> Mapping[str, int]:
        """Records that were left out, by topic."""
        return self._unreadable.counts

    async def follow(self) -> None:
        """Reads up to the end of the log as it is now. Raises ClusterAway when the cluster does not answer; a topic
        that is missing or forbidden is a remark."""
        topic = self._tail.topic
        try:
            while True:
                part = await ask(self._side, self._tail.read(), self._timeout_ms)
                if part.restarted:
                    self._start_over()
                if self._apply_all is None or not self._apply_all(part.records):
                    self._apply_each(part.records)
                self._unreadable.add_batches(topic, part.unreadable)
                if part.at_end:
                    break
        except ClusterAway as away:
            if away.failure.fault not in _TOPIC_FAULTS:
                raise
            self.missing = away.failure.fault is KafkaFault.UNKNOWN_TOPIC
            if self.missing:
                self._start_over()
            if self.missing and self._optional:
                self._set_remark(None)
                return
            self._set_remark(f"{topic} on the {self._side.value} cluster can't be read: {away.failure}")
        else:
            self.missing = False
            self._set_remark(None)
        for line in self._unreadable.drain_lines():
            log.warning("%s", line)

    def _apply_each(self, records: LogRecords) -> None:
        for record in records:
            try:
                self._apply(record)
            except SchemaError as problem:
                self._unreadable.add(self._tail.topic, record.offset, str(problem))

    def _start_over(self) -> None:
        self._unreadable.restarted(self._tail.topic)
        self._restart()

    def _set_remark(self, remark: str | None) -> None:
        if remark is not None and remark != self.remark:
            log.warning(remark)
        self.remark = remark


class FollowedRuns:
    """The offset runs of a flow, read to the end before each round. With stock's mirror there is no such topic, and no
    run. A topic that we may not read is logged, but not an error in health: it may not exist at all."""

    def __init__(self, options: GroupOptions, target: Cluster) -> None:
        self._table = RunTable()
        self._consistent: dict[CopyId, ConsistentRuns] = {}
        self.reads = 0
        """How often they were read to their end."""
        # Runs are true for committed data only.
        tail = target.tail(options.policy.offset_runs_topic(options.source_alias), committed_only=True)
        timeout_ms = options.admin_timeout_ms
        self.log = TopicFollower(Side.TARGET, tail, self._apply, self._restart, timeout_ms, optional=True)

    @property
    def remembered(self) -> int:
        """Copies that have runs."""
        return len(self._consistent)

    async def follow(self) -> None:
        """Raises ClusterAway."""
        await self.log.follow()
        if self.log.remark is None:  # else copies of ours stand behind the newest run that is known
            self.reads += 1

    def get_runs(self, copy: CopyId) -> ConsistentRuns:
        """Returns the runs of a copy."""
        runs = self._consistent.get(copy)
        if runs is None:
            runs = ConsistentRuns(self._table.get_runs(copy))
            if runs.last is not None:
                self._consistent[copy] = runs
        return runs

    def all(self) -> dict[CopyId, tuple[OffsetRun, ...]]:
        """Returns the runs of every copy, in no order."""
        return {copy: tuple(self._table.get_runs(copy)) for copy in self._table.copies}

    def _apply(self, record: LogRecord) -> None:
        for copy in self._table.apply(decode_change(record.key, record.value)):
            self._consistent.pop(copy, None)

    def _restart(self) -> None:
        self._table.clear()
        self._consistent.clear()


class ReverseFlow:
    """What the flow from the target to the source has committed there, by group and partition: its checkpoints, and the
    records of its connectors in the readiness topic.

    Consumers have moved a group on when it stands past everything that the mirror has committed for it. The last commit
    alone is not enough: after a reset on the target it is a low one, while the offset on the source stays where it was
    (group offsets are not moved back), and sent back it would undo the reset.
    """

    def __init__(self, options: GroupOptions, source: Cluster, *, known_only: bool) -> None:
        """`known_only`: without a trace of the reverse flow a group comes home only where a group connector there has
        told of all that it commits."""
        self._known_only, self._policy = known_only, options.policy
        self._alias = options.target_alias
        self._tasks: dict[str, dict[str, TaskRecord]] = {}
        """Tasks of the reverse flow's connectors, by connector."""
        self._checkpoints: dict[str, dict[TopicPartition, Furthest]] = {}
        self._undecodable: set[tuple[str, TopicPartition]] = set()
        """Those whose newest checkpoint can't be decoded."""
        self._records: dict[str, dict[tuple[str, str], Mapping[TopicPartition, int] | None]] = {}
        """By group; then by connector and kind, the furthest offsets; None where the newest record can't be decoded."""
        self._other = f"{options.target_alias} to {options.source_alias}"
        alias, wait = options.target_alias, options.admin_timeout_ms
        topics = options.policy.checkpoints_topic(alias), options.policy.readiness_topic(alias)
        checkpoints, readiness = map(source.tail, topics)
        self._logs = tuple(
            TopicFollower(Side.SOURCE, tail, apply, restart, wait, optional=True)
            for tail, apply, restart in (
                (checkpoints, self._apply_checkpoint, self._forget_checkpoints),
                (readiness, self._apply_record, self._forget_records),
            )
        )

    @property
    def unreadable(self) -> Mapping[str, int]:
        return {topic: count for log in self._logs for topic, count in log.unreadable.items()}

    @property
    def failures(self) -> list[str]:
        """Why its topics can't be read. A missing one is no failure: there may be no reverse flow."""
        return [log.remark for log in self._logs if log.remark is not None]

    async def follow(self) -> None:
        """Reads what is new in both topics. Raises ClusterAway."""
        for log in self._logs:
            await log.follow()

    def guarded(
        self, group: str, rows: Sequence[Translated], source_end: Callable[[TopicPartition], int | None]
    ) -> list[Translated]:
        """Makes verdicts pending where consumers have not moved the group on, and keeps what they were (`kept_back`).
        Commits past the source's end do not count, as in `Checkpoints.emit`: no group would ever get there."""
        if failures := self.failures:
            return _held(rows, failures[0])
        traced = group in self._checkpoints or group in self._records
        # What it commits it notes before: where it notes at all, what it has not noted is the consumers'.
        unknown = self._known_only and not traced and not any(map(tell_all, self._tasks.values()))
        for (connector, kind), rows_of_record in self._records.get(group, {}).items():
            if rows_of_record is None:
                return _held(
                    rows,
                    f"the {kind} record of connector {connector} can't be decoded; its next one ends this",
                )

        no_trace = f"the flow {self._other} has left no checkpoint and no readiness record of the group"

        def put_there(row: Translated) -> int:
            """Returns where the opposite flow has put the group at the furthest, -1 for nowhere."""
            end = source_end(row.source)
            known = [number for number in self._furthest(group, row.source) if end is None or number <= end]
            return max(known, default=-1)

        def guarded(row: Translated) -> Translated:
            # In the source's own topics the reverse flow commits nothing but what comes home.
            if unknown and self._policy.topic_source(row.source.topic) == self._alias:
                return row._replace(verdict=_held_verdict(no_trace))
            if (group, row.source) in self._undecodable:
                why = "its newest checkpoint can't be decoded; the next one ends this"
                return row._replace(verdict=_held_verdict(why))
            put = put_there(row)
            if row.committed.offset > put:
                return row
            verdict = _NOT_MOVED_ON
            if row.committed.offset < put:
                # Somebody has set it back since: nothing says that where it stands on the target is right.
                verdict = _held_verdict(f"it stands before {put}, where the flow {self._other} has put it")
            return row._replace(verdict=verdict, kept_back=row.verdict)

        return [guarded(row) for row in rows]

    def _furthest(self, group: str, tp: TopicPartition) -> list[int]:
        """Returns the furthest offsets by each source of information. A move record counts only where there is no
        furthest record, which is newer."""
        offsets = []
        if (checkpoint := self._checkpoints.get(group, {}).get(tp)) is not None:
            offsets.append(checkpoint.furthest)
        kept = self._records.get(group, {})
        for (connector, kind), rows in kept.items():
            newer = kept.get((connector, FurthestRecord.kind)) if kind == MoveRecord.kind else None
            if rows and tp in rows and tp not in (newer or {}):
                offsets.append(rows[tp])
        return offsets

    def _apply_checkpoint(self, record: LogRecord) -> None:
        place = Checkpoint.decode_key(record.key)
        # One that can't be decoded may have told of more than the one before it.
        self._undecodable.add(place)
        group, tp, upstream, downstream, _ = Checkpoint.checked(record.key, record.value)
        self._undecodable.discard(place)
        of_group = self._checkpoints.setdefault(group, {})
        of_group[tp] = Furthest.after(of_group.get(tp), upstream, downstream)

    def _forget_checkpoints(self) -> None:
        self._checkpoints.clear()
        self._undecodable.clear()

    def _forget_records(self) -> None:
        self._records.clear()
        self._tasks.clear()

    def _apply_task(self, key: RecordKey, value: bytes | None) -> None:
        tasks = self._tasks.setdefault(key.connector, {})
        tasks.pop(key.name, None)
        task = None if value is None else decode_value(key, value)
        if isinstance(task, TaskRecord):
            tasks[key.name] = task

    def _apply_record(self, record: LogRecord) -> None:
        key = decode_key(record.key)
        if key.kind == TaskRecord.kind:
            self._apply_task(key, record.value)
        if key.kind not in _KINDS:
            return
        of_group = self._records.setdefault(key.name, {})
        # A record that can't be decoded has replaced the earlier one all the same.
        of_group[key.connector, key.kind] = None
        value = None if record.value is None else decode_value(key, record.value)
        if isinstance(value, FurthestRecord):
            of_group[key.connector, key.kind] = {tp: row.furthest for tp, row in value.rows.items()}
        elif isinstance(value, MoveRecord):
            of_group[key.connector, key.kind] = {
                TopicPartition(row.target_topic, row.partition): row.target_offset for row in value.rows
            }
        else:
            of_group.pop((key.connector, key.kind), None)
            if not of_group:
                del self._records[key.name]


def _held(rows: Sequence[Translated], why: str) -> list[Translated]:
    return [row._replace(verdict=_held_verdict(why)) for row in rows]


def _held_verdict(why: str) -> Verdict:
    return Verdict.pending(Reason.MOVED_BY_MIRROR, said=why)

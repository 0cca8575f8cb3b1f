"""Guards failback against loops: an offset that the reverse flow has committed is not sent back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bridge.mm2.records import Checkpoint
from bridge.model.state_records.furthest import Furthest, FurthestRecord
from bridge.model.state_records.move_record import MoveRecord
from bridge.model.state_records.readiness_records import (
    RecordKey,
    TaskRecord,
    decode_key,
    decode_value,
    tell_all,
)
from bridge.model.values import LogRecord, Reason, Side, TopicPartition, Verdict
from bridge.translation.plan import Translated
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.translating.followed_topic import TopicFollower
from connectors.ports import Cluster

_NOT_MOVED_ON = Verdict.pending(Reason.MOVED_BY_MIRROR)
_KINDS = FurthestRecord.kind, MoveRecord.kind


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
            known = [each for each in self._furthest(group, row.source) if end is None or each <= end]
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

"""Reads and writes the readiness topic on the target for one connector: holds the newest value of each of its keys.

Writes the furthest offsets of each group on the target to the readiness topic before the mirror commits them: the
reverse flow needs them to tell commits of the mirror from commits of consumers. Where other sources are copied to the
same partitions it writes what this flow alone translates, for their flows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.state_records.fields import LAST_MS, SchemaError, Value
from bridge.model.state_records.group_record import Alone, Furthest, FurthestRecord, GroupRecord
from bridge.model.state_records.move_record import MoveRecord
from bridge.model.state_records.readiness_records import (
    MissingRecord,
    RecordKey,
    TaskRecord,
    decode_key,
    decode_value,
    encode,
)
from bridge.model.values import (
    Committed,
    GroupState,
    Judgement,
    LogRecord,
    Reason,
    Side,
    TopicPartition,
    Verdict,
    task_of,
)
from bridge.translation.plan import OwnCommit, Translated
from connectors.base import Assignment
from connectors.cluster_away import ClusterAway, ask
from connectors.group_translation.options import READINESS_REPLICATION_FACTOR, GroupOptions
from connectors.group_translation.translating.followed_topics import TopicFollower
from connectors.internal_topics import make
from connectors.ports import Cluster

log = logging.getLogger(__name__)


V = TypeVar("V", bound=Value)

StoredKey = tuple[str, str]
"""Kind and name of a record of this connector."""
Changes = Mapping[StoredKey, Value | None]
"""None deletes the record (a tombstone)."""

_HOLDS = "what is known of groups while the source is away"
_NOT_KNOWN: Mapping[str, GroupRecord | MissingRecord] = {
    GroupRecord.kind: GroupRecord(0, 0, 1, "EMPTY", Reason.NOT_LOOKED_AT_YET.value, ()),
    MissingRecord.kind: MissingRecord(0, ((0, -1, -1),)),
}
_NEVER_SILENT = MoveRecord.kind, FurthestRecord.kind
"""Kinds that stay, however long their connector does not run."""
_OF_THE_TOPIC = {
    KafkaFault.NOT_AUTHORIZED,
    KafkaFault.UNKNOWN_TOPIC,
    KafkaFault.TOPIC_CONFIG,
    KafkaFault.RECORD_REFUSED,
    KafkaFault.RECORD_TOO_LARGE,
}
_LOST = (
    "grant DESCRIBE, READ and WRITE on it, and CREATE unless somebody else creates it; until then a service that is "
    "started while the source is away knows no groups, and other services don't see the groups of this one "
    "(emit.group-readiness.enabled=false does without)"
)
WITHIN = 10.0
"""Seconds that writing may hold up a round; then commits go on without, and it is tried again after as many."""
DROP_EVERY = 600.0
"""Seconds between two looks for groups that are gone from both clusters."""
_AT_ONCE = 200
Offsets = Mapping[TopicPartition, Committed] | KafkaFailure


class _Stored(NamedTuple):
    """A value as it is held in memory."""

    meaning: int
    packed: bytes
    """The value as stored, compressed: a fifth of its size, and a twentieth of the objects'."""


class StoredState:
    """The values of one connector in the topic: `follow` reads to its end, `put` writes. What `put` has written counts
    at once."""

    def __init__(self, connector: str, options: GroupOptions, target: Cluster) -> None:
        self._connector, self._options, self._target = connector, options, target
        self.topic = options.policy.readiness_topic(options.source_alias)
        self._kept: dict[StoredKey, _Stored] = {}
        self._others: dict[str, dict[bytes, int]] = {}
        """Keys of other connectors, with the time (ms) of their newest record."""
        self.running: dict[str, TaskRecord] = {}
        """The newest record of a task of each other connector."""
        self._changed: set[str] = set()
        self._made = False
        self.lost = 0
        """How often the topic was deleted, created again, or truncated, so that its values were gone."""
        self.whole = False
        """Whether it was read up to its end, or there is none."""
        self._write_error: str | None = None
        tail = target.tail(self.topic)
        wait = options.admin_timeout_ms
        self._log = TopicFollower(Side.TARGET, tail, self._apply, self._start_over, wait, optional=True)

    @property
    def remarks(self) -> list[str]:
        """Why it can't be read or written now."""
        return [remark for remark in (self._log.remark, self._write_error) if remark is not None]

    @property
    def unreadable(self) -> Mapping[str, int]:
        return self._log.unreadable

    # -- reading ---------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Reads what is new. Raises ClusterAway; each request is bounded by admin.timeout.ms."""
        await self._log.follow()
        self.whole = self._log.remark is None

    def get(self, kind: type[V], name: str) -> V | None:
        """Returns the newest value of that name, None where there is none."""
        kept = self._kept.get((kind.kind, name))
        if kept is None:
            return None
        return kind.trusted(json.loads(zlib.decompress(kept.packed)))

    def all(self, kind: type[V]) -> Iterator[tuple[str, V]]:
        """Yields names and values; values may come and go meanwhile."""
        for name in self.names(kind):
            value = self.get(kind, name)
            if value is not None:
                yield name, value

    def names(self, kind: type[Value]) -> list[str]:
        """Returns the names that have a value of that kind."""
        return [name for text, name in self._kept if text == kind.kind]

    def meaning(self, kind: type[Value], name: str) -> int | None:
        """Returns the meaning of the newest value, without decoding it."""
        kept = self._kept.get((kind.kind, name))
        return None if kept is None else kept.meaning

    def drain_changed(self) -> set[str]:
        """Returns the groups of which a record was read since the last call."""
        taken, self._changed = self._changed, set()
        return taken

    def silent(self, before_ms: int) -> dict[str, list[bytes]]:
        """Returns other connectors of which nothing was written since then, with all of their keys."""
        return {
            name: list(keys) for name, keys in self._others.items() if keys and max(keys.values()) < before_ms
        }

    # -- writing ---------------------------------------------------------------------------------------------------

    async def put(self, changes: Changes) -> None:
        """Writes the changes; they are acknowledged when it returns. A value that means the same as the newest one is
        not written. Raises ClusterAway, and KafkaFailure for what concerns the topic alone, which `remarks` has too."""
        due: dict[StoredKey, Value | None] = {}
        for key, value in changes.items():
            kept = self._kept.get(key)
            if (kept is not None) if value is None else (kept is None or kept.meaning != value.meaning):
                due[key] = value
        encoded = {key: None if value is None else encode(value) for key, value in due.items()}
        await self._append([(self._key(key), value) for key, value in encoded.items()])
        for key, value in due.items():
            self._keep(key, value, encoded[key])

    async def drop(self, keys: list[bytes]) -> None:
        """Deletes records of other connectors. Raises as `put`."""
        await self._append([(key, None) for key in keys])

    async def _append(self, records: list[tuple[bytes, bytes | None]]) -> None:
        if not records:
            return
        try:
            if not self._made:
                await self._make()
            await ask(Side.TARGET, self._target.append(self.topic, records), self._options.admin_timeout_ms)
        except ClusterAway as away:
            failed = away.failure
            self._made = self._made and failed.fault is not KafkaFault.UNKNOWN_TOPIC
            if failed.fault not in _OF_THE_TOPIC:
                raise
            self._log_write_error(failed)
            raise failed from None
        except KafkaFailure as failed:
            self._log_write_error(failed)
            raise
        self._write_error = None

    def _log_write_error(self, failed: KafkaFailure) -> None:
        error = f"{self.topic} on the target cluster can't be written: {failed}; {_LOST}"
        if error != self._write_error:
            log.warning(error, extra={"connector": self._connector})
        self._write_error = error

    async def _make(self) -> None:
        options = self._options
        factor, wait = options.readiness_replication_factor, options.admin_timeout_ms
        key = READINESS_REPLICATION_FACTOR
        failed = await make(self._target, self.topic, factor, wait, holds=_HOLDS, key=key)
        if failed is not None:
            raise failed
        self._made = True

    # -- records ---------------------------------------------------------------------------------------------------

    def _key(self, key: StoredKey) -> bytes:
        return RecordKey(self._connector, *key).encode()

    def _apply(self, record: LogRecord) -> None:
        """Raises SchemaError."""
        record_key = decode_key(record.key)
        if record_key.connector != self._connector:
            if record_key.kind not in _NEVER_SILENT:
                self._apply_other(record_key, record)
            return
        key = record_key.kind, record_key.name
        if record_key.kind == GroupRecord.kind:
            self._changed.add(record_key.name)
        # A record that can't be decoded has replaced the earlier one all the same.
        self._kept.pop(key, None)
        if record.value is None:
            return
        try:
            self._keep(key, decode_value(record_key, record.value), record.value)
        except SchemaError:
            self._keep_not_known(key, record.timestamp)
            raise

    def _apply_other(self, record_key: RecordKey, record: LogRecord) -> None:
        """Raises SchemaError."""
        assert record.key is not None, "it was decoded"
        connector = record_key.connector
        keys = self._others.setdefault(connector, {})
        if record.value is None:
            keys.pop(record.key, None)
        else:
            keys[record.key] = record.timestamp
        if record_key.kind == TaskRecord.kind:
            self.running.pop(connector, None)
            value = None if record.value is None else decode_value(record_key, record.value)
            if isinstance(value, TaskRecord):
                self.running[connector] = value

    def _keep_not_known(self, key: StoredKey, at_ms: int) -> None:
        """Keeps in the place of a record that can't be decoded, of a later version say, that it is there: a group that
        nobody names would be in no answer, and records that nobody counts would be none."""
        value = _NOT_KNOWN.get(key[0])
        if value is not None:
            value = replace(value, as_of_ms=min(max(at_ms, 0), LAST_MS))
            self._keep(key, value, encode(value))

    def _keep(self, key: StoredKey, value: Value | None, encoded: bytes | None) -> None:
        if value is None or encoded is None:
            self._kept.pop(key, None)
        else:
            self._kept[key] = _Stored(value.meaning, zlib.compress(encoded, 1))

    def _start_over(self) -> None:
        self.lost += bool(self._kept)
        self._changed.update(self.names(GroupRecord))
        self._kept.clear()
        self._others.clear()
        self.running.clear()
        self._made, self.whole = False, False


class FurthestOffsets:
    """The furthest offsets of one connector's groups. Call `keep` before each commit; a group that has not changed
    costs a comparison."""

    def __init__(self, options: GroupOptions, target: Cluster, store: StoredState) -> None:
        self._options, self._target, self._store = options, target, store
        self._kept: dict[str, int] = {}
        """By group, the hash of the translations that were kept last."""
        self._lost = 0
        self._not_before = 0.0
        self._drop_at = time.monotonic() + DROP_EVERY

    async def keep(
        self, translated: Mapping[str, Sequence[Translated]], committed: Mapping[str, Offsets]
    ) -> None:
        """Writes what has changed; it is acknowledged when this returns, or the store's remarks have the error.
        `committed`: what the groups have committed on the target."""
        if self._store.lost != self._lost:
            self._lost = self._store.lost
            self._kept.clear()
        now_ms = int(time.time() * 1000)
        marks: dict[str, int] = {}
        due: dict[tuple[str, str], FurthestRecord] = {}
        for group, rows in translated.items():
            answered = [row for row in rows if row.verdict.offset is not None]
            alone = {
                row.target: Alone(
                    row.committed.offset,
                    row.alone.offset,
                    -1 if row.alone.bound is None else row.alone.bound,
                )
                for row in rows
                if row.alone is not None and row.alone.offset is not None
            }
            offsets = tuple((row.target, row.committed.offset, row.verdict.offset) for row in answered)
            mark = hash((offsets, frozenset(alone.items())))
            if (answered or alone) and self._kept.get(group) != mark:
                marks[group] = mark
                due[FurthestRecord.kind, group] = self._record(
                    group, answered, alone, committed[group], now_ms
                )
        if not due or time.monotonic() < self._not_before:
            return
        try:
            async with asyncio.timeout(WITHIN):
                await self._store.put(due)
        except (ClusterAway, KafkaFailure, TimeoutError) as problem:
            self._not_before = time.monotonic() + WITHIN
            log.debug("can't write the furthest offsets to the readiness topic, trying again: %s", problem)
            return
        self._kept |= marks

    def own_commits(self, group: str) -> dict[TopicPartition, OwnCommit]:
        """Returns what an instance before this one has told of the group, of partitions that are shared."""
        record = self._store.get(FurthestRecord, group)
        return {
            tp: OwnCommit(upstream, Verdict(Judgement.BOUNDED, offset))
            for tp, (upstream, offset, _) in ({} if record is None else record.alone).items()
        }

    def _record(
        self,
        group: str,
        answered: Sequence[Translated],
        alone: Mapping[TopicPartition, Alone],
        committed: Offsets,
        now_ms: int,
    ) -> FurthestRecord:
        before = self._store.get(FurthestRecord, group)
        rows = {} if before is None else dict(before.rows)
        if not isinstance(committed, KafkaFailure):
            current = {row.target for row in answered}
            rows = {tp: row for tp, row in rows.items() if tp in committed or tp in current}
        for row in answered:
            assert row.verdict.offset is not None
            rows[row.target] = Furthest.after(rows.get(row.target), row.committed.offset, row.verdict.offset)
        return FurthestRecord(now_ms, rows, alone)

    async def drop_gone(self, assignment: Assignment, stay: Collection[str]) -> None:
        """Deletes, every DROP_EVERY seconds, records of groups that are gone from the source and from the target;
        groups that failed over, and whose offsets have expired on the source since, keep them. `stay`: groups of the
        source. Raises nothing."""
        if time.monotonic() < self._drop_at:
            return
        self._drop_at = time.monotonic() + DROP_EVERY
        count, active = assignment.task_count, assignment.active
        names = [
            name
            for name in self._store.names(FurthestRecord)
            if name not in stay and task_of(name, count) in active
        ]
        try:
            for start in range(0, len(names), _AT_ONCE):
                await self._drop(names[start : start + _AT_ONCE])
        except (ClusterAway, KafkaFailure) as problem:
            log.debug("can't look for deleted groups on the target, trying again later: %s", problem)

    async def _drop(self, names: Sequence[str]) -> None:
        wait = self._options.admin_timeout_ms
        states = await ask(Side.TARGET, self._target.group_states(names), wait)
        gone = [name for name in names if states[name] in (GroupState.NOT_FOUND, GroupState.DEAD)]
        await self._store.put({(FurthestRecord.kind, name): None for name in gone})
        for name in gone:
            self._kept.pop(name, None)

"""Writes the furthest offsets of each group on the target to the readiness topic before the mirror commits them: the
reverse flow needs them to tell commits of the mirror from commits of consumers. Where other sources are copied to the
same partitions it writes what this flow alone translates, for their flows."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence

from bridge.errors import KafkaFailure
from bridge.model.assignment import task_of
from bridge.model.state_records.furthest import Alone, Furthest, FurthestRecord
from bridge.model.values import Committed, GroupState, Judgement, Side, TopicPartition, Verdict
from bridge.translation.plan import OwnCommit, Translated
from connectors.base import Assignment
from connectors.cluster_away import ClusterAway, ask
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.stored import StoredState
from connectors.ports import Cluster

log = logging.getLogger(__name__)

WITHIN = 10.0
"""Seconds that writing may hold up a round; then commits go on without, and it is tried again after as many."""
DROP_EVERY = 600.0
"""Seconds between two looks for groups that are gone from both clusters."""
_AT_ONCE = 200

Offsets = Mapping[TopicPartition, Committed] | KafkaFailure


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
        self, translated: Mapping[str, Sequence[Translated]], there: Mapping[str, Offsets]
    ) -> None:
        """Writes what has changed; it is acknowledged when this returns, or the store's remarks have the error.
        `there`: what the groups have committed on the target."""
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
                due[FurthestRecord.kind, group] = self._record(group, answered, alone, there[group], now_ms)
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

    def told(self, group: str) -> dict[TopicPartition, OwnCommit]:
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
        there: Offsets,
        now_ms: int,
    ) -> FurthestRecord:
        before = self._store.get(FurthestRecord, group)
        rows = {} if before is None else dict(before.rows)
        if not isinstance(there, KafkaFailure):
            current = {row.target for row in answered}
            rows = {tp: row for tp, row in rows.items() if tp in there or tp in current}
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
            for at in range(0, len(names), _AT_ONCE):
                await self._drop(names[at : at + _AT_ONCE])
        except (ClusterAway, KafkaFailure) as problem:
            log.debug("can't look for deleted groups on the target, trying again later: %s", problem)

    async def _drop(self, names: Sequence[str]) -> None:
        wait = self._options.admin_timeout_ms
        states = await ask(Side.TARGET, self._target.group_states(names), wait)
        gone = [name for name in names if states[name] in (GroupState.NOT_FOUND, GroupState.DEAD)]
        await self._store.put({(FurthestRecord.kind, name): None for name in gone})
        for name in gone:
            self._kept.pop(name, None)

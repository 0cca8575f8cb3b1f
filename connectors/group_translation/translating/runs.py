"""Follows the mirror's offset-runs topic on the target (docs/offset-runs.md)."""

from __future__ import annotations

from bridge.model.values import CopyId, LogRecord, Side
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.run_table import RunTable
from bridge.translation.runs.runs import OffsetRun, decode_change
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.translating.followed_topic import TopicFollower
from connectors.ports import Cluster


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

    def of(self, copy: CopyId) -> ConsistentRuns:
        """Returns the runs of a copy."""
        runs = self._consistent.get(copy)
        if runs is None:
            runs = ConsistentRuns(self._table.of(copy))
            if runs.last is not None:
                self._consistent[copy] = runs
        return runs

    def all(self) -> dict[CopyId, tuple[OffsetRun, ...]]:
        """Returns the runs of every copy, in no order."""
        return {copy: tuple(self._table.of(copy)) for copy in self._table.copies}

    def _apply(self, record: LogRecord) -> None:
        for copy in self._table.apply(decode_change(record.key, record.value)):
            self._consistent.pop(copy, None)

    def _restart(self) -> None:
        self._table.clear()
        self._consistent.clear()

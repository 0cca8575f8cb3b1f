"""The offset-runs topic of the mirror, followed on the target (docs/offset-runs.md)."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.values import CopyId, Side
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.run_table import RunTable
from bridge.translation.runs.runs import OffsetRun, RunKey, decode_change
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.followed_topic import Followed
from connectors.ports import Cluster


class FollowedRuns:
    """Read to the end before each round. There is no such topic where the mirror is stock's; runs then say nothing.
    Nor where we may not see it: then it may not be there either, so that the log says it, and health does not."""

    def __init__(self, options: GroupOptions, target: Cluster) -> None:
        self._table = RunTable()
        self._known: dict[CopyId, ConsistentRuns] = {}
        # Runs are true for committed data only.
        tail = target.tail(options.policy.offset_runs_topic(options.source_alias), committed_only=True)
        told = decode_change, self._apply, self._restart, options.admin_timeout_ms
        self._log = Followed(Side.TARGET, tail, *told, optional=True)

    @property
    def unreadable(self) -> Mapping[str, int]:
        return self._log.unreadable

    @property
    def known(self) -> bool:
        """Whether there are any."""
        return bool(self._table.copies)

    @property
    def remembered(self) -> int:
        """Copies that it knows anything of."""
        return len(self._known)

    async def follow(self) -> None:
        """Raises ClusterAway."""
        await self._log.follow()

    def of(self, copy: CopyId) -> ConsistentRuns:
        known = self._known.get(copy)
        if known is None:
            known = ConsistentRuns(self._table.of(copy))
            if known.last is not None:
                self._known[copy] = known
        return known

    def _apply(self, change: tuple[RunKey, OffsetRun | None]) -> None:
        for copy in self._table.apply(change):
            self._known.pop(copy, None)

    def _restart(self) -> None:
        self._table.clear()
        self._known.clear()

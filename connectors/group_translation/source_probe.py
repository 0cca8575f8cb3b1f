"""Asks a source that is away whether it answers again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.model.values import Side
from connectors.cluster_away import ask
from connectors.ports import Cluster

_MOST_GROUPS = 1_000


class SourceProbe:
    """A request to the source that goes on beside the rounds: while it hangs, rounds without the source go on looking
    at the target."""

    def __init__(self, source: Cluster, timeout_ms: int) -> None:
        self._source, self._timeout_ms = source, timeout_ms
        self._asking: asyncio.Task[object] | None = None

    async def answers(self, groups: Sequence[str], until: asyncio.Event, seconds: float) -> bool:
        """Whether the source has answered; False where it has not yet after so many seconds, or when `until` is set.
        `groups`: those of the next round, whose offsets it is asked for, as the round does. Raises ClusterAway."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(groups[:_MOST_GROUPS]), name="probe of the source")
        woken = asyncio.create_task(until.wait(), name="wake of the rounds")
        try:
            await asyncio.wait({self._asking, woken}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        if not self._asking.done():
            return False
        asked, self._asking = self._asking, None
        asked.result()
        return True

    async def close(self) -> None:
        asked, self._asking = self._asking, None
        if asked is not None:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    async def _ask(self, groups: Sequence[str]) -> object:
        request = self._source.committed(groups) if groups else self._source.list_groups()
        return await ask(Side.SOURCE, request, self._timeout_ms)

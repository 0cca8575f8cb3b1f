"""Asks a source that is away, or on whose answer a round waits, whether it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import Side
from connectors.cluster_away import ClusterAway, ask
from connectors.ports import Cluster

_MOST_GROUPS = 1_000
LONG_SECONDS = 1.0
"""For so long a round may wait before the source is asked for a sign of life."""
HANGS_SECONDS = 2.0
"""For so long the sign may take: within admin.timeout.ms nobody would look at the target."""
_TURNS = 8
"""Turns of the event loop that make up this time: one that was busy has an answer in its next turn."""


class SourceProbe:
    """A request to the source that goes on beside the rounds: while it hangs, rounds without the source go on looking
    at the target."""

    def __init__(self, source: Cluster, timeout_ms: int) -> None:
        self._source, self._timeout_ms = source, timeout_ms
        self._asking: asyncio.Task[object] | None = None
        self._patience = 1
        """How many times HANGS_SECONDS it may take: a source that is slow and no more must not have its rounds broken
        off for ever."""

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
        self._patience *= 2
        return True

    async def watch(self, work: Coroutine[Any, Any, None], groups: Sequence[str]) -> None:
        """Does the work of a round. Breaks it off, and raises ClusterAway, where it waits for a source that keeps its
        connections and answers nothing. `groups`: one of them is asked for."""
        working = asyncio.create_task(work, name="round")
        try:
            while not working.done():
                await asyncio.wait({working}, timeout=LONG_SECONDS)
                if not working.done() and not await self._lives(working, groups):
                    failure = KafkaFailure(KafkaFault.TIMEOUT, "it keeps its connections and answers nothing")
                    raise ClusterAway(Side.SOURCE, failure)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        await self.close()
        self._patience = 1
        working.result()

    async def _lives(self, working: asyncio.Task[None], groups: Sequence[str]) -> bool:
        """Whether the source has answered, or refused to, before its time was over, or the work is done."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(groups[:1]), name="probe of the source")
        for _ in range(_TURNS * self._patience):
            await asyncio.wait(
                {working, self._asking}, timeout=HANGS_SECONDS / _TURNS, return_when=asyncio.FIRST_COMPLETED
            )
            if self._asking.done():
                self._asking.exception()
                self._asking = None
                return True
            if working.done():
                return True
        return False

    async def close(self) -> None:
        asked, self._asking = self._asking, None
        if asked is not None:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    async def _ask(self, groups: Sequence[str]) -> object:
        request = self._source.committed(groups) if groups else self._source.list_groups()
        return await ask(Side.SOURCE, request, self._timeout_ms)

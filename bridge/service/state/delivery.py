"""Delivers records from the rounds process to Connect: queued in the outbox, sent with a poll, then acknowledged.

Holds polls: each waits on the event loop until its time is over, or for records, a failure, or the shutdown.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridge.service.ipc.checkpoint_records import PackedRecord, partition_digest
from bridge.service.state.copy_samples import Histogram
from bridge.service.state.outbox import Batch, Outbox
from bridge.service.state.snapshots import Snapshots
from bridge.service.state.task_table import Connector, TaskTable

SPREAD = 0.15
"""A poll is held shorter than requested by up to this share. Otherwise tasks that started together would be answered
together for ever: of 100 answers in one burst the last one takes 50 ms longer; spread out, none does."""
YIELD_EVERY = 100
"""Acknowledgements that are handled before other requests have a turn."""


class LongPolls:
    """The held polls of all connectors."""

    def __init__(self, random_part: random.Random | None = None) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._random = random_part or random.Random()  # noqa: S311
        self.draining = False

    @property
    def count(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    async def wait(self, name: str, wait_ms: int) -> None:
        if self.draining or wait_ms <= 0:
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        seconds = wait_ms / 1000 * (1 - SPREAD * self._random.random())
        timer = loop.call_later(seconds, _wake, woken)
        waiting = self._waiting[name]
        waiting.add(woken)
        try:
            await woken
        finally:
            timer.cancel()
            waiting.discard(woken)
            if not waiting:
                self._waiting.pop(name, None)

    def wake(self, name: str) -> None:
        for woken in tuple(self._waiting.get(name, ())):
            _wake(woken)

    def drain(self) -> None:
        """Answers all held polls, and holds none from now on."""
        self.draining = True
        for name in tuple(self._waiting):
            self.wake(name)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


class Traffic(NamedTuple):
    """How many records of one connector wait, are in flight and were written. `oldest_waiting_ms`: age of the record
    that waits longest; `written`: since the service started."""

    waiting: int
    in_flight: int
    written: int
    oldest_waiting_ms: int | None


class Ack(NamedTuple):
    partition: bytes
    timestamp: int
    age_ms: int


@dataclass(slots=True)
class _Written:
    records: int = 0
    latency: Histogram = field(default_factory=Histogram)


class Deliveries:
    """Delivers the records of all connectors, and counts those that were written. `now_ms`: the wall clock, as the
    records' timestamps are."""

    def __init__(
        self,
        table: TaskTable,
        long_polls: LongPolls,
        snapshots: Snapshots,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._table = table
        self._long_polls = long_polls
        self._snapshots = snapshots
        self._now_ms = now_ms
        self._outbox = Outbox()
        self._written: defaultdict[str, _Written] = defaultdict(_Written)

    def accept(self, name: str, generation: int, records: Sequence[PackedRecord]) -> None:
        """Queues records from the rounds process, and answers the polls that are held."""
        connector = self._table.get(name)
        if connector is not None:
            self._outbox.offer(name, generation, connector.task_count, records)
            self._long_polls.wake(name)

    def poll(self, connector: Connector, task: int, session: str, seen: int | None, most: int) -> Batch:
        """Delivers the next batch of a task; see Outbox.drain."""
        return self._outbox.drain(
            connector.name, connector.generation, connector.task_count, task, session, seen, most
        )

    async def acked(self, name: str, task: int, session: str, entries: Iterable[dict[str, Any]]) -> None:
        """Takes records that Connect has written out of flight, and counts them. Skips entries that match no record in
        flight: the shim repeats entries when an answer got lost, and other versions may send more."""
        now = self._now_ms()
        for number, entry in enumerate(entries):
            if number % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
            ack = read_ack(entry)
            written = ack and self._outbox.ack(name, task, session, ack.partition, ack.timestamp)
            if ack is None or written is None:
                continue
            latency = max(0, now - ack.age_ms - written.timestamp)
            totals = self._written[name]
            totals.records += written.records
            totals.latency.observe(latency)
            self._snapshots.written(name, written.affinity, latency)

    def forget(self, name: str) -> None:
        self._outbox.forget(name)
        self._written.pop(name, None)

    def traffic(self, name: str) -> Traffic:
        waiting, in_flight, since = self._outbox.counts(name)
        age = None if since is None else max(0, self._now_ms() - since)
        totals = self._written.get(name)
        return Traffic(waiting, in_flight, totals.records if totals is not None else 0, age)

    def latency(self, name: str) -> Histogram | None:
        """The latencies of written records; None where nothing was acknowledged."""
        totals = self._written.get(name)
        return totals.latency if totals is not None else None


def read_ack(entry: dict[str, Any]) -> Ack | None:
    """Reads an entry of an acknowledgement; None where it does not say which record it means."""
    partition, timestamp, age = entry.get("source_partition"), entry.get("timestamp"), entry.get("age_ms")
    if not isinstance(partition, dict) or not isinstance(timestamp, int):
        return None
    return Ack(partition_digest(partition), timestamp, age if isinstance(age, int) and age > 0 else 0)

"""What the routes do, over the task table, the snapshots and the rounds. One object a process, on one event
loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridge.protocol.messages import (
    Accepted,
    AlteredOffset,
    AlteredOffsets,
    AlterOffsets,
    PollRequest,
    PollResponse,
    StartConnector,
    StartTask,
)
from bridge.protocol.operators import IgnoredSetting
from bridge.service.answers.readiness import ConnectorView, connector_views
from bridge.service.checks.config_sizes import check_room
from bridge.service.checks.context import AlterOffsets as Altering
from bridge.service.checks.context import MirrorQueries
from bridge.service.checks.validation import Checker
from bridge.service.ipc.desired_state import Config, Desired
from bridge.service.pool import Pools
from bridge.service.rounds.rounds_process import Rounds
from bridge.service.shim_versions import accepted, check_protocol
from bridge.service.state.delivery import Deliveries
from bridge.service.state.long_polls import LongPolls
from bridge.service.state.outbox import Batch
from bridge.service.state.sessions import Sessions
from bridge.service.state.snapshots import Snapshots
from bridge.service.state.source_offsets import OpenOffsetRequests
from bridge.service.state.task_table import Connector, TaskTable, comparable
from connectors.config.configdef import given

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
SOURCE = "source"
"""The kind of connector that has source offsets to be altered."""


class Polled(NamedTuple):
    """The answer to a poll; `body` is a PollResponse as JSON."""

    body: bytes
    held_ms: float


@dataclass(slots=True)
class Service:
    """`now_ms` of the table and `began` are of the monotonic clock."""

    table: TaskTable
    sessions: Sessions
    snapshots: Snapshots
    rounds: Rounds
    checker: Checker
    pools: Pools
    long_polls: LongPolls
    deliveries: Deliveries
    stored: OpenOffsetRequests
    queries: Callable[[], MirrorQueries]
    altering: Callable[[], Altering]
    grace: float = 10.0
    began: float = field(default_factory=time.monotonic)
    _told: tuple[Desired, ...] = ()
    _ticker: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        await self.rounds.start()
        self._ticker = asyncio.create_task(self._tick(), name="leases")

    async def close(self) -> None:
        self.long_polls.drain()
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        await self.rounds.close(self.grace)
        self.checker.reachability.close()
        self.pools.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                self.expire()
            except Exception:
                log.exception("leases could not be looked at")

    def expire(self) -> None:
        tasks: defaultdict[str, list[int]] = defaultdict(list)
        for lapsed in self.table.expire():
            if lapsed.task is None:
                self._forget(lapsed.name)
                log.info("connector was idle for a day and is forgotten", extra={"connector": lapsed.name})
            else:
                tasks[lapsed.name].append(lapsed.task)
        for name, indices in tasks.items():
            if (known := self.table.get(name)) is not None and not known.stopped:
                said = ", ".join(map(str, sorted(indices)))
                log.warning(
                    "task %s has not polled for its lease and is stopped", said, extra={"connector": name}
                )
        self._tell()

    def _forget(self, name: str) -> None:
        """What is kept of a connector beside the table."""
        self.snapshots.forget(name)
        self.deliveries.forget(name)
        self.stored.forget(name)

    def _tell(self) -> None:
        desired = self.table.desired()
        if desired != self._told:
            self._told = desired
            self.rounds.apply(desired)

    # -- connectors and tasks ----------------------------------------------------------------------

    async def start_connector(self, name: str, body: StartConnector) -> Accepted:
        check_protocol(body.protocol)
        ignored = await self._accept(name, body.kind, body.config)
        before = self.table.get(name)
        session = before.session if before is not None else ""
        generation = before.generation if before is not None else 0
        known = self.table.start_connector(name, body.session, body.kind, body.config)
        if body.session > session:
            log.info("connector started, session %s", body.session, extra={"connector": name})
        self._configured(known, generation, ignored)
        self._tell()
        return accepted(known, None)

    def stop_connector(self, name: str, session: str) -> Accepted:
        stopped = self.table.connector(name).stopped
        known = self.table.stop_connector(name, session)
        if not stopped:
            log.info("connector stopped, session %s", session, extra={"connector": name})
        return accepted(known, None)

    def forget_connector(self, name: str) -> None:
        """Of a connector that was deleted in Connect, which tells nobody. Raises NotFound and OperationRefused."""
        self.table.forget(name)
        self._forget(name)
        log.info("connector is forgotten, as an operator asked for", extra={"connector": name})
        self._tell()

    async def start_task(self, name: str, index: int, body: StartTask) -> Accepted:
        check_protocol(body.protocol)
        ignored = await self._accept(name, body.kind, body.config)
        before = self.table.get(name)
        generation = before.generation if before is not None else 0
        fresh = self.table.start_task(name, index, body.session, body.kind, body.task_count, body.config)
        self._configured(self.table.connector(name), generation, ignored)
        if fresh:
            log.debug("task started, session %s", body.session, extra={"connector": name, "task": index})
            if self.snapshots.connector(name).summary.failure is not None:
                # An operator has restarted a failed task: the old failure must not fail it again unasked.
                self.snapshots.renew(name)
                self.table.renew(name)
            self.long_polls.wake(name)  # an older session of the task is told at once
        self._tell()
        return accepted(self.table.connector(name), index)

    def stop_task(self, name: str, index: int, session: str) -> Accepted:
        known = self.table.stop_task(name, index, session)
        log.debug("task stopped, session %s", session, extra={"connector": name, "task": index})
        self.long_polls.wake(name)
        self._tell()
        return accepted(known, index)

    def idle_task(self, name: str, index: int, session: str, idle_ms: int) -> Accepted:
        if self.table.idle(name, index, session, idle_ms):
            log.debug("task is not polled for %d ms", idle_ms, extra={"connector": name, "task": index})
            self._tell()
        return accepted(self.table.connector(name), index)

    async def poll(self, name: str, index: int, body: PollRequest) -> Polled:
        batch = self._take(name, index, body)
        self._told_offsets(name, body)
        held = 0.0
        if not batch.texts and self._failure(name) is None and not self._asks(name, body):
            began = time.perf_counter()
            await self.long_polls.wait(name, body.wait_ms)
            held = round((time.perf_counter() - began) * 1000, 3)
            batch = self._take(name, index, body)
        said = PollResponse(
            failure=self._failure(name), held_ms=held, batch=batch.number, offsets_of=self._asks(name, body)
        )
        return Polled(_with_records(said, batch.texts), held)

    async def alter_offsets(self, name: str, body: AlterOffsets) -> AlteredOffsets:
        """Waits for both clusters, as the operator does who alters the offsets."""
        check_protocol(body.protocol)
        await self.checker.accept(SOURCE, body.config)
        offsets = [(each.source_partition, each.source_offset) for each in body.offsets]
        props = {**given(body.config), "name": name}
        rows = await self.pools.queries.run(lambda: self.altering()(name, props, offsets))
        for row in rows:
            if row.changes:
                places = row.source.topic, row.source.partition, row.position, row.to, row.outcome.value
                log.info("%s-%d goes on at %d instead of %d: %s", *places, extra={"connector": name})
        return AlteredOffsets(
            offsets=[
                AlteredOffset(
                    topic=row.source.topic,
                    partition=row.source.partition,
                    target_topic=row.target_topic,
                    position=row.position,
                    to=row.to,
                    outcome=row.outcome.value,
                )
                for row in rows
            ]
        )

    async def ack(self, name: str, index: int, session: str, acked: list[dict[str, Any]]) -> Accepted:
        known = self._renew_lease(name, index, session)
        await self.deliveries.acked(name, index, session, acked)
        return accepted(known, index)

    # -- can groups fail over? ---------------------------------------------------------------------

    def views(self) -> dict[str, ConnectorView]:
        """By connector, what holds for all of its groups now."""
        return connector_views(self.table, self.snapshots, self.rounds.state, int(time.time() * 1000))

    # -- steps -------------------------------------------------------------------------------------

    async def _accept(self, name: str, kind: str, config: Config) -> Sequence[IgnoredSetting]:
        """The settings that do nothing. A configuration that is known already was checked already: ten tasks of one
        connector cost one check."""
        known = self.table.get(name)
        if known is not None and known.kind == kind and comparable(known.config) == comparable(config):
            return known.ignored
        check_room(self.table, name, config)
        return await self.checker.accept(kind, config)

    def _configured(self, known: Connector, generation: int, ignored: Sequence[IgnoredSetting]) -> None:
        """Once for each configuration: remembers and logs the settings that do nothing, and looks for the clusters.
        `generation` is that of the one before."""
        if known.generation == generation:
            return
        known.ignored, known.unreachable = ignored, {}
        if ignored:
            listed = "; ".join(f"{each.key} ({each.reason})" for each in ignored)
            log.warning("%d setting(s) do nothing: %s", len(ignored), listed, extra={"connector": known.name})
        self.checker.reachability.started(known, self.checker.kind(known.kind))

    def _take(self, name: str, index: int, body: PollRequest) -> Batch:
        known = self._renew_lease(name, index, body.session)
        return self.deliveries.take(known, index, body.session, body.batch, body.max_records)

    def _told_offsets(self, name: str, body: PollRequest) -> None:
        told = self.stored.answered(name, body.offsets or ())
        if told is not None:
            self.rounds.stored(name, *told)

    def _asks(self, name: str, body: PollRequest) -> list[dict[str, str | int]]:
        """Source partitions that the shim is to tell the offsets of, if it is one that can."""
        return [] if body.offsets is None else [dict(each) for each in self.stored.next(name)]

    def _renew_lease(self, name: str, index: int, session: str) -> Connector:
        before = self.table.version
        known = self.table.poll(name, index, session)
        if self.table.version != before:
            log.info("task polls again", extra={"connector": name, "task": index})
            self._tell()
        return known

    def _failure(self, name: str) -> str | None:
        return self.snapshots.connector(name).summary.failure


def _with_records(said: PollResponse, texts: Iterable[bytes]) -> bytes:
    """The records are JSON texts already: nothing is read or built here, whatever their number."""
    rest = said.model_dump_json(exclude={"records"}).encode()
    return b'{"records":[' + b",".join(texts) + b"]," + rest.removeprefix(b"{")

"""Carries out what the routes ask for, over the task table, the snapshots and the rounds process. One object in a
process, on one event loop.

Checks the protocol version of the shim, and builds the answer to its calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridge import PROTOCOL, VERSION
from bridge.errors import BridgeError, ConfigError, ErrorCode, OperationRefused
from bridge.protocol.messages import (
    Accepted,
    AlterOffsets,
    PollRequest,
    PollResponse,
    StartConnector,
    StartTask,
    StopConnector,
    StopTask,
    ValidateRequest,
)
from bridge.protocol.operators import FlowStatus, IgnoredSetting
from bridge.service.answers.groups import shared_groups
from bridge.service.answers.readiness import ConnectorView, connector_views
from bridge.service.answers.status import superseded
from bridge.service.checks.answer import log_and_pack
from bridge.service.checks.context import AlterOffsets as Altering
from bridge.service.checks.context import MirrorQueries
from bridge.service.checks.validation import Checker, check_room, check_tasks
from bridge.service.ipc.messages import Config, Desired
from bridge.service.pool import Pools
from bridge.service.rounds.rounds_process import Rounds
from bridge.service.state.connector_entry import Connector
from bridge.service.state.delivery import Deliveries, LongPolls
from bridge.service.state.not_running import check_polls
from bridge.service.state.other_services import follow_groups, others, run_elsewhere
from bridge.service.state.outbox import Batch
from bridge.service.state.sessions import Sessions
from bridge.service.state.snapshots import MOST_FORGOTTEN, Snapshots
from bridge.service.state.source_offsets import OpenOffsetRequests
from bridge.service.state.task_table import (
    NOT_KNOWN,
    SUPERSEDED_MS,
    ConnectCluster,
    TaskTable,
    comparable,
)
from connectors.base import COPYING_KINDS, GROUP_KINDS
from connectors.config.configdef import given

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
SHARED_SECONDS = 5.0
"""Between two looks at whether connectors share groups, which goes over all groups of such a flow."""


class ProtocolRejected(BridgeError):
    code = ErrorCode.UNSUPPORTED_PROTOCOL
    status = 400


def check_protocol(theirs: int) -> None:
    if abs(theirs - PROTOCOL) > 1:
        raise ProtocolRejected(
            f"The Connect plugin has protocol {theirs}, this service ({VERSION}) has protocol {PROTOCOL}: "
            "they may differ by one. Upgrade the older of the two."
        )


def accepted(connector: Connector, task: int | None) -> Accepted:
    return Accepted(
        name=connector.name, task=task, lease_ms=connector.lease_ms, version=VERSION, protocol=PROTOCOL
    )


class Polled(NamedTuple):
    """The answer to a poll; `body` is a PollResponse as JSON."""

    body: bytes
    held_ms: float


@dataclass(slots=True)
class Service:
    """The service behind the routes. `began` is a time of the monotonic clock. `flows`: those of the node that this
    is the service of (bridge.dedicated), as it saw them last."""

    table: TaskTable
    sessions: Sessions
    snapshots: Snapshots
    rounds: Rounds
    checker: Checker
    pools: Pools
    long_polls: LongPolls
    deliveries: Deliveries
    offset_requests: OpenOffsetRequests
    queries: Callable[[], MirrorQueries]
    altering: Callable[[], Altering]
    grace: float = 10.0
    began: float = field(default_factory=time.monotonic)
    flows: Sequence[FlowStatus] = ()
    _forgotten_ms: dict[str, int] = field(default_factory=dict)
    """When connectors were forgotten: what they have written before tells of no other service."""
    _sent: tuple[Desired, ...] = ()
    _shared_at: float = -SHARED_SECONDS
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
        self.checker.close()
        self.pools.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                self.expire()
            except Exception:
                log.exception("checking the leases of tasks failed, trying again in %.1f s", TICK_SECONDS)

    def expire(self) -> None:
        """Ends the leases that have run out, and forgets connectors that were idle for a day."""
        self._note_recorded()
        self._note_elsewhere()
        self._note_shared_groups()
        tasks: defaultdict[str, list[int]] = defaultdict(list)
        for lapsed in self.table.expire():
            if lapsed.task is None:
                self._forget(lapsed.name)
                log.info(
                    "connector forgotten: it has had no active task for a day",
                    extra={"connector": lapsed.name},
                )
            else:
                tasks[lapsed.name].append(lapsed.task)
        for gone in self.table.stopped_beside_others(SUPERSEDED_MS):
            if superseded(gone, self.table, self.snapshots):
                self.table.forget(gone.name)
                self._forget(gone.name)
                log.info(
                    "connector forgotten: Connect has stopped or deleted it, and other connectors report all of its "
                    "groups",
                    extra={"connector": gone.name},
                )
        for name, indices in tasks.items():
            if (connector := self.table.get(name)) is not None and not connector.stopped:
                log.warning(
                    "the lease of task %s has expired: no poll for %d ms (bridge.task.lease.ms); %s",
                    ", ".join(map(str, sorted(indices))),
                    connector.lease_ms,
                    check_polls(connector),
                    extra={"connector": name},
                )
        self._send_desired()

    def _note_recorded(self) -> None:
        """Notes connectors of groups that never ran here, of flows that are copied here, while other services report
        that they run them."""
        now = int(time.time() * 1000), self.table.now_ms
        reported: dict[str, Connector] = {}
        for connector in self.table:
            if connector.kind in COPYING_KINDS and connector.active() and not connector.dedicated:
                summary = self.snapshots.connector(connector.name).summary
                for name, at_ms in follow_groups(summary, *now).items():
                    if at_ms > self._forgotten_ms.get(name, 0):
                        reported[name] = connector
        for connector in [
            connector for connector in self.table if connector.recorded and connector.name not in reported
        ]:
            self.table.forget(connector.name)
            self._forget(connector.name)
            del self._forgotten_ms[connector.name]
        for name, copying in reported.items():
            if self.table.get(name) is None and self.table.has_room:
                self.table.note_recorded(copying, name)

    def _note_elsewhere(self) -> None:
        """Notes connectors without a task here which other services have reported to run tasks of."""
        now = int(time.time() * 1000), self.table.now_ms
        idle = [connector for connector in self.table if not connector.active()]
        copying = defaultdict[tuple[str | None, str], set[str]](set)
        if any(connector.kind in COPYING_KINDS for connector in idle):
            for each in self.table:
                if each.kind in GROUP_KINDS:
                    copying[each.flow] |= run_elsewhere(self.snapshots.connector(each.name).summary, *now)
        for connector in idle:
            connector.elsewhere = False
            if connector.kind in COPYING_KINDS:
                if connector.name in copying[connector.flow]:
                    self.table.note_elsewhere(connector, 0)
                continue
            summary = self.snapshots.connector(connector.name).summary
            if connector.recorded:
                self.table.note_elsewhere(connector, summary.task_count)
                continue
            reported = others(
                connector, summary, *now, source_away="source" in summary.away_since_ms
            ).as_of_ms
            # A task that is paused or has lapsed here has not moved: Connect would have stopped it.
            if reported and all(task.stopped or task.index in reported for task in connector.current_tasks):
                self.table.note_elsewhere(connector, summary.task_count)

    def _note_shared_groups(self) -> None:
        now = self.table.now_ms / 1000
        if now - self._shared_at < SHARED_SECONDS:
            return
        self._shared_at = now
        shared = shared_groups(self.table, self.snapshots)
        for connector in self.table:
            connector.shared_groups = shared.get(connector.name, {})

    def _replace(self, before: Connector | None, connector: Connector) -> None:
        """Drops what is kept of a connector in whose place that of another Connect cluster has come."""
        if before is not None and connector is not before:
            self._forget(connector.name)
            log.warning(
                "the name of this connector was that of the Connect cluster with group.id %s, and is that of the one "
                "with group.id %s now",
                before.runs_in,
                connector.runs_in,
                extra={"connector": connector.name},
            )

    def _forget(self, name: str) -> None:
        """Drops what is kept of a connector beside the table."""
        self._forgotten_ms.pop(name, None)
        self._forgotten_ms[name] = int(time.time() * 1000)
        if len(self._forgotten_ms) > MOST_FORGOTTEN:
            del self._forgotten_ms[next(iter(self._forgotten_ms))]
        self.snapshots.forget(name)
        self.deliveries.forget(name)
        self.offset_requests.forget(name)

    def _send_desired(self) -> None:
        desired = self.table.desired()
        if desired != self._sent:
            self._sent = desired
            self.rounds.apply(desired)

    # -- connectors and tasks ----------------------------------------------------------------------

    async def start_connector(self, name: str, body: StartConnector) -> Accepted:
        check_protocol(body.protocol)
        self.table.require_name(name, body.session, runs_in(body))
        ignored = await self._check_config(name, body.kind, body.config)
        before = self.table.get(name)
        session = before.session if before is not None else ""
        generation = before.generation if before is not None else 0
        connector = self.table.start_connector(name, body.session, body.kind, body.config, runs_in(body))
        self._replace(before, connector)
        if body.session > session:
            log.info("connector started, session %s", body.session, extra={"connector": name})
        self._configured(connector, generation, ignored)
        self._send_desired()
        return accepted(connector, None)

    def stop_connector(self, name: str, session: str, by: ConnectCluster = NOT_KNOWN) -> Accepted:
        stopped = self.table.connector(name).stopped
        connector = self.table.stop_connector(name, session, by)
        if not stopped:
            log.info("connector stopped, session %s", session, extra={"connector": name})
        return accepted(connector, None)

    def forget_connector(self, name: str) -> None:
        """Forgets a connector that was deleted in Connect, which tells no service.

        Raises NotFound and OperationRefused."""
        self.table.forget(name)
        self._forget(name)
        log.info("connector forgotten: by request", extra={"connector": name})
        self._send_desired()

    async def start_task(self, name: str, index: int, body: StartTask) -> Accepted:
        check_protocol(body.protocol)
        self.table.require_name(name, body.session, runs_in(body))
        ignored = await self._check_config(name, body.kind, body.config)
        before = self.table.get(name)
        generation = before.generation if before is not None else 0
        check_tasks(self.table, name, index)
        fresh = self.table.start_task(
            name, index, body.session, body.kind, body.task_count, body.config, runs_in(body)
        )
        self._replace(before, self.table.connector(name))
        self._configured(self.table.connector(name), generation, ignored)
        if fresh:
            log.debug("task started, session %s", body.session, extra={"connector": name, "task": index})
            if self.snapshots.connector(name).summary.failure is not None:
                # An operator has restarted a failed task: the old failure must not fail it again.
                self.snapshots.renew(name)
                self.table.renew(name)
            self.long_polls.wake(name)  # a poll of an older session is answered at once
        self._send_desired()
        return accepted(self.table.connector(name), index)

    def stop_task(self, name: str, index: int, session: str, by: ConnectCluster = NOT_KNOWN) -> Accepted:
        connector = self.table.stop_task(name, index, session, by)
        log.debug("task stopped, session %s", session, extra={"connector": name, "task": index})
        self.long_polls.wake(name)
        self._send_desired()
        return accepted(connector, index)

    def idle_task(self, name: str, index: int, session: str, idle_ms: int) -> Accepted:
        if self.table.idle(name, index, session, idle_ms):
            log.debug(
                "task has not been polled by Connect for %d ms",
                idle_ms,
                extra={"connector": name, "task": index},
            )
            self._send_desired()
        return accepted(self.table.connector(name), index)

    async def poll(self, name: str, index: int, body: PollRequest) -> Polled:
        """Answers a poll with records, a failure or an offset request, and holds it until there is one of them."""
        batch = self._next_batch(name, index, body)
        self._forward_offsets(name, body)
        held = 0.0
        copying = self.snapshots.connector(name).copying
        if body.measured is not None:
            copying.begin_measuring(body.session)
        if body.positions is not None:
            copying.positions.begin(body.session)
        if (
            not batch.texts
            and self._failure(name) is None
            and not self._requested_offsets(name, body)
            and not copying.samples.fills_an_answer
            and not copying.positions.fills_an_answer
        ):
            began = time.perf_counter()
            await self.long_polls.wait(name, body.wait_ms)
            held = round((time.perf_counter() - began) * 1000, 3)
            batch = self._next_batch(name, index, body, arrived=False)
        response = PollResponse(
            failure=self._failure(name),
            held_ms=held,
            batch=batch.number,
            offsets_of=self._requested_offsets(name, body),
        )
        # The snapshot of before may have been forgotten while the poll was held.
        copying = self.snapshots.connector(name).copying
        measured = positions = None
        if body.measured is not None:
            copying.begin_measuring(body.session)
            measured = copying.samples.next(body.measured)
        if body.positions is not None:
            copying.positions.begin(body.session)
            positions = copying.positions.next(body.positions)
        return Polled(_with_json(response, batch.texts, measured=measured, positions=positions), held)

    async def alter_offsets(self, name: str, body: AlterOffsets) -> bytes:
        """Alters where a stopped connector copies from; AlteredOffsets as JSON. Waits for both clusters."""
        check_protocol(body.protocol)
        if body.kind not in COPYING_KINDS:
            raise OperationRefused(
                f"a connector of kind {body.kind} copies nothing, and has no position to alter"
            )
        await self.checker.check(body.kind, body.config)
        context = copy_context()  # log lines of the thread have the request's id

        def alter() -> bytes:
            offsets = [(offset.source_partition, offset.source_offset) for offset in body.offsets]
            rows = self.altering()(body.kind, name, {**given(body.config), "name": name}, offsets)
            return context.run(log_and_pack, name, rows)

        return await self.pools.queries.run(alter)

    async def ack(self, name: str, index: int, session: str, acked: list[dict[str, Any]]) -> Accepted:
        connector = self._renew_lease(name, index, session, arrived=False)
        await self.deliveries.acked(name, index, session, acked)
        return accepted(connector, index)

    # -- can groups fail over? ---------------------------------------------------------------------

    def views(self) -> dict[str, ConnectorView]:
        """Returns for each connector what holds for all of its groups now."""
        return connector_views(self.table, self.snapshots, self.rounds.state, int(time.time() * 1000))

    async def validate(self, kind: str, config: Config, by: ConnectCluster) -> bytes:
        """Returns a ValidateResponse as JSON."""
        name = config.get("name") or ""
        taken = self.table.name_taken(name, by)
        return await self.checker.validate(
            kind, config, [] if taken is None else [ConfigError("name", str(taken))]
        )

    # -- steps -------------------------------------------------------------------------------------

    async def _check_config(self, name: str, kind: str, config: Config) -> Sequence[IgnoredSetting]:
        """Checks a configuration, and returns its settings that have no effect. One that the table has was checked
        before: ten tasks of one connector cost one check."""
        connector = self.table.get(name)
        if (
            connector is not None
            and connector.kind == kind
            and comparable(connector.config) == comparable(config)
        ):
            return connector.ignored
        check_room(self.table, name, config)
        return await self.checker.check(kind, config)

    def _configured(self, connector: Connector, generation: int, ignored: Sequence[IgnoredSetting]) -> None:
        """Keeps and logs the settings of a new configuration that do nothing, and tries to reach its clusters.
        `generation` is that of the configuration before."""
        if connector.generation == generation:
            return
        connector.ignored, connector.unreachable, connector.same_cluster = ignored, {}, ""
        # The file of a node has been checked key by key; what follows from it for each connector nobody has set.
        if ignored and not connector.dedicated:
            listed = "; ".join(f"{setting.key} ({setting.reason})" for setting in ignored)
            log.warning(
                "%d setting(s) of the configuration have no effect: %s",
                len(ignored),
                listed,
                extra={"connector": connector.name},
            )
        self.checker.reachability.started(connector, self.checker.kind(connector.kind))

    def _next_batch(self, name: str, index: int, body: PollRequest, *, arrived: bool = True) -> Batch:
        connector = self._renew_lease(name, index, body.session, arrived=arrived)
        return self.deliveries.poll(connector, index, body.session, body.batch, body.max_records)

    def _forward_offsets(self, name: str, body: PollRequest) -> None:
        answer = self.offset_requests.answer(name, body.offsets or ())
        if answer is not None:
            self.rounds.stored_offsets(name, *answer)

    def _requested_offsets(self, name: str, body: PollRequest) -> list[dict[str, str | int]]:
        """Source partitions whose stored offsets the shim is asked for; none of a shim that can't read them."""
        return (
            [] if body.offsets is None else [dict(partition) for partition in self.offset_requests.next(name)]
        )

    def _renew_lease(self, name: str, index: int, session: str, *, arrived: bool) -> Connector:
        before = self.table.version
        connector = self.table.poll(name, index, session, arrived=arrived)
        if self.table.version != before:
            log.info("task polls again", extra={"connector": name, "task": index})
            self._send_desired()
        return connector

    def _failure(self, name: str) -> str | None:
        return self.snapshots.connector(name).summary.failure


def runs_in(body: StartConnector | StartTask | StopConnector | StopTask | ValidateRequest) -> ConnectCluster:
    """The Connect cluster of the worker that has sent this."""
    return ConnectCluster(body.connect_group_id, body.connect_kafka_cluster_id)


def _with_json(response: PollResponse, records: Iterable[bytes], **fields: bytes | None) -> bytes:
    """Serializes a response with these records and fields, which are JSON texts already: none of them is parsed or
    built again. A field that is None is left out."""
    rest = response.model_dump_json(exclude={"records", *fields}).encode()
    texts = (b'"%b":%b,' % (name.encode(), text) for name, text in fields.items() if text is not None)
    return b'{"records":[' + b",".join(records) + b"]," + b"".join(texts) + rest.removeprefix(b"{")

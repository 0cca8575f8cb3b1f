"""A service, a Connect worker and two clusters in virtual time, where anything may happen; and what may be said then.

The instance of MirrorGroupOffsetConnector, the task table, the snapshots and the model of readiness are the real ones.
The clusters, Connect and what copies are imitated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from bridge.errors import Fenced, NotFound
from bridge.model.copying import Progress
from bridge.protocol.messages import GroupReport
from bridge.protocol.operators import CopyTotals
from bridge.service.answers.missing_records import with_answer
from bridge.service.answers.readiness import Answers, connector_views
from bridge.service.ipc.messages import Backlog, pack_report
from bridge.service.state.snapshots import RoundsState, Snapshots
from bridge.service.state.task_table import TaskTable
from connectors.base import (
    CopyReport,
    EmittedRecord,
    SourceOffset,
    SourcePartition,
    Summary,
)
from connectors.group_offset.task import GroupOffsetInstance
from tests.unit.connectors.fake_clusters import FakeClusters
from tests.unit.connectors.group_translation.group_rounds import options
from tests.unit.service.drill_clusters import COPY, PARTITIONS, TOPIC, Mirrored
from tests.unit.service.service_fakes import session
from tests.unit.virtual_time import EPOCH, VirtualLoop

INTERVAL = 2.0
GROUPS = ("billing", "search")
_FLOW = {"source.cluster.alias": "A", "target.cluster.alias": "B"}
_POLL, _COPY = 0.5, 0.25
_MOST_COPIED = 40
"""Records of a partition that a transaction takes."""


class Pipe:
    """What an instance publishes, on its way to the snapshots of the service that runs it."""

    def __init__(self, snapshots: Snapshots, name: str, generation: int) -> None:
        self._snapshots, self._name, self._generation = snapshots, name, generation

    def records(self, records: Sequence[EmittedRecord]) -> None:
        raise AssertionError("group offsets go past Connect")

    def summary(self, summary: Summary) -> None:
        self._snapshots.summary(self._name, self._generation, summary)

    def groups(self, changed: Mapping[str, GroupReport | None]) -> None:
        packed = [pack_report(group, report) for group, report in changed.items()]
        self._snapshots.groups(self._name, self._generation, packed)

    def backlog(self, changed: Backlog) -> None:
        self._snapshots.missing(self._name, self._generation, changed)

    def progress(self, report: CopyReport) -> None:
        raise AssertionError("it copies nothing")

    async def stored_offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        raise AssertionError("it asks for no offsets")


class Connect:
    """A worker with one connector of one task: starts it, polls it, pauses it, stops it, dies."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.state = "running"
        self.alive = True
        self._session = 1
        self._started = False

    def poll(self, table: TaskTable) -> None:
        if not self.alive or self.state != "running":
            return
        try:
            table.poll(self.name, 0, session(self._session))
        except (NotFound, Fenced):
            self._session += 1
            table.start_connector(self.name, session(self._session), self.kind, _FLOW)
            table.start_task(self.name, 0, session(self._session), self.kind, 1, _FLOW)

    def leave(self, state: str, table: TaskTable | None) -> None:
        """Pauses or stops it; None: while the service does not answer."""
        self.state = state
        if table is None:
            return
        with suppress(NotFound, Fenced):
            table.stop_connector(self.name, session(self._session))
            if state == "stopped":
                table.stop_task(self.name, 0, session(self._session))

    def resume(self, table: TaskTable) -> None:
        self.state, self._session = "running", self._session + 1
        table.start_connector(self.name, session(self._session), self.kind, _FLOW)
        table.start_task(self.name, 0, session(self._session), self.kind, 1, _FLOW)


class World:
    """`events` change it; `groups()` is what an operator reads."""

    def __init__(self, loop: VirtualLoop, random: Random, *, runs: bool) -> None:
        self.loop, self.random = loop, random
        self.mirrored = Mirrored(runs=runs)
        self.groups_connect, self.copy_connect = Connect("g", "group_offset"), Connect("s", "source")
        self.copying = True
        """False: what copies is stuck."""
        self.copy_pause = 0.0
        """Seconds that a rate limit leaves between two transactions."""
        self._copied_at = 0.0
        self.clock_set = False
        self.rounds = RoundsState.RUNNING
        self.restarting: asyncio.Future[None] | None = None
        self._hosted: tuple[int, GroupOffsetInstance, asyncio.Task[None]] | None = None
        self._last_copy: tuple[int | None, int | None] = None, None
        """By the wall clock and by the monotonic one."""
        self.start_service()

    @property
    def now(self) -> float:
        return self.loop.time()

    def now_ms(self) -> int:
        return int(self.loop.wall() * 1000)

    # -- the service ---------------------------------------------------------------------------------------------------

    def start_service(self) -> None:
        self.table, self.snapshots = TaskTable(lambda: self.loop.time() * 1000), Snapshots()
        self.serving, self.served_since, self._last_copy = True, self.now, (None, None)
        self.copy_reported = False

    async def end_rounds(self) -> None:
        if self._hosted is not None:
            _, instance, running = self._hosted
            self._hosted = None
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await instance.close()

    async def restart_rounds(self) -> None:
        """The rounds process dies and is started again."""
        await self.end_rounds()
        self.snapshots.restarted()

    async def host(self) -> None:
        """Follows the task table, as service and rounds process do."""
        while True:
            await asyncio.sleep(_POLL)
            if not self.serving:
                await self.end_rounds()
                continue
            for connect in (self.groups_connect, self.copy_connect):
                connect.poll(self.table)
            self.table.expire()
            wished = {desired.name: desired for desired in self.table.desired()}
            desired = wished.get("g")
            if desired is None or (self._hosted is not None and self._hosted[0] != desired.generation):
                await self.end_rounds()
            if desired is not None and self.rounds is RoundsState.RUNNING:
                if self._hosted is None:
                    pipe = Pipe(self.snapshots, "g", desired.generation)
                    chosen = replace(options(), sync_interval=INTERVAL, refresh_groups_interval=5.0)
                    both = FakeClusters(self.mirrored.a, self.mirrored.b)
                    instance = GroupOffsetInstance("g", chosen, both, {}, pipe)
                    instance.assign(desired.assignment)
                    self._hosted = desired.generation, instance, asyncio.create_task(instance.run())
                _, instance, running = self._hosted
                assert not running.done(), running.exception()
                instance.assign(desired.assignment)

    # -- what goes on on the clusters ----------------------------------------------------------------------------------

    async def traffic(self) -> None:
        world, random = self.mirrored, self.random
        while True:
            await asyncio.sleep(random.uniform(0.2, 1.5))
            if not world.a.well:
                continue
            for number in range(PARTITIONS):
                world.produce(self.now, number, random.randint(0, 12))
                end = world.a.logs[next(iter(world.a.logs))._replace(partition=number)].end
                for group in GROUPS:
                    places = world.committed.get((group, number))
                    last = places[-1].offset if places else 0
                    if random.random() < 0.7:
                        world.commit(self.now, group, number, random.randint(last, end))

    async def copy(self) -> None:
        while True:
            await asyncio.sleep(_COPY)
            world, known = self.mirrored, self.table.get("s")
            runs = (
                self.serving and self.rounds is RoundsState.RUNNING and known is not None and known.active()
            )
            if not runs or known is None:
                continue
            well = self.copying and world.a.well and world.b.well
            if well:
                if self.now - self._copied_at >= self.copy_pause:
                    world.copy(self.now, _MOST_COPIED)
                    self._copied_at = self.now
                self._last_copy = self.now_ms(), int(self.now * 1000)
            summary = Summary(
                rounds=1,
                copying_ms=self._last_copy[0],
                copying_monotonic_ms=self._last_copy[1],
                errors=() if well else ("it is stuck",),
            )
            self.snapshots.summary("s", known.generation, summary)
            rows = [Progress(TOPIC, number, COPY, 0, 0) for number in range(PARTITIONS)]
            totals = CopyTotals(source="A", target="B", state="copying")
            self.snapshots.progress("s", known.generation, CopyReport(totals, rows, whole=True))
            self.copy_reported = True

    # -- what an operator reads ----------------------------------------------------------------------------------------

    def groups(self) -> dict[str, GroupReport]:
        """By group; none while the service is down."""
        if not self.serving:
            return {}
        views = connector_views(self.table, self.snapshots, self.rounds, self.now_ms())
        if "g" not in views:
            return {}
        snapshot = self.snapshots.connector("g")
        answers, result = Answers(views["g"], snapshot), {}
        for group in GROUPS:
            packed, full = self.snapshots.report("g", group), self.snapshots.full("g", group)
            if packed is not None and full is not None:
                result[group] = with_answer(
                    full, answers.answer(packed), snapshot.missing, snapshot.summary.rounds
                )
        return result

    def virtual(self, at_ms: int) -> float:
        """When that was, where the wall clock was not set since."""
        return at_ms / 1000 - EPOCH - self.loop.skew

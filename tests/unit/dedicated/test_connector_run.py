"""A connector run without Connect: against a real service whose rounds process is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from unittest import mock

import pytest

from bridge.dedicated import flow_run
from bridge.dedicated.flow_run import ConnectorRun
from bridge.errors import KafkaFailure, KafkaFault, NotFound
from bridge.protocol.messages import IgnoredSetting, Record, StoredOffset
from bridge.service.ipc.checkpoint_records import pack
from bridge.service.service import Service
from connectors.base import Summary
from tests.unit.service.service_fakes import FakeEngine, emitted, fake_service, places

NAME = "A->B.MirrorCheckpointConnector"


class Writer:
    """Keeps what it is given; raises what stands in `failures` first."""

    def __init__(self) -> None:
        self.written: list[Record] = []
        self.failures: list[KafkaFailure] = []

    async def write(self, records: Sequence[Record]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.written += records


class Offsets:
    def __init__(self) -> None:
        self.failures: list[KafkaFailure] = []

    async def read(self, partitions: Sequence[Mapping[str, str | int]]) -> list[StoredOffset]:
        if self.failures:
            raise self.failures.pop(0)
        return [
            StoredOffset(source_partition=dict(each), source_offset={"offset": each["partition"]})
            for each in partitions
        ]


class Scene:
    def __init__(self, config: Mapping[str, str]) -> None:
        self.service: Service = fake_service()
        self.service.table.dedicated = True
        self.writer, self.offsets = Writer(), Offsets()
        self.run = ConnectorRun(self.service, NAME, "fake", config, self.writer, self.offsets, 0.01)

    @property
    def engine(self) -> FakeEngine:
        assert isinstance(self.service.rounds, FakeEngine)
        return self.service.rounds

    @property
    def active(self) -> bool:
        connector = self.service.table.get(NAME)
        return connector is not None and bool(connector.active())

    def emit(self, *groups: str) -> None:
        generation = self.service.table.connector(NAME).generation
        records = [pack(emitted(group, stamp=1_795_000_000_000)) for group in groups]
        self.service.deliveries.accept(NAME, generation, records)


async def until(holds: Callable[[], object]) -> None:
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("not within 10 s")


@asynccontextmanager
async def running(config: Mapping[str, str]) -> AsyncIterator[Scene]:
    scene = Scene(config)
    with mock.patch.multiple(flow_run, _FIRST_PAUSE=0.001, _MOST_PAUSE=0.01, _EMPTY_SECONDS=0.001):
        task = asyncio.create_task(scene.run.run())
        try:
            yield scene
        finally:
            task.cancel()
            await asyncio.wait({task})
            await scene.run.stop()
            scene.service.pools.close()


def check(test: Callable[[Scene], Awaitable[None]], **config: str) -> None:
    async def go() -> None:
        async with running(config) as scene:
            await test(scene)

    asyncio.run(go())


def test_records_are_written_and_then_acknowledged() -> None:
    async def test(scene: Scene) -> None:
        await until(lambda: scene.active)
        scene.emit("g1", "g2")
        await until(lambda: scene.service.deliveries.traffic(NAME).written == 2)
        assert {each.topic for each in scene.writer.written} == {"A.checkpoints.internal"}
        assert len(scene.writer.written) == 2
        assert scene.service.deliveries.traffic(NAME)[:2] == (0, 0)

    check(test)


def test_what_can_not_be_written_is_tried_again_and_acknowledged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(scene: Scene) -> None:
        await until(lambda: scene.active)
        away = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
        scene.writer.failures = [away, away, KafkaFailure(KafkaFault.FENCED, "fenced")]
        scene.emit("g1")
        await until(lambda: scene.run.problem is not None)
        assert scene.active, "the lease goes on"
        await until(lambda: scene.service.deliveries.traffic(NAME).written == 1)
        assert len(scene.writer.written) == 1
        assert scene.run.problem is None

    check(test)
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        "connector failed, retrying: nobody there"
    ]


def test_settings_that_nobody_has_set_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """A node gives each connector what the file says of the flow; what one has no use for is no news."""

    unused = [
        IgnoredSetting(key="source.admin.bootstrap.servers", reason="the connector makes no such client")
    ]

    async def checked(_: str, __: object) -> list[IgnoredSetting]:
        return unused

    async def test(scene: Scene) -> None:
        with mock.patch.object(scene.service.checker, "check", checked):
            await until(lambda: scene.active)
        assert scene.service.table.connector(NAME).ignored == unused, "the status has them"

    check(test)
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == []


def test_offsets_that_are_asked_for_are_sent() -> None:
    async def test(scene: Scene) -> None:
        await until(lambda: scene.active)
        scene.offsets.failures = [KafkaFailure(KafkaFault.TIMEOUT, "no answer")]
        generation = scene.service.table.connector(NAME).generation
        scene.service.offset_requests.put(NAME, generation, places(2))
        await until(lambda: scene.engine.offsets)
        rows = [row for _, _, some in scene.engine.offsets for row in some]
        assert [offset for _, offset in rows] == [{"offset": 0}, {"offset": 1}]
        assert scene.run.problem is None

    check(test)


def test_it_starts_again_where_the_service_has_forgotten_it() -> None:
    async def test(scene: Scene) -> None:
        await until(lambda: scene.active)
        connector = scene.service.table.connector(NAME)
        for task in connector.tasks.values():
            task.active = False
        scene.service.forget_connector(NAME)
        await until(lambda: scene.active)

    check(test)


def test_a_rejected_configuration_says_so_and_is_not_tried_again() -> None:
    async def test(scene: Scene) -> None:
        await until(lambda: scene.run.problem is not None)
        assert "how.many" in (scene.run.problem or "")
        assert scene.service.table.get(NAME) is None

    check(test, **{"how.many": "many"})


def test_a_permanent_failure_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(scene: Scene) -> None:
        await until(lambda: scene.active)
        generation = scene.service.table.connector(NAME).generation
        summary = Summary(failure="the credentials are wrong")
        scene.service.snapshots.summary(NAME, generation, summary)
        await until(lambda: scene.run.problem == "the credentials are wrong")
        await asyncio.sleep(0.05)

    check(test)
    assert [each.levelname for each in caplog.records].count("ERROR") == 1


def test_a_stop_leaves_nothing_behind() -> None:
    """A flow that comes back must not begin with records of its first time here."""

    async def test(scene: Scene) -> None:
        await until(lambda: scene.active)
        scene.writer.failures = [KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")] * 1000
        scene.emit("g1")
        await until(lambda: scene.run.problem is not None)
        await scene.run.stop()
        with pytest.raises(NotFound):
            scene.service.table.connector(NAME)
        assert scene.service.deliveries.traffic(NAME)[:2] == (0, 0)
        assert scene.engine.sent[-1] == ()

    check(test)

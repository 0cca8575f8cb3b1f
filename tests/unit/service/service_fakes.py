"""A kind of connector that does as its configuration says, for tests of the service without Kafka."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bridge.errors import ConfigError, ConfigRejected, KafkaFailure, KafkaFault, OperationRefused
from bridge.model.values import Committed, Side, TopicPartition
from bridge.patterns import JavaPattern
from bridge.protocol.messages import GroupReport, PartitionReport
from bridge.service.checks.context import AlterOffsets, CheckContext, Props, RoundsContext
from bridge.service.checks.validation import Checker, size_errors
from bridge.service.ipc.messages import Desired
from bridge.service.pool import CHECK_SECONDS, pools
from bridge.service.service import Service
from bridge.service.state.delivery import Deliveries, LongPolls
from bridge.service.state.sessions import Sessions, running_clock
from bridge.service.state.snapshots import RoundsState, Snapshots
from bridge.service.state.source_offsets import OpenOffsetRequests, SourcePartitionOffset
from bridge.service.state.task_table import TaskTable
from bridge.translation.runs.reset_positions import PartitionReset as AlteredRow
from connectors.base import (
    Arguments,
    Assignment,
    EmittedRecord,
    Instance,
    Publisher,
    SourcePartition,
    Summary,
)
from connectors.config.configdef import ConfigDef, Importance, Key, Type, ValidatedConfig
from connectors.ports import Clusters, Pipeline, Pipelines
from connectors.source.take_over import Offsets

ROOT = Path(__file__).parents[3]
FACTORY = "tests.unit.service.service_fakes:rounds"
SECRET = "hunter2-hunter2"


def session(at: int = 1, unique: str = "a") -> str:
    return f"{1_795_000_000_000 + at}-{unique}"


def partition(number: int, **changes: object) -> PartitionReport:
    fields: dict[str, object] = {
        "topic": "orders",
        "partition": number,
        "target_topic": "A.orders",
        "committed": 1001 + number,
        "target_offset": 400 + number,
        "written": 400 + number,
        "verdict": "exact",
        "evidence": "verified",
        "bound": 0,
        "detail": {"pred": 1000 + number, "copy": 399 + number},
    }
    return PartitionReport.model_validate(fields | changes)


def report(group: str, connector: str = "c", partitions: int = 2, **changes: object) -> GroupReport:
    fields: dict[str, object] = {
        "group": group,
        "connector": connector,
        "source": "A",
        "target": "B",
        "task": 0,
        "ready": True,
        "verdict": "exact",
        "bound": 0,
        "target_state": "EMPTY",
        "synced_at_ms": 1_795_000_000_000,
        "partitions": [partition(number) for number in range(partitions)],
    }
    return GroupReport.model_validate(fields | changes)


def emitted(group: str, stamp: int, value: str = "") -> EmittedRecord:
    """Something like a checkpoint: one for each group."""
    return EmittedRecord(
        affinity=group,
        source_partition={"group": group, "topic": "A.orders", "partition": 0},
        source_offset={"offset": 0},
        topic="A.checkpoints.internal",
        key=group.encode(),
        value=value.encode() or str(os.getpid()).encode(),
        timestamp=stamp,
    )


def places(count: int) -> list[SourcePartition]:
    """Source partitions as stock's MirrorSourceConnector has them."""
    return [{"cluster": "A", "partition": number, "topic": "orders"} for number in range(count)]


class FakeInstance:
    """`mode`: ok, fail (a permanent failure), crash (run raises), busy (burns CPU), hang (stops the loop). `records`:
    how many are published in the first round. `asks`: of how many partitions Connect is asked for offsets before it."""

    def __init__(self, name: str, props: Mapping[str, str | None], publisher: Publisher) -> None:
        self._name = name
        self._props = props
        self._publisher = publisher
        self._active: frozenset[int] = frozenset()

    def assign(self, assignment: Assignment) -> None:
        self._active = assignment.active

    async def run(self) -> None:
        mode = self._props.get("mode") or "ok"
        groups = int(self._props.get("how.many") or 3)
        partitions = int(self._props.get("partitions") or 2)
        rounds = 0
        asked = await self._publisher.stored_offsets(places(int(self._props.get("asks") or 0)))
        while True:
            if mode == "crash":
                raise RuntimeError("as configured")
            if mode == "hang":
                time.sleep(3600)  # noqa: ASYNC251
            if mode == "busy":
                end = time.monotonic() + 0.2
                while time.monotonic() < end:
                    sum(range(1000))
            for first in range(0, groups, 500):
                chunk = range(first, min(first + 500, groups))
                if rounds == 0 or mode == "busy":
                    self._publisher.groups(
                        {f"g-{n:06d}": report(f"g-{n:06d}", self._name, partitions) for n in chunk}
                    )
                await asyncio.sleep(0)
            if rounds == 0 and (records := int(self._props.get("records") or 0)):
                self._publisher.records(
                    [emitted(f"g-{n:06d}", int(time.time() * 1000)) for n in range(records)]
                )
            rounds += 1
            self._publisher.summary(
                Summary(
                    groups=groups,
                    exact=groups * partitions,
                    rounds=rounds,
                    lookups=rounds,
                    last_success_ms=int(time.time() * 1000),
                    as_of_ms=int(time.time() * 1000),
                    interval_ms=1000,
                    tasks=sorted(self._active),
                    last_round_seconds=0.01,
                    clusters_seen=frozenset({"source", "target"}),
                    errors=(f"pid {os.getpid()} active {sorted(self._active)}", *map(str, asked)),
                    failure="the credentials are wrong" if mode == "fail" else None,
                )
            )
            await asyncio.sleep(0.05)

    async def operate(self, operation: str, arguments: Arguments) -> Arguments:
        """As the mode says: hang there, be refused, answer with too much, or with the pid and the active groups."""
        mode = self._props.get("operations") or "ok"
        if mode == "hang":
            await asyncio.Event().wait()
        if mode == "refuse":
            raise OperationRefused(f"{operation} is refused")
        if mode == "bug":
            raise RuntimeError("as configured")
        if mode == "large":
            return {"added": "x" * (70 << 20)}
        return {"found": len(self._active), "added": [operation, str(os.getpid())]}

    async def close(self) -> None:
        if marker := self._props.get("marker"):
            with Path(marker).open("a") as file:  # noqa: ASYNC230
                file.write("closed\n")


class FakeKind:
    kind = "fake"
    connector_class = "dev.mirrorbridge.FakeConnector"
    slow_seconds = 0.0

    @property
    def definition(self) -> ConfigDef:
        def key(name: str, type_: Type, default: str | None) -> Key:
            return Key(name, type_, default, Importance.LOW, "For tests.", "test")

        return ConfigDef(
            [
                key("mode", Type.STRING, "ok"),
                key("how.many", Type.INT, "3"),
                key("partitions", Type.INT, "2"),
                key("records", Type.INT, "0"),
                key("asks", Type.INT, "0"),
                key("operations", Type.STRING, "ok"),
                key("marker", Type.STRING, None),
                key("bridge.task.lease.ms", Type.LONG, "30000"),
                key("target.password", Type.PASSWORD, None),
            ]
        )

    def validate(self, props: Mapping[str, str | None], clients: object) -> ValidatedConfig:
        time.sleep(self.slow_seconds)
        if waits := props.get("wait.for"):
            Path(waits).read_bytes()
        judged = self.definition.validate(props)
        if props.get("mode") == "leak":
            message = f"cannot log in with {props.get('target.password')}"
            return judged.with_errors([ConfigError("target.password", message)])
        return judged

    def conflicts(self, props: object, others: object) -> tuple[ConfigError, ...]:
        return ()

    def create(
        self,
        name: str,
        props: Mapping[str, str | None],
        clusters: Clusters,
        pipelines: Pipelines,
        publisher: Publisher,
    ) -> Instance:
        if props.get("mode") == "reject":
            raise ConfigRejected([ConfigError("mode", "rejected on create")])
        return FakeInstance(name, props, publisher)


class NoClusters:
    def open(self, side: object, props: object) -> object:
        raise NotImplementedError

    async def release(self, cluster: object) -> None:
        raise NotImplementedError


class NoPipelines:
    def start(self, spec: object) -> Pipeline:
        raise NotImplementedError


class NoCheck:
    def refused(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return ()

    def check(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return ()

    def check_producer(self, side: object, props: object) -> tuple[()]:
        return ()

    def rule(self, use: object, name: object) -> None:
        return None

    properties = ()


async def _nothing() -> None:
    return None


def rounds() -> RoundsContext:
    return RoundsContext({"fake": FakeKind()}, NoClusters(), NoPipelines(), dict, _nothing)  # type: ignore[arg-type]


def checks(kind: FakeKind | None = None) -> CheckContext:
    return CheckContext({"fake": kind or FakeKind()}, NoCheck())


def _done(name: str, operation: str, arguments: Arguments) -> Arguments:
    if operation == "skip":
        return {"topic": "t", "partition": 0, "offset": 3, "end": 4, "why": "refused", "done": True}
    return {"found": 0}


class FakeEngine:
    """Records what it is told."""

    def __init__(self) -> None:
        self.state = RoundsState.RUNNING
        self.restarts = 0
        self.sent: list[tuple[Desired, ...]] = []
        self.offsets: list[tuple[str, int, list[SourcePartitionOffset]]] = []
        self.operated: list[tuple[str, str, Arguments]] = []
        self.answer: Callable[[str, str, Arguments], Arguments] = _done
        """To an operation, by connector, operation and arguments; it may raise."""

    async def start(self) -> None:
        return None

    def apply(self, desired: Sequence[Desired]) -> None:
        self.sent.append(tuple(desired))

    def stored_offsets(self, name: str, generation: int, rows: Sequence[SourcePartitionOffset]) -> None:
        self.offsets.append((name, generation, list(rows)))

    async def operate(
        self, name: str, generation: int, operation: str, arguments: Arguments, seconds: float
    ) -> Arguments:
        self.operated.append((name, operation, arguments))
        return self.answer(name, operation, arguments)

    async def close(self, grace: float) -> None:
        self.state = RoundsState.STOPPED


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000.0

    def __call__(self) -> float:
        return self.ms


class FakeQuestions:
    """A cluster that `A` is mirrored to, with one group `g`; unreachable for a connector that says so."""

    def replication_hops(self, props: Props, alias: str, side: Side) -> int:
        _reach(props)
        return 1 if alias == "A" else -1

    def heartbeat_topics(self, props: Props, side: Side) -> set[str]:
        _reach(props)
        return {"heartbeats", "A.heartbeats"} if side is Side.TARGET else {"heartbeats"}

    def checkpoint_topics(self, props: Props, side: Side) -> set[str]:
        return {"A.checkpoints.internal"}

    def upstream_clusters(self, props: Props, side: Side) -> set[str]:
        return {"A"}

    def remote_topics(self, props: Props, source: str | None, side: Side) -> set[str]:
        return {"A.orders"} if source in (None, "A") else set()

    def translate_offsets(
        self, props: Props, alias: str, group: JavaPattern, timeout_s: float, side: Side
    ) -> dict[str, dict[TopicPartition, Committed]]:
        result = {
            TopicPartition("A.orders", 1): Committed(7),
            TopicPartition("A.orders", 0): Committed(5, "m"),
        }
        return {each: result for each in ("g", "h.1", "a" * 200) if group.fullmatch(each)}


def _reach(props: Props) -> None:
    if props.get("source.cluster.bootstrap.servers") == "nowhere:1":
        raise KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")


def fake_service(
    clock: Callable[[], float] | None = None,
    kind: FakeKind | None = None,
    size: int = 1,
    queue: int = 8,
    altered: AlterOffsets | None = None,
    sessions: Sessions | None = None,
    check_seconds: float = CHECK_SECONDS,
) -> Service:
    waiting = pools(size, queue, check_seconds)
    sessions = sessions or Sessions(running_clock())
    table = TaskTable(clock or (lambda: time.monotonic() * 1000), sessions.foreign)
    snapshots, long_polls = Snapshots(), LongPolls()
    wall = clock or (lambda: time.time() * 1000)
    return Service(
        table=table,
        sessions=sessions,
        snapshots=snapshots,
        rounds=FakeEngine(),
        checker=Checker(checks(kind), waiting, sizes=lambda config: size_errors(table, config)),
        pools=waiting,
        long_polls=long_polls,
        deliveries=Deliveries(table, long_polls, snapshots, lambda: int(wall())),
        offset_requests=OpenOffsetRequests(long_polls.wake),
        queries=FakeQuestions,
        altering=lambda: altered or _nothing_altered,
    )


def _nothing_altered(kind: str, name: str, props: Props, offsets: Offsets) -> Sequence[AlteredRow]:
    return ()

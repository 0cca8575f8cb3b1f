"""Heartbeats over a cluster in memory: what is emitted, when, and what a cluster that is away does to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.mm2.records import Heartbeat
from bridge.protocol.messages import GroupReport
from connectors import cluster_away
from connectors.base import Assignment, CheckedOnOpen, EmittedRecord, SourceOffset, Summary
from connectors.heartbeat import task as task_module
from connectors.heartbeat.options import HeartbeatOptions
from connectors.heartbeat.task import HeartbeatInstance
from tests.support.messages import message
from tests.unit.connectors.fake_clusters import FakeCluster, FakeClusters
from tests.unit.connectors.run_instance import ALONE, play

INTERVAL = 0.02
NOBODY = Assignment(1, frozenset())
UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
REFUSED = KafkaFailure(KafkaFault.CREDENTIALS, "Authentication failed", retriable=False)
NO_FACTOR = KafkaFailure(KafkaFault.OTHER, "Error while attempting to create/find topic 'heartbeats'")


class Published:
    def __init__(self) -> None:
        self.emitted: list[EmittedRecord] = []
        self.summaries = [Summary()]
        self.more = asyncio.Event()

    def records(self, records: Sequence[EmittedRecord]) -> None:
        self.emitted += records

    def summary(self, summary: Summary) -> None:
        self.summaries.append(summary)
        self.more.set()

    def groups(self, changed: Mapping[str, GroupReport | None]) -> None:
        raise AssertionError("heartbeats are of no group")

    def backlog(self, changed: object) -> None:
        raise AssertionError("heartbeats are of no partition")

    def progress(self, report: object) -> None:
        raise AssertionError("nothing is copied")

    async def stored_offsets(self, partitions: object) -> Sequence[SourceOffset | None]:
        raise AssertionError("nothing to be taken over")

    async def until(self, done: Callable[[Summary], bool]) -> Summary:
        while not done(self.summaries[-1]):
            self.more.clear()
            await self.more.wait()
        return self.summaries[-1]


class HeartbeatHarness:
    def __init__(self, **given: str) -> None:
        props = {
            "source.cluster.alias": "testSource",
            "target.cluster.alias": "testTarget",
            "target.cluster.bootstrap.servers": "b:9092",
        }
        given = {key.replace("_", "."): value for key, value in given.items()}
        self.options = replace(
            HeartbeatOptions.from_props(props | given, CheckedOnOpen()), emit_interval=INTERVAL
        )
        self.target = FakeCluster()
        self.clusters = FakeClusters(FakeCluster(), self.target)
        self.published = Published()

    def play(self, script: Callable[[HeartbeatInstance], Awaitable[None]]) -> None:
        play(lambda: HeartbeatInstance("h", self.options, self.clusters, {}, self.published), script, None)
        assert self.clusters.released == [self.target]

    def emit(self, count: int) -> Callable[[HeartbeatInstance], Awaitable[None]]:
        async def script(instance: HeartbeatInstance) -> None:
            instance.assign(ALONE)
            await self.published.until(lambda summary: summary.rounds >= count)

        return script


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)


def test_poll_creates_records() -> None:
    """MirrorHeartbeatTaskTest.testPollCreatesRecords; bytes as stock §2."""
    harness = HeartbeatHarness()
    harness.play(harness.emit(2))
    assert len(harness.published.emitted) == 2
    for record in harness.published.emitted:
        assert record.source_partition == {
            "sourceClusterAlias": "testSource",
            "targetClusterAlias": "testTarget",
        }
        assert record.source_offset == {"offset": 0}
        assert record.topic == "heartbeats"
        beat = Heartbeat.decode(record.key, record.value)
        assert beat == Heartbeat("testSource", "testTarget", record.timestamp)
    assert len({record.affinity for record in harness.published.emitted}) == 1


def test_one_record_each_interval_and_the_first_after_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    async def until(_: HeartbeatInstance, due: float) -> bool:
        nonlocal now
        now = max(now, due)
        await asyncio.sleep(0)
        return True

    clock = SimpleNamespace(monotonic=lambda: now, time=lambda: now)
    monkeypatch.setattr(task_module, "time", clock)
    monkeypatch.setattr(HeartbeatInstance, "until", until)
    harness = HeartbeatHarness()
    harness.options = replace(harness.options, emit_interval=7.0)
    harness.play(harness.emit(3))
    assert [record.timestamp for record in harness.published.emitted[:3]] == [107_000, 114_000, 121_000]


def test_the_topic_is_made_first_once_and_with_its_replication_factor() -> None:
    harness = HeartbeatHarness(heartbeats_topic_replication_factor="-1", replication_policy_separator="-")
    harness.play(harness.emit(3))
    assert harness.target.created == [("heartbeats", -1)]


def test_nothing_is_emitted_while_no_task_is_alive() -> None:
    harness = HeartbeatHarness()

    async def script(instance: HeartbeatInstance) -> None:
        await asyncio.sleep(3 * INTERVAL)
        assert harness.published.emitted == []
        await harness.emit(1)(instance)
        instance.assign(NOBODY)
        await asyncio.sleep(0)
        before = len(harness.published.emitted)
        await asyncio.sleep(3 * INTERVAL)
        assert len(harness.published.emitted) == before
        await harness.emit(before + 1)(instance)

    harness.play(script)
    assert harness.target.created == [("heartbeats", 3)]


def test_a_task_that_has_ended_emits_nothing_however_late_it_is() -> None:
    harness = HeartbeatHarness()

    async def script(instance: HeartbeatInstance) -> None:
        instance.assign(ALONE)
        assert await instance.until(time.monotonic() - 1)
        instance.assign(NOBODY)
        assert not await instance.until(time.monotonic() - 1)

    harness.play(script)


def test_emit_heartbeats_enabled_false_is_nothing_at_all() -> None:
    harness = HeartbeatHarness(emit_heartbeats_enabled="false")

    async def script(instance: HeartbeatInstance) -> None:
        instance.assign(ALONE)
        await asyncio.sleep(3 * INTERVAL)

    harness.play(script)
    assert (harness.published.emitted, harness.target.created) == ([], [])


@pytest.mark.parametrize("raised", [True, False])
def test_a_cluster_that_is_away_fails_nothing_and_is_named_while_it_lasts(raised: bool) -> None:
    harness = HeartbeatHarness()

    async def script(instance: HeartbeatInstance) -> None:
        if raised:
            harness.target.away = UNREACHABLE
        else:
            harness.target.create_trouble["heartbeats"] = NO_FACTOR
        instance.assign(ALONE)
        reported = await harness.published.until(lambda summary: bool(summary.errors))
        assert reported.errors == [f"target cluster: {UNREACHABLE if raised else NO_FACTOR}"]
        assert (reported.failure, harness.published.emitted) == (None, [])
        assert reported.clusters_seen == {"source"}
        assert list(reported.away_since_ms) == (["target"] if raised else [])
        harness.target.away = None
        harness.target.create_trouble.clear()
        well = await harness.published.until(lambda summary: summary.rounds > 0)
        assert (well.errors, dict(well.away_since_ms)) == ((), {})
        assert well.clusters_seen == {"source", "target"}
        assert well.last_success_ms == harness.published.emitted[-1].timestamp

    harness.play(script)


def test_credentials_that_stay_wrong_are_a_failure_until_they_are_right() -> None:
    harness = HeartbeatHarness()

    async def script(instance: HeartbeatInstance) -> None:
        harness.target.away = REFUSED
        instance.assign(ALONE)
        reported = await harness.published.until(lambda summary: summary.failure is not None)
        assert reported.failure == "target cluster: Authentication failed"
        assert reported.failure_code == "credentials"
        harness.target.away = None
        await harness.published.until(lambda summary: summary.failure is None and summary.rounds > 0)

    harness.play(script)


def test_a_cluster_that_hangs_is_left_after_the_admin_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = HeartbeatHarness(admin_timeout_ms="10")

    async def hang(name: str, replication_factor: int) -> None:
        await asyncio.sleep(60)

    async def script(instance: HeartbeatInstance) -> None:
        monkeypatch.setattr(harness.target, "create_compacted_topic", hang)
        instance.assign(ALONE)
        reported = await harness.published.until(lambda summary: bool(summary.errors))
        assert reported.errors == [message("groups.timeout", side="target")]

    harness.play(script)

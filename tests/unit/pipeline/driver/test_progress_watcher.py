"""What a driver reads of its slices goes on, whatever changes or fails meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.log_requests import TopicMetadata
from bridge.model.copying import Progress
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import Bounds, LogRecord, Side, TailPart, TopicPartition
from bridge.pipeline.driver import progress_watcher
from bridge.pipeline.driver.progress_watcher import Watcher
from bridge.pipeline.layouts.records import SliceReport, report_key
from tests.support.messages import message
from tests.support.waiting import until
from tests.unit.pipeline.values import copied, spec

NOWHERE = {
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.bootstrap.servers": "127.0.0.1:1",
}


class EmptyTail:
    """A state topic without records."""

    def __init__(self, client: NetworkClient, topic: str, *, committed_only: bool = False) -> None:
        self.topic = topic

    async def read(self) -> TailPart:
        return TailPart([], restarted=False, at_end=True)


class Source(NetworkClient):
    """Describes no topic, and asks nobody."""

    def __init__(self) -> None:
        super().__init__(client_settings(Side.SOURCE, NOWHERE).raw)

    async def metadata(self, topics: Sequence[str]) -> dict[str, TopicMetadata]:
        return {}


@pytest.fixture
def watcher(monkeypatch: pytest.MonkeyPatch) -> Watcher:
    """Its clusters have no record of a run, no gap and no report."""
    monkeypatch.setattr(progress_watcher, "TopicTail", EmptyTail)
    return Watcher(spec(NOWHERE), Source(), NetworkClient(client_settings(Side.TARGET, NOWHERE).raw))


def test_a_layout_that_comes_while_ends_are_asked_for_is_watched(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[TopicPartition]] = []

    async def bounds(
        client: NetworkClient, tps: Sequence[TopicPartition], *, committed_only: bool
    ) -> dict[TopicPartition, Bounds]:
        asked.append(tps)
        if len(asked) == 1:
            watcher.new_layout(2, [[copied(0)], [copied(1)]], set())
        return {tp: Bounds(0, 10, 0) for tp in tps}

    monkeypatch.setattr(progress_watcher, "bounds", bounds)

    async def watching() -> None:
        watcher.new_layout(1, [[copied(0)]], set())
        for _ in range(2):
            await watcher.look(ends=True)

    asyncio.run(watching())
    assert asked[-1] == [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    assert watcher.errors == []


def test_what_nobody_expects_is_an_error_until_it_is_over(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher that ended in silence would show a copy that stands still and knows no error."""
    monkeypatch.setattr(progress_watcher, "QUIET", 0.0)
    shown: list[list[str]] = []

    async def watching() -> None:
        with monkeypatch.context() as broken:
            broken.setattr(EmptyTail, "read", fail)
            task = asyncio.create_task(watcher.run())
            await until(lambda: bool(watcher.errors))
            shown.append(watcher.errors)
        await until(lambda: not watcher.errors)
        task.cancel()
        await asyncio.wait({task})

    async def fail(_: EmptyTail) -> TailPart:
        raise ValueError("no such thing")

    asyncio.run(watching())
    assert shown == [[message("copying.watcher_failed", error="ValueError: no such thing")]]


GONE = KafkaFailure(KafkaFault.UNREACHABLE, "connection refused")


def test_a_source_is_away_where_none_of_its_partitions_can_be_asked(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has lost its leader takes none of the others with it."""
    answers: dict[int, Bounds | KafkaFailure] = {}

    async def bounds(
        client: NetworkClient, tps: Sequence[TopicPartition], *, committed_only: bool
    ) -> dict[TopicPartition, Bounds | KafkaFailure]:
        return {tp: answers[tp.partition] for tp in tps}

    monkeypatch.setattr(progress_watcher, "bounds", bounds)

    async def looked(
        first: Bounds | KafkaFailure, second: Bounds | KafkaFailure
    ) -> tuple[list[Side], list[int]]:
        answers.update({0: first, 1: second})
        await watcher.look(ends=True)
        assert watcher.blind == bool(watcher.away), "one partition hides no other"
        return watcher.away, [each.partition for each in watcher.partitions]

    async def watching() -> None:
        watcher.new_layout(1, [[copied(0), copied(1)]], set())
        well = Bounds(0, 10, 0)
        assert await looked(well, well) == ([], [])
        assert await looked(GONE, GONE) == ([Side.SOURCE], [])
        assert await looked(well, GONE) == ([], [1])
        assert await looked(GONE, GONE) == ([Side.SOURCE], [])
        assert await looked(well, well) == ([], [])

    asyncio.run(watching())


@pytest.mark.parametrize("side", Side)
def test_a_cluster_that_keeps_its_connections_and_answers_nothing_is_away(
    side: Side, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the request times out, which takes 40 s by default."""
    monkeypatch.setattr(progress_watcher, "HANGS", 0.01)
    answering = asyncio.Event()

    async def bounds(
        client: NetworkClient, tps: Sequence[TopicPartition], *, committed_only: bool
    ) -> dict[TopicPartition, Bounds | KafkaFailure]:
        await answering.wait()
        return dict.fromkeys(tps, Bounds(0, 10, 0))

    async def read(tail: EmptyTail) -> TailPart:
        await answering.wait()
        return TailPart([], restarted=False, at_end=True)

    if side is Side.SOURCE:
        monkeypatch.setattr(progress_watcher, "bounds", bounds)
    else:
        monkeypatch.setattr(EmptyTail, "read", read)

    async def watching() -> None:
        watcher.new_layout(1, [[copied(0)]], set())
        looking = asyncio.create_task(watcher.look(ends=True))
        await until(lambda: watcher.away == [side])
        answering.set()
        monkeypatch.setattr(progress_watcher, "HANGS", 60)
        await until(lambda: not watcher.away)
        looking.cancel()
        await asyncio.wait({looking})

    asyncio.run(watching())


def test_a_target_is_away_where_no_state_topic_can_be_read(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: set[str] = set()

    async def read(tail: EmptyTail) -> TailPart:
        if tail.topic in gone:
            raise GONE
        return TailPart([], restarted=False, at_end=True)

    monkeypatch.setattr(EmptyTail, "read", read)

    async def watching() -> None:
        made = spec(NOWHERE)
        gone.update({made.runs_topic, made.gaps_topic})
        await watcher.look()
        assert (watcher.away, watcher.blind) == ([], True)
        gone.add(made.layout_topic)
        await watcher.look()
        assert watcher.away == [Side.TARGET]
        gone.clear()
        await watcher.look()
        assert watcher.away == []

    asyncio.run(watching())


def test_a_partition_that_stands_at_a_record_has_failed_until_its_slice_says_otherwise(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slices of a new layout, or of a service that was started again, find that out after a while only."""
    stands, gone_on = (
        PartitionStatus("orders", partition, PartitionState.FAILED, 1, "refused", offset=3, end=4)
        for partition in (0, 1)
    )
    about, written = spec(NOWHERE), list[SliceReport]()

    async def read(tail: EmptyTail) -> TailPart:
        reports = written if tail.topic == about.layout_topic else []
        records = [LogRecord(0, 0, report_key(about, each.slot), each.value()) for each in reports]
        reports.clear()
        return TailPart(records, restarted=False, at_end=True)

    async def bounds(
        client: NetworkClient, tps: Sequence[TopicPartition], *, committed_only: bool
    ) -> dict[TopicPartition, Bounds]:
        return dict.fromkeys(tps, Bounds(0, 10, 0))

    monkeypatch.setattr(EmptyTail, "read", read)
    monkeypatch.setattr(progress_watcher, "bounds", bounds)

    async def shown(*reports: SliceReport) -> list[PartitionStatus]:
        written.extend(reports)
        await watcher.look()
        return list(watcher.partitions)

    def begin(layout: int) -> None:
        watcher.new_layout(layout, [[copied(0), copied(1)]], set())
        for partition, position in ((0, 3), (1, 7)):
            tp = TopicPartition("orders", partition)
            watcher.progress[tp] = Progress(*tp, "A.orders", position)

    async def watching() -> None:
        begin(5)
        assert await shown(SliceReport(4, 0, partitions=[stands, gone_on])) == [stands]
        assert await shown(SliceReport(5, 0, partitions=[stands])) == [stands]
        begin(6)
        assert await shown() == [stands]
        assert await shown(SliceReport(6, 0)) == []

    asyncio.run(watching())


def test_a_slice_that_leaves_its_id_hides_no_fault_of_another(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = spec(NOWHERE)
    reports = [SliceReport(5, 0, ended="a commit ends", left=True), SliceReport(5, 1, ended="fenced")]

    async def read(tail: EmptyTail) -> TailPart:
        written = reports if tail.topic == about.layout_topic else []
        records = [LogRecord(0, 0, report_key(about, each.slot), each.value()) for each in written]
        return TailPart(records, restarted=False, at_end=True)

    monkeypatch.setattr(EmptyTail, "read", read)
    watcher.new_layout(5, [[copied(0)], [copied(1)]], set())
    asyncio.run(watcher.look())
    assert (watcher.left_id, watcher.ended) == ("a commit ends", "fenced")

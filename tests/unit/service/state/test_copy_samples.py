"""What was copied, on its way to the shim's polls and to /metrics."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bridge.model.copying import NO_LATENCIES, CopySample, Latencies
from bridge.model.values import TopicPartition
from bridge.protocol.messages import Measured, PollResponse
from bridge.service.metrics import metrics
from bridge.service.state import copy_progress, copy_samples
from bridge.service.state.copy_progress import CopySnapshot
from bridge.service.state.copy_samples import Histogram
from connectors.base import CopyReport
from tests.unit.service.service_fakes import session
from tests.unit.service.service_harness import TASK, ServiceHarness, run
from tests.unit.service.state.copy_reports import lines, row, totals


def sample(
    partition: int = 0, records: int = 10, latency: Latencies = NO_LATENCIES, topic: str = "orders"
) -> CopySample:
    age = latency._replace(total=latency.total // 2) if latency.records else latency
    return CopySample(topic, partition, f"A.{topic}", records, 100 * records, 5_000, age, latency)


def report(*partitions: int, samples: tuple[CopySample, ...] = (), **more: Any) -> CopyReport:
    return CopyReport(totals(), [row(each) for each in partitions], samples=samples, **more)


class Reader:
    """A session of the shim that reads one connector's samples."""

    def __init__(self, snapshot: CopySnapshot, name: str = "s1") -> None:
        self.snapshot, self.name, self.seen = snapshot, name, 0

    def poll(self, *, lost: bool = False) -> tuple[dict[int, int], list[int]]:
        """The records by partition, and which partitions are gone."""
        self.snapshot.begin_measuring(self.name)
        answer = self.snapshot.samples.next(self.seen)
        if answer is None or lost:
            return {}, []
        read = Measured.model_validate_json(answer)
        self.seen = read.number
        return {each.partition: each.records for each in read.partitions}, [
            each.partition for each in read.gone
        ]


def test_a_session_reads_all_partitions_first_and_then_what_has_changed() -> None:
    snapshot = CopySnapshot()
    snapshot.update(report(0, 1, samples=(sample(0, 5),), whole=True))
    reader = Reader(snapshot)
    # What was copied before counts for an earlier session.
    assert reader.poll() == ({0: 0, 1: 0}, [])
    assert reader.poll() == ({}, [])
    snapshot.update(report(samples=(sample(1, 5),)))
    snapshot.update(report(samples=(sample(1, 6),)))
    assert reader.poll() == ({1: 11}, [])
    assert reader.poll() == ({}, [])


def test_an_answer_that_got_lost_is_repeated_as_it_was() -> None:
    snapshot = CopySnapshot()
    snapshot.update(report(0, whole=True))
    reader = Reader(snapshot)
    reader.poll()
    snapshot.update(report(samples=(sample(0, 5),)))
    assert reader.poll(lost=True) == ({}, [])
    snapshot.update(report(samples=(sample(0, 6),)))
    assert reader.poll() == ({0: 5}, [])
    assert reader.poll() == ({0: 6}, [])


def test_partitions_come_and_go() -> None:
    snapshot = CopySnapshot()
    snapshot.update(report(0, 1, whole=True))
    reader = Reader(snapshot)
    reader.poll()
    snapshot.update(report(2, samples=(sample(2, 3),), gone=[TopicPartition("orders", 1)]))
    assert reader.poll() == ({2: 3}, [1])
    snapshot.update(report(0, whole=True))
    assert reader.poll() == ({0: 0}, [2])
    snapshot.update(CopyReport(totals(), [row(0)._replace(target_topic="B.orders")]))
    # The copy to A.orders is gone, that to B.orders begins.
    assert reader.poll() == ({0: 0}, [0])


def test_another_session_begins_anew() -> None:
    snapshot = CopySnapshot()
    snapshot.update(report(0, whole=True))
    Reader(snapshot).poll()
    snapshot.update(report(samples=(sample(0, 5),)))
    assert Reader(snapshot, "s2").poll() == ({0: 0}, [])


def test_an_answer_is_bounded_and_the_rest_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_samples, "MOST", 2)
    snapshot = CopySnapshot()
    snapshot.update(report(0, 1, 2, whole=True))
    reader = Reader(snapshot)
    snapshot.begin_measuring(reader.name)
    assert snapshot.samples.fills_an_answer
    assert reader.poll() == ({0: 0, 1: 0}, [])
    assert not snapshot.samples.fills_an_answer
    assert reader.poll() == ({2: 0}, [])


def test_samples_are_cut_into_frames_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_progress, "PORTION", 3)
    monkeypatch.setattr(copy_progress, "SAMPLES", 2)
    samples = tuple(sample(each, each + 1) for each in range(5))
    report_ = report(0, 1, 2, 3, 4, samples=samples, whole=True)
    pieces = list(copy_progress.portions(report_))
    assert [len(each.changed) for each in pieces] == [3, 2, 0]
    assert [len(each.samples) for each in pieces] == [2, 2, 1]
    assert [each.whole for each in pieces] == [True, False, False]
    assert [len(each.samples) for each in copy_progress.portions(report(samples=samples))] == [2, 2, 1]
    assert list(copy_progress.portions(CopyReport(totals()))) == [CopyReport(totals())]


def test_without_a_reader_nothing_waits() -> None:
    snapshot = CopySnapshot()
    snapshot.update(report(0, samples=(sample(0, 5),), whole=True))
    assert snapshot.samples.next(0) is None
    assert not snapshot.samples.fills_an_answer


def test_a_poll_that_asks_is_told_and_one_that_does_not_ask_is_not() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        generation = at.service.table.connector("c").generation
        at.service.snapshots.progress("c", generation, report(0, whole=True))
        poll = "/v1/connectors/c/tasks/0/poll"
        asked = {"session": session(1), "wait_ms": 0}
        assert "measured" not in (await at.client.post(poll, json=asked)).json()
        first = (await at.client.post(poll, json=asked | {"measured": 0})).json()["measured"]
        assert [each["records"] for each in first["partitions"]] == [0]
        latencies = Latencies(10, 100, 5, 20, 7)
        at.service.snapshots.progress("c", generation, report(samples=(sample(0, 10, latencies),)))
        answer = await at.client.post(poll, json=asked | {"measured": first["number"]})
        measured = PollResponse.model_validate_json(answer.content).measured
        assert measured is not None
        (partition,) = measured.partitions
        assert (partition.topic, partition.records, partition.bytes) == ("A.orders", 10, 1000)
        assert partition.replication_latency_ms is not None
        assert partition.replication_latency_ms.model_dump() == {
            "count": 10,
            "sum": 100,
            "min": 5,
            "max": 20,
            "last": 7,
        }
        assert json.loads(answer.content)["records"] == []
        left = (await at.client.post(poll, json=asked | {"measured": measured.number})).json()
        assert "measured" not in left

    run(test)


# -- /metrics ----------------------------------------------------------------------------------------------------------


def test_records_are_spread_over_the_buckets_between_the_least_and_the_greatest() -> None:
    histogram = Histogram()
    histogram.observe_all(Latencies(100, 5_000, 0, 100, 50))
    histogram.observe_all(Latencies(3, 12, 4, 4, 4))
    assert dict(histogram.buckets()) == {
        "5": 8,
        "10": 13,
        "25": 28,
        "50": 53,
        **dict.fromkeys(
            ["100", "250", "500", "1000", "2500", "5000", "10000", "30000", "60000", "300000", "+Inf"], 103
        ),
    }
    assert histogram.sum == 5_012


def test_topics_have_histograms_and_the_flow_the_lags_of_the_kip() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        latencies = Latencies(10, 1_000, 50, 200, 80)
        beat = sample(0, 1, Latencies(1, 30, 30, 30, 30), topic="heartbeats")
        at.service.snapshots.progress(
            "c",
            at.service.table.connector("c").generation,
            report(0, samples=(beat, sample(0, 10, latencies)), whole=True),
        )
        text = (await at.client.get("/metrics")).text
        flow = 'connector="c",source="A",target="B"'
        for line in (
            'topic_replication_latency_ms_bucket{connector="c",le="100",source="A",target="B",topic="A.orders"} 3.0',
            f'topic_replication_latency_ms_count{{{flow},topic="A.orders"}} 10.0',
            f'topic_replication_latency_ms_sum{{{flow},topic="A.orders"}} 1000.0',
            f'topic_record_age_ms_sum{{{flow},topic="A.orders"}} 500.0',
            f"heartbeat_lag_ms{{{flow}}} 30.0",
            f"replication_lag_ms{{{flow}}} 50.0",
            'topics_without_histograms{connector="c"} 0.0',
        ):
            assert f"mirror_bridge_{line}" in text, text
        (age,) = lines(text, "heartbeat_age_ms")
        assert float(age.split()[-1]) > 1_000_000_000_000, "since ms 4,970"

    run(test)


def test_a_source_that_is_away_from_the_start_has_no_age_and_a_series_that_says_so() -> None:
    async def test(at: ServiceHarness) -> None:
        config = {"source.cluster.alias": "A", "target.cluster.alias": "B"}
        at.service.table.start_task("c", 0, session(1), "source", 1, config)
        known = 'mirror_bridge_heartbeat_known{connector="c",source="A",target="B"}'

        async def said() -> list[str]:
            text = (await at.client.get("/metrics")).text
            return [line for line in text.splitlines() if line.startswith("mirror_bridge_heartbeat_")]

        assert await said() == [f"{known} 0.0"], "nothing was reported of the copy yet"
        generation = at.service.table.connector("c").generation
        records = sample(0, 10, Latencies(10, 1_000, 50, 200, 80))
        at.service.snapshots.progress("c", generation, report(0, samples=(records,), whole=True))
        assert await said() == [f"{known} 0.0"], "records alone tell nothing of heartbeats"
        beat = sample(0, 1, Latencies(1, 30, 30, 30, 30), topic="heartbeats")
        at.service.snapshots.progress("c", generation, report(0, samples=(beat,)))
        assert f"{known} 1.0" in await said()
        assert len(await said()) == 3

    run(test)


def test_histograms_are_bounded_over_all_connectors_and_the_bound_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "MOST_TOPICS", 3)
    monkeypatch.setattr(copy_samples, "MOST_TOPICS", 2)

    async def test(at: ServiceHarness) -> None:
        for name in ("c", "d"):
            await at.put(f"/v1/connectors/{name}/tasks/0", TASK)
            topics = ["t1", "t2", "t3"]
            copied = CopyReport(
                totals(),
                [row(0, topic) for topic in topics],
                whole=True,
                samples=[sample(0, 1, Latencies(1, 1, 1, 1, 1), topic) for topic in topics],
            )
            at.service.snapshots.progress(name, at.service.table.connector(name).generation, copied)
        text = (await at.client.get("/metrics")).text
        counts = lines(text, "topic_record_age_ms_count")
        assert len(counts) == 3
        assert 'mirror_bridge_topics_without_histograms{connector="c"} 1.0' in text
        assert 'mirror_bridge_topics_without_histograms{connector="d"} 2.0' in text

    run(test)


def test_a_scrape_while_samples_come_in_does_no_harm() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        generation = at.service.table.connector("c").generation

        async def tell() -> None:
            for number in range(50):
                topic = f"t{number}"
                measured = CopyReport(
                    totals(), [row(0, topic)], samples=[sample(0, 1, Latencies(1, 1, 1, 1, 1), topic)]
                )
                at.service.snapshots.progress("c", generation, measured)
                await asyncio.sleep(0)

        await asyncio.gather(tell(), *(at.client.get("/metrics") for _ in range(5)))

    run(test)

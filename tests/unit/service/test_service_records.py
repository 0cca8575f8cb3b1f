"""Records of the rounds on their way to Connect: over HTTP, with a fake rounds process, and through both processes."""

from __future__ import annotations

import asyncio
import os
import signal
from base64 import b64decode
from typing import Any

import httpx
import pytest

from bridge.protocol.messages import PollResponse
from bridge.service.ipc.checkpoint_records import PORTION, TIMESTAMP, pack, unpack_records
from bridge.service.ipc.messages import Frame
from bridge.service.rounds.publisher import PipePublisher, PipeWriter
from connectors.base import EmittedRecord, Summary
from tests.support.messages import message
from tests.unit.service.ipc.pipes import Pipe
from tests.unit.service.service_fakes import emitted, report, session
from tests.unit.service.service_harness import PATH, ServiceHarness, error, run, started
from tests.unit.service.service_process import Running


def publish(at: ServiceHarness, generation: int, *records: EmittedRecord) -> None:
    at.service.deliveries.accept("c", generation, [pack(record) for record in records])


async def poll(
    at: ServiceHarness, batch: int | None = None, session_at: int = 1, wait: int = 0
) -> PollResponse:
    body = {"session": session(session_at), "wait_ms": wait, "batch": batch}
    answer = await at.client.post(f"{PATH}/poll", json=body)
    assert answer.status_code == 200, answer.text
    return PollResponse.model_validate_json(answer.content, strict=True)


async def ack(at: ServiceHarness, *entries: object, session_at: int = 1) -> httpx.Response:
    return await at.client.post(f"{PATH}/ack", json={"session": session(session_at), "acked": entries})


def written(group: str, stamp: int, **more: object) -> dict[str, object]:
    """An entry as the shim sends it."""
    record = emitted(group, stamp)
    return {
        "source_partition": dict(record.source_partition),
        "source_offset": {"offset": 0},
        "timestamp": stamp,
        **more,
    }


def groups(answer: PollResponse) -> list[str]:
    return [str(record.source_partition["group"]) for record in answer.records]


async def status(at: ServiceHarness) -> dict[str, Any]:
    answer: dict[str, Any] = (await at.client.get("/v1/connectors/c/status")).json()
    return answer


def test_what_the_rounds_publish_comes_out_of_a_poll_in_the_contracts_form() -> None:
    async def test(at: ServiceHarness) -> None:
        generation = await started(at)
        publish(at, generation, emitted("g", 999_000, "the value"), emitted('группа 🦊"\\', 999_001))
        answer = await poll(at)
        assert (answer.batch, answer.failure, answer.held_ms) == (1, None, 0.0)
        assert groups(answer) == ["g", 'группа 🦊"\\']
        record = answer.records[0]
        assert record.source_partition == {"group": "g", "topic": "A.orders", "partition": 0}
        assert (record.topic, record.partition, record.timestamp) == ("A.checkpoints.internal", 0, 999_000)
        assert b64decode(record.key or "") == b"g"
        assert b64decode(record.value or "") == b"the value"
        nothing = await poll(at, batch=1)
        assert (nothing.records, nothing.batch) == ([], 1)

    run(test)


def test_a_held_poll_is_answered_when_a_record_comes() -> None:
    async def test(at: ServiceHarness) -> None:
        generation = await started(at)
        held = asyncio.create_task(poll(at, wait=1000))
        await at.until_held()
        publish(at, generation, emitted("g", 1))
        answer = await held
        assert groups(answer) == ["g"]
        assert answer.held_ms < 500

    run(test)


def test_a_lost_answer_is_given_again_and_a_new_session_gets_what_was_not_written() -> None:
    async def test(at: ServiceHarness) -> None:
        generation = await started(at)
        publish(at, generation, emitted("a", 1), emitted("b", 1))
        first = await poll(at)
        publish(at, generation, emitted("c", 1))
        assert await poll(at) == first
        assert groups(await poll(at, batch=1)) == ["c"]
        await ack(at, written("b", 1))
        await started(at, session=session(2))
        error(await ack(at, written("a", 1)), 409, "fenced")
        assert groups(await poll(at, session_at=2)) == ["a", "c"]
        assert (await ack(at, written("a", 1), written("c", 1), session_at=2)).status_code == 200
        assert (await status(at))["records_in_flight"] == 0

    run(test)


def test_another_configuration_leaves_no_record_of_the_one_before() -> None:
    async def test(at: ServiceHarness) -> None:
        before = await started(at)
        publish(at, before, emitted("old", 1))
        after = await started(at, session=session(2), config={"mode": "busy"})
        assert after > before
        publish(at, before, emitted("older", 1))
        assert groups(await poll(at, session_at=2)) == []
        publish(at, after, emitted("new", 1))
        assert groups(await poll(at, session_at=2)) == ["new"]

    run(test)


def test_records_of_a_connector_that_is_not_known_are_dropped() -> None:
    async def test(at: ServiceHarness) -> None:
        publish(at, 1, emitted("g", 1))
        await started(at)
        assert groups(await poll(at)) == []

    run(test)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"source_partition": None, "timestamp": 1},
        {"source_partition": {"group": "g"}, "timestamp": 1},
        {"source_partition": {"group": "g", "topic": "A.orders", "partition": 0}},
        {"source_partition": {"group": "g", "topic": "A.orders", "partition": 0}, "timestamp": "1"},
        {"source_partition": {"group": "g", "topic": "A.orders", "partition": 0}, "timestamp": 2},
        {"source_partition": {"group": "g", "topic": "A.orders", "partition": "0"}, "timestamp": 1},
    ],
)
def test_an_acknowledgement_of_nothing_in_flight_is_passed_over(entry: dict[str, object]) -> None:
    async def test(at: ServiceHarness) -> None:
        publish(at, await started(at), emitted("g", 1))
        await poll(at)
        assert (await ack(at, entry)).status_code == 200
        assert (await status(at))["records_in_flight"] == 1
        assert (await ack(at, written("g", 1, age_ms="soon"))).status_code == 200
        assert (await status(at))["records_in_flight"] == 0

    run(test)


def test_status_and_metrics_say_what_waits_what_is_in_flight_and_what_is_written() -> None:
    async def test(at: ServiceHarness) -> None:
        now = int(at.clock.ms)
        publish(at, await started(at), *(emitted(f"g{n}", now - 500) for n in range(5)))
        at.clock.ms += 1_000
        before = await status(at)
        assert (before["records_waiting"], before["oldest_waiting_ms"]) == (5, 1_500)
        body = {"session": session(1), "wait_ms": 0, "max_records": 3}
        assert (await at.client.post(f"{PATH}/poll", json=body)).status_code == 200
        await ack(at, written("g0", now - 500), written("g1", now - 500, age_ms=900))
        shown = await status(at)
        names = ("records_waiting", "records_in_flight", "records_written", "oldest_waiting_ms")
        assert [shown[name] for name in names] == [2, 1, 2, 1_500]
        text = (await at.client.get("/metrics")).text
        for line in (
            'mirror_bridge_records_waiting{connector="c"} 2.0',
            'mirror_bridge_records_in_flight{connector="c"} 1.0',
            'mirror_bridge_records_oldest_waiting_seconds{connector="c"} 1.5',
            'mirror_bridge_records_written_total{connector="c"} 2.0',
            'mirror_bridge_checkpoint_latency_ms_bucket{connector="c",le="500"} 0.0',
            'mirror_bridge_checkpoint_latency_ms_bucket{connector="c",le="1000"} 1.0',
            'mirror_bridge_checkpoint_latency_ms_bucket{connector="c",le="2500"} 2.0',
            'mirror_bridge_checkpoint_latency_ms_bucket{connector="c",le="+Inf"} 2.0',
            'mirror_bridge_checkpoint_latency_ms_count{connector="c"} 2.0',
            'mirror_bridge_checkpoint_latency_ms_sum{connector="c"} 2100.0',
        ):
            assert line in text.splitlines(), text
        assert "g0" not in text

    run(test)


def test_b9_records_that_connect_does_not_write_are_seen() -> None:
    async def test(at: ServiceHarness) -> None:
        generation = await started(at)
        publish(at, generation, emitted("g", int(at.clock.ms)))
        seen = frozenset({"source", "target"})
        at.service.snapshots.summary("c", generation, Summary(rounds=1, clusters_seen=seen))
        assert (await at.client.get("/health")).json()["status"] == "ok"
        at.clock.ms += 119_000
        publish(
            at, generation, emitted("g", int(at.clock.ms))
        )  # superseded, and waiting no less long for that
        assert (await status(at))["errors"] == []
        at.clock.ms += 1_000
        assert (await ack(at)).status_code == 200  # the task is alive
        counts = {"records": 1, "seconds": 120, "in_flight": 0}
        assert (await status(at))["errors"] == [message("health.waiting", **counts)]
        assert (await at.client.get("/health")).json()["status"] == "degraded"
        at.service.table.connector("c").dedicated = True
        assert (await status(at))["errors"] == [message("health.waiting_here", **counts)]

    run(test)


def test_b40_b41_latencies_of_two_groups_do_not_mix_and_the_second_raises_nothing() -> None:
    """Stock's legacy MBeans show one group's latency under every group's name (B40); with its new names the second
    group's first checkpoint throws in commitRecord (B41)."""

    async def test(at: ServiceHarness) -> None:
        now = int(at.clock.ms)
        generation = await started(at)
        at.reports(report("g1"), report("g2"), report("g3"))
        for read, stamps in enumerate(
            ({"g1": now - 1_000, "g2": now - 5}, {"g1": now - 3_000, "g2": now - 4})
        ):
            publish(at, generation, *(emitted(group, stamp) for group, stamp in stamps.items()))
            assert groups(await poll(at, batch=read)) == ["g1", "g2"]
            await ack(at, *(written(group, stamp) for group, stamp in stamps.items()))

        async def latency(group: str) -> object:
            (body,) = (await at.client.get(f"/v1/groups/{group}")).json()["reports"]
            return body["checkpoint_latency_ms"]

        assert await latency("g1") == {"last": 3_000, "max": 3_000, "mean": 2_000.0, "count": 2}
        assert await latency("g2") == {"last": 4, "max": 5, "mean": 4.5, "count": 2}
        assert await latency("g3") is None

    run(test)


def test_latencies_go_with_their_groups_report() -> None:
    async def test(at: ServiceHarness) -> None:
        generation = await started(at)
        publish(at, generation, emitted("unreported", 1), emitted("g", 1))
        at.reports(report("g"))
        await poll(at)
        await ack(at, written("unreported", 1), written("g", 1))
        assert at.service.snapshots.connector("c").latencies.keys() == {"g"}
        at.gone("g")
        assert at.service.snapshots.connector("c").latencies == {}

    run(test)


def test_the_rounds_send_the_newest_of_each_key_in_small_frames_before_the_summary() -> None:
    async def go() -> None:
        pipe = Pipe()
        writer = PipeWriter(pipe)  # type: ignore[arg-type]
        publisher = PipePublisher(writer, "c", 7)
        publisher.summary(Summary(rounds=1))
        for stamp in (1, 2):
            publisher.records([emitted(f"g{n}", stamp) for n in range(PORTION + 1)])
        await writer.flush()
        *frames, last = await pipe.frames()
        assert [kind for kind, _ in frames] == [Frame.RECORDS, Frame.RECORDS]
        assert last[0] is Frame.SUMMARY
        unpacked = [unpack_records(payload) for _, payload in frames]
        assert [(name, generation, len(records)) for name, generation, records in unpacked] == [
            ("c", 7, PORTION),
            ("c", 7, 1),
        ]
        assert {record[TIMESTAMP] for _, _, records in unpacked for record in records} == {2}

    asyncio.run(go())


# -- two processes -----------------------------------------------------------------------------------------------------

MANY = 3_000
AT_ONCE = 1_000
"""Acknowledgements in one request of the plugin (AckQueue.AT_ONCE)."""


class Reader:
    """A task that polls one service and keeps, for each group, who published what it read last."""

    def __init__(self, at: Running, session_at: int = 1) -> None:
        self.at, self.session, self.batch = at, session(session_at), 0
        self.read: dict[str, str] = {}
        self.stamps: dict[str, int] = {}

    def poll(self, lost: bool = False) -> list[str]:
        body = {"session": self.session, "wait_ms": 200, "batch": self.batch or None}
        content = self.at.client.post(f"{PATH}/poll", json=body).content
        answer = PollResponse.model_validate_json(content, strict=True)
        if not lost:
            self.batch = answer.batch or 0
            for group, record in zip(groups(answer), answer.records, strict=True):
                assert record.timestamp is not None
                assert record.timestamp >= self.stamps.get(group, 0)
                self.stamps[group] = record.timestamp
                self.read[group] = b64decode(record.value or "").decode()
        return groups(answer)

    def poll_all(self, count: int = MANY) -> list[str]:
        collected: list[str] = []
        while len(collected) < count:
            given = self.poll()
            assert given, f"{len(collected)} of {count}"
            collected += given
        assert self.poll() == []
        return collected

    def ack(self) -> None:
        entries = [written(group, stamp) for group, stamp in self.stamps.items()]
        for start in range(0, len(entries), AT_ONCE):
            body = {"session": self.session, "acked": entries[start : start + AT_ONCE]}
            assert self.at.client.post(f"{PATH}/ack", json=body).status_code == 200


def waiting(at: Running, count: int) -> bool:
    return bool(at.status()["records_waiting"] == count)


def test_every_record_crosses_once_and_survives_a_lost_answer_and_a_new_session(at: Running) -> None:
    at.start(records=str(MANY))
    at.eventually(lambda: waiting(at, MANY))
    reader = Reader(at)
    lost = reader.poll(lost=True)
    assert len(lost) == 500
    result = reader.poll_all()
    assert result[:500] == lost
    assert result == [f"g-{n:06d}" for n in range(MANY)]
    at.start(at=2, records=str(MANY))
    second = Reader(at, 2)
    assert sorted(second.poll_all()) == result
    second.ack()
    assert (at.status()["records_written"], at.status()["records_in_flight"]) == (MANY, 0)
    at.start(at=3, records=str(MANY))
    assert Reader(at, 3).poll() == []


def test_records_of_a_killed_rounds_process_are_kept_until_the_next_one_says_them_again(
    at: Running,
) -> None:
    at.start(records=str(MANY))
    at.eventually(lambda: waiting(at, MANY))
    first = at.rounds_pid()
    os.kill(first, signal.SIGKILL)
    at.eventually(lambda: at.health()["rounds_process"] == "restarting")
    reader = Reader(at)
    taken = reader.poll()
    assert set(reader.read.values()) == {str(first)}
    assert waiting(at, MANY - len(taken))
    at.eventually(lambda: at.health()["rounds_process"] == "running")
    at.eventually(lambda: f"pid {at.rounds_pid()} " in str(at.status()["errors"]))  # after its records
    assert waiting(at, MANY)
    again = reader.poll_all()
    assert sorted(again) == [f"g-{n:06d}" for n in range(MANY)]
    assert set(reader.read.values()) == {str(at.rounds_pid())}
    reader.ack()
    assert (at.status()["records_waiting"], at.status()["records_in_flight"]) == (0, 0)
    assert at.status()["records_written"] == MANY + len(taken)

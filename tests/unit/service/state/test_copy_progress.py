"""Progress of copying on its way to operators: the pipe, the snapshot, pages, gaps, status, metrics."""

from __future__ import annotations

import asyncio
import random

import pytest

from bridge.model.partition_states import PartitionState, PartitionStates, PartitionStatus
from bridge.model.values import TopicPartition
from bridge.protocol.messages import CopyProgress, GapReport, Gaps
from bridge.service.http.app import create_app
from bridge.service.ipc.messages import Frame, pack_progress, read_frame, unpack_progress
from bridge.service.metrics import metrics
from bridge.service.rounds.publisher import PipePublisher, PipeWriter
from bridge.service.state import copy_progress
from bridge.service.state.copy_progress import CopySnapshot, joined, portions
from connectors.base import CopyReport, Summary
from tests.unit.service.service_fakes import fake_service
from tests.unit.service.service_harness import TASK, ServiceHarness, error, run
from tests.unit.service.state.copy_reports import lines, row, totals


def gap(number: int) -> GapReport:
    return GapReport(
        topic="orders",
        partition=0,
        kind="truncated",
        topic_id="id",
        upstream_from=number,
        upstream_to=number + 1,
        seen_at_ms=number,
    )


REPORT = CopyReport(
    totals(gaps={"truncated": 2}),
    [row(0), row(1, lag=0), row(0, "ö", -1)],
    [TopicPartition("gone", 1)],
    [gap(1), gap(2)],
    whole=True,
)


def test_a_report_crosses_the_pipe() -> None:
    assert unpack_progress(pack_progress("c", 7, REPORT)) == ("c", 7, REPORT)
    small = CopyReport(totals())
    assert unpack_progress(pack_progress("c", 7, small)) == ("c", 7, CopyReport(totals(), [], []))


DAMAGED = PartitionStatus("orders", 1, PartitionState.FAILED, 5, "damaged", "skip it")
LEADERLESS = PartitionStatus("orders", 3, PartitionState.WAITING, 6, "no leader")
STATES = PartitionStates(PartitionState.COPYING, (DAMAGED, LEADERLESS))


def test_states_of_partitions_cross_the_pipe_and_stay_until_there_are_others() -> None:
    report = CopyReport(totals(), [row(0)], states=STATES)
    _, _, read = unpack_progress(pack_progress("c", 7, report))
    assert read.states == STATES
    known = snapshot(CopyReport(totals(), [row(0), row(1)], states=STATES, whole=True), CopyReport(totals()))
    assert known.status(DAMAGED.source) == DAMAGED
    assert known.status(TopicPartition("orders", 0)).state is PartitionState.COPYING
    known.update(
        joined(CopyReport(totals(), states=PartitionStates(PartitionState.DONE)), CopyReport(totals()))
    )
    assert known.status(DAMAGED.source).state is PartitionState.DONE


def snapshot(*reports: CopyReport) -> CopySnapshot:
    result = CopySnapshot()
    for each in reports:
        result.update(each)
    assert result.order == sorted(result.rows)
    return result


def test_reports_of_a_slow_reader_are_joined_and_large_ones_cut_and_the_outcome_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copy_progress, "PORTION", 3)
    chance = random.Random(5)
    for _ in range(200):
        sent, known = [], set[int]()
        for number in range(chance.randint(1, 6)):
            whole = number == 0 or chance.random() < 0.2
            known = set() if whole else known
            gone = sorted(chance.sample(sorted(known), min(len(known), chance.randint(0, 3))))
            known -= set(gone)
            rows = [
                row(each, position=number) for each in sorted(chance.sample(range(9), chance.randint(0, 8)))
            ]
            gone = [each for each in gone if each not in {one.partition for one in rows}]
            known |= {each.partition for each in rows}
            places = [TopicPartition("orders", each) for each in gone]
            gaps = [gap(number)] if chance.random() < 0.3 else None
            sent.append(CopyReport(totals(records=number), rows, places, gaps, whole))
        waiting = sent[0]
        for each in sent[1:]:
            waiting = joined(waiting, each)
        assert snapshot(*portions(waiting)) == snapshot(*[piece for each in sent for piece in portions(each)])


def test_the_uplink_sends_what_waits_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_progress, "PORTION", 2)

    class Pipe:
        def __init__(self) -> None:
            self.reader = asyncio.StreamReader()

        def write(self, data: bytes) -> None:
            self.reader.feed_data(data)

        async def drain(self) -> None:
            return None

    async def test() -> None:
        pipe = Pipe()
        writer = PipeWriter(pipe)  # type: ignore[arg-type]
        publisher = PipePublisher(writer, "c", 7)
        publisher.progress(REPORT)
        publisher.progress(CopyReport(totals(records=30), [row(1, position=11)]))
        await writer.flush()
        pipe.reader.feed_eof()
        result = CopySnapshot()
        sent = 0
        while (read := await read_frame(pipe.reader)) is not None:
            assert read[0] is Frame.PROGRESS
            name, generation, piece = unpack_progress(read[1])
            assert (name, generation) == ("c", 7)
            result.update(piece)
            sent += 1
        assert sent == 2
        assert [each.position for each in result.partitions()] == [10, 11, 10]
        assert (result.totals, list(result.gaps)) == (totals(records=30), [gap(1), gap(2)])

    asyncio.run(test())


async def publish(at: ServiceHarness, *reports: CopyReport) -> None:
    await at.put("/v1/connectors/c/tasks/0", TASK)
    for each in reports:
        at.service.snapshots.progress("c", at.service.table.connector("c").generation, each)


def test_progress_comes_in_pages_after_the_sums() -> None:
    async def test(at: ServiceHarness) -> None:
        rows = [row(number, topic) for topic in ("a", "b/ö") for number in range(11)]
        await publish(at, CopyReport(totals(), rows, whole=True))

        async def ask(**query: str | int) -> CopyProgress:
            answer = await at.client.get("/v1/connectors/c/progress", params=query)
            assert answer.status_code == 200
            return CopyProgress.model_validate_json(answer.content)

        collected, cursor = [], ""
        while True:
            page = await ask(limit=5, next=cursor)
            assert (page.totals, page.total, page.connector) == (totals(), 22, "c")
            collected += [(each.topic, each.partition) for each in page.partitions]
            if page.next is None:
                break
            cursor = page.next
        assert collected == [(each.topic, each.partition) for each in rows], "10 comes after 9"
        one = (await ask(topic="b/ö", limit=1)).partitions[0]
        assert one.model_dump() == {
            **rows[11]._asdict(),
            "lag": 5,
            "replication_latency_ms": None,
            "state": "waiting",
            "since_ms": None,
            "why": "",
            "way_out": "",
        }
        assert (await ask(topic="b/ö")).total == 11
        assert (await ask(min_lag=6)).total == 0
        assert (await ask(min_lag=5)).total == 22

    run(test)


def test_pages_show_states_also_of_partitions_whose_position_nobody_knows() -> None:
    async def test(at: ServiceHarness) -> None:
        counts = {"copying": 2, "failed": 1, "waiting": 1}
        sums = totals().model_copy(update={"states": counts})
        await publish(at, CopyReport(sums, [row(0), row(1), row(2)], states=STATES, whole=True))

        async def ask(**query: str) -> list[tuple[object, ...]]:
            page = (await at.client.get("/v1/connectors/c/progress", params=query)).json()
            assert page["totals"]["states"] == counts
            names = ("partition", "position", "state", "since_ms", "why", "way_out")
            return [tuple(each[name] for name in names) for each in page["partitions"]]

        copying = [(0, 10, "copying", None, "", ""), (2, 10, "copying", None, "", "")]
        failed, waiting = (1, 10, "failed", 5, "damaged", "skip it"), (3, None, "waiting", 6, "no leader", "")
        assert await ask() == [copying[0], failed, copying[1], waiting]
        assert await ask(state="failed") == [failed]
        assert await ask(state="waiting") == [waiting]
        error(await at.client.get("/v1/connectors/c/progress?state=odd"), 422, "body_rejected")
        text = (await at.client.get("/metrics")).text
        for line in (
            'partitions{connector="c",state="failed"} 1.0',
            'partitions{connector="c",state="copying"} 2.0',
            'partition_state{connector="c",partition="1",source_topic="orders",state="failed"} 1.0',
        ):
            assert f"mirror_bridge_{line}" in text, text

    run(test)


def test_a_connector_that_copies_nothing_and_one_that_nobody_knows() -> None:
    async def test(at: ServiceHarness) -> None:
        await publish(at)
        answer = (await at.client.get("/v1/connectors/c/progress")).json()
        assert answer == {"connector": "c", "totals": None, "partitions": [], "total": 0, "next": None}
        assert (await at.client.get("/v1/connectors/c/gaps")).json() == {
            "connector": "c",
            "total": 0,
            "kinds": {},
            "gaps": [],
        }
        assert (await at.client.get("/v1/connectors/c/status")).json()["copying"] is None
        for what in ("progress", "gaps"):
            error(await at.client.get(f"/v1/connectors/nobody/{what}"), 404, "unknown_connector")
        error(await at.client.get("/v1/connectors/c/progress?limit=0"), 422, "body_rejected")
        for cursor in ("x", "WzFd", "WyJhIiwgImIiXQ=="):
            error(await at.client.get(f"/v1/connectors/c/progress?next={cursor}"), 422, "body_rejected")

    run(test)


def test_gaps_are_listed_newest_first_and_counted_whole() -> None:
    async def test(at: ServiceHarness) -> None:
        await publish(at, CopyReport(totals(gaps={"truncated": 150}), gaps=[gap(n) for n in range(50, 150)]))
        body = Gaps.model_validate_json((await at.client.get("/v1/connectors/c/gaps?limit=3")).content)
        assert (body.total, body.kinds) == (150, {"truncated": 150})
        assert [each.upstream_from for each in body.gaps] == [149, 148, 147]
        generation = at.service.table.connector("c").generation
        at.service.snapshots.summary(
            "c", generation, Summary(rounds=1, errors=("away",), gaps=("gap in t-0",))
        )
        status = (await at.client.get("/health")).json()["connectors"][0]
        assert status["errors"] == ["away", "gap in t-0"]
        assert status["copying"]["gaps"] == {"truncated": 150}

    run(test)


def test_a_new_instance_replaces_what_the_last_one_said_and_an_older_one_is_not_heard() -> None:
    service = fake_service()
    for generation, rows in ((3, [row(0), row(1)]), (4, [row(1)]), (3, [row(5)])):
        service.snapshots.progress("c", generation, CopyReport(totals(), rows, whole=True))
    assert [each.partition for each in service.snapshots.connector("c").copying.partitions()] == [1]


def test_metrics_have_stocks_names_for_partitions_and_sums_for_connectors() -> None:
    async def test(at: ServiceHarness) -> None:
        await publish(at, REPORT)
        text = (await at.client.get("/metrics")).text
        tags = 'connector="c",partition="1",source="A",target="B",topic="A.orders"'
        for metric, value in {
            "record_count_total": 7.0,
            "byte_count_total": 700.0,
            "record_rate": 1.5,
            "byte_rate": 150.0,
            "record_age_ms": 40.0,
            "lag": 0.0,
        }.items():
            assert f"mirror_bridge_{metric}{{{tags}}} {value}" in text, text
        assert lines(text, "replication_latency_ms") == [], "what is not known is left out"
        assert len(lines(text, "lag")) == 2
        for line in (
            'copied_partitions{connector="c"} 3.0',
            'copy_lag{connector="c"} 10.0',
            'copied_records_total{connector="c"} 21.0',
            'copied_bytes_total{connector="c"} 2100.0',
            'copy_restarts_total{connector="c"} 0.0',
            'gaps{connector="c",kind="truncated"} 2.0',
            'gaps{connector="c",kind="record_refused"} 0.0',
            'partitions_without_metrics{connector="c"} 0.0',
        ):
            assert f"mirror_bridge_{line}" in text, text
        assert text.count("# TYPE mirror_bridge_lag gauge") == 1

    run(test)


def test_series_of_partitions_are_bounded_over_all_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_PARTITIONS", 3)

    async def test(at: ServiceHarness) -> None:
        for name in ("c", "d"):
            await at.put(f"/v1/connectors/{name}/tasks/0", TASK)
            report = CopyReport(totals(), [row(0), row(1)], whole=True)
            at.service.snapshots.progress(name, at.service.table.connector(name).generation, report)
        text = (await at.client.get("/metrics")).text
        assert len(lines(text, "record_count_total")) == 3
        assert list(lines(text, "partitions_without_metrics")) == [
            'mirror_bridge_partitions_without_metrics{connector="c"} 0.0',
            'mirror_bridge_partitions_without_metrics{connector="d"} 1.0',
        ]
        assert len(lines(text, "copied_records_total")) == 2

    run(test)


def test_an_app_without_connectors_has_metrics_too() -> None:
    text = asyncio.run(create_app(fake_service()).state.metrics.text()).decode()
    assert lines(text, "gaps") == []

"""What does not fit into a frame: divided, or an error of its request or connector. The rounds process goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bridge.errors import TooLarge
from bridge.model.values import TopicPartition
from bridge.protocol.messages import CopyTotals, GapReport
from bridge.service.ipc import messages
from bridge.service.ipc.messages import (
    Frame,
    FrameTooLarge,
    InstanceStatus,
    frame,
    in_portions,
    unpack_groups,
    unpack_instance_status,
    unpack_progress,
    unpack_report,
    unpack_summary,
)
from bridge.service.rounds.publisher import PipePublisher, PipeWriter
from bridge.service.rounds.rounds_process import RoundsProcess
from bridge.service.state.operations import unpack_operation_result
from bridge.service.state.snapshots import Snapshots
from bridge.service.state.source_offsets import REQUESTED, OffsetRequests, pack_stored_offsets
from connectors.base import CopyReport, SourcePartition, Summary
from tests.support.messages import message, message_pattern
from tests.unit.service.ipc.pipes import Pipe
from tests.unit.service.service_fakes import FACTORY, places, report
from tests.unit.service.service_process import Running

LIMIT = 3_000


@pytest.fixture
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_BYTES", LIMIT)
    monkeypatch.setattr(messages, "PORTION_BYTES", LIMIT // 2)


small = pytest.mark.usefixtures("_small_frames")


def written(*calls: Any) -> list[tuple[Frame, bytes]]:
    """The frames that are written for what is published: each is within the limit."""

    async def go() -> list[tuple[Frame, bytes]]:
        pipe = Pipe()
        writer = PipeWriter(pipe)  # type: ignore[arg-type]
        for call in calls:
            call(writer, PipePublisher(writer, "c", 7))
        await writer.flush()
        return await pipe.frames()

    return asyncio.run(go())


@small
def test_a_frame_over_the_limit_is_not_made() -> None:
    assert len(frame(Frame.SUMMARY, bytes(LIMIT))) == LIMIT + 5
    with pytest.raises(FrameTooLarge, match=f"summary: it has {LIMIT + 1} bytes, and the limit of a message"):
        frame(Frame.SUMMARY, bytes(LIMIT + 1))


@small
def test_portions_have_a_number_and_a_size() -> None:
    sizes = [10, 10, 10, 1490, 10, 2000, 5]
    assert list(in_portions(sizes, 2, lambda size: size)) == [[10, 10], [10, 1490], [10], [2000], [5]]
    assert list(in_portions([], 2, lambda size: size)) == []


@small
def test_groups_that_do_not_fit_into_one_frame_take_several() -> None:
    reports = {f"g{n}-{'x' * 50}": report(f"g{n}", partitions=3) for n in range(40)}
    sent = written(lambda _, publisher: publisher.groups(reports))
    assert len(sent) > 5
    found = {group.group for _, payload in sent for group in unpack_groups(payload)[2]}
    assert found == set(reports)


@small
def test_a_group_that_does_not_fit_says_so_and_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_OF_A_REPORT", 2_000)
    large = report("large", partitions=3).model_copy(update={"moved_at_ms": 5})
    parts = [
        each.model_copy(update={"topic": f"{n:04d}" * 50, "detail": {"said": str(n) * 100}})
        for n, each in enumerate(large.partitions)
    ]
    large = large.model_copy(update={"partitions": parts})
    sent = written(lambda _, publisher: publisher.groups({"large": large, "g": report("g")}))
    found = {group.group: group for _, payload in sent for group in unpack_groups(payload)[2]}
    assert (found["large"].ready, found["large"].verdict) == (False, "pending")
    assert found["large"].blob is not None
    unpacked = unpack_report(found["large"].blob)
    assert (unpacked.reason, unpacked.partitions, unpacked.moved_at_ms) == ("report_too_large", [], 5)
    assert found["g"].ready


@small
def test_what_an_instance_reports_is_left_out_where_it_does_not_fit_and_the_summaries_say_so() -> None:
    totals = CopyTotals(source="A", target="B", state="copying")
    gap = GapReport(
        topic="t", partition=0, kind="truncated", topic_id="", upstream_from=0, upstream_to=1, seen_at_ms=1
    )
    large = CopyReport(totals, gaps=[gap.model_copy(update={"detail": "x" * LIMIT})])

    def publish(writer: PipeWriter, publisher: PipePublisher) -> None:
        publisher.progress(large)
        publisher.summary(Summary(rounds=3, errors=("another",)))
        other = PipePublisher(writer, "d", 8)
        other.progress(CopyReport(totals, gaps=[gap]))
        other.summary(Summary())

    sent = written(publish)
    assert [kind for kind, _ in sent] == [Frame.PROGRESS, Frame.SUMMARY, Frame.SUMMARY]
    assert unpack_progress(sent[0][1])[0] == "d"
    name, generation, summary = unpack_summary(sent[1][1])
    assert (name, generation, summary.rounds) == ("c", 7, 3)
    first, second = summary.errors
    assert first.startswith(message("service.report_left_out", what="progress"))
    assert second == "another"
    assert unpack_summary(sent[2][1])[2].errors == ()


@small
def test_a_summary_that_does_not_fit_keeps_what_counts() -> None:
    large = Summary(rounds=3, as_of_ms=9, tasks=(1,), errors=("x" * 2_000, "y" * 2_000))
    ((_, payload),) = written(lambda _, publisher: publisher.summary(large))
    _, _, summary = unpack_summary(payload)
    (error,) = summary.errors
    assert error.startswith(message("service.summary_left_out", what="summary"))
    assert replace(summary, errors=()) == replace(large, errors=())


def test_an_error_is_no_longer_than_people_read() -> None:
    long = "x" * 1_000_000

    def publish(writer: PipeWriter, publisher: PipePublisher) -> None:
        writer.instance_status(InstanceStatus("c", 7, long))
        publisher.summary(Summary(failure=long, errors=[long]))
        writer.operation_result(1, TooLarge(long))

    (_, instance), (_, summary), (_, result) = written(publish)
    said = unpack_summary(summary)[2]
    texts = [
        unpack_instance_status(instance).error,
        said.failure,
        *said.errors,
        str(unpack_operation_result(result)[1]),
    ]
    assert {len(text or "") for text in texts} == {100_000 + len("… (900000 more characters)")}


@small
def test_an_answer_that_does_not_fit_is_an_error_of_its_operation() -> None:
    sent = written(lambda writer, _: writer.operation_result(4, {"moved": "x" * LIMIT}))
    number, answer = unpack_operation_result(sent[0][1])
    assert number == 4
    assert isinstance(answer, TooLarge | Exception)
    assert message("service.large_answer") in str(answer)


@small
def test_an_operation_that_does_not_fit_is_an_error_of_its_request() -> None:
    async def go() -> None:
        rounds = RoundsProcess(FACTORY, Snapshots(), print, print, print)
        said = message_pattern("service.large_operation", connector="c", operation="move")
        with pytest.raises(TooLarge, match=said):
            await rounds.operate("c", 1, "move", {"groups": ["x" * LIMIT]}, 1.0)

    asyncio.run(go())


def test_offsets_of_many_partitions_are_asked_for_in_several_requests() -> None:
    """Before, one message had them all, however many."""

    async def go() -> None:
        asked: list[int] = []

        def send(name: str, generation: int, partitions: Any) -> None:
            asked.append(len(partitions))
            rows = [(each, {"offset": each["partition"]}) for each in partitions]
            loop.call_soon(requests.received, pack_stored_offsets(name, generation, rows))

        loop = asyncio.get_running_loop()
        requests = OffsetRequests(send)
        found = await requests.request("c", 1, places(2 * REQUESTED + 1))
        assert asked == [REQUESTED, REQUESTED, 1]
        assert [each and each["offset"] for each in found] == list(range(2 * REQUESTED + 1))

    asyncio.run(go())


@small
def test_a_request_for_offsets_that_does_not_fit_is_an_error_of_the_instance() -> None:
    async def go() -> None:
        writer = PipeWriter(Pipe())  # type: ignore[arg-type]
        publisher = PipePublisher(writer, "c", 7)
        long: SourcePartition = {"cluster": "A" * LIMIT, "topic": "t", "partition": 0}
        with pytest.raises(FrameTooLarge, match="offset request: it has "):
            await publisher.stored_offsets([long])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(publisher.stored_offsets(places(1)), 0.01)

    asyncio.run(go())


def test_partitions_that_are_gone_take_several_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.service.state.copy_progress.PORTION_GONE", 2)
    gone = [TopicPartition("t", n) for n in range(5)]
    totals = CopyTotals(source="A", target="B", state="copying")
    sent = written(lambda _, publisher: publisher.progress(CopyReport(totals, gone=gone, whole=True)))
    pieces = [unpack_progress(payload)[2] for _, payload in sent]
    assert [len(each.gone) for each in pieces] == [2, 2, 1]
    assert [each.whole for each in pieces] == [True, False, False]


def test_the_rounds_process_goes_on_after_an_answer_that_does_not_fit(at: Running) -> None:
    """Before, it ended, and was restarted, with each such request."""
    at.start(operations="large")
    at.eventually(lambda: at.status()["state"] == "running")
    pid = at.rounds_pid()
    answer = at.client.post("/v1/connectors/c/refresh")
    assert (answer.status_code, answer.json()["error_code"]) == (413, "too_large")
    assert "its answer is too large" in answer.json()["message"]
    assert at.rounds_pid() == pid
    assert at.status()["state"] == "running"

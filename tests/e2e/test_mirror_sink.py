"""BridgeMirrorSinkConnector on workers at the source: its group's offsets are what is committed on the target."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import ConnectFailed, ConnectWorker, LocalStack
from bridge.local.stack import SOURCE
from tests.e2e.control import aliased, our_control
from tests.e2e.copying import (
    SHARED_SPARK,
    fill,
    sink_config,
    sinking,
    wait_committed,
    wait_copied,
    wait_task,
)
from tests.e2e.flow import Flow, committed_offsets, stays
from tests.e2e.mbeans import MBeanReader
from tests.e2e.mirrored_flow import PARTITIONS, read_all
from tests.e2e.taken_mirror import Mirror
from tests.support import (
    bounds,
    connector,
    create_topic,
    eventually,
    numbered,
    produce,
    produce_transaction,
    unique,
)
from tests.support.messages import message
from tests.support.traffic import Writer
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

GROUP = "connect-sinks"


class SinkWorkers:
    """Of one Connect cluster, at the source."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self.started: list[ConnectWorker] = []
        self.more()

    def more(self) -> ConnectWorker:
        """Starts another one."""
        name = f"sink-{len(self.started) + 1}"
        self.started.append(self._stack.worker(name, group_id=GROUP, on=SOURCE))
        return self.started[-1]


@pytest.fixture(scope="module")
def workers(stack: LocalStack) -> SinkWorkers:
    return SinkWorkers(stack)


@pytest.fixture(scope="module")
def sinks(stack: LocalStack, workers: SinkWorkers) -> Flow:
    return aliased(Flow(stack.source, stack.target, workers.started[0], stack.service("sink-service")))


def test_its_group_has_committed_what_is_copied_and_a_paused_one_copies_nothing(
    sparking: Flow, workers: SinkWorkers
) -> None:
    sinks = aliased(replace(sparking, worker=workers.started[0]))
    mark = unique("orders")
    topic = create_topic(sinks.source.bootstrap, f"{mark}-1", PARTITIONS)
    transactional = create_topic(sinks.source.bootstrap, f"{mark}-2", 1)
    fill(sinks, topic, 0)
    for start, commits in ((0, True), (5, False), (10, True)):
        produce_transaction(sinks.source.bootstrap, transactional, numbered(5, start=start), commit=commits)
    rest = sinks.worker.rest
    with sinking(sinks, topics_regex=f"{mark}-.*", **SHARED_SPARK) as name:
        wait_copied(sinks, topic)
        wait_committed(sinks, name, topic, transactional)
        copies = read_all(sinks.target, sinks.remote(transactional))[0]
        assert [each.value for each in copies] == [
            b"value-%d" % number for number in (*range(5), *range(10, 15))
        ]
        wait_equal(lambda: len(rest.tasks(name)), 1)

        # One owner, whichever connector copies.
        for kind, topics in (("Source", {"topics": topic}), ("Sink", {"topics": topic})):
            config = our_control(kind, sinks, **topics)
            with pytest.raises(ConnectFailed, match=f"{topic} .*{name}"):
                rest.put(unique("second"), config)

        rest.pause(name)
        rest.wait_state(name, "PAUSED")
        sinks.wait_copying_stopped(name)
        fill(sinks, topic, 20)
        before = bounds(sinks.target.bootstrap, sinks.remote(topic))
        stays(
            lambda: bounds(sinks.target.bootstrap, sinks.remote(topic)) == before,
            2.0,
            what="nothing is copied while paused",
        )
        assert committed_offsets(sinks.source.bootstrap, f"connect-{name}")[topic, 0] == 20
        rest.resume(name)
        wait_copied(sinks, topic)
        wait_committed(sinks, name, topic, transactional)
    wait_task(sinks, name, "stopped")


def place(topic: str, partition: int) -> dict[str, Any]:
    return {"kafka_topic": topic, "kafka_partition": partition}


@pytest.mark.long
def test_offsets_that_are_deleted_or_altered_have_records_copied_again(sinks: Flow) -> None:
    topic = create_topic(sinks.source.bootstrap, unique("again"), PARTITIONS)
    fill(sinks, topic, 0)
    rest, whole = sinks.worker.rest, list(range(20))
    with sinking(sinks, topics=topic) as name:
        wait_copied(sinks, topic)
        wait_committed(sinks, name, topic)

        rest.stop(name)
        rest.wait_state(name, "STOPPED", tasks=0)
        answer = rest.call("DELETE", f"/connectors/{name}/offsets")
        assert answer["message"] == message("connect.offsets_reset")
        assert committed_offsets(sinks.source.bootstrap, f"connect-{name}") == {}

        for offset, why in (
            (21, "has no offset 21: its log begins at 0 and ends at 20"),
            (-1, "no offset -1"),
        ):
            with pytest.raises(ConnectFailed, match=why):
                rest.alter_offsets(name, [(place(topic, 0), {"kafka_offset": offset})])
        with pytest.raises(ConnectFailed, match="nothing of nobody-3 was copied yet"):
            rest.alter_offsets(name, [(place("nobody", 3), {"kafka_offset": 0})])
        rest.alter_offsets(name, [(place(topic, 0), {"kafka_offset": 15}), (place(topic, 1), None)])
        rest.resume(name)
        again = {number: whole + (whole[15:] if number == 0 else whole) for number in range(PARTITIONS)}
        wait_copied(sinks, topic, again)
        wait_committed(sinks, name, topic)


def of_worker(flow: Flow, name: str) -> str:
    """The address of the worker that has the sink's one task; empty while none has it."""
    return "".join(
        task["worker_id"] for task in flow.worker.rest.status(name)["tasks"] if task["state"] == "RUNNING"
    )


def assert_copied_once(flow: Flow, topic: str) -> dict[int, int]:
    """That the copy has what is committed on the source, once and in order; the records of each partition."""
    copies, originals = (
        {
            number: [each.content for each in records]
            for number, records in read_all(cluster, name, committed_only=True).items()
        }
        for cluster, name in ((flow.target, flow.remote(topic)), (flow.source, topic))
    )
    assert copies == originals
    return {number: len(records) for number, records in originals.items()}


@pytest.mark.long
def test_a_worker_that_joins_in_mid_copy_takes_a_sink_and_nothing_is_copied_twice(
    sinks: Flow, workers: SinkWorkers, tmp_path: Path
) -> None:
    """Two sinks, so that Connect moves one of them to the worker that joins. Their MBeans are where their tasks are."""
    reader, (first,) = MBeanReader(tmp_path), workers.started
    topics = [create_topic(sinks.source.bootstrap, unique("joined"), 2) for _ in range(2)]
    with ExitStack() as both:
        names = {
            topic: both.enter_context(sinking(sinks, topics=topic, spark_master="local[1]"))
            for topic in topics
        }

        def copied(topic: str) -> int:
            return sum(end for _, end in bounds(sinks.target.bootstrap, sinks.remote(topic)).values())

        def measured(worker: ConnectWorker, topic: str) -> dict[int, float]:
            """Records of each partition, by the worker's MBeans."""
            prefix = (
                f"kafka.connect.mirror:type=MirrorSourceConnector,source={sinks.source.name},"
                f"target={sinks.target.name},topic={sinks.remote(topic)},partition="
            )
            beans = reader.read(worker.process.pid, f"{prefix}*")
            return {int(name.removeprefix(prefix)): each["record-count"] for name, each in beans.items()}

        def known() -> None:
            for topic in topics:
                assert measured(first, topic) == {0: 0.0, 1: 0.0}

        eventually(known, WAIT, what="both have MBeans", watched=sinks.watched)

        def wait_more(than: Mapping[str, int]) -> None:
            def more() -> None:
                for topic, before in than.items():
                    assert copied(topic) > before + 100

            eventually(more, WAIT, what="more is copied of both", watched=sinks.watched)

        with ExitStack() as writing:
            for topic in topics:
                writing.enter_context(Writer(sinks.source.bootstrap, topic).running())
            wait_more(dict.fromkeys(topics, 0))
            second = workers.more()

            def moved() -> str:
                at = {topic: of_worker(sinks, name) for topic, name in names.items()}
                (there,) = [topic for topic, where in at.items() if where and where in second.url]
                assert all(at.values()), at
                return there

            taken = eventually(moved, WAIT, what="a sink has moved", watched=sinks.watched)
            (kept,) = set(topics) - {taken}
            wait_more({topic: copied(topic) for topic in topics})

        def all_copied() -> None:
            for topic in topics:
                assert_copied_once(sinks, topic)

        eventually(all_copied, WAIT, what="both are copied once", watched=sinks.watched)
        for topic, name in names.items():
            wait_committed(sinks, name, topic)

        def shown() -> None:
            assert measured(first, kept) == assert_copied_once(sinks, kept)
            assert measured(first, taken) == measured(second, kept) == {}
            counts, whole = measured(second, taken), assert_copied_once(sinks, taken)
            assert counts.keys() == whole.keys()
            assert all(0 < count < whole[number] for number, count in counts.items()), (counts, whole)

        eventually(shown, WAIT, what="the MBeans have all records", watched=sinks.watched)
        # The records pass no consumer of a worker.
        for worker, topic in ((first, kept), (second, taken)):
            tasks = f"kafka.connect:type=sink-task-metrics,connector={names[topic]},task=0"
            assert reader.read(worker.process.pid, tasks)[tasks]["sink-record-read-total"] == 0


@pytest.mark.long
def test_a_killed_worker_and_a_killed_service_copy_nothing_twice(sinks: Flow, workers: SinkWorkers) -> None:
    if len(workers.started) < 2:
        workers.more()
    topic = create_topic(sinks.source.bootstrap, unique("lost"), PARTITIONS)
    fill(sinks, topic, 0)
    with sinking(sinks, topics=topic, consumer_override_session_timeout_ms=6000) as name:
        wait_copied(sinks, topic)
        (task,) = sinks.worker.rest.status(name)["tasks"]
        lost, left = sorted(workers.started, key=lambda each: task["worker_id"] not in each.url)
        lost.kill()
        try:
            fill(sinks, topic, 20)
            moved = replace(sinks, worker=left)
            wait_copied(moved, topic)
            wait_committed(moved, name, topic)
        finally:
            lost.restart()

        sinks.process.kill()
        fill(sinks, topic, 40)
        sinks.process.restart()
        wait_copied(sinks, topic)
        wait_committed(sinks, name, topic)
        sinks.worker.rest.wait_running(name)
        copies = read_all(sinks.target, sinks.remote(topic))
        assert {len(records) for records in copies.values()} == {60}


@pytest.mark.long
@pytest.mark.soak
def test_by_a_connector_at_the_target_it_is_handed_back_to_stock(sinks: Flow, flow: Flow) -> None:
    """As hand-back says when it is asked for a sink connector. Every record is on the target once, and in order."""
    mirror, rest = Mirror(replace(sinks, worker=flow.worker)), sinks.worker.rest

    def more(start: int) -> None:
        for partition in bounds(sinks.source.bootstrap, mirror.topic):
            records = numbered(50, start=start, partition=partition)
            produce(sinks.source.bootstrap, mirror.topic, records)

    more(0)
    try:
        with connector(sinks.worker, sink_config(sinks, topics=mirror.topic), mirror.name) as name:
            mirror.copies_on()
            rest.stop(name)
            rest.wait_state(name, "STOPPED", tasks=0)
            asked = CliRunner().invoke(app, ["hand-back", name, "--connect-url", sinks.worker.rest.url])
            assert (asked.exit_code, "stock has no sink that could go on" in asked.output) == (1, True), asked

            more(50)
            mirror.ours()
            mirror.copies_on()
            mirror.stop()
            assert {row["position"] for row in mirror.handed_back()} == {100}
        more(100)
        mirror.stock()
        mirror.copies_on()
        for partition in bounds(sinks.source.bootstrap, mirror.topic):
            assert mirror.copies(partition) == mirror.originals(partition)
    finally:
        mirror.delete()

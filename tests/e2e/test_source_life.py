"""The source connector's life when things are killed, and when they can't go on: a source cluster, a worker and a
service of these tests' own. What is copied from there stands beside what others copy into the same target."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from bridge.local import Broker, LocalStack, Security
from bridge.mm2.records import Checkpoint
from bridge.model.values import TopicPartition
from tests.e2e.control import aliased, latest
from tests.e2e.flow import LEASE_MS, Flow, committed_offsets, stays
from tests.e2e.mirrored_flow import PARTITIONS, OurFlow, every, read_all
from tests.perf.processes import tree
from tests.support import allow, create_topic, eventually, numbered, produce, read
from tests.support.brokers import RESTARTED
from tests.support.traffic import Reader, Writer
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

PASSWORD, WRONG_PASSWORD = "wonder-5e1f", "wander-9b2c"
ENDED = 120.0
"""Seconds in which a driver without its service, and all that it started, is gone, on a busy machine too: a part of
what is tested."""


@pytest.fixture(scope="module")
def origin(stack: LocalStack) -> Broker:
    """The source. Clients of the plain listener may do everything; alice needs rules, and has a password."""
    return stack.broker(
        "origin", security=Security(users={"alice": PASSWORD}, authorizer=True), properties=RESTARTED
    )


@pytest.fixture(scope="module")
def own(stack: LocalStack, origin: Broker) -> Flow:
    """Everything but the target may be killed here."""
    return Flow(origin, stack.target, stack.worker("life"), stack.service("life-service"))


@pytest.fixture(scope="module")
def mirrored_flow(own: Flow) -> Iterator[OurFlow]:
    """Mirrored by ours, with group sync by both of our connectors."""
    flow = OurFlow(aliased(own))
    with ExitStack() as running:
        running.enter_context(flow.mirror())
        synced = {"groups": f"{flow.mark}-ours.*", "sync_group_offsets_enabled": "true"}
        running.enter_context(flow.running("Checkpoint", **synced))
        running.enter_context(flow.group_offsets(f"{flow.mark}-groups.*"))
        yield flow


def _kill(pid: int) -> None:
    """This process alone: what it has started has to end by itself."""
    os.kill(pid, signal.SIGKILL)


def _states(flow: Flow) -> list[str]:
    rest = flow.worker.rest
    return [task["state"] for name in rest.connectors() for task in rest.status(name)["tasks"]]


def test_a_killed_service_and_a_killed_worker_copy_nothing_twice(mirrored_flow: OurFlow) -> None:
    """The driver ends with its service, although nobody has told it; a worker's tasks are missed after the lease."""
    own = mirrored_flow.flow
    topic, copy = mirrored_flow.name("orders"), mirrored_flow.remote(mirrored_flow.name("orders"))
    create_topic(own.target.bootstrap, copy, 2)
    create_topic(own.source.bootstrap, topic, 2)
    writer, reader = Writer(own.source.bootstrap, topic), Reader(own.target.bootstrap, copy, 2)
    with reader.running():
        with writer.running():
            eventually(lambda: reader.count > 0, WAIT, what="the driver copies", watched=own.watched)
            service = own.process.process
            left = tree(service.pid)
            assert len(left) > 3, "a driver, its JVM and its Python workers"
            _kill(service.pid)
            eventually(
                lambda: not any(map(_lives, left)), ENDED, what="the driver and what it started have ended"
            )
            own.process.restart()
            before = reader.count
            eventually(lambda: reader.count > before, WAIT, what="a new driver copies", watched=own.watched)

            worker = own.worker.process
            _kill(worker.pid)
            (name,) = [
                each["name"]
                for each in own.service.health()["connectors"]
                if each["name"].startswith("source")
            ]
            eventually(lambda: own.service.task_states(name) == ["lapsed"], WAIT, what="the lease has ended")
            own.worker.restart()
            before = reader.count
            eventually(lambda: reader.count > before, WAIT, what="copying goes on", watched=own.watched)
        reader.wait_done()
    for partition, values in reader.values.items():
        here = read(own.source.bootstrap, topic, partition, committed_only=True)
        assert values == [record.value for record in here]
    eventually(lambda: set(_states(own)) == {"RUNNING"}, WAIT, what="all tasks run", watched=own.watched)


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.soak
def test_two_sources_are_aggregated_into_one_target(mirrored_flow: OurFlow, stack: LocalStack) -> None:
    """Topics of the same name on both; each copy holds its own source's records and is followed by its own runs."""
    other = replace(
        mirrored_flow,
        flow=replace(aliased(mirrored_flow.flow, source=stack.source), target=mirrored_flow.target),
    )
    topics = [way.topic("both") for way in (mirrored_flow, other)]
    assert topics[0] == topics[1]
    assert mirrored_flow.remote(topics[0]) != other.remote(topics[0])
    with other.mirror(), other.running("Checkpoint", groups=f"{mirrored_flow.mark}-ours.*"):
        for way, count in ((mirrored_flow, 10), (other, 30)):
            way.produce(topics[0], count)
        for way, processed in ((mirrored_flow, 4), (other, 25)):
            way.wait_mirrored(topics[0])
            group = way.name("ours-both")
            way.commit(group, topics[0], every(processed))
            way.wait_exact(topics[0], every(processed), partial(way.translated, group), group)
        for way, count in ((mirrored_flow, 10), (other, 30)):
            for records in read_all(way.target, way.remote(topics[0])).values():
                assert len([each for each in records if each.value != b"foreign"]) == count


# -- what a human has to mend ------------------------------------------------------------------------------------------


def _login(origin: Broker, password: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "source_cluster_bootstrap_servers": origin.address("SASL_PLAINTEXT"),
        "source_cluster_security_protocol": "SASL_PLAINTEXT",
        "source_cluster_sasl_mechanism": "PLAIN",
        "source_cluster_sasl_jaas_config": f'{module} required username="alice" password="{password}";',
        "sync_topic_configs_enabled": "false",
        "offset-syncs_topic_location": "target",
    }


def _failed(flow: Flow, name: str, *words: str) -> str:
    """The trace of the failed task, as soon as it holds all words."""

    def failed() -> str:
        (task,) = flow.worker.rest.status(name)["tasks"]
        assert task["state"] == "FAILED", (task, flow.service.status(name))
        assert all(word in task["trace"] for word in words), task["trace"]
        return str(task["trace"])

    return eventually(failed, WAIT, what=f"the task fails: {words}", watched=flow.watched)


def test_wrong_credentials_fail_the_task_until_they_are_mended_and_a_missing_right_is_waited_for(
    own: Flow, origin: Broker
) -> None:
    mirrored_flow = OurFlow(aliased(own))
    open_, closed = (
        create_topic(origin.bootstrap, mirrored_flow.name(which), 1) for which in ("open", "closed")
    )
    for topic in (open_, closed):
        allow(origin.bootstrap, "User:alice", topic, "DESCRIBE")
        allow(origin.bootstrap, "User:alice", topic, "DESCRIBE_CONFIGS")
    allow(origin.bootstrap, "User:alice", open_, "READ")
    with mirrored_flow.mirror(**_login(origin, WRONG_PASSWORD)) as name:
        trace = _failed(own, name, "uthentication", "source")
        assert own.service.status(name)["state"] == "failed"
        config = own.worker.rest.config(name)
        for shown in (trace, own.service.health()):
            assert WRONG_PASSWORD not in str(shown)
        right = {key: value.replace(WRONG_PASSWORD, PASSWORD) for key, value in config.items()}
        own.worker.rest.put(name, right)
        # Now it may not read one of what it is to copy; the other one goes on.
        for topic in (open_, closed):
            produce(origin.bootstrap, topic, numbered(3))

        def named() -> None:
            assert f"topic {closed}: grant READ on it" in str(own.service.status(name)["errors"])

        eventually(named, WAIT, what="the right is named", watched=own.watched)
        mirrored_flow.wait_mirrored(open_)
        assert own.worker.rest.status(name)["tasks"][0]["state"] == "RUNNING"
        allow(origin.bootstrap, "User:alice", closed, "READ")
        mirrored_flow.wait_mirrored(closed)
        eventually(
            lambda: closed not in str(own.service.status(name)["errors"]),
            WAIT,
            what="it is there",
            watched=own.watched,
        )


def test_what_the_target_holds_already_fails_the_task_or_stands_in_health_as_the_policy_says(
    own: Flow,
) -> None:
    mirrored_flow = OurFlow(aliased(own))
    topic = create_topic(own.source.bootstrap, mirrored_flow.name("filled"), 1)
    copy = create_topic(own.target.bootstrap, mirrored_flow.remote(topic), 1)
    produce(own.source.bootstrap, topic, numbered(10))
    produce(own.target.bootstrap, copy, numbered(5))
    with mirrored_flow.mirror(source_gap_policy="fail") as name:
        words = (
            "target_not_empty",
            f"{copy}-0",
            "offsets 0 to 4",
            "source.gap.policy=report",
            f"delete topic {copy} on the target",
        )
        _failed(own, name, *words)
        status = own.service.status(name)
        assert status["state"] == "failed"
        assert all(word in status["failure"] for word in words), status
        config = own.worker.rest.config(name)
        own.worker.rest.put(name, {**config, "source.gap.policy": "report"})

        def copied() -> None:
            assert len(read(own.target.bootstrap, copy, committed_only=True)) == 15

        eventually(copied, WAIT, what="it goes on", watched=own.watched)

        def in_health() -> None:
            (of,) = (each for each in own.service.health()["connectors"] if each["name"] == name)
            assert any("target_not_empty" in error for error in of["errors"]), of
            assert own.worker.rest.status(name)["tasks"][0]["state"] == "RUNNING"

        eventually(in_health, WAIT, what="it is in health", watched=own.watched)


# -- the source is gone ----------------------------------------------------------------------------------------------


def test_groups_stay_ready_by_runs_when_the_source_is_killed(mirrored_flow: OurFlow, origin: Broker) -> None:
    """Nothing of it fails a task, and what was exact stays so; once the source is back copying goes on."""
    own, topic = mirrored_flow.flow, mirrored_flow.topic("gone")
    mirrored_flow.produce(topic)
    mirrored_flow.wait_mirrored(topic)
    groups = [mirrored_flow.name(f"{kind}-gone") for kind in ("ours", "groups")]
    for group in groups:
        mirrored_flow.commit(group, topic, every(7))
        mirrored_flow.wait_exact(
            topic, every(7), partial(committed_offsets, own.target.bootstrap, group), group
        )
        eventually(partial(_ready_by_runs, own, group), WAIT, what=f"{group} is ready", watched=own.watched)
    checkpoints = eventually(
        partial(_all_committed, own, groups[0]), WAIT, what=f"checkpoints of {groups[0]}", watched=own.watched
    )
    names = own.worker.rest.connectors()
    before = {name: own.service.status(name)["errors"] for name in names}
    killed_ms = int(time.time() * 1000)
    origin.kill()
    try:
        for name in names:
            eventually(
                partial(_troubled, own, name, before[name]),
                WAIT,
                what=f"health tells of the source: {name}",
            )
        for group in groups:
            _ready_by_runs(own, group, "ready_as_of")
            assert own.service.report(group)["as_of_ms"] <= killed_ms
            since = {why["reason"]: why["since_ms"] for why in own.service.report(group)["reasons"]}
            assert since["source_unreachable"] >= killed_ms
            assert mirrored_flow.unread(topic, committed_offsets(own.target.bootstrap, group)) == {
                partition: [b"%d-%d" % (partition, number) for number in range(7, 10)]
                for partition in range(PARTITIONS)
            }
        assert latest(own.target, own.source.name, groups[0]) == checkpoints
        stays(lambda: set(_states(own)) == {"RUNNING"}, LEASE_MS / 1000, what="no task fails")
    finally:
        origin.start()
    mirrored_flow.produce(topic, start=10)
    mirrored_flow.wait_mirrored(topic)
    for name in names:
        eventually(
            partial(_well, own, name, before[name]),
            WAIT,
            what=f"{name} is well again",
            watched=own.watched,
        )


def _ready_by_runs(flow: Flow, group: str, answer: str = "ready") -> None:
    report = flow.service.report(group)
    assert report["readiness"] == answer, report
    assert {(row["verdict"], row["evidence"]) for row in report["partitions"]} == {("exact", "run")}, report


def _all_committed(flow: Flow, group: str) -> dict[TopicPartition, Checkpoint]:
    """The newest checkpoints of a group, all of where it stands. Connect writes them after the group has moved."""
    checkpoints = latest(flow.target, flow.source.name, group)
    offsets = {place: checkpoint.downstream_offset for place, checkpoint in checkpoints.items()}
    assert offsets == committed_offsets(flow.target.bootstrap, group)
    assert len(offsets) == PARTITIONS
    return checkpoints


def _troubled(flow: Flow, name: str, before: list[str]) -> None:
    status = flow.service.status(name)
    assert set(status["errors"]) - set(before), status
    assert status["failure"] is None


def _well(flow: Flow, name: str, before: list[str]) -> None:
    """Nothing is wrong now that was not before: copies that stood on the target before the mirror are told for good."""
    status = flow.service.status(name)
    assert all("target_not_empty" in error or "older gap(s)" in error for error in before), before
    assert (status["errors"], status["failure"]) == (before, None), status

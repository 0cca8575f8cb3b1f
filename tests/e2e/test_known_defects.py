"""What stock is known to do wrong (docs/known-defects.md), where it takes a worker to see it: stock's connector and
ours side by side in one flow, by the same JSON but for the class. The others are in tests/integration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bridge.mm2.records import OffsetSync
from bridge.model.values import TopicPartition
from tests.e2e.control import aliased, checkpointing, latest, syncs_topic, wait_checkpoint
from tests.e2e.flow import SHIFT, Flow, exactly, stays
from tests.support import (
    Record,
    commit,
    connector,
    create_topic,
    delete_group,
    eventually,
    produce,
    stock_config,
    unique,
)
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

OFFSET = 42


def mirrored_flow(flow: Flow) -> tuple[Flow, str]:
    """A flow of its own with a mirrored topic."""
    unique_flow = aliased(flow)
    create_topic(unique_flow.source.bootstrap, syncs_topic(unique_flow), 1, {"cleanup.policy": "compact"})
    return unique_flow, unique_flow.topic()


def sync(topic: str, upstream: int) -> Record:
    made = OffsetSync(TopicPartition(topic, 0), upstream, upstream + SHIFT)
    return Record(made.value(), key=made.key())


@contextmanager
def stock_checkpointing(unique_flow: Flow, groups: str, **settings: object) -> Iterator[str]:
    config = stock_config("Checkpoint", unique_flow.source, unique_flow.target, groups=groups, **settings)
    with connector(unique_flow.worker, config, unique("stock")) as name:
        yield name


def log_of(flow: Flow) -> str:
    return flow.worker.process.log.read_text(errors="replace")


@pytest.mark.long
def test_b2_a_group_that_was_deleted_is_not_made_again(flow: Flow) -> None:
    unique_flow, topic = mirrored_flow(flow)
    produce(unique_flow.source.bootstrap, syncs_topic(unique_flow), [sync(topic, OFFSET)])
    theirs, ours = unique("theirs"), unique("ours")
    # Found once, so that it is the checkpoints that are looked at, and not the news of the group.
    common = {"topics": topic, "sync_group_offsets_enabled": "true", "refresh_groups_enabled": "false"}
    for group in (theirs, ours):
        commit(unique_flow.source.bootstrap, group, {(topic, 0): OFFSET})
    with (
        stock_checkpointing(unique_flow, exactly(theirs), **common),
        checkpointing(unique_flow, exactly(ours), **common) as name,
    ):
        for group in (theirs, ours):
            unique_flow.wait_there(group, {(topic, 0): OFFSET + SHIFT})
        for group in (theirs, ours):
            delete_group(unique_flow.source.bootstrap, group)
        # A round that has read the group before commits it after that.
        unique_flow.wait_rounds(name, 2)
        for group in (theirs, ours):
            delete_group(unique_flow.target.bootstrap, group)
        unique_flow.wait_there(theirs, {(topic, 0): OFFSET + SHIFT})
        unique_flow.wait_rounds(name, 3)
        assert unique_flow.there(ours) == {}


def test_b8_b9_a_poison_record_is_counted_and_no_trouble_is_silent(flow: Flow) -> None:
    """Stock's store dies of it when it starts, in a thread that nobody looks at: its task is RUNNING, for ever."""
    unique_flow, topic = mirrored_flow(flow)
    poison = Record(None, key=OffsetSync(TopicPartition(topic, 0), 0, 0).key())
    produce(
        unique_flow.source.bootstrap, syncs_topic(unique_flow), [sync(topic, 30), poison, sync(topic, OFFSET)]
    )
    theirs, ours = unique("theirs"), unique("ours")
    for group in (theirs, ours):
        commit(unique_flow.source.bootstrap, group, {(topic, 0): OFFSET})
    before = log_of(unique_flow).count("NullPointerException")
    with (
        stock_checkpointing(unique_flow, exactly(theirs), topics=topic) as stocks,
        checkpointing(unique_flow, exactly(ours), topics=topic, translation_evidence="syncs") as name,
    ):
        wait_checkpoint(unique_flow, ours, topic, OFFSET + SHIFT)
        status = unique_flow.service.status(name)
        assert (status["unreadable_records"][syncs_topic(unique_flow)], status["checkpoints"]) == (1, 1)
        wait_equal(
            lambda: unique_flow.service.partition(ours, topic)["evidence"],
            "sync",
            watched=unique_flow.watched,
        )

        def died() -> bool:
            return log_of(unique_flow).count("NullPointerException") > before

        eventually(died, WAIT, what="stock's store has died", watched=unique_flow.watched)
        commit(unique_flow.source.bootstrap, theirs, {(topic, 0): OFFSET + 1})
        stays(
            lambda: not latest(unique_flow.target, unique_flow.source.name, theirs),
            3,
            what="stock emits nothing any more",
        )
        status = unique_flow.worker.rest.wait_running(stocks)
        assert not any(task.get("trace") for task in status["tasks"])


@pytest.mark.long
def test_b12_b41_a_new_group_restarts_no_task_and_latencies_are_of_each_group(flow: Flow) -> None:
    """With stock any change of the set of groups makes all tasks anew, and with the new metric names the second group's
    first checkpoint throws where it is acknowledged. (Its MBeans of the old names, B40: tests/integration.)"""
    unique_flow, topic = mirrored_flow(flow)
    produce(unique_flow.source.bootstrap, syncs_topic(unique_flow), [sync(topic, OFFSET)])
    thrown = "Sensor checkpoint-latency already exists"
    theirs, ours = unique("theirs"), unique("ours")
    for prefix in (theirs, ours):
        for number in (0, 1):
            commit(unique_flow.source.bootstrap, f"{prefix}-{number}", {(topic, 0): OFFSET})
    common = {"topics": topic, "metric_names_formats": "new"}
    with (
        stock_checkpointing(unique_flow, f"{exactly(theirs)}.*", **common) as stocks,
        checkpointing(unique_flow, f"{exactly(ours)}.*", **common) as name,
    ):
        for group in (f"{theirs}-0", f"{theirs}-1", f"{ours}-0", f"{ours}-1"):
            wait_checkpoint(unique_flow, group, topic, OFFSET + SHIFT)
        sessions = unique_flow.service.sessions(name)
        assert assigned(unique_flow, stocks) == {f"{theirs}-0", f"{theirs}-1"}
        for prefix in (theirs, ours):
            commit(unique_flow.source.bootstrap, f"{prefix}-2", {(topic, 0): OFFSET})
            wait_checkpoint(unique_flow, f"{prefix}-2", topic, OFFSET + SHIFT)
        assert len(assigned(unique_flow, stocks)) == 3
        wait_equal(lambda: unique_flow.service.sessions(name), sessions, watched=unique_flow.watched)
        eventually(
            lambda: thrown in log_of(unique_flow),
            WAIT,
            what="stock's sensor throws",
            watched=unique_flow.watched,
        )

        def counted() -> None:
            latencies = [
                unique_flow.service.report(f"{ours}-{n}", name)["checkpoint_latency_ms"] for n in range(3)
            ]
            assert all(each and each["count"] == 1 for each in latencies), latencies

        eventually(counted, WAIT, what="latencies of three groups", watched=unique_flow.watched)


def assigned(unique_flow: Flow, name: str) -> set[str]:
    """The groups in the configurations of stock's tasks: with other ones, they are other tasks."""
    configs = [task["config"] for task in unique_flow.worker.rest.tasks(name)]
    return {group for config in configs for group in config["task.assigned.groups"].split(",")}

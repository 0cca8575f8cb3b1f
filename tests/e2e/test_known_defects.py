"""What stock is known to do wrong (docs/known-defects.md), where it takes a worker to see it: stock's connector and
ours side by side in one flow, by the same JSON but for the class. The others are in tests/integration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bridge.mm2.records import OffsetSync
from bridge.model.values import TopicPartition
from tests.e2e.control import aliased, checkpointing, latest, syncs_topic, wait_checkpoint
from tests.e2e.ground import SHIFT, WAIT, Ground, exactly, stays
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

OFFSET = 42


def flow(ground: Ground) -> tuple[Ground, str]:
    """A flow of its own with a mirrored topic."""
    mine = aliased(ground)
    create_topic(mine.source.bootstrap, syncs_topic(mine), 1, {"cleanup.policy": "compact"})
    return mine, mine.topic()


def sync(topic: str, upstream: int) -> Record:
    made = OffsetSync(TopicPartition(topic, 0), upstream, upstream + SHIFT)
    return Record(made.value(), key=made.key())


@contextmanager
def stock_checkpointing(mine: Ground, groups: str, **settings: object) -> Iterator[str]:
    config = stock_config("Checkpoint", mine.source, mine.target, groups=groups, **settings)
    with connector(mine.worker, config, unique("stock")) as name:
        yield name


def log_of(ground: Ground) -> str:
    return ground.worker.process.log.read_text(errors="replace")


def test_b2_a_group_that_was_deleted_is_not_made_again(ground: Ground) -> None:
    mine, topic = flow(ground)
    produce(mine.source.bootstrap, syncs_topic(mine), [sync(topic, OFFSET)])
    theirs, ours = unique("theirs"), unique("ours")
    # Found once, so that it is the checkpoints that are looked at, and not the news of the group.
    common = {"topics": topic, "sync_group_offsets_enabled": "true", "refresh_groups_enabled": "false"}
    for group in (theirs, ours):
        commit(mine.source.bootstrap, group, {(topic, 0): OFFSET})
    with (
        stock_checkpointing(mine, exactly(theirs), **common),
        checkpointing(mine, exactly(ours), **common) as name,
    ):
        for group in (theirs, ours):
            mine.wait_there(group, {(topic, 0): OFFSET + SHIFT})
        for cluster in (mine.source, mine.target):
            for group in (theirs, ours):
                delete_group(cluster.bootstrap, group)
        mine.wait_there(theirs, {(topic, 0): OFFSET + SHIFT})
        mine.wait_rounds(name, 3)
        assert mine.there(ours) == {}


def test_b8_b9_a_poison_record_is_counted_and_no_trouble_is_silent(ground: Ground) -> None:
    """Stock's store dies of it when it starts, in a thread that nobody looks at: its task is RUNNING, for ever."""
    mine, topic = flow(ground)
    poison = Record(None, key=OffsetSync(TopicPartition(topic, 0), 0, 0).key())
    produce(mine.source.bootstrap, syncs_topic(mine), [sync(topic, 30), poison, sync(topic, OFFSET)])
    theirs, ours = unique("theirs"), unique("ours")
    for group in (theirs, ours):
        commit(mine.source.bootstrap, group, {(topic, 0): OFFSET})
    before = log_of(mine).count("NullPointerException")
    with (
        stock_checkpointing(mine, exactly(theirs), topics=topic) as stocks,
        checkpointing(mine, exactly(ours), topics=topic, translation_evidence="syncs") as name,
    ):
        wait_checkpoint(mine, ours, topic, OFFSET + SHIFT)
        status = mine.service.status(name)
        assert (status["unreadable_records"][syncs_topic(mine)], status["checkpoints"]) == (1, 1)
        assert mine.service.partition(ours, topic)["evidence"] == "sync"

        def died() -> bool:
            return log_of(mine).count("NullPointerException") > before

        eventually(died, WAIT, what="stock's store has died", watched=mine.watched)
        commit(mine.source.bootstrap, theirs, {(topic, 0): OFFSET + 1})
        stays(
            lambda: not latest(mine.target, mine.source.name, theirs), 3, what="stock emits nothing any more"
        )
        told = mine.worker.rest.wait_running(stocks)
        assert not any(task.get("trace") for task in told["tasks"])


def test_b12_b41_a_new_group_restarts_no_task_and_latencies_are_of_each_group(ground: Ground) -> None:
    """With stock any change of the set of groups makes all tasks anew, and with the new metric names the second group's
    first checkpoint throws where it is acknowledged. (Its MBeans of the old names, B40: tests/integration.)"""
    mine, topic = flow(ground)
    produce(mine.source.bootstrap, syncs_topic(mine), [sync(topic, OFFSET)])
    thrown = "Sensor checkpoint-latency already exists"
    theirs, ours = unique("theirs"), unique("ours")
    for prefix in (theirs, ours):
        for number in (0, 1):
            commit(mine.source.bootstrap, f"{prefix}-{number}", {(topic, 0): OFFSET})
    common = {"topics": topic, "metric_names_formats": "new"}
    with (
        stock_checkpointing(mine, f"{exactly(theirs)}.*", **common) as stocks,
        checkpointing(mine, f"{exactly(ours)}.*", **common) as name,
    ):
        for group in (f"{theirs}-0", f"{theirs}-1", f"{ours}-0", f"{ours}-1"):
            wait_checkpoint(mine, group, topic, OFFSET + SHIFT)
        sessions = mine.service.sessions(name)
        assert assigned(mine, stocks) == {f"{theirs}-0", f"{theirs}-1"}
        for prefix in (theirs, ours):
            commit(mine.source.bootstrap, f"{prefix}-2", {(topic, 0): OFFSET})
            wait_checkpoint(mine, f"{prefix}-2", topic, OFFSET + SHIFT)
        assert len(assigned(mine, stocks)) == 3
        assert mine.service.sessions(name) == sessions
        eventually(lambda: thrown in log_of(mine), WAIT, what="stock's sensor throws", watched=mine.watched)

        def counted() -> None:
            latencies = [mine.service.report(f"{ours}-{n}", name)["checkpoint_latency_ms"] for n in range(3)]
            assert all(each and each["count"] == 1 for each in latencies), latencies

        eventually(counted, WAIT, what="latencies of three groups", watched=mine.watched)


def assigned(mine: Ground, name: str) -> set[str]:
    """The groups in the configurations of stock's tasks: with other ones, they are other tasks."""
    configs = [task["config"] for task in mine.worker.rest.tasks(name)]
    return {group for config in configs for group in config["task.assigned.groups"].split(",")}

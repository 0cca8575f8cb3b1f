"""The readiness topic as a connector reads and writes it, over a cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.state_records.group_record import GroupRecord, GroupRow
from bridge.model.state_records.readiness_records import RecordKey, TaskRecord, encode
from bridge.model.values import TopicPartition
from connectors.cluster_away import ClusterAway
from connectors.group_translation.stored import StoredState
from tests.support.messages import message
from tests.unit.connectors.fake_clusters import FakeCluster, Log
from tests.unit.connectors.group_translation.group_rounds import options

T = TypeVar("T")

TOPIC = "mm2-group-readiness.A.internal"
PLACE = TopicPartition(TOPIC, 0)


def group(offset: int, as_of_ms: int = 1) -> GroupRecord:
    row = GroupRow("orders", 0, offset, "", "A.orders", offset + 7, "exact", 0, standing=offset + 7)
    return GroupRecord(as_of_ms, 0, 1, "EMPTY", None, (row,))


def with_store(target: FakeCluster, work: Callable[[StoredState], Awaitable[T]], **given: str) -> T:
    async def go() -> T:
        store = StoredState("groups", options(**given), target)
        await store.follow()
        return await work(store)

    return asyncio.run(go())


def keys(target: FakeCluster) -> list[tuple[bytes | None, bool]]:
    return [(row.key, row.value is not None) for row in target.logs[PLACE].rows]


def test_what_was_put_is_there_at_once_and_for_whoever_comes_next() -> None:
    target = FakeCluster()

    async def write(store: StoredState) -> None:
        assert store.get(TaskRecord, "0") is None
        await store.put({("group", "g"): group(5), ("group", "h"): group(6)})
        await store.put({("task", "0"): TaskRecord(9, 1, 60_000, "one"), ("group", "h"): None})
        assert store.get(GroupRecord, "g") == group(5)
        assert list(store.all(GroupRecord)) == [("g", group(5))]

    async def read(store: StoredState) -> None:
        assert store.whole
        assert store.get(TaskRecord, "0") == TaskRecord(9, 1, 60_000, "one")
        assert list(store.all(GroupRecord)) == [("g", group(5))]
        assert store.remarks == []

    with_store(target, write)
    with_store(target, read)
    assert target.created == [(TOPIC, -1)]


def test_what_means_the_same_is_not_written_again() -> None:
    target = FakeCluster()

    async def write(store: StoredState) -> None:
        for as_of_ms, offset in ((1, 5), (2, 5), (3, 6), (4, 5)):
            await store.put({("group", "g"): group(offset, as_of_ms)})
        await store.put({("group", "never there"): None})

    with_store(target, write)
    assert len(keys(target)) == 3

    async def once_more(store: StoredState) -> None:
        await store.put({("group", "g"): group(5, 9)})

    with_store(target, once_more)
    assert len(keys(target)) == 3


def test_records_of_others_are_theirs() -> None:
    target = FakeCluster()
    target.compacted(TOPIC)
    target.append_ms = 1_000

    async def work(store: StoredState) -> None:
        other = RecordKey("another", "group", "g").encode()
        task = RecordKey("another", "task", "0").encode()
        await target.append(TOPIC, [(other, encode(group(5)))])
        target.append_ms = 2_000
        await target.append(TOPIC, [(task, b"no matter what")])
        await store.follow()
        assert store.names(GroupRecord) == []
        assert store.silent(2_000) == {}
        assert store.silent(2_001) == {"another": [other, task]}
        await store.drop([other, task])
        await store.follow()
        assert store.silent(9_000) == {}
        assert keys(target)[-2:] == [(other, False), (task, False)]

    with_store(target, work)


def test_a_record_that_cant_be_read_is_counted_and_has_replaced_what_was_there() -> None:
    target = FakeCluster()

    async def work(store: StoredState) -> None:
        await store.put({("group", "g"): group(5), ("group", "h"): group(6)})
        key = RecordKey("groups", "group", "g").encode()
        await target.append(TOPIC, [(key, b"{"), (b"nonsense", b"{}"), (None, b"x")])
        await store.follow()
        at_ms = target.logs[PLACE].rows[2].timestamp
        not_known = GroupRecord(at_ms, 0, 1, "EMPTY", "not_looked_at_yet", ())
        assert store.get(GroupRecord, "g") == not_known, "the group is there all the same"
        assert store.unreadable == {TOPIC: 3}
        await store.put({("group", "g"): group(5)})
        assert store.get(GroupRecord, "g") == group(5)

    with_store(target, work)


def test_a_topic_that_was_deleted_is_made_again() -> None:
    target = FakeCluster()

    async def work(store: StoredState) -> None:
        await store.put({("group", "g"): group(5)})
        await store.follow()
        assert store.lost == 0
        del target.ids[TOPIC], target.logs[PLACE]
        await store.follow()
        assert (store.lost, store.whole, store.names(GroupRecord)) == (1, True, [])
        await store.put({("group", "g"): group(5)})
        assert len(keys(target)) == 1

    with_store(target, work)


@pytest.mark.parametrize("forbidden", ["create", "write", "read", "policy"])
def test_a_missing_right_is_said_with_what_follows_from_it(forbidden: str) -> None:
    target = FakeCluster()
    denied = KafkaFailure(KafkaFault.NOT_AUTHORIZED, f"Not authorized to write to {TOPIC}: grant WRITE on it")
    if forbidden == "create":
        target.create_trouble[TOPIC] = KafkaFailure(KafkaFault.UNKNOWN_TOPIC, f"{TOPIC}: no CREATE")
    elif forbidden == "policy":
        target.topic(TOPIC, Log())
        target.topic_admin.overrides[TOPIC] = {"cleanup.policy": "delete"}
    else:
        target.compacted(TOPIC)
        (target.topic_trouble if forbidden == "read" else target.append_trouble)[TOPIC] = denied

    async def work(store: StoredState) -> None:
        if forbidden == "read":
            assert not store.whole
        else:
            with pytest.raises(KafkaFailure):
                await store.put({("group", "g"): group(5)})
        (remark,) = store.remarks
        assert TOPIC in remark
        if forbidden != "read":
            assert message("groups.knows_none") in remark
        for trouble in (target.create_trouble, target.append_trouble, target.topic_trouble):
            trouble.clear()
        target.topic_admin.overrides[TOPIC] = {"cleanup.policy": "compact"}
        await store.follow()
        await store.put({("group", "g"): group(5)})
        assert store.remarks == []

    with_store(target, work)


def test_a_target_that_does_not_answer_is_away() -> None:
    target = FakeCluster()

    async def work(store: StoredState) -> None:
        await store.put({("group", "g"): group(5)})
        target.away = KafkaFailure(KafkaFault.UNREACHABLE, "gone")
        with pytest.raises(ClusterAway):
            await store.follow()
        with pytest.raises(ClusterAway):
            await store.put({("group", "g"): group(6)})
        assert store.get(GroupRecord, "g") == group(5)
        assert store.remarks == []

    with_store(target, work)

"""Instances that are started while the source is away, and several that share the tasks of a connector: what each knows
is what the readiness topic holds, over clusters in memory."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.state_records.fields import SchemaError
from bridge.model.state_records.readiness_records import RecordKey, TaskRecord, decode_key, encode
from bridge.model.values import Committed, TopicPartition, task_of
from bridge.service.ipc.messages import pack_summary, unpack_summary
from bridge.translation.runs.runs import Segment
from connectors import cluster_away
from connectors.base import PROCESS, Assignment, Missing, Summary
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation import listed_groups, readiness_topic
from tests.support.messages import message
from tests.support.waiting import until
from tests.unit.connectors.copied_orders import COPY, ORIGINAL, RUNS, put_runs
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import WITHOUT_TOPIC, GroupOffsetHarness
from tests.unit.connectors.run_instance import ALONE, NOBODY

TOPIC = "mm2-group-readiness.A.internal"
PLACE = TopicPartition(TOPIC, 0)
UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
AWAY = "source_unreachable"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(readiness_topic, "TASKS_EVERY", 0.0)


def clusters(committed: int = 5, copied: int = 10) -> tuple[FakeCluster, FakeCluster]:
    """Of 20 records some are copied; `g` has read a few."""
    source, target = mirrored(copied)
    source.logs[ORIGINAL].append(20 - copied, first=copied)
    put_runs(target, Segment(0, 0, JUNK, copied))
    source.group("g", {("orders", 0): Committed(committed, "by hand")})
    return source, target


def newest(target: FakeCluster) -> dict[tuple[str, str, str], bytes]:
    collected: dict[tuple[str, str, str], bytes] = {}
    for row in target.logs[PLACE].rows:
        try:
            key = decode_key(row.key)
        except SchemaError:
            continue
        collected.pop(key, None)
        if row.value is not None:
            collected[key] = row.value
    return collected


async def written(target: FakeCluster, *places: tuple[str, str]) -> None:
    """Waits until values stand there."""
    await until(
        lambda: (
            not (PLACE not in target.logs or not {("c", *place) for place in places} <= newest(target).keys())
        )
    )


def play(
    harness: GroupOffsetHarness,
    script: Callable[[GroupOffsetInstance], Awaitable[None]],
    assignment: Assignment = ALONE,
) -> None:
    harness.play(script, assignment)


def first_life(source: FakeCluster, target: FakeCluster, **given: str) -> GroupOffsetHarness:
    """An instance that has looked at everything, and is gone."""
    harness = GroupOffsetHarness(source, target, **given)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await written(target, ("group", "g"), ("task", "0"), ("missing", "orders"))

    play(harness, script)
    return harness


def shown(harness: GroupOffsetHarness) -> tuple[object, ...]:
    report = harness.published.reports["g"]
    (row,) = report.partitions
    return row.committed, row.verdict, row.bound, row.target_offset, row.written, report.ready, report.reason


def test_a_source_that_hangs_does_not_hold_up_what_is_known_from_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listed_groups, "FIRST_LOOK", 0.05)
    source, target = clusters()
    first_life(source, target)

    class Hanging(FakeCluster):
        async def list_groups(self):  # type: ignore[no-untyped-def]
            await asyncio.Event().wait()

    hanging = Hanging()
    hanging.__dict__.update(source.__dict__)
    harness = GroupOffsetHarness(hanging, target)

    async def script(_: GroupOffsetInstance) -> None:
        await until(
            lambda: "g" in harness.published.reports and harness.published.reports["g"].reason == AWAY
        )
        assert shown(harness)[:2] == (5, "exact")

    play(harness, script)


# -- what is written ---------------------------------------------------------------------------------------------------


def test_groups_tasks_and_what_is_missing_are_kept() -> None:
    source, target = clusters()
    began_ms = int(time.time() * 1000)
    first_life(source, target)
    decoded = {place[1:]: json.loads(value) for place, value in newest(target).items()}
    task = decoded["task", "0"]
    assert task["taskCount"] == 1
    assert began_ms <= task["asOfMs"] <= time.time() * 1000
    assert decoded["missing", "orders"]["partitions"][0][:2] == [0, 10]
    (row,) = decoded["group", "g"]["partitions"]
    assert (row["topic"], row["partition"], row["offset"], row["metadata"]) == ("orders", 0, 5, "by hand")
    assert (row["targetTopic"], row["targetOffset"], row["committed"]) == ("A.orders", 5 + JUNK, 5 + JUNK)
    assert (row["verdict"], row["bound"], row["evidence"]) == ("exact", 0, "run")


def test_a_quiet_group_is_written_once_and_a_moved_one_again() -> None:
    source, target = clusters()
    harness = GroupOffsetHarness(source, target)

    def groups() -> int:
        return sum(b'"kind":"group"' in (row.key or b"") for row in target.logs[PLACE].rows)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(5)
        assert groups() == 1
        source.group("g", {("orders", 0): 8})
        await harness.rounds(3)
        assert groups() == 2

    play(harness, script)
    again = GroupOffsetHarness(source, target)

    async def more(_: GroupOffsetInstance) -> None:
        await again.rounds(3)
        assert groups() == 2, "another instance has nothing new"

    play(again, more)


def test_a_group_that_is_gone_is_taken_back_also_by_the_next_instance() -> None:
    source, target = clusters()
    source.group("h", {("orders", 0): 6})
    first_life(source, target)
    assert ("c", "group", "h") in newest(target)
    source.delete_group("h")
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await until(lambda: ("c", "group", "h") not in newest(target))
        assert set(harness.published.reports) == {"g"}
        source.offsets["g"].clear()
        await until(lambda: not (newest(target).keys() & {("c", "group", "g"), ("c", "missing", "orders")}))

    play(harness, script)


def test_a_group_that_is_not_chosen_any_more_is_taken_back() -> None:
    source, target = clusters()
    source.group("h", {("orders", 0): 6})
    first_life(source, target)
    harness = GroupOffsetHarness(source, target, groups="g")

    async def script(_: GroupOffsetInstance) -> None:
        await until(lambda: ("c", "group", "h") not in newest(target))
        assert ("c", "group", "g") in newest(target)
        assert set(harness.published.reports) == {"g"}

    play(harness, script)


def test_records_of_tasks_that_are_no_more_are_taken_back() -> None:
    source, target = clusters()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await written(target, ("task", "0"), ("task", "2"))
        instance.assign(Assignment(2, frozenset({0, 1})))
        await until(lambda: ("c", "task", "2") not in newest(target))
        await written(target, ("task", "0"), ("task", "1"))

    play(harness, script, Assignment(3, frozenset({0, 1, 2})))


def test_records_of_a_connector_that_is_no_more_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = clusters()
    target.compacted(TOPIC)
    keys = [RecordKey("gone", "task", "0").encode(), RecordKey("gone", "group", "g").encode()]
    late = RecordKey("there", "task", "0").encode()
    now_ms = int(time.time() * 1000)
    for age_ms, some in (
        (readiness_topic.SILENT_MS + 1_000, keys),
        (readiness_topic.SILENT_MS - 60_000, [late]),
    ):
        target.append_ms = now_ms - age_ms
        value = encode(TaskRecord(1, 1, 1, "x"))
        asyncio.run(target.append(TOPIC, [(key, value) for key in some]))
    target.append_ms = 0
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(5)
        assert ("gone", "task", "0") in newest(target), "not before rounds have gone well for an hour"
        monkeypatch.setattr(readiness_topic, "SILENT_ROUNDS", 0.0)
        await harness.rounds(3)
        await until(lambda: not (any(place[0] == "gone" for place in newest(target))))
        assert ("there", "task", "0") in newest(target)

    play(harness, script)


@pytest.mark.parametrize("given", [WITHOUT_TOPIC, {"dry.run": "true"}])
def test_it_can_be_switched_off(given: dict[str, str]) -> None:
    source, target = clusters()
    harness = GroupOffsetHarness(source, target, **given)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(3)

    play(harness, script)
    assert TOPIC not in target.ids
    assert not target.calls["append"]


@pytest.mark.parametrize("right", ["create", "write"])
def test_without_the_right_groups_are_synced_and_an_error_says_what_follows(right: str) -> None:
    source, target = clusters()
    if right == "create":
        target.create_trouble[TOPIC] = KafkaFailure(KafkaFault.UNKNOWN_TOPIC, "no")
    else:
        target.compacted(TOPIC)
        denied = f"Not authorized to write to {TOPIC}: grant WRITE on it"
        target.append_trouble[TOPIC] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, denied)
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        summary = await harness.rounds(3)
        (error,) = summary.errors
        assert TOPIC in error
        assert right.upper() in error
        assert message("groups.knows_none") in error
        assert shown(harness) == (5, "exact", 0, 5 + JUNK, 5 + JUNK, True, None)
        target.create_trouble.clear()
        target.append_trouble.clear()
        while (await harness.rounds()).errors:
            pass
        await written(target, ("group", "g"), ("task", "0"))

    play(harness, script)


def test_what_could_not_be_written_is_written_later_and_tasks_come_after_groups() -> None:
    source, target = clusters()
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await written(target, ("task", "0"))
        target.append_trouble[TOPIC] = KafkaFailure(KafkaFault.LEADER_MOVED, "no leader")
        source.group("g", {("orders", 0): 8})
        before = newest(target)["c", "task", "0"]
        await harness.rounds(4)
        assert newest(target)["c", "task", "0"] == before, "its groups are not written yet"
        target.append_trouble.clear()
        await until(lambda: newest(target)["c", "task", "0"] != before)
        assert json.loads(newest(target)["c", "group", "g"])["partitions"][0]["offset"] == 8

    play(harness, script)


def test_what_is_written_by_the_time_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow target takes what it can in each round."""
    monkeypatch.setattr(readiness_topic, "PORTION", 2)
    monkeypatch.setattr(readiness_topic, "WITHIN", 0.05)
    source, target = clusters()
    names = [f"g{number}" for number in range(9)]
    for name in names:
        source.group(name, {("orders", 0): 5})

    class Slow(FakeCluster):
        async def append(self, topic, records):  # type: ignore[no-untyped-def]
            await asyncio.sleep(0.02)
            await super().append(topic, records)

    slow = Slow()
    slow.__dict__.update(target.__dict__)
    harness = GroupOffsetHarness(source, slow)

    async def script(_: GroupOffsetInstance) -> None:
        await written(slow, *(("group", name) for name in names), ("task", "0"))

    play(harness, script)
    keys = [row.key for row in slow.logs[PLACE].rows if b'"kind":"group"' in (row.key or b"")]
    assert len(keys) == len(set(keys)) == 10


def test_a_topic_that_was_deleted_is_filled_again() -> None:
    source, target = clusters()
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await written(target, ("group", "g"), ("task", "0"))
        del target.ids[TOPIC], target.logs[PLACE]
        await written(target, ("group", "g"), ("task", "0"), ("missing", "orders"))

    play(harness, script)


# -- started while the source is away ----------------------------------------------------------------------------------


async def settled(harness: GroupOffsetHarness) -> Summary:
    return await harness.summaries(8)


def test_an_instance_that_starts_without_the_source_knows_what_the_last_one_knew() -> None:
    source, target = clusters()
    before = first_life(source, target)
    source.away = UNREACHABLE
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        summary = await settled(harness)
        assert summary.as_of_ms == json.loads(newest(target)["c", "task", "0"])["asOfMs"]
        assert (summary.tasks, summary.rounds) == ([0], 0)
        assert set(summary.away_since_ms) == {"source"}
        assert shown(harness) == (5, "exact", 0, 5 + JUNK, 5 + JUNK, True, AWAY)
        old, new = before.published.reports["g"], harness.published.reports["g"]
        assert new.partitions[0].model_copy(update={"detail": {}}) == old.partitions[0].model_copy(
            update={"detail": {}}
        )
        for place, missing in before.published.missing.items():
            assert harness.published.missing[place][:2] == missing[:2]
        assert harness.published.missing[ORIGINAL].records == 10

    play(harness, script)


def test_it_goes_on_translating_by_runs() -> None:
    source, target = clusters(committed=15)
    first_life(source, target)
    source.away = UNREACHABLE
    target.logs[COPY].append(10, first=10)
    put_runs(target, Segment(0, 0, JUNK, 20))
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await settled(harness)
        assert shown(harness) == (15, "exact", 0, 15 + JUNK, 15 + JUNK, True, AWAY)
        assert target.offsets["g"][COPY] == Committed(15 + JUNK, "by hand")

    play(harness, script)


def test_where_there_are_no_runs_the_last_verdicts_stand() -> None:
    source, target = clusters(copied=20)
    del target.ids[RUNS], target.logs[TopicPartition(RUNS, 0)]
    first_life(source, target)
    source.away = UNREACHABLE
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        summary = await settled(harness)
        assert summary.tasks == [0]
        assert shown(harness) == (5, "exact", 0, 5 + JUNK, 5 + JUNK, True, AWAY)
        target.away = UNREACHABLE
        summary = await settled(harness)
        assert set(summary.away_since_ms) == {"source", "target"}

    play(harness, script)


def test_without_either_cluster_nothing_is_known_until_one_is_back() -> None:
    source, target = clusters()
    first_life(source, target)
    source.away = target.away = UNREACHABLE
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        summary = await settled(harness)
        assert set(summary.away_since_ms) == {"source", "target"}
        assert summary.tasks == ()
        assert harness.published.reports == {}
        target.away = None
        while not (summary := await harness.summaries(1)).tasks:
            pass
        assert set(summary.away_since_ms) == {"source"}
        assert summary.as_of_ms == json.loads(newest(target)["c", "task", "0"])["asOfMs"]
        assert shown(harness)[-2:] == (True, AWAY)
        source.away = None
        summary = await harness.rounds(1)
        assert summary.away_since_ms == {}
        assert shown(harness)[-2:] == (True, None)

    play(harness, script)


def test_with_the_source_alive_nothing_counts_before_a_round_has_ended() -> None:
    source, target = clusters()
    first_life(source, target)
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        summaries = harness.published.summaries
        assert [each.tasks for each in summaries[:-1]] == [()] * (len(summaries) - 1)

    play(harness, script)


def test_what_the_target_has_higher_because_we_wrote_it_stays_ready() -> None:
    """The last instance had found it by the records; runs alone would say less."""
    source, target = clusters(committed=5, copied=20)
    del target.ids[RUNS], target.logs[TopicPartition(RUNS, 0)]
    first_life(source, target)
    put_runs(target, Segment(0, 0, JUNK, 3))
    source.away = UNREACHABLE
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await settled(harness)
        assert shown(harness)[:5] == (5, "exact", 0, 5 + JUNK, 5 + JUNK)
        assert shown(harness)[-2:] == (True, AWAY)

    play(harness, script)


def test_a_group_that_could_not_be_looked_at_is_not_ready_after_a_restart() -> None:
    source, target = clusters()
    first_life(source, target)
    denied = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "no")
    source.group_trouble["g"] = denied
    harness = GroupOffsetHarness(source, target)

    async def denied_now(_: GroupOffsetInstance) -> None:
        await harness.rounds(3)
        await until(
            lambda: json.loads(newest(target)["c", "group", "g"]).get("reason") == "source_not_authorized"
        )

    play(harness, denied_now)
    assert json.loads(newest(target)["c", "group", "g"])["partitions"][0]["offset"] == 5
    source.away = UNREACHABLE
    again = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await again.summaries(1)
        assert not again.published.reports["g"].ready

    play(again, script)


@pytest.mark.parametrize("count", [1, 3])
def test_a_task_that_nobody_has_looked_at_stays_unknown(count: int) -> None:
    source, target = clusters()
    first_life(source, target)
    source.away = UNREACHABLE
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        summary = await settled(harness)
        assert summary.tasks == ([0] if count == 1 else ())

    play(harness, script, Assignment(count, frozenset(range(count))))


def test_records_that_can_not_be_read_are_left_out_and_counted() -> None:
    source, target = clusters()
    source.group("h", {("orders", 0): 6})
    first_life(source, target)
    key = RecordKey("c", "group", "h").encode()
    asyncio.run(target.append(TOPIC, [(key, b'{"version":1}'), (b"?", b"?")]))
    source.away = UNREACHABLE
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await settled(harness)
        assert (harness.published.reports["g"].ready, harness.published.reports["h"].ready) == (True, False)
        source.away = None
        summary = await harness.rounds(2)
        assert summary.unreadable_records[TOPIC] == 2

    play(harness, script)


# -- several services --------------------------------------------------------------------------------------------------


class Pair:
    """Two instances with a task each."""

    def __init__(self, source: FakeCluster, target: FakeCluster) -> None:
        self.stands = [GroupOffsetHarness(source, target), GroupOffsetHarness(source, target)]

    def play(
        self, script: Callable[[list[GroupOffsetInstance]], Awaitable[None]], *, both: bool = True
    ) -> None:
        async def go() -> None:
            made = [
                GroupOffsetInstance("c", each.options, each.clusters, {}, each.published)
                for each in self.stands
            ]
            for task, instance in enumerate(made):
                instance.assign(Assignment(2, frozenset({task})))
            running = [asyncio.create_task(each.run()) for each in (made if both else made[:1])]
            try:
                await asyncio.wait_for(script(made), 60)
            finally:
                for each in running:
                    each.cancel()
                await asyncio.gather(*running, return_exceptions=True)

        asyncio.run(go())


def many() -> tuple[FakeCluster, FakeCluster]:
    source, target = clusters(copied=20)
    for number in range(12):
        source.group(f"g{number}", {("orders", 0): number})
    return source, target


def test_each_instance_knows_the_groups_of_both() -> None:
    began = int(time.monotonic() * 1000), int(time.time() * 1000)
    source, target = many()
    pair = Pair(source, target)
    one, two = pair.stands

    def same() -> bool:
        left, right = one.published.reports, two.published.reports
        return left.keys() == right.keys() == source.offsets.keys() and all(
            left[name].model_copy(update={"synced_at_ms": 0})
            == right[name].model_copy(update={"synced_at_ms": 0})
            for name in left
        )

    async def script(_: list[GroupOffsetInstance]) -> None:
        await until(same)
        for harness, other in ((one, 1), (two, 0)):
            await until(
                partial(lambda one, task: task in one.published.summaries[-1].other_tasks, harness, other)
            )
            summary = harness.published.summaries[-1]
            assert list(summary.tasks) == [1 - other]
            as_of_ms, interval_ms, seen_ms = summary.other_tasks[other]
            assert began[0] <= seen_ms <= time.monotonic() * 1000
            assert began[1] <= as_of_ms <= time.time() * 1000
            assert interval_ms >= 20
            assert set(summary.other_tasks) == {other}
        moved = next(name for name in source.offsets if task_of(name, 2) == 1)
        source.group(moved, {("orders", 0): 13})
        await until(lambda: one.published.reports[moved].partitions[0].committed == 13)
        source.offsets[moved].clear()
        await until(lambda: moved not in one.published.reports and moved not in two.published.reports)

    pair.play(script)


def test_own_records_are_nobody_elses() -> None:
    """A task that has stopped here is not taken for one that runs elsewhere."""
    source, target = many()
    pair = Pair(source, target)
    (one, _) = pair.stands

    async def script(made: list[GroupOffsetInstance]) -> None:
        made[0].assign(Assignment(2, frozenset({0, 1})))
        await written(target, ("task", "0"), ("task", "1"))
        made[0].assign(Assignment(2, frozenset({0})))
        await one.rounds(4)
        assert one.published.summaries[-1].other_tasks == {}
        assert one.published.reports.keys() == source.offsets.keys()

    pair.play(script, both=False)


def test_an_instance_without_tasks_follows_the_one_that_has_them() -> None:
    """After workers were rolled all tasks are on the other service, and fewer than this one has known."""
    source, target = many()
    pair = Pair(source, target)
    one, _ = pair.stands

    async def script(made: list[GroupOffsetInstance]) -> None:
        made[0].assign(Assignment(3, frozenset()))
        made[1].assign(Assignment(2, frozenset({0, 1})))
        await until(
            lambda: bool(one.published.summaries) and set(one.published.summaries[-1].other_tasks) == {0, 1}
        )
        await until(lambda: one.published.reports.keys() == source.offsets.keys())
        await until(lambda: one.published.summaries[-1].rounds > 0)
        summary = one.published.summaries[-1]
        assert summary.task_count == 2
        assert summary.tasks == []
        assert {report.task for report in one.published.reports.values()} == {0, 1}
        source.away = UNREACHABLE
        await until(lambda: "source" in one.published.summaries[-1].away_since_ms)
        source.away = None
        await until(lambda: not one.published.summaries[-1].away_since_ms)
        writers = {json.loads(value)["writer"] for key, value in newest(target).items() if key[1] == "task"}
        assert len(writers) == 1, "it writes nothing itself"

    pair.play(script)


def test_a_connector_that_copies_on_another_service_is_told_until_it_is_told_no_more() -> None:
    source, target = clusters()
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await written(target, ("task", "0"))
        at_ms = int(time.time() * 1000)
        for connector, writer in (("copy", "another"), ("own", PROCESS)):
            key = RecordKey(connector, "task", "0").encode()
            await target.append(TOPIC, [(key, encode(TaskRecord(at_ms, 1, 5_000, writer)))])
        await until(lambda: "copy" in harness.published.summaries[-1].other_connectors)
        summary = harness.published.summaries[-1]
        assert set(summary.other_connectors) == {"copy"}
        assert summary.other_connectors["copy"][:2] == (at_ms, 5_000)
        assert unpack_summary(pack_summary("c", 1, summary))[2].other_connectors == summary.other_connectors

    play(harness, script)


def test_an_instance_that_is_paused_alone_asks_the_source_nothing() -> None:
    source, target = clusters()
    first_life(source, target)
    target.offsets.clear()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        instance.assign(NOBODY)
        await asyncio.sleep(0.1)
        before = dict(source.calls)
        await asyncio.sleep(0.2)
        assert dict(source.calls) == before
        assert harness.published.summaries[-1].other_tasks == {}

    play(harness, script)


def test_a_task_that_moves_here_while_the_source_is_away_is_known() -> None:
    source, target = many()
    pair = Pair(source, target)
    one, _ = pair.stands

    async def script(made: list[GroupOffsetInstance]) -> None:
        await until(lambda: bool(one.published.summaries and one.published.summaries[-1].other_tasks))
        source.away = UNREACHABLE
        await one.summaries(4)
        made[1].assign(Assignment(2, frozenset()))
        made[0].assign(Assignment(2, frozenset({0, 1})))
        await until(lambda: one.published.summaries[-1].tasks == [0, 1])
        assert one.published.reports.keys() == source.offsets.keys()
        assert all(report.ready for report in one.published.reports.values())

    pair.play(script)


def test_what_is_missing_of_partitions_that_others_look_at_is_told() -> None:
    source, target = clusters(copied=20)
    source.topic("bills", Log())
    target.topic("A.bills", Log())
    source.logs[TopicPartition("bills", 0)].append(4)
    put_runs(target, Segment(0, 0, JUNK, 20))
    names = {task: next(f"x{n}" for n in range(99) if task_of(f"x{n}", 2) == task) for task in (0, 1)}
    source.delete_group("g")
    source.group(names[0], {("orders", 0): 3})
    source.group(names[1], {("bills", 0): 0})
    pair = Pair(source, target)
    one, two = pair.stands

    def counted(stand: GroupOffsetHarness) -> dict[TopicPartition, tuple[int, int]]:
        """Without since when nothing is copied: that only who looks at them tells, from its second round on."""
        return {tp: (each.records, each.since_ms) for tp, each in stand.published.missing.items()}

    async def script(_: list[GroupOffsetInstance]) -> None:
        places = {ORIGINAL, TopicPartition("bills", 0)}
        await until(lambda: counted(one) == counted(two) and counted(one).keys() == places)
        assert counted(one)[ORIGINAL] == (0, -1)

    pair.play(script)


def test_what_is_missing_is_known_all_the_time_while_a_task_goes_to_another_instance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = many()
    pair = Pair(source, target)
    one, two = pair.stands
    known: list[bool] = []
    publish = one.published.backlog

    def noted(changed: Mapping[TopicPartition, Missing | None]) -> None:
        publish(changed)
        known.append(ORIGINAL in one.published.missing)

    async def script(made: list[GroupOffsetInstance]) -> None:
        await until(lambda: ORIGINAL in one.published.missing and ORIGINAL in two.published.missing)
        monkeypatch.setattr(one.published, "backlog", noted)
        made[0].assign(Assignment(2, frozenset()))
        made[1].assign(Assignment(2, frozenset({0, 1})))
        await until(lambda: one.published.summaries[-1].tasks == [])
        await one.rounds(3)
        assert known
        assert all(known)

    pair.play(script)

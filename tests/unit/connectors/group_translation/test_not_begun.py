"""What a group would miss of partitions in which it has committed nothing: it reads them from the log's start."""

from __future__ import annotations

import json

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.copying import Copied
from bridge.model.state_records.group_record import GroupRecord
from bridge.model.state_records.readiness_records import RecordKey
from bridge.model.values import GroupState, TopicPartition
from bridge.service.ipc.messages import lacking
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import Segment
from connectors import cluster_away
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation.records import record_of, report_of
from tests.support.waiting import until
from tests.unit.connectors.checkpoint.checkpoint_harness import put
from tests.unit.connectors.copied_orders import ORIGINAL, RUNS, gone
from tests.unit.connectors.fake_clusters import Log, Row
from tests.unit.connectors.group_offset.group_offset_harness import GroupOffsetHarness
from tests.unit.connectors.group_translation.mirrored_topic import COPY, Flow


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)


@pytest.fixture(params=[True, False], ids=["ours", "stock"])
def flow(request: pytest.FixtureRequest) -> Flow:
    made = Flow(ours=request.param)
    made.begin_beside("g")
    return made


def lacks(flow: Flow, group: str = "g") -> list[tuple[str, int, int | None]]:
    """What the answer names; the group is ready with it."""
    report = flow.report(group)
    assert report.ready
    assert lacking(report) == tuple(
        (each.topic, each.partition, each.not_on_target) for each in report.not_begun
    )
    return [(each.topic, each.partition, each.not_on_target) for each in report.not_begun]


def test_copying_began_behind_what_was_there(flow: Flow) -> None:
    flow.produce(100)
    flow.begin_at(100)
    flow.produce(20)
    flow.copy(20)
    assert lacks(flow) == [("orders", 0, 100)]
    assert flow.behind[ORIGINAL] == (120, 120)
    flow.expire(flow.origin, 60)
    assert lacks(flow) == [("orders", 0, 40)], "the source has the others no more"
    flow.expire(flow.origin, 100)
    assert lacks(flow) == []


def test_the_target_has_deleted_some(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    assert lacks(flow) == []
    flow.expire(flow.copies, 50)
    assert lacks(flow) == [("orders", 0, 50)]
    flow.expire(flow.origin, 50)
    assert lacks(flow) == []


def test_an_operator_has_skipped_some() -> None:
    flow = Flow()
    flow.begin_beside("g")
    flow.produce(100)
    flow.copy(40)
    flow.reset(90)
    flow.copy(10)
    assert lacks(flow) == [("orders", 0, 50)]


def test_what_is_yet_to_be_copied_counts_once(flow: Flow) -> None:
    flow.produce(100)
    assert lacks(flow) == []
    assert flow.behind[ORIGINAL] == (100, 0)
    flow.copy(60)
    assert lacks(flow) == []
    assert flow.behind[ORIGINAL] == (100, 60)
    flow.expire(flow.copies, 20)
    assert lacks(flow) == [("orders", 0, 20)]
    assert flow.behind[ORIGINAL] == (100, 60)


def test_the_copy_was_deleted_and_goes_on_where_it_was() -> None:
    flow = Flow()
    flow.begin_beside("g")
    flow.produce(100)
    flow.copy(60)
    flow.make_copy()
    assert lacks(flow) == []
    assert flow.behind[ORIGINAL] == (100, 0)
    flow.begin_at(60)
    assert lacks(flow) == [("orders", 0, 60)]
    assert flow.behind[ORIGINAL] == (100, 60)


def test_groups_that_have_begun_are_asked_of_no_more_than_before() -> None:
    flow = Flow()
    flow.produce(100)
    flow.begin_at(50)
    flow.copy(50)
    flow.begin_beside("g")
    flow.begin_beside("h", {("orders", 0): 100, ("orders", 1): 0})
    flow.begin_beside("i", {("orders", 0): 30, ("orders", 1): 0})
    flow.begin_beside("j", {("orders", 0): 100})
    assert flow.report("h").not_begun == flow.report("j").not_begun == []
    assert [each.not_on_target for each in flow.report("g").not_begun] == [50]
    row = flow.report("i").partitions[0]
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 20)


def test_where_nothing_is_missing_the_logs_are_compared_with_the_runs_once() -> None:
    flow = Flow()
    flow.produce(100)
    flow.copy(100)
    flow.begin_beside("g")
    assert lacks(flow) == []
    flow.a.asked.clear()
    flow.b.asked.clear()
    flow.produce(10)
    flow.copy(10)
    assert lacks(flow) == []
    assert ORIGINAL not in {place for place, _ in flow.a.asked}
    assert COPY not in {place for place, _ in flow.b.asked}


def test_records_of_another_mirror_are_looked_at_once() -> None:
    flow = Flow(ours=False)
    flow.produce(100)
    flow.copy(100)
    flow.begin_beside("g")
    for _ in range(2):
        assert lacks(flow) == []
    for cluster in (flow.a, flow.b):
        cluster.asked.clear()
    assert lacks(flow) == []
    assert not {ORIGINAL, COPY} & {place for place, _ in (*flow.a.asked, *flow.b.asked)}


def test_what_is_not_known_is_named_as_that(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.a.bounds_trouble[ORIGINAL] = KafkaFailure(KafkaFault.UNREACHABLE, "no leader")
    assert lacks(flow) == [("orders", 0, None)]
    assert flow.behind[ORIGINAL] == (0, None)


def test_a_partition_that_the_target_does_not_have_is_not_known(flow: Flow) -> None:
    new = TopicPartition("orders", 2)
    flow.a.logs[new] = Log(epoch=1)
    flow.a.logs[new].append(10, first=0)
    assert lacks(flow) == [("orders", 2, None)]
    assert flow.behind[new] == (0, None)
    away = flow.report("g", source_away=True)
    assert [(each.partition, each.not_on_target) for each in away.not_begun] == [(2, None)]


def test_it_stays_known_while_the_source_is_away_and_after_a_restart() -> None:
    flow = Flow()
    flow.begin_beside("g")
    flow.produce(100)
    flow.begin_at(70)
    flow.copy(30)
    before = flow.report("g")
    plan = flow.plan("g")
    record = record_of(plan, 0, 0, 1, GroupState.EMPTY.value)
    stored = json.loads(json.dumps(record.fields()))
    for read in (GroupRecord.read, GroupRecord.trusted):
        assert read(stored) == record
    assert (
        GroupRecord.read({name: each for name, each in stored.items() if name != "notBegun"}).not_begun == ()
    )
    again = report_of(record, "g", connector="c", source="A", target="B", task=0, reason=None)
    assert again.not_begun == before.not_begun
    assert [each.not_on_target for each in again.not_begun] == [70]
    assert flow.plan("g", source_away=True).not_begun == plan.not_begun


def test_what_the_target_loses_while_the_source_is_away_is_added() -> None:
    flow = Flow()
    flow.begin_beside("g")
    flow.produce(100)
    flow.begin_at(50)
    flow.copy(50)
    flow.expire(flow.copies, 10)
    assert lacks(flow) == [("orders", 0, 60)]

    def named() -> list[int | None]:
        return [each.not_on_target for each in flow.report("g", source_away=True).not_begun]

    assert named() == [60]
    flow.expire(flow.copies, 35)
    assert named() == [85]
    assert named() == [85]
    flow.make_copy()
    assert named() == [None]


def test_an_idle_group_keeps_it_while_the_source_is_away_and_in_a_service_that_begins_then() -> None:
    flow = Flow()
    flow.begin_beside("g")
    flow.produce(100)
    flow.begin_at(70)
    flow.copy(30)
    first = GroupOffsetHarness(flow.a, flow.b)

    async def until_away(_: GroupOffsetInstance) -> None:
        await first.rounds(2)
        await until(lambda: any(b"notBegun" in (row.value or b"") for row in readiness(flow)))
        before = first.published.reports["g"]
        assert (before.ready, [each.not_on_target for each in before.not_begun]) == (True, [70])
        await gone(first)
        after = first.published.reports["g"]
        assert (after.ready, after.not_begun) == (True, before.not_begun)

    first.play(until_away)
    second = GroupOffsetHarness(flow.a, flow.b)

    async def alone(_: GroupOffsetInstance) -> None:
        await second.summaries(3)
        report = second.published.reports["g"]
        assert (report.ready, report.reason) == (True, "source_unreachable")
        assert [each.not_on_target for each in report.not_begun] == [70]

    second.play(alone)


@pytest.mark.parametrize("before", [0, 10])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("begun_by_runs", [False, True])
def test_what_the_target_loses_then_is_added_by_a_service_that_begins_then_too(
    before: int, restarted: bool, begun_by_runs: bool
) -> None:
    """Of a group of which nothing is translated without the source, and of one that runs still tell of."""
    flow = Flow()
    flow.begin_beside("g")
    flow.produce(100)
    flow.copy(100)
    flow.expire(flow.copies, before)
    if begun_by_runs:
        copy_beside(flow)
    service = GroupOffsetHarness(flow.a, flow.b)

    def named() -> list[int | None]:
        return [each.not_on_target for each in service.published.reports["g"].not_begun]

    async def until_away(_: GroupOffsetInstance) -> None:
        await service.rounds(3)
        await until(lambda: any(b"notBegun" in (row.value or b"") for row in readiness(flow)))
        assert named() == ([before] if before else [])
        await gone(service)
        if not restarted:
            await lose(service)

    async def lose(service: GroupOffsetHarness) -> None:
        assert named() == ([before] if before else [])
        flow.expire(flow.copies, 35)
        await until(lambda: named() == [35])
        assert service.published.reports["g"].ready

    service.play(until_away)
    if restarted:
        service = GroupOffsetHarness(flow.a, flow.b)

        async def begun(_: GroupOffsetInstance) -> None:
            await service.summaries(3)
            await lose(service)

        service.play(begun)


def copy_beside(flow: Flow) -> None:
    """Copies a record of the other partition, which the group has read."""
    original, copy = TopicPartition("orders", 1), TopicPartition("A.orders", 1)
    for place, cluster in ((original, flow.a), (copy, flow.b)):
        cluster.logs[place].append(1)
    copied = Copied(original, "id-of-orders", "A.orders", f"copy-{flow.made}")
    for key, value in PartitionRuns().commit([Segment(0, 0, 0, 1, last_timestamp=1000)], 1, copied):
        put(flow.b, RUNS, key, value)
    flow.a.group("g", {("orders", 1): 1})


def test_a_group_that_can_not_be_read_keeps_it_in_the_topic() -> None:
    flow = Flow()
    flow.begin_beside("g")
    flow.produce(100)
    flow.begin_at(70)
    flow.copy(30)
    harness = GroupOffsetHarness(flow.a, flow.b)

    async def script(_: GroupOffsetInstance) -> None:
        await until(lambda: any(b"notBegun" in (row.value or b"") for row in readiness(flow)))
        flow.a.group_trouble["g"] = KafkaFailure(KafkaFault.OTHER, "not now")
        await until(lambda: b'"reason"' in (readiness(flow)[-1].value or b""))
        assert b'"notOnTarget":70' in (readiness(flow)[-1].value or b"")

    harness.play(script)


def readiness(flow: Flow) -> list[Row]:
    """The records of group `g` in the readiness topic."""
    log = flow.b.logs.get(TopicPartition("mm2-group-readiness.A.internal", 0), Log())
    return [row for row in log.rows if row.key == RecordKey("c", "group", "g").encode()]

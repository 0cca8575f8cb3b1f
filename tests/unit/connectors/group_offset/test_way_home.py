"""MirrorGroupOffsetConnector there and back, over clusters in memory: groups that consumers have moved on the target
come home, and nothing that the mirror itself has committed there ever does."""

from __future__ import annotations

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.mm2.records import Checkpoint
from bridge.model.state_records.fields import Value
from bridge.model.state_records.group_record import Furthest, FurthestRecord
from bridge.model.state_records.move_record import MOVED, MoveRecord, MoveRow
from bridge.model.state_records.readiness_records import RecordKey, TaskRecord, decode, encode
from bridge.model.values import GroupListing, GroupState, TopicPartition
from connectors import cluster_away
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation import readiness_topic, stored
from tests.support.messages import message
from tests.support.waiting import until
from tests.unit.connectors.checkpoint.checkpoint_harness import CheckpointHarness, put
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import WITHOUT_TOPIC, GroupOffsetHarness
from tests.unit.connectors.run_instance import Published

TOPIC, CHECKPOINTS = "mm2-group-readiness.A.internal", "A.checkpoints.internal"
ORIGINAL, COPY = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(readiness_topic, "TASKS_EVERY", 0.0)


def there(a: FakeCluster, b: FakeCluster, rounds: int = 2, /, **given: str) -> Published:
    return _lives(GroupOffsetHarness(a, b, **given), rounds)


def back(a: FakeCluster, b: FakeCluster, rounds: int = 2, /, **given: str) -> Published:
    flow = {"source_cluster_alias": "B", "target_cluster_alias": "A", "reverse_checkpointing_enabled": "true"}
    return _lives(GroupOffsetHarness(b, a, **(flow | given)), rounds)


def _lives(harness: GroupOffsetHarness, rounds: int) -> Published:
    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(rounds)

    harness.play(script)
    return harness.published


def home(a: FakeCluster, group: str = "g") -> int:
    return a.offsets[group][ORIGINAL].offset


def beyond(b: FakeCluster, group: str = "g") -> int:
    return b.offsets[group][COPY].offset


def held(published: Published, group: str = "g") -> str | None:
    (row,) = published.reports[group].partitions
    return row.reason


def record(b: FakeCluster, value: Value, group: str = "g", connector: str = "other") -> None:
    put(b, TOPIC, RecordKey(connector, value.kind, group).encode(), encode(value))


def records(b: FakeCluster) -> list[FurthestRecord | None]:
    """Of all connectors, in the log's order; None takes one back."""
    collected: list[FurthestRecord | None] = []
    for row in b.logs[TopicPartition(TOPIC, 0)].rows:
        key, value = decode(row.key, row.value)
        if key.kind == FurthestRecord.kind:
            assert value is None or isinstance(value, FurthestRecord)
            collected.append(value)
    return collected


# -- there and back ----------------------------------------------------------------------------------------------------


def test_a_group_that_consumers_have_moved_comes_home_and_goes_on() -> None:
    a, b = mirrored()
    a.group("g", {("orders", 0): 5})
    there(a, b)
    assert (home(a), beyond(b)) == (5, 5 + JUNK)
    assert held(back(a, b)) == "moved_by_mirror"
    assert a.altered == []
    b.group("g", {("A.orders", 0): 12 + JUNK})
    back(a, b)
    assert (home(a), beyond(b)) == (12, 12 + JUNK)
    a.group("g", {("orders", 0): 17})
    there(a, b)
    assert held(back(a, b)) == "moved_by_mirror"
    assert (home(a), beyond(b)) == (17, 17 + JUNK)


def test_a_partition_that_nobody_reads_holds_up_no_group_that_goes_there_and_back() -> None:
    """Both flows bring home the groups of the other side."""
    a, b = mirrored(partitions=2)
    a.group("g", {("orders", 0): 5, ("orders", 1): 3})
    given: dict[str, str] = {}
    for number in (5, 8, 11):
        assert there(a, b, **given).reports["g"].ready, number
        given = {"reverse_checkpointing_enabled": "true"}
        b.group("g", {("A.orders", 0): number + 1 + JUNK, ("A.orders", 1): 3 + JUNK})
        assert back(a, b).reports["g"].ready, number
        a.group("g", {("orders", 0): number + 2, ("orders", 1): 3})


def late() -> tuple[FakeCluster, FakeCluster]:
    """The mirror has begun at record 10: a group that has still to read earlier ones begins there on B."""
    a, b = FakeCluster(), FakeCluster()
    original, copy = Log(epoch=3), Log(epoch=5)
    original.append(20)
    copy.append(10, first=10)
    a.topic("orders", original)
    b.topic("A.orders", copy)
    a.group("g", {("orders", 0): 5})
    return a, b


def test_what_the_mirror_began_behind_is_not_skipped_at_home() -> None:
    a, b = late()
    there(a, b)
    assert beyond(b) == 0
    assert held(back(a, b)) == "moved_by_mirror"
    assert home(a) == 5


def test_what_a_killed_mirror_has_committed_is_known_all_the_same() -> None:
    """The furthest offset is in the topic before it is committed."""
    a, b = late()
    seen: list[list[FurthestRecord | None]] = []

    def before(call: str) -> None:
        if call == "alter":
            seen.append(records(b))

    b.before = before
    there(a, b)
    assert [record and record.rows for record in seen[0]] == [{COPY: Furthest(5, 0, 0)}]


def test_an_operators_reset_is_not_undone() -> None:
    a, b = mirrored()
    a.group("g", {("orders", 0): 5})
    there(a, b)
    b.group("g", {("A.orders", 0): 12 + JUNK})
    back(a, b)
    there(a, b)  # it stands at 12 on both sides now, and the flow there knows it
    a.group("g", {("orders", 0): 2})
    there(a, b)
    assert held(back(a, b)) == "moved_by_mirror"
    assert (home(a), beyond(b)) == (2, 12 + JUNK)


def test_a_group_that_was_set_back_is_not_at_home_where_it_stands_ahead() -> None:
    """It came home, and an operator has reset it on A: a consumer on B would skip what it is to read again."""
    a, b = mirrored()
    both_ways = {"reverse_checkpointing_enabled": "true"}
    a.group("g", {("orders", 0): 5})
    there(a, b)
    assert back(a, b).reports["g"].reason == "at_home"
    b.group("g", {("A.orders", 0): 12 + JUNK})
    back(a, b)
    assert there(a, b, **both_ways).reports["g"].reason == "at_home", "it stands at 12 on both sides"
    a.group("g", {("orders", 0): 7})
    report = there(a, b, **both_ways).reports["g"]
    assert report.reason == "moved_by_mirror"
    assert "before 12, where the flow B to A has put it" in str(report.partitions[0].detail["said"])


def test_partitions_without_an_offset_at_home_get_that_of_the_consumers() -> None:
    a, b = mirrored(partitions=2)
    a.group("g", {("orders", 0): 5})
    there(a, b)
    b.group("g", {("A.orders", 0): 5 + JUNK, ("A.orders", 1): 3 + JUNK})
    back(a, b)
    assert {place.partition: at.offset for place, at in a.offsets["g"].items()} == {0: 5, 1: 3}


def test_a_partition_that_nobody_reads_any_more_holds_up_no_later_failover() -> None:
    a, b = mirrored(partitions=2)
    both_ways = {"reverse_checkpointing_enabled": "true"}
    a.group("g", {("orders", 0): 5, ("orders", 1): 5})
    there(a, b)
    b.group("g", {("A.orders", 0): 12 + JUNK, ("A.orders", 1): 5 + JUNK})
    assert back(a, b).reports["g"].ready
    a.group("g", {("orders", 0): 17, ("orders", 1): 5})
    published = there(a, b, **both_ways)
    assert published.reports["g"].ready
    stands = {place.partition: at.offset for place, at in b.offsets["g"].items()}
    assert stands == {0: 17 + JUNK, 1: 5 + JUNK}


def test_a_group_at_home_is_named_where_the_other_side_has_lost_what_it_has_not_read() -> None:
    a, b = mirrored()
    both_ways = {"reverse_checkpointing_enabled": "true"}
    a.group("g", {("orders", 0): 5})
    there(a, b)
    b.group("g", {("A.orders", 0): 12 + JUNK})
    back(a, b)
    assert there(a, b, **both_ways).reports["g"].reason == "at_home"
    copy = b.logs[COPY]
    copy.start = 15 + JUNK
    copy.rows = [row for row in copy.rows if row.offset >= copy.start]
    (row,) = there(a, b, **both_ways).reports["g"].partitions
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 3)


@pytest.mark.parametrize(
    ("at_home", "verdict", "bound"), [(3, "bounded", 2), (5, "exact", 0), (7, None, None)]
)
def test_of_a_partition_that_stays_it_counts_where_it_stands_on_the_other_side(
    at_home: int, verdict: str | None, bound: int | None
) -> None:
    """Lower, it is read twice from there; ahead, it is not known to be what the group has read."""
    a, b = mirrored(partitions=2)
    a.group("g", {("orders", 0): 5, ("orders", 1): 5})
    there(a, b)
    b.group("g", {("A.orders", 0): 12 + JUNK, ("A.orders", 1): 5 + JUNK})
    a.group("g", {("orders", 0): 5, ("orders", 1): at_home})
    _, row = back(a, b).reports["g"].partitions
    assert (row.verdict, row.bound) == (verdict or "pending", bound)
    assert {place.partition: at.offset for place, at in a.offsets["g"].items()} == {0: 12, 1: at_home}


# -- both flows from the start -----------------------------------------------------------------------------------------

BOTH_WAYS = {"reverse_checkpointing_enabled": "true"}


def test_flows_that_both_bring_groups_home_begin_without_a_trace_of_each_other() -> None:
    a, b = mirrored()
    a.group("g", {("orders", 0): 5})
    assert there(a, b, **BOTH_WAYS).reports["g"].ready
    assert beyond(b) == 5 + JUNK
    assert back(a, b).reports["g"].reason == "at_home"
    b.group("g", {("A.orders", 0): 12 + JUNK})
    assert back(a, b).reports["g"].ready
    assert there(a, b, **BOTH_WAYS).reports["g"].reason == "at_home"
    a.group("g", {("orders", 0): 17})
    assert there(a, b, **BOTH_WAYS).reports["g"].ready
    assert (home(a), beyond(b)) == (17, 17 + JUNK)


def test_a_group_that_began_on_the_copy_comes_home_once_the_flow_there_has_told_of_all_it_commits() -> None:
    a, b = mirrored()
    b.group("g", {("A.orders", 0): 5 + JUNK})
    assert held(back(a, b)) == "moved_by_mirror"
    there(a, b, **BOTH_WAYS)
    assert back(a, b).reports["g"].ready
    assert home(a) == 5


def test_of_several_tasks_there_all_have_to_have_told() -> None:
    a, b = mirrored()
    b.group("g", {("A.orders", 0): 5 + JUNK})
    for task in ("0", "1"):
        assert held(back(a, b)) == "moved_by_mirror", task
        record(b, TaskRecord(1, 2, 1, "other", groups=True), task)
    back(a, b)
    assert home(a) == 5


def test_a_connector_that_copies_there_tells_nothing_of_groups() -> None:
    a, b = mirrored()
    b.group("g", {("A.orders", 0): 5 + JUNK})
    record(b, TaskRecord(1, 1, 1, "other"), "0")
    assert held(back(a, b)) == "moved_by_mirror"


def test_what_the_flow_there_commits_while_a_round_reads_is_not_taken_for_a_consumers() -> None:
    a, b = late()
    there(a, b)  # and it has told of all that it commits
    a.group("new", {("orders", 0): 5})
    b.listed["new"] = GroupListing("new", GroupState.EMPTY, "classic", "consumer")

    def before(call: str) -> None:
        if call == "committed" and "new" not in b.offsets:
            record(b, FurthestRecord(1, {COPY: Furthest(5, 0, 0)}), "new")
            b.group("new", {("A.orders", 0): 0})

    b.before = before
    assert held(back(a, b), "new") == "moved_by_mirror"
    assert a.altered == [], "it is yet to read on A what is not on B"


# -- who tells what the mirror has committed ---------------------------------------------------------------------------


def test_a_group_that_nothing_is_known_of_stays() -> None:
    a, b = mirrored()
    a.group("g", {("orders", 0): 5})
    there(a, b, **WITHOUT_TOPIC)
    b.group("g", {("A.orders", 0): 12 + JUNK})
    published = back(a, b)
    (row,) = published.reports["g"].partitions
    assert (row.reason, home(a)) == ("moved_by_mirror", 5)
    assert row.detail["said"] == message("groups.no_checkpoint", source="A", target="B")


def test_stocks_checkpoints_tell_it_too() -> None:
    a, b = mirrored()
    checkpoint = Checkpoint("g", COPY, 5, 5 + JUNK, "")
    put(b, CHECKPOINTS, checkpoint.key(), checkpoint.value())
    b.group("g", {("A.orders", 0): 5 + JUNK})
    assert held(back(a, b)) == "moved_by_mirror"
    b.group("g", {("A.orders", 0): 6 + JUNK})
    back(a, b)
    assert home(a) == 6


def test_moves_of_before_tell_it_until_the_flow_there_does() -> None:
    a, b = mirrored()
    row = MoveRow("orders", 0, 5, "A.orders", 5 + JUNK)
    record(b, MoveRecord(MOVED, 1, 1, False, None, (row,)))
    b.group("g", {("A.orders", 0): 5 + JUNK})
    assert held(back(a, b)) == "moved_by_mirror"
    # The topic was cut back since.
    record(b, FurthestRecord(1, {COPY: Furthest(9, JUNK, JUNK)}))
    back(a, b)
    assert home(a) == 5


def test_the_furthest_of_several_connectors_counts_and_what_is_taken_back_does_not() -> None:
    a, b = mirrored()
    record(b, FurthestRecord(1, {COPY: Furthest(5, 5 + JUNK, 5 + JUNK)}), connector="one")
    record(b, FurthestRecord(1, {COPY: Furthest(9, 9 + JUNK, 9 + JUNK)}), connector="two")
    b.group("g", {("A.orders", 0): 8 + JUNK})
    assert held(back(a, b)) == "moved_by_mirror"
    put(b, TOPIC, RecordKey("two", "furthest", "g").encode(), None)
    back(a, b)
    assert home(a) == 8
    put(b, TOPIC, RecordKey("one", "furthest", "g").encode(), None)
    b.group("g", {("A.orders", 0): 9 + JUNK})
    assert held(back(a, b)) == "moved_by_mirror", "nobody tells anything of it any more"


def test_a_record_that_nobody_can_have_written_holds_no_group() -> None:
    a, b = mirrored()
    record(b, FurthestRecord(1, {COPY: Furthest(5, 10**15, 10**15)}))
    put(b, TOPIC, b"garbage", None)
    b.group("g", {("A.orders", 0): 8 + JUNK})
    published = back(a, b)
    assert home(a) == 8
    assert published.summaries[-1].unreadable_records[TOPIC] == 1


def test_a_record_that_can_not_be_decoded_holds_its_group_until_the_next_one() -> None:
    """It may have said that the mirror has committed more than the one before does."""
    a, b = mirrored()
    record(b, FurthestRecord(1, {COPY: Furthest(5, 5 + JUNK, 5 + JUNK)}))
    put(b, TOPIC, RecordKey("other", "furthest", "g").encode(), b"garbage")
    b.group("g", {("A.orders", 0): 9 + JUNK})
    published = back(a, b)
    assert held(published) == "moved_by_mirror"
    (row,) = published.reports["g"].partitions
    assert "furthest record of connector other" in str(row.detail)
    assert published.summaries[-1].unreadable_records[TOPIC] == 1
    record(b, FurthestRecord(1, {COPY: Furthest(5, 5 + JUNK, 5 + JUNK)}))
    back(a, b)
    assert home(a) == 9


@pytest.mark.parametrize("value", [None, b"", b"garbage", Checkpoint("g", COPY, 7, -7, "").value()])
def test_a_checkpoint_that_can_not_be_decoded_holds_its_partition_until_the_next_one(
    value: bytes | None,
) -> None:
    """It may have told of more than the one before, which does not count alone then."""
    a, b = mirrored(partitions=2)
    other = TopicPartition("A.orders", 1)
    for partition in (COPY, other):
        checkpoint = Checkpoint("g", partition, 5, 5 + JUNK, "")
        put(b, CHECKPOINTS, checkpoint.key(), checkpoint.value())
    put(b, CHECKPOINTS, Checkpoint("g", COPY, 7, 7 + JUNK, "").key(), value)
    b.group("g", {("A.orders", 0): 9 + JUNK, ("A.orders", 1): 9 + JUNK})
    published = back(a, b)
    rows = {row.partition: row for row in published.reports["g"].partitions}
    assert rows[0].reason == "moved_by_mirror"
    assert "newest checkpoint" in str(rows[0].detail)
    assert {place.partition: at.offset for place, at in a.offsets["g"].items()} == {1: 9}
    assert published.summaries[-1].unreadable_records[CHECKPOINTS] == 1
    lower = Checkpoint("g", COPY, 4, 4 + JUNK, "")
    put(b, CHECKPOINTS, lower.key(), lower.value())
    back(a, b)
    assert home(a) == 9


def test_a_checkpoint_without_a_key_that_can_be_decoded_holds_nothing() -> None:
    a, b = mirrored()
    checkpoint = Checkpoint("g", COPY, 5, 5 + JUNK, "")
    put(b, CHECKPOINTS, checkpoint.key(), checkpoint.value())
    put(b, CHECKPOINTS, b"garbage", b"garbage")
    b.group("g", {("A.orders", 0): 9 + JUNK})
    back(a, b)
    assert home(a) == 9


def test_where_it_can_not_be_read_nothing_comes_home_and_health_says_why() -> None:
    a, b = mirrored()
    record(b, FurthestRecord(1, {COPY: Furthest(5, 5 + JUNK, 5 + JUNK)}))
    b.group("g", {("A.orders", 0): 8 + JUNK})
    b.topic_trouble[TOPIC] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "no READ")
    published = back(a, b)
    assert held(published) == "moved_by_mirror"
    assert any(TOPIC in error for error in published.summaries[-1].errors)
    assert "g" not in a.offsets


def test_the_way_home_of_the_checkpoint_connector_knows_what_a_group_offset_connector_has_committed() -> None:
    a, b = late()
    there(a, b)
    aliases = {"source_cluster_alias": "B", "target_cluster_alias": "A"}
    ways = {"reverse_checkpointing_enabled": "true", "sync_group_offsets_enabled": "true"}
    published = CheckpointHarness(b, a, aliases | ways).play_rounds()
    assert published.reports["g"].reason == "at_home"
    assert home(a) == 5


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_it_is_written_when_it_changes_and_the_furthest_stays() -> None:
    a, b = mirrored()
    a.group("g", {("orders", 0): 9})
    there(a, b, 4)
    a.group("g", {("orders", 0): 3})
    there(a, b, 4)
    there(a, b)
    result = [each.rows[COPY] for each in records(b) if each is not None]
    assert result == [(9, 9 + JUNK, 9 + JUNK), (3, 3 + JUNK, 9 + JUNK)]


def test_a_partition_whose_offsets_are_gone_on_both_sides_is_dropped() -> None:
    a, b = mirrored(partitions=2)
    a.group("g", {("orders", 0): 5, ("orders", 1): 5})
    there(a, b)
    a.group("g", {("orders", 0): 6})
    there(a, b)
    b.group("g", {("A.orders", 0): 6 + JUNK})
    a.group("g", {("orders", 0): 7})
    there(a, b)
    assert [len(each.rows) for each in records(b) if each is not None] == [2, 2, 1]


def test_a_group_that_is_gone_from_both_clusters_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "DROP_EVERY", 0.0)
    a, b = mirrored()
    a.group("g", {("orders", 0): 5})
    a.group("h", {("orders", 0): 5})
    there(a, b)
    a.delete_group("g")
    there(a, b)
    assert None not in records(b), "its consumers may read on B"
    b.delete_group("g")
    there(a, b)
    assert records(b).count(None) == 1


def test_a_topic_that_can_not_be_written_holds_up_no_commit() -> None:
    a, b = mirrored()
    a.group("g", {("orders", 0): 5})
    b.append_trouble[TOPIC] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "no WRITE")
    published = there(a, b, 3)
    assert beyond(b) == 5 + JUNK
    assert any(TOPIC in error for error in published.summaries[-1].errors)


def test_it_is_written_again_once_the_topic_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = mirrored()
    a.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(a, b)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        b.topic(TOPIC, Log(), topic_id="another")
        b.topic_admin.overrides[TOPIC] = {"cleanup.policy": "compact"}
        await until(lambda: bool(records(b)))

    harness.play(script)
    assert records(b)[0] is not None

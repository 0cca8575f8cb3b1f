"""Two flows whose copies share a topic, over clusters in memory: a group of both sources is committed where neither of
them skips a record, and no flow says yes before it knows of the other."""

from __future__ import annotations

import time

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.state_records.claims import Claim
from bridge.model.state_records.group_record import Alone, FurthestRecord, GroupRecord, GroupRow
from bridge.model.state_records.move_record import MOVED, MoveRecord, MoveRow
from bridge.model.state_records.readiness_records import RecordKey, TaskRecord, encode
from bridge.model.values import TopicPartition
from bridge.protocol.messages import GroupReport
from connectors import cluster_away
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation import other_sources, readiness_topic
from tests.unit.connectors.checkpoint.checkpoint_harness import put
from tests.unit.connectors.fake_clusters import FakeCluster, Log, Row
from tests.unit.connectors.group_offset.group_offset_harness import WITHOUT_TOPIC, GroupOffsetHarness
from tests.unit.connectors.run_instance import Published

MERGED = TopicPartition("orders", 0)
POLICY = {"replication_policy_class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(readiness_topic, "TASKS_EVERY", 0.0)
    monkeypatch.setattr(other_sources, "LOOK_EVERY", 0.0)


class Merged:
    """Sources of 20 records each, and a target with all of them, in turns of ten."""

    def __init__(self, *, claimed: bool = True) -> None:
        self.sources, self.c = {"A": FakeCluster(), "B": FakeCluster()}, FakeCluster()
        merged = Log(epoch=5)
        for alias, source in self.sources.items():
            log = Log(epoch=3)
            log.rows = [self.record(alias, number, number) for number in range(20)]
            log.end = 20
            source.topic("orders", log)
        for begin in (0, 10):
            for alias in self.sources:
                merged.rows += [
                    self.record(alias, number, len(merged.rows) + number - begin)
                    for number in range(begin, begin + 10)
                ]
        merged.end = 40
        self.c.topic("orders", merged)
        if claimed:
            for alias in self.sources:
                self.claim(alias)

    @staticmethod
    def record(alias: str, number: int, offset: int) -> Row:
        return Row(offset, 1000 + 10 * number + ord(alias), b"key", f"{alias}-{number}".encode())

    def claim(self, alias: str) -> None:
        claim = Claim("orders", "orders", f"copy-{alias}")
        topic = f"mm2-layout.{alias}.internal"
        self.c.compacted(topic)
        put(self.c, topic, claim.key(), claim.value())

    def at(self, alias: str, offset: int, group: str = "g") -> None:
        self.sources[alias].group(group, {("orders", 0): offset})

    def rounds(self, alias: str, /, **given: str) -> Published:
        """Of the flow of this source, by an instance that is started for them."""
        flow = {"source_cluster_alias": alias, "target_cluster_alias": "C", **POLICY}
        harness = GroupOffsetHarness(self.sources[alias], self.c, **(flow | given))

        async def script(_: GroupOffsetInstance) -> None:
            await harness.rounds(1)

        harness.play(script, name=f"groups-{alias}")
        return harness.published

    def standing(self, group: str = "g") -> int | None:
        there = self.c.offsets.get(group, {}).get(MERGED)
        return None if there is None else there.offset


def place(alias: str, number: int) -> int:
    """Where a record stands on the target."""
    return number % 10 + 10 * (alias == "B") + 20 * (number // 10)


def reason(published: Published, group: str = "g") -> str | None:
    report = published.reports[group]
    assert report.ready == (report.reason is None), report
    return report.reason


def said(published: Published, group: str = "g") -> str:
    (row,) = published.reports[group].partitions
    return str(row.detail.get("said"))


def test_a_group_of_both_sources_is_committed_at_the_lowest_and_the_others_records_are_counted() -> None:
    merged = Merged()
    merged.at("A", 15)
    merged.at("B", 4)
    low, high = place("B", 4), place("A", 15)
    first = merged.rounds("A")
    assert (reason(first), merged.standing()) == ("other_source_unknown", None)
    assert "groups which" not in said(first)
    assert reason(merged.rounds("B")) is None
    assert merged.standing() == low
    for alias in ("A", "B"):
        report = merged.rounds(alias).reports["g"]
        (row,) = report.partitions
        assert (report.ready, report.verdict, row.target_offset, row.bound) == (
            True,
            "bounded",
            low,
            high - low,
        )
    # The lower one moves on past the other: that one is the lowest then.
    merged.at("B", 18)
    merged.rounds("B")
    assert merged.standing() == high
    assert reason(merged.rounds("A")) is None
    assert (reason(merged.rounds("B")), merged.standing()) == (None, high)


def test_a_group_of_one_source_is_committed_as_soon_as_the_other_has_told_its_groups() -> None:
    merged = Merged()
    merged.at("A", 15)
    waits = merged.rounds("A")
    assert (reason(waits), merged.standing()) == ("other_source_unknown", None)
    assert "no group connector of flow B to C has told" in said(waits)
    assert "mirror-bridge hand-back copy-B" in said(waits)
    merged.at("B", 1, group="another")
    merged.rounds("B")
    report = merged.rounds("A").reports["g"]
    assert (report.ready, report.verdict, merged.standing()) == (True, "exact", place("A", 15))


def test_a_group_that_the_other_source_deletes_goes_on_by_itself() -> None:
    merged = Merged()
    merged.at("A", 15)
    merged.at("B", 4)
    merged.at("B", 4, group="another")
    for alias in "ABAB":
        merged.rounds(alias)
    assert merged.standing() == place("B", 4)
    merged.sources["B"].delete_group("g")
    merged.rounds("B")
    assert reason(merged.rounds("A")) is None
    assert merged.standing() == place("A", 15)


def test_what_the_other_flow_lacks_keeps_the_group_from_being_ready_in_both() -> None:
    merged = Merged()
    merged.at("A", 15)
    merged.at("B", 4)
    for alias in "ABAB":
        merged.rounds(alias)
    log = merged.c.logs[MERGED]
    log.rows = [row for row in log.rows if row.value != b"B-4"]
    lacks = merged.rounds("B")
    assert reason(lacks) not in (None, "other_source_not_ready")
    assert reason(merged.rounds("A")) == "other_source_not_ready"


def test_an_offset_that_is_too_high_for_the_other_source_is_told_by_both() -> None:
    merged = Merged()
    merged.at("A", 15)
    merged.at("B", 4)
    merged.c.group("g", {("orders", 0): place("A", 15)})
    for alias in "ABAB":
        merged.rounds(alias)
    for alias in "AB":
        report = merged.rounds(alias).reports["g"]
        assert report.reason == "target_ahead"
        assert report.partitions[0].detail["target_ahead_by"] == place("A", 15) - place("B", 4)
    assert merged.c.altered == []
    merged.c.group("g", {("orders", 0): place("B", 4)})
    assert reason(merged.rounds("B")) is None
    assert reason(merged.rounds("A")) is None


def test_a_group_that_the_other_flow_may_not_read_is_not_taken_for_none() -> None:
    merged = Merged()
    merged.at("A", 15)
    merged.at("B", 4)
    merged.sources["B"].group_trouble["g"] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "DESCRIBE is needed")
    merged.rounds("B")
    waits = merged.rounds("A")
    assert reason(waits) == "other_source_unknown"
    assert "source_not_authorized" in said(waits)
    assert merged.standing() is None


def test_a_group_that_has_failed_over_in_one_flow_is_not_moved_past_that_by_the_other() -> None:
    merged = Merged()
    merged.at("A", 4)
    merged.at("B", 9)
    for alias in "ABAB":
        merged.rounds(alias)
    low = place("A", 4)
    assert merged.standing() == low
    row = MoveRow("orders", 0, 4, "orders", low, "exact", 0, None)
    move = MoveRecord(MOVED, 1, 1, False, None, (row,))
    key = RecordKey("groups-A", move.kind, "g").encode()
    put(merged.c, "mm2-group-readiness.A.internal", key, encode(move))
    merged.rounds("A")
    merged.at("B", 12)
    assert reason(merged.rounds("B")) is None
    assert merged.standing() == low


def test_a_move_that_was_taken_back_leaves_the_group_unknown_until_the_next_round() -> None:
    merged = Merged()
    merged.at("A", 4)
    merged.at("B", 9)
    for alias in "ABABA":
        merged.rounds(alias)
    topic, now_ms = "mm2-group-readiness.A.internal", int(time.time() * 1000)
    for kind in (GroupRecord.kind, MoveRecord.kind):
        put(merged.c, topic, RecordKey("groups-A", kind, "g").encode(), None, now_ms + 1)
    merged.at("B", 12)
    assert reason(merged.rounds("B")) == "other_source_unknown"
    assert merged.standing() == place("A", 4)
    merged.rounds("A")
    assert reason(merged.rounds("B")) is None
    assert merged.standing() == place("A", 4)


def test_a_group_that_a_round_of_the_other_flow_has_just_found_is_known_before_that_ends() -> None:
    merged = Merged()
    merged.at("A", 4, group="another")
    merged.at("B", 2)
    for alias in "ABAB":
        merged.rounds(alias)
    assert merged.standing() == place("B", 2)
    alone = FurthestRecord(int(time.time() * 1000) + 1, {}, {MERGED: Alone(15, place("A", 15), 0)})
    key = RecordKey("groups-A", alone.kind, "g").encode()
    put(merged.c, "mm2-group-readiness.A.internal", key, encode(alone))
    merged.at("B", 18)
    merged.rounds("B")
    assert merged.standing() == place("A", 15)
    # A later round has none: it was deleted.
    merged.rounds("A")
    merged.rounds("B")
    assert merged.standing() == place("B", 18)


def test_a_flow_that_has_told_nothing_for_long_makes_an_answer_of_an_earlier_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged = Merged()
    merged.at("A", 15)
    merged.at("B", 4)
    for alias in "ABAB":
        merged.rounds(alias)
    monkeypatch.setattr(other_sources, "LEAST_AGE_MS", -1)
    monkeypatch.setattr(other_sources, "MOST_INTERVALS", -1)
    report: GroupReport = merged.rounds("A").reports["g"]
    assert (report.ready, report.reason) == (True, "other_source_outdated")
    assert merged.standing() == place("B", 4)


def test_what_a_renamed_connector_has_said_does_not_count_once_its_flow_tells_nothing() -> None:
    """The other source is away, say, so that what all connectors of its flow have written is old."""
    merged = Merged()
    merged.at("A", 15)
    merged.at("B", 4)
    merged.rounds("A")
    merged.rounds("B")
    tell(merged, "groups-B", hours_ago=1, number=4)
    tell(merged, "renamed", hours_ago=2, number=2)
    report = merged.rounds("A").reports["g"]
    assert (report.ready, report.reason) == (True, "other_source_outdated")
    assert merged.standing() == place("B", 4)


def test_a_group_of_a_connector_that_is_paused_beside_another_one_is_not_taken_for_none() -> None:
    """Each of the two follows groups of its own."""
    merged = Merged()
    merged.at("A", 15)
    merged.at("B", 4, "another")
    merged.rounds("A")
    merged.rounds("B")
    tell(merged, "paused", hours_ago=1, number=4)
    report = merged.rounds("A").reports["g"]
    assert (report.ready, report.reason) == (True, "other_source_outdated")
    assert merged.standing() == place("B", 4)


def tell(merged: Merged, connector: str, *, hours_ago: int, number: int) -> None:
    """Has a connector of B have told, so long ago, that the group has read so many records there."""
    at_ms = int(time.time() * 1000) - 3_600_000 * hours_ago
    row = GroupRow("orders", 0, number, "", "orders", place("B", number), "exact", 0)
    for name, value in (
        ("g", GroupRecord(at_ms, 0, 1, "EMPTY", None, (row,))),
        ("g", FurthestRecord(at_ms, {}, {MERGED: Alone(number, place("B", number), 0)})),
        ("0", TaskRecord(at_ms, 1, 5_000, "there", groups=True)),
    ):
        key = RecordKey(connector, value.kind, name).encode()
        put(merged.c, "mm2-group-readiness.B.internal", key, encode(value))


def test_layouts_that_may_not_be_read_leave_open_whether_a_topic_is_shared() -> None:
    merged = Merged()
    merged.at("A", 15)
    denied = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "READ is needed")
    merged.c.topic_trouble["mm2-layout.B.internal"] = denied
    waits = merged.rounds("A")
    assert reason(waits) == "other_source_unknown"
    assert "mm2-layout.B.internal" in said(waits)
    assert merged.standing() is None


def test_a_flow_that_writes_no_readiness_records_is_named_as_what_is_waited_for() -> None:
    merged = Merged()
    merged.at("A", 15)
    merged.at("B", 4)
    merged.rounds("A")
    merged.rounds("B", **WITHOUT_TOPIC)
    waits = merged.rounds("A")
    assert reason(waits) == "other_source_unknown"
    assert "emit.group-readiness.enabled=true" in said(waits)


@pytest.mark.parametrize("claimed", [True, False])
def test_sources_that_share_no_topic_know_nothing_of_each_other(claimed: bool) -> None:
    merged = Merged(claimed=False)
    if claimed:
        merged.claim("A")
    merged.at("A", 15)
    assert reason(merged.rounds("A")) is None
    assert merged.standing() == place("A", 15)

"""The checkpoint connector at work over clusters in memory: what it emits, what it commits, what it says of trouble."""

from __future__ import annotations

import asyncio

import pytest

from bridge.backoff import JITTER
from bridge.errors import KafkaFailure, KafkaFault
from bridge.mm2.records import Checkpoint
from bridge.model.values import Committed, GroupState, TopicPartition
from connectors import cluster_away, internal_topics
from connectors.base import Assignment
from connectors.checkpoint.task import CheckpointInstance
from tests.unit.connectors.checkpoint.checkpoint_harness import (
    SYNCS,
    TOPIC,
    CheckpointHarness,
    committed_at,
    put,
    put_checkpoint,
    put_sync,
)
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored

COPY = TopicPartition("A.orders", 0)
UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")

READINESS = "mm2-group-readiness.A.internal"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(internal_topics, "PAUSES", (0.0, 0.0, 0))


# -- the topic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "factor"), [({}, 3), ({"checkpoints_topic_replication_factor": "-1"}, -1)])
def test_the_topic_is_made_once_with_stocks_replication_factor(given: dict[str, str], factor: int) -> None:
    harness = CheckpointHarness(*committed_at(5), given)
    harness.play_rounds()
    assert harness.target.created == [(TOPIC, factor), (READINESS, -1)]


def test_trouble_with_making_the_topic_is_told_until_it_is_made() -> None:
    source, target = committed_at(5)
    target.create_trouble[TOPIC] = KafkaFailure(
        KafkaFault.OTHER, f"Error while attempting to create/find topic '{TOPIC}'"
    )
    harness = CheckpointHarness(source, target)

    async def script(_: CheckpointInstance) -> None:
        errors = (await harness.rounds()).errors
        assert any(f"create/find topic '{TOPIC}'" in error for error in errors), errors
        assert harness.published.emitted == []
        target.create_trouble.clear()
        assert (await harness.rounds()).errors == []
        assert harness.published.offsets == [(5, 5 + JUNK)]

    harness.play(script)


def test_a_topic_that_is_made_anew_gets_its_checkpoints_again() -> None:
    source, target = committed_at(5)
    harness = CheckpointHarness(source, target)

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        target.topic(TOPIC, Log(), topic_id="made anew")
        await harness.rounds()
        assert harness.published.offsets == [(5, 5 + JUNK)] * 2

    harness.play(script)


def test_a_topic_that_was_deleted_is_made_and_filled_again() -> None:
    source, target = committed_at(5)
    harness = CheckpointHarness(source, target)

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        del target.ids[TOPIC], target.logs[TopicPartition(TOPIC, 0)]
        await harness.rounds()
        assert len(target.logs[TopicPartition(TOPIC, 0)].rows) == 1
        assert harness.published.offsets == [(5, 5 + JUNK)] * 2

    harness.play(script)


def test_a_topic_that_can_not_be_read_is_a_remark_and_checkpoints_are_emitted_once() -> None:
    source, target = committed_at(5)
    target.topic(TOPIC, Log())
    target.topic_trouble[TOPIC] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "Topic authorization failed")
    harness = CheckpointHarness(source, target)

    async def script(_: CheckpointInstance) -> None:
        (error,) = (await harness.rounds(4)).errors
        assert TOPIC in error
        assert "Topic authorization failed" in error
        assert harness.published.offsets == [(5, 5 + JUNK)]

    harness.play(script)


# -- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_emitted_once_as_stock_makes_it() -> None:
    harness = CheckpointHarness(*committed_at(Committed(12, "möchte", 3)))
    published = harness.play_rounds(5)
    (record,), (checkpoint,) = published.emitted, published.checkpoints
    assert record.source_partition == {"group": "g", "topic": "A.orders", "partition": 0}
    assert (record.source_offset, record.topic, record.affinity) == ({"offset": 0}, TOPIC, "g")
    assert record.timestamp > 1_700_000_000_000
    assert checkpoint == ("g", COPY, 12, 12 + JUNK, "möchte")
    report, summary = published.reports["g"], published.summaries[-1]
    assert (report.ready, report.partitions[0].written, report.partitions[0].evidence) == (
        True,
        12 + JUNK,
        "verified",
    )
    assert (summary.checkpoints, summary.writes, summary.errors) == (1, 0, [])
    assert harness.target.altered == []


def test_checkpoints_follow_the_group_on_and_back() -> None:
    source, target = committed_at(5)
    harness = CheckpointHarness(source, target)

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        for offset in (9, 2, 20):
            source.group("g", {("orders", 0): offset})
            await harness.rounds()

    assert harness.play(script).offsets == [(each, each + JUNK) for each in (5, 9, 2, 20)]


def test_what_is_on_its_way_is_not_emitted_again_and_the_group_is_not_ready() -> None:
    harness = CheckpointHarness(*committed_at(5))
    harness.published.held_up = True

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds(4)
        assert harness.published.offsets == [(5, 5 + JUNK)]
        assert not harness.published.reports["g"].ready
        harness.published.go_on()
        await harness.rounds()
        assert harness.published.reports["g"].ready
        assert len(harness.published.emitted) == 1

    harness.play(script)


def test_a_start_uses_the_checkpoints_that_are_there() -> None:
    source, target = committed_at(5)
    put_checkpoint(target, "g", 5, 5 + JUNK)
    harness = CheckpointHarness(source, target)
    assert harness.play_rounds().emitted == []
    assert harness.published.reports["g"].ready


def test_a_lower_checkpoint_of_somebody_else_is_answered_and_a_higher_one_is_left() -> None:
    source, target = committed_at(12)
    harness = CheckpointHarness(source, target)

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        put_checkpoint(target, "g", 12, 10)
        await harness.rounds()
        assert harness.published.offsets == [(12, 12 + JUNK)] * 2
        put_checkpoint(target, "g", 12, 25)
        await harness.rounds()
        assert len(harness.published.emitted) == 2
        report = harness.published.reports["g"]
        assert (report.ready, report.reason) == (False, "target_ahead")

    harness.play(script)


def test_a_checkpoint_past_the_end_of_the_target_counts_for_nothing() -> None:
    source, target = committed_at(12)
    put_checkpoint(target, "g", 12, 5_000)
    assert CheckpointHarness(source, target).play_rounds().offsets == [(12, 12 + JUNK)]


def test_no_checkpoint_for_what_has_no_answer() -> None:
    source, target = committed_at(500)
    harness = CheckpointHarness(source, target)
    published = harness.play_rounds()
    assert published.emitted == []
    assert published.reports["g"].reason == "offset_beyond_end"


def test_tasks_emit_for_their_own_groups() -> None:
    source, target = mirrored()
    for number in range(20):
        source.group(f"g{number}", {("orders", 0): number})
    harness = CheckpointHarness(source, target)

    async def script(instance: CheckpointInstance) -> None:
        await harness.rounds()
        first = {each.group for each in harness.published.checkpoints}
        assert 0 < len(first) < 20
        instance.assign(Assignment(2, frozenset({0, 1})))
        await harness.rounds()
        assert sorted(each.group for each in harness.published.checkpoints) == sorted(source.offsets)

    harness.play(script, Assignment(2, frozenset({1})))


# -- evidence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evidence", "expected", "named", "verdict"),
    [
        ("both", 12 + JUNK, "verified", "exact"),
        ("timestamps", 12 + JUNK, "verified", "exact"),
        ("syncs", 10 + JUNK + 1, "sync+1", "bounded"),
    ],
)
def test_what_an_answer_rests_on(evidence: str, expected: int, named: str, verdict: str) -> None:
    source, target = committed_at(12)
    put_sync(source, 10, 10 + JUNK)
    harness = CheckpointHarness(source, target, translation_evidence=evidence)
    published = harness.play_rounds()
    assert published.offsets == [(12, expected)]
    (row,) = published.reports["g"].partitions
    assert (row.evidence, row.verdict) == (named, verdict)
    assert (SYNCS in source.ids, source.calls["tail"] > 0) == (True, evidence != "timestamps")


def test_a_sync_that_speaks_against_the_records_stops_checkpoint_and_commit() -> None:
    source, target = committed_at(12)
    put_sync(source, 12, 12 + JUNK - 3)
    harness = CheckpointHarness(source, target, sync_group_offsets_enabled="true")
    published = harness.play_rounds()
    assert (published.emitted, target.altered) == ([], [])
    assert published.reports["g"].reason == "evidence_disagrees"


def test_syncs_alone_never_follow_an_answer_that_goes_down() -> None:
    """MirrorCheckpointTaskTest.testCheckpointRecordsMonotonicIfStoreRewinds, with group offsets: what stands there is
    the last checkpoint, not the lower answer."""
    source, target = committed_at(13)
    for upstream in (11, 12):
        put_sync(source, upstream, upstream - 7)
    harness = CheckpointHarness(
        source, target, translation_evidence="syncs", sync_group_offsets_enabled="true"
    )

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        for upstream in range(13, 18):
            put_sync(source, upstream, upstream - 7)
        target.offsets["g"] = {}
        await harness.rounds()
        assert harness.published.offsets == [(13, 6)]
        assert target.offsets["g"][COPY].offset == 6
        source.group("g", {("orders", 0): 12})
        await harness.rounds()
        assert harness.published.offsets == [(13, 6), (12, 5)]

    harness.play(script)


def test_without_a_syncs_topic_records_answer_and_syncs_wait() -> None:
    for evidence, offsets, reason in (("both", [(12, 12 + JUNK)], None), ("syncs", [], "no_offset_syncs")):
        source, target = committed_at(12)
        del source.ids[SYNCS], source.logs[TopicPartition(SYNCS, 0)]
        harness = CheckpointHarness(source, target, translation_evidence=evidence)
        published = harness.play_rounds()
        assert (published.offsets, published.reports["g"].reason) == (offsets, reason)
        assert any(SYNCS in error for error in published.summaries[-1].errors)


def test_records_that_can_not_be_read_cost_themselves_only_and_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = committed_at(12)
    put_sync(source, 10, 10 + JUNK)
    for key, value in ((b"", b""), (b"\x00\x01t", None), (b"\xff\xff", b"x" * 16)):
        put(source, SYNCS, key, value)
    put_sync(source, 12, 12 + JUNK)
    put(target, TOPIC, b"garbage", None)
    harness = CheckpointHarness(source, target, translation_evidence="syncs")
    published = harness.play_rounds()
    assert published.offsets == [(12, 12 + JUNK)]
    assert published.summaries[-1].unreadable_records == {SYNCS: 3, TOPIC: 1, READINESS: 0}
    # Each by its place and the reason, once.
    for where in (f"{TOPIC}-0 at offset 0: ", *(f"{SYNCS}-0 at offset {at}: " for at in (1, 2, 3))):
        (line,) = [line for line in caplog.messages if line.startswith(where)]
        assert "can't be read and is left out: no " in line


@pytest.mark.parametrize("evidence", ["syncs", "both"])
def test_numbers_that_no_log_has_move_nothing(evidence: str) -> None:
    """A checkpoint or sync of a bug, or of whoever may write there."""
    source, target = committed_at(12)
    for upstream, downstream in ((10, -1), (11, 2**63 - 1), (-5, 3)):
        put_sync(source, upstream, downstream)
        put_checkpoint(target, "g", upstream, downstream)
    put_sync(source, 12, 12 + JUNK)
    harness = CheckpointHarness(
        source, target, translation_evidence=evidence, sync_group_offsets_enabled="true"
    )
    published = harness.play_rounds()
    assert published.offsets == [(12, 12 + JUNK)]
    assert target.offsets["g"][TopicPartition("A.orders", 0)].offset == 12 + JUNK
    unreadable = published.summaries[-1].unreadable_records
    assert (unreadable[SYNCS], unreadable[TOPIC]) == (3, 3)


@pytest.mark.parametrize("evidence", ["syncs", "both"])
def test_a_checkpoint_past_the_end_of_the_target_puts_no_group_there(evidence: str) -> None:
    source, target = committed_at(12)
    put_sync(source, 12, 12 + JUNK)
    put_checkpoint(target, "g", 13, 10**15)
    harness = CheckpointHarness(
        source, target, translation_evidence=evidence, sync_group_offsets_enabled="true"
    )
    harness.play_rounds()
    assert target.offsets["g"][TopicPartition("A.orders", 0)].offset == 12 + JUNK


@pytest.mark.parametrize("evidence", ["syncs", "both"])
def test_a_checkpoint_of_the_opposite_flow_past_the_end_of_the_source_holds_no_group_up(
    evidence: str,
) -> None:
    source, target = failed_over()
    poison = Checkpoint("g", TopicPartition("B.orders", 0), 3, 10**15, "")
    put(source, "B.checkpoints.internal", poison.key(), poison.value())
    harness = CheckpointHarness(
        source, target, reverse_checkpointing_enabled="true", sync_group_offsets_enabled="true"
    )
    published = harness.play_rounds()
    assert published.reports["g"].reason != "moved_by_mirror"


# -- group offsets ---------------------------------------------------------------------------------------------------


def test_group_offsets_have_an_interval_of_their_own() -> None:
    source, target = committed_at(5)
    harness = CheckpointHarness(source, target, emit_interval=600.0, sync_group_offsets_enabled="true")

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        source.group("g", {("orders", 0): 9})
        await harness.rounds()
        assert target.offsets["g"][COPY] == Committed(9 + JUNK, "", 5)
        assert harness.published.offsets == [(5, 5 + JUNK)]

    harness.play(script)
    assert harness.published.summaries[-1].writes == 2


def test_checkpoints_have_an_interval_of_their_own() -> None:
    source, target = committed_at(5)
    harness = CheckpointHarness(source, target, sync_interval=600.0, sync_group_offsets_enabled="true")

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        source.group("g", {("orders", 0): 9})
        await harness.rounds()
        assert harness.published.offsets == [(5, 5 + JUNK), (9, 9 + JUNK)]
        assert target.offsets["g"][COPY].offset == 5 + JUNK
        # Not ready: group sync is asked for, and has not come yet.
        assert not harness.published.reports["g"].ready

    harness.play(script)


def test_an_active_group_and_one_that_is_ahead_get_checkpoints_but_no_commit() -> None:
    source, target = committed_at(5, "busy")
    source.group("ahead", {("orders", 0): 5})
    target.group("busy", {("A.orders", 0): 1}, GroupState.STABLE)
    target.group("ahead", {("A.orders", 0): 20})
    harness = CheckpointHarness(source, target, sync_group_offsets_enabled="true")
    published = harness.play_rounds()
    assert target.altered == []
    assert {each.group for each in published.checkpoints} == {"busy", "ahead"}
    reasons = {name: report.reason for name, report in published.reports.items()}
    assert reasons == {"busy": "group_active_on_target", "ahead": "target_ahead"}


def test_a_dry_run_emits_makes_and_commits_nothing() -> None:
    for syncing in ("true", "false"):
        source, target = committed_at(5)
        harness = CheckpointHarness(source, target, dry_run="true", sync_group_offsets_enabled=syncing)
        published = harness.play_rounds()
        assert (published.emitted, target.altered, target.created) == ([], [], [])
        report = published.reports["g"]
        assert (report.reason, report.partitions[0].target_offset) == ("dry_run", 5 + JUNK)


# -- failback --------------------------------------------------------------------------------------------------------


def failed_over() -> tuple[FakeCluster, FakeCluster]:
    """The flow back, from `A` to `B`: A holds `B.orders`, a copy of B's own `orders`, which the group reads now."""
    source, target = FakeCluster(), FakeCluster()
    here, there = Log(epoch=3), Log(epoch=5)
    here.append(JUNK, first=-JUNK, junk=True)
    here.append(20)
    there.append(20)
    source.topic("B.orders", here)
    target.topic("orders", there)
    source.group("g", {("B.orders", 0): 12 + JUNK})
    return source, target


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_group_that_moved_comes_back_where_that_is_asked_for(enabled: str) -> None:
    source, target = failed_over()
    harness = CheckpointHarness(
        source, target, reverse_checkpointing_enabled=enabled, sync_group_offsets_enabled="true"
    )
    published = harness.play_rounds()
    if enabled == "false":
        assert (published.emitted, target.altered, published.reports) == ([], [], {})
        return
    place = TopicPartition("orders", 0)
    assert published.checkpoints == [("g", place, 12 + JUNK, 12, "")]
    assert target.offsets["g"] == {place: Committed(12, "", 5)}


def test_an_offset_that_the_other_flow_has_put_there_says_nothing_new() -> None:
    source, target = failed_over()
    back = "B.checkpoints.internal"
    checkpoint = Checkpoint("g", TopicPartition("B.orders", 0), 12, 12 + JUNK, "")
    put(source, back, checkpoint.key(), checkpoint.value())
    harness = CheckpointHarness(
        source, target, reverse_checkpointing_enabled="true", sync_group_offsets_enabled="true"
    )

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        assert (harness.published.emitted, target.altered) == ([], [])
        assert harness.published.reports["g"].reason == "moved_by_mirror"
        source.group("g", {("B.orders", 0): 15 + JUNK})  # a consumer moves on
        await harness.rounds()
        assert harness.published.offsets == [(15 + JUNK, 15)]
        assert target.offsets["g"][TopicPartition("orders", 0)].offset == 15

    harness.play(script)


@pytest.mark.parametrize(
    ("history", "stands", "expected"),
    [
        pytest.param([(12, 19)], 19, None, id="where the mirror has put it"),
        pytest.param([(12, 19), (0, 7)], 19, None, id="after a reset on the target"),
        pytest.param([(5, 12), (12, 19), (0, 7)], 12, None, id="put there by an earlier one"),
        pytest.param([(12, 19), (0, 7)], 20, 13, id="its consumers have moved on"),
        pytest.param([(12, 119), (12, 17)], 18, 11, id="the topic was cut back"),
    ],
)
def test_only_what_consumers_have_moved_goes_back(
    history: list[tuple[int, int]], stands: int, expected: int | None
) -> None:
    source, target = failed_over()
    source.group("g", {("B.orders", 0): stands})
    for upstream, downstream in history:
        checkpoint = Checkpoint("g", TopicPartition("B.orders", 0), upstream, downstream, "")
        put(source, "B.checkpoints.internal", checkpoint.key(), checkpoint.value())
    harness = CheckpointHarness(
        source, target, reverse_checkpointing_enabled="true", sync_group_offsets_enabled="true"
    )
    published = harness.play_rounds()
    if expected is None:
        assert (published.emitted, target.altered) == ([], [])
        assert published.reports["g"].reason == "moved_by_mirror"
    else:
        assert target.offsets["g"] == {TopicPartition("orders", 0): Committed(expected, "", 5)}


def test_opposite_checkpoints_that_can_not_be_read_are_told() -> None:
    source, target = failed_over()
    put(source, "B.checkpoints.internal", b"garbage", None)
    harness = CheckpointHarness(source, target, reverse_checkpointing_enabled="true")
    unreadable = harness.play_rounds().summaries[-1].unreadable_records
    assert unreadable["B.checkpoints.internal"] == sum(unreadable.values()) == 1
    source.topic_trouble["B.checkpoints.internal"] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "no READ")
    played = CheckpointHarness(source, target, reverse_checkpointing_enabled="true").play_rounds()
    assert any("B.checkpoints.internal" in error for error in played.summaries[-1].errors)


# -- trouble ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_that_goes_away_and_comes_back(side: str) -> None:
    source, target = committed_at(5)
    harness = CheckpointHarness(source, target)
    cluster = source if side == "source" else target

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        cluster.away = UNREACHABLE
        summary = await harness.summaries(4)
        assert summary.errors == [f"{side} cluster: nobody there"]
        assert harness.published.reports["g"].reason == f"{side}_unreachable"
        source.group("g", {("orders", 0): 9})
        cluster.away = None
        healed = await asyncio.wait_for(harness.rounds(), 60)
        assert (healed.errors, healed.failure) == ([], None)
        assert harness.published.offsets == [(5, 5 + JUNK), (9, 9 + JUNK)]

    harness.play(script)


def test_between_tries_there_is_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although all that was due is overdue."""
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.05)
    source, target = committed_at(5)
    harness = CheckpointHarness(source, target, emit_interval=0.2, sync_interval=0.01)
    source.away = UNREACHABLE

    async def script(_: CheckpointInstance) -> None:
        began = asyncio.get_running_loop().time()
        await harness.summaries(6)
        # The first of them has two: a look at the target follows.
        assert asyncio.get_running_loop().time() - began > 4 * 0.049 * (1 - JITTER)

    harness.play(script)


def test_what_was_due_in_a_round_that_failed_is_due_in_the_next() -> None:
    source, target = committed_at(5)
    harness = CheckpointHarness(source, target, emit_interval=600.0)
    source.away = UNREACHABLE

    async def script(_: CheckpointInstance) -> None:
        await harness.summaries(2)
        source.away = None
        await asyncio.wait_for(harness.rounds(1), 60)
        assert harness.published.offsets == [(5, 5 + JUNK)]

    harness.play(script)

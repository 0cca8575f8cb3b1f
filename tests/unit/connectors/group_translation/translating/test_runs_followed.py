"""Connectors of groups over clusters in memory, where our own mirror has left offset runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.translation.runs.runs import Segment
from connectors.group_offset.task import GroupOffsetInstance
from tests.support.messages import message
from tests.unit.connectors.checkpoint.checkpoint_harness import SYNCS, CheckpointHarness, put
from tests.unit.connectors.copied_orders import ORIGINAL, RUNS, put_runs
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import WITHOUT_TOPIC, GroupOffsetHarness

READINESS = "mm2-group-readiness.A.internal"


def clusters(committed: int) -> tuple[FakeCluster, FakeCluster]:
    source, target = mirrored()
    source.group("g", {("orders", 0): committed})
    return source, target


def verdict(harness: GroupOffsetHarness | CheckpointHarness) -> Mapping[str, object]:
    (row,) = harness.published.reports["g"].partitions
    return {"verdict": row.verdict, "evidence": row.evidence, "written": row.written, "reason": row.reason}


async def _rounds(instance: GroupOffsetInstance, harness: GroupOffsetHarness) -> None:
    await harness.rounds(3)


def played(source: FakeCluster, target: FakeCluster, **given: str) -> GroupOffsetHarness:
    harness = GroupOffsetHarness(source, target, **given)
    harness.play(lambda instance: _rounds(instance, harness))
    return harness


def test_runs_answer_and_the_source_is_looked_at_once() -> None:
    source, target = clusters(5)
    put_runs(target, Segment(0, 0, JUNK, 20))
    harness = played(source, target)
    assert verdict(harness) == {"verdict": "exact", "evidence": "run", "written": 5 + JUNK, "reason": None}
    assert [place for place, _ in source.asked] == [ORIGINAL]
    assert (RUNS, True) in target.isolation  # aborted runs are none
    assert harness.published.summaries[-1].errors == []


def test_no_runs_topic_is_nothing_to_speak_of() -> None:
    harness = played(*clusters(5))
    assert verdict(harness)["evidence"] == "verified"
    assert harness.published.summaries[-1].errors == []


def test_a_runs_topic_that_may_not_be_read_is_as_good_as_none(caplog: pytest.LogCaptureFixture) -> None:
    source, target = clusters(5)
    put_runs(target, Segment(0, 0, JUNK, 20))
    target.topic_trouble[RUNS] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "not allowed")
    harness = played(source, target)
    assert verdict(harness)["evidence"] == "verified"
    assert harness.published.summaries[-1].errors == []
    said = message("groups.runs_unreadable", topic=RUNS, why="not allowed")
    assert caplog.messages.count(said) == 1


def test_a_record_that_cant_be_read_is_counted() -> None:
    source, target = clusters(5)
    put_runs(target, Segment(0, 0, JUNK, 20))
    put(target, RUNS, b"\0\1later schema", b"\0\1")
    harness = played(source, target)
    assert verdict(harness)["evidence"] == "run"
    assert harness.published.summaries[-1].unreadable_records == {RUNS: 1, READINESS: 0}


def test_runs_that_do_not_hold_write_nothing() -> None:
    source, target = clusters(5)
    put_runs(target, Segment(0, 0, JUNK + 1, 18))
    harness = played(source, target)
    assert verdict(harness) == {
        "verdict": "pending",
        "evidence": None,
        "written": None,
        "reason": "evidence_disagrees",
    }
    assert not target.altered


def test_the_plain_rule_stays_the_plain_rule() -> None:
    source, target = clusters(5)
    put_runs(target, Segment(0, 0, JUNK, 20))
    harness = played(source, target, translation_verify="false", **WITHOUT_TOPIC)
    assert verdict(harness)["evidence"] == "timestamp"
    assert RUNS not in {topic for topic, _ in target.isolation}, "offset runs are not read"


def test_a_partition_of_the_source_that_does_not_answer_is_committed_by_runs_and_is_no_yes() -> None:
    source, target = clusters(5)
    put_runs(target, Segment(0, 0, JUNK, 20))
    source.bounds_trouble[ORIGINAL] = KafkaFailure(KafkaFault.UNREACHABLE, "no leader")
    assert verdict(played(source, target)) == {
        "verdict": "pending",
        "evidence": "run",
        "written": 5 + JUNK,
        "reason": "copies_unknown",
    }
    other, there = clusters(5)
    other.bounds_trouble[ORIGINAL] = KafkaFailure(KafkaFault.UNREACHABLE, "no leader")
    assert verdict(played(other, there))["reason"] == "source_unreachable"


def test_runs_that_come_later_and_go_again() -> None:
    source, target = clusters(5)
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert verdict(harness)["evidence"] == "verified"
        put_runs(target, Segment(0, 0, JUNK, 20))
        source.group("g", {("orders", 0): 6})
        await harness.rounds(2)
        assert verdict(harness)["evidence"] == "run"
        target.topic(RUNS, Log(), topic_id="made anew")
        source.group("g", {("orders", 0): 7})
        await harness.rounds(2)
        assert verdict(harness)["evidence"] == "verified"

    harness.play(script)


def test_checkpoints_by_runs() -> None:
    source, target = clusters(5)
    source.topic(SYNCS, Log())
    put_runs(target, Segment(0, 0, JUNK, 20))
    harness = CheckpointHarness(source, target)
    published = harness.play_rounds()
    assert published.offsets == [(5, 5 + JUNK)]
    assert verdict(harness)["evidence"] == "run"
    assert harness.published.summaries[-1].errors == []


def test_who_asks_for_syncs_or_for_records_gets_those() -> None:
    for evidence in ("syncs", "timestamps"):
        source, target = clusters(5)
        source.topic(SYNCS, Log())
        put_runs(target, Segment(0, 0, JUNK, 20))
        harness = CheckpointHarness(source, target, translation_evidence=evidence)
        harness.play_rounds()
        assert verdict(harness)["evidence"] != "run"

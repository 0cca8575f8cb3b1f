"""What connectors of groups publish of records that are not on the target yet."""

from __future__ import annotations

import time

import pytest

from bridge.model.values import TopicPartition
from bridge.translation.runs.runs import Segment
from connectors import cluster_away
from connectors.base import Missing
from connectors.group_offset.task import GroupOffsetInstance
from tests.unit.connectors.copied_orders import ORIGINAL, behind, copy_the_rest, gone, put_runs
from tests.unit.connectors.fake_clusters import JUNK, Log, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import GroupOffsetHarness


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)


def test_what_runs_have_not_come_to_is_missing() -> None:
    source, target = mirrored(10)
    put_runs(target, Segment(0, 0, JUNK, 10))
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)
    missing = harness.published.missing

    async def script(_: GroupOffsetInstance) -> None:
        began_ms = int(time.time() * 1000)
        await harness.rounds(2)
        assert missing == {ORIGINAL: Missing(0)}
        source.logs[ORIGINAL].append(10, first=10)
        before_ms = int(time.time() * 1000)
        await harness.rounds(2)
        records, since_ms, stuck_since_ms = missing[ORIGINAL]
        assert stuck_since_ms >= before_ms
        assert records == 10
        assert began_ms <= since_ms <= before_ms
        copy_the_rest(target)
        await harness.rounds(2)
        assert missing == {ORIGINAL: Missing(0)}

    harness.play(script)


def test_what_was_missing_when_the_source_went_stays_missing() -> None:
    harness = GroupOffsetHarness(*behind())

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert harness.published.missing[ORIGINAL][:2] == (10, -1)
        await gone(harness)
        assert harness.published.missing[ORIGINAL][:2] == (10, -1)

    harness.play(script)


@pytest.mark.parametrize("committed", [10, 5])
def test_without_runs_the_last_record_of_the_target_shows_how_far_the_mirror_has_come(committed: int) -> None:
    """Whatever the group is at: one that is behind the mirror itself shows nothing of the mirror."""
    source, target = mirrored(10)
    source.group("g", {("orders", 0): committed})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert harness.published.missing[ORIGINAL] == Missing(0)
        source.logs[ORIGINAL].end += 2
        await harness.rounds(2)
        assert harness.published.missing[ORIGINAL] == Missing(0), "control records are not copied"
        source.logs[ORIGINAL].append(10, first=10)
        await harness.rounds(2)
        assert harness.published.missing[ORIGINAL].records == 10

    harness.play(script)


def test_a_topic_that_was_made_again_is_missing_whole() -> None:
    source, target = mirrored(10)
    put_runs(target, Segment(0, 0, JUNK, 10))
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        source.ids["orders"] = "another"
        await harness.rounds(2)
        assert harness.published.missing[ORIGINAL][:2] == (10, -1)

    harness.play(script)


def test_a_target_topic_that_was_made_again_lacks_everything() -> None:
    """Until the mirror has copied to it, the runs still tell of the one that is gone."""
    source, target = mirrored(10)
    put_runs(target, Segment(0, 0, JUNK, 10))
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        target.topic("A.orders", Log(), topic_id="another")
        await harness.rounds(2)
        assert harness.published.missing[ORIGINAL][:2] == (10, -1)

    harness.play(script)


def test_partitions_that_no_group_reads_any_more_are_taken_back() -> None:
    source, target = mirrored(10)
    put_runs(target, Segment(0, 0, JUNK, 10))
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert harness.published.missing
        source.offsets["g"].clear()
        await harness.rounds(2)
        assert harness.published.missing == {}

    harness.play(script)


def test_of_what_the_target_does_not_have_at_all_it_is_not_known() -> None:
    """Else the flow would seem to miss no more than what is counted of other topics."""
    source, target = mirrored(10)
    for topic, partitions in (("payments", 1), ("users", 2)):
        source.topic(topic, *(Log() for _ in range(partitions)))
        source.logs[TopicPartition(topic, partitions - 1)].append(100)
    target.topic("A.users", Log())
    places = {("orders", 0): 10, ("payments", 0): 5, ("users", 1): 0, ("gone", 0): 7}
    source.group("g", places)
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        missing = {tuple(place): each.records for place, each in harness.published.missing.items()}
        assert missing == {("orders", 0): 0, ("payments", 0): -1, ("users", 1): -1}

    harness.play(script)

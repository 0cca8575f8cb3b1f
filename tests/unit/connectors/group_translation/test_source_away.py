"""Connectors of groups while the source does not answer, where our own mirror has left offset runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.lookups import Scan
from bridge.model.values import Committed, GroupListing, GroupState, TopicPartition
from bridge.protocol.messages import GroupReport
from bridge.translation.runs.runs import OffsetRun, Segment
from connectors import cluster_away
from connectors.checkpoint.task import CheckpointInstance
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation import instance, round, source_probe
from connectors.group_translation.round import LastCommits
from connectors.group_translation.translating import strategies
from tests.unit.connectors.checkpoint.checkpoint_harness import SYNCS, CheckpointHarness, put
from tests.unit.connectors.copied_orders import (
    COPY,
    ORIGINAL,
    RUNS,
    UNREACHABLE,
    behind,
    copy_the_rest,
    gone,
    put_runs,
)
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import WITHOUT_TOPIC, GroupOffsetHarness

AWAY = "source_unreachable"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)


def shown(report: GroupReport) -> tuple[object, ...]:
    (row,) = report.partitions
    return row.verdict, row.evidence, row.target_offset, row.written, report.reason, report.ready


def test_the_copy_that_ends_after_the_last_look_at_the_source_still_counts() -> None:
    source, target = behind(Committed(15, "kept by the group"))
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        before = await harness.rounds(2)
        report = harness.published.reports["g"]
        assert shown(report) == ("bounded", "run", 10 + JUNK, 10 + JUNK, None, True)
        await gone(harness)
        assert shown(harness.published.reports["g"]) == ("bounded", "run", 10 + JUNK, 10 + JUNK, AWAY, True)
        copy_the_rest(target)
        summary = await harness.summaries(8)
        assert shown(harness.published.reports["g"]) == ("exact", "run", 15 + JUNK, 15 + JUNK, AWAY, True)
        assert target.offsets["g"][COPY] == Committed(15 + JUNK, "kept by the group")
        # It is no success, and not the end of the trouble.
        assert summary.errors == ["source cluster: nobody there"]
        assert (summary.rounds, summary.last_success_ms) == (before.rounds, before.last_success_ms)
        assert (summary.exact, summary.writes) == (1, 2)
        changes = len(harness.published.changes)
        await harness.summaries(8)
        assert len(harness.published.changes) == changes  # nothing new
        source.away = None
        healed = await harness.rounds()
        assert healed.errors == []
        assert shown(harness.published.reports["g"]) == ("exact", "run", 15 + JUNK, 15 + JUNK, None, True)

    harness.play(script)


def test_checkpoints_go_on_too() -> None:
    source, target = behind()
    source.topic(SYNCS, Log())  # stock's place for them, and out of reach with the rest
    harness = CheckpointHarness(source, target, sync_group_offsets_enabled="true")

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        await gone(harness)
        assert harness.published.offsets == [(15, 10 + JUNK)]
        copy_the_rest(target)
        await harness.summaries(8)
        assert harness.published.offsets == [(15, 10 + JUNK), (15, 15 + JUNK)]
        assert target.offsets["g"][COPY].offset == 15 + JUNK

    harness.play(script)


def test_a_merged_run_is_settled_by_the_headers_of_the_target() -> None:
    """A marker of ours stands somewhere among the copies."""
    source, target = behind()
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await gone(harness)
        log = target.logs[COPY]
        log.append(2, first=10)
        log.end += 1
        log.append(8, first=12)
        merged = OffsetRun(
            ORIGINAL, "id-of-orders", COPY.topic, "id-of-A.orders", 0, 0, JUNK, 20, 0, 1, 0, 20, -1
        )
        put(target, RUNS, merged.key(), merged.value())
        await harness.summaries(8)
        assert shown(harness.published.reports["g"]) == ("exact", "run", 16 + JUNK, 16 + JUNK, AWAY, True)

    harness.play(script)


def test_as_long_as_there_is_more_to_read_one_round_follows_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not an interval later: there is nothing else to be done."""
    monkeypatch.setattr(strategies, "READ_BYTES", 5)
    monkeypatch.setattr(strategies, "SOURCE_DOWN_BYTES", 10)
    source, target = behind()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        log = target.logs[COPY]
        for number in range(10, 20):
            log.end += 1
            log.append(1, first=number)
        merged = OffsetRun(
            ORIGINAL, "id-of-orders", COPY.topic, "id-of-A.orders", 0, 0, JUNK, 20, 0, 10, 0, 20, -1
        )
        put(target, RUNS, merged.key(), merged.value())
        instance.interval = 600.0
        await asyncio.wait_for(gone(harness), 60)
        assert shown(harness.published.reports["g"]) == ("exact", "run", 21 + JUNK, 21 + JUNK, AWAY, True)
        assert sum(isinstance(need, Scan) for _, need in target.asked) > 3

    harness.play(script)


@pytest.mark.parametrize("there", ["ahead", "active"])
def test_a_group_that_went_over_is_left_where_it_is(there: str) -> None:
    source, target = behind()
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await gone(harness)
        state = GroupState.STABLE if there == "active" else GroupState.EMPTY
        target.group("g", {(COPY.topic, COPY.partition): 16 + JUNK if there == "ahead" else 12 + JUNK}, state)
        altered = len(target.altered)
        copy_the_rest(target)
        await harness.summaries(8)
        assert len(target.altered) == altered
        report = harness.published.reports["g"]
        assert report.reason == ("group_active_on_target" if there == "active" else "target_ahead")
        assert not report.ready

    harness.play(script)


def test_what_was_exact_by_the_records_still_is() -> None:
    source, target = mirrored(topics=("orders", "payments"))
    source.group("g", {("orders", 0): 5, ("payments", 0): 6})
    put_runs(target, Segment(0, 0, JUNK, 20))
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await gone(harness)
        rows = {row.topic: row for row in harness.published.reports["g"].partitions}
        assert {topic: (row.evidence, row.written) for topic, row in rows.items()} == {
            "orders": ("run", 5 + JUNK),
            "payments": ("verified", 6 + JUNK),
        }
        assert harness.published.reports["g"].ready
        # Made anew: what was exact there is not any more, and runs are of another one.
        target.topic("A.payments", Log(), topic_id="made anew")
        target.topic("A.orders", Log(), topic_id="made anew")
        await harness.summaries(8)
        report = harness.published.reports["g"]
        assert {row.topic: row.evidence for row in report.partitions} == {
            "orders": "run",
            "payments": "verified",
        }, "the last verdicts stand"
        assert report.reason == AWAY

    harness.play(script)
    assert len(target.altered) == 1


def test_runs_that_did_not_hold_are_not_believed_afterwards() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    put_runs(target, Segment(0, 0, JUNK + 1, 18))
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert harness.published.reports["g"].reason == "evidence_disagrees"
        await gone(harness)
        put_runs(target, Segment(0, 0, JUNK + 1, 19))
        await harness.summaries(8)
        assert harness.published.reports["g"].reason == "evidence_disagrees"

    harness.play(script)
    assert not target.altered


@pytest.mark.parametrize("verify", ["true", "false"])
def test_where_there_are_no_runs_the_last_verdict_counts_while_its_offset_stands(verify: str) -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target, **WITHOUT_TOPIC, translation_verify=verify)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await gone(harness)
        report = harness.published.reports["g"]
        assert (report.ready, report.reason, report.partitions[0].written) == (True, AWAY, 5 + JUNK)
        target.offsets["g"][COPY] = Committed(3 + JUNK)
        target.listed["g"] = GroupListing("g", GroupState.STABLE, "classic", "consumer")
        await harness.summaries(8)
        assert not harness.published.reports["g"].ready, "its members are on the target"
        target.listed["g"] = GroupListing("g", GroupState.EMPTY, "classic", "consumer")
        source.away = None
        await harness.rounds(2)
        assert harness.published.reports["g"].ready

    harness.play(script)


@pytest.mark.parametrize("standing", [None, 3, 9])
def test_a_group_whose_offsets_have_gone_on_the_target_is_no_longer_ready(standing: int | None) -> None:
    """By timestamps alone: nothing can be translated without the source."""
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target, translation_verify="false")

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await gone(harness)
        assert harness.published.reports["g"].ready
        if standing is None:
            del target.offsets["g"][COPY]
        else:
            target.offsets["g"][COPY] = Committed(standing + JUNK)
        await harness.summaries(8)
        report = harness.published.reports["g"]
        assert (report.ready, report.reason) == (False, AWAY)
        assert report.partitions[0].written == (None if standing is None else standing + JUNK)
        changes = len(harness.published.changes)
        await harness.summaries(8)
        assert len(harness.published.changes) == changes, "it is published once"

    harness.play(script)


def test_a_group_beyond_those_that_are_remembered_is_not_ready_without_the_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(round, "MOST", 0)
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert harness.published.reports["g"].ready
        await gone(harness)
        assert not harness.published.reports["g"].ready

    harness.play(script)


def test_while_the_source_hangs_the_target_is_looked_at_at_every_interval() -> None:
    """With a source that takes connections and never answers; admin.timeout.ms is a minute."""
    source, target = behind()
    harness = GroupOffsetHarness(source, target)

    async def script(running: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await gone(harness)
        source.away = None
        with hanging(source) as patch:
            copy_the_rest(target)
            first = await harness.summaries(8)
            assert shown(harness.published.reports["g"]) == ("exact", "run", 15 + JUNK, 15 + JUNK, AWAY, True)
            later = await harness.summaries(2)
            assert first.target_monotonic_ms is not None
            assert later.target_monotonic_ms is not None
            assert later.target_monotonic_ms > first.target_monotonic_ms
            assert later.as_of_ms == first.as_of_ms
            patch.setattr(instance, "REQUESTED_PROBE", 0.05)
            answer = await running.operate("refresh", {"without_source": True})
            assert str(answer["away"]).startswith("source cluster: ")
            with pytest.raises(KafkaFailure, match=r"^source cluster: "):
                await running.operate("refresh", {})
            del target.offsets["g"][COPY]
            target.ids.pop(COPY.topic)
            del target.logs[COPY]
            await harness.summaries(8)
            assert not harness.published.reports["g"].ready
            assert harness.published.reports["g"].reason == "target_topic_missing"

    harness.play(script)


def test_a_source_that_hangs_in_the_middle_of_a_round_is_away_before_its_requests_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target is looked at meanwhile; once the source answers, a round of both follows."""
    monkeypatch.setattr(source_probe, "LONG_SECONDS", 0.01)
    monkeypatch.setattr(source_probe, "HANGS_SECONDS", 0.02)
    source, target = behind()
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        before = await harness.rounds(2)
        with hanging(source):
            copy_the_rest(target)
            await harness.summaries(8)
            away = harness.published.summaries[-1]
            assert away.away_since_ms.keys() == {"source"}
            assert (away.target_monotonic_ms or 0) > (before.target_monotonic_ms or 0)
            assert shown(harness.published.reports["g"]) == ("exact", "run", 15 + JUNK, 15 + JUNK, AWAY, True)
        assert (await harness.rounds(2)).away_since_ms == {}
        assert harness.published.reports["g"].ready

    harness.play(script)


def test_the_rounds_of_a_slow_source_come_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take longer each time that it has answered late."""
    monkeypatch.setattr(source_probe, "LONG_SECONDS", 0.01)
    monkeypatch.setattr(source_probe, "HANGS_SECONDS", 0.02)
    source, target = behind()
    harness = GroupOffsetHarness(source, target)
    asked = source.committed

    async def slowly(
        groups: Sequence[str],
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | KafkaFailure]:
        await asyncio.sleep(0.1)
        return await asked(groups)

    async def script(_: GroupOffsetInstance) -> None:
        monkeypatch.setattr(source, "committed", slowly)
        await harness.rounds(2)
        assert 0 < sum("source" in each.away_since_ms for each in harness.published.summaries) < 40

    harness.play(script)


@contextmanager
def hanging(cluster: FakeCluster) -> Iterator[pytest.MonkeyPatch]:
    """Requests for groups' offsets are left without an answer, until it answers all of them."""
    released, asked = asyncio.Event(), cluster.committed

    async def late(groups: Sequence[str]) -> dict[str, Mapping[TopicPartition, Committed] | KafkaFailure]:
        await released.wait()
        return await asked(groups)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "committed", late)
        yield patch
    released.set()


def test_with_both_away_it_goes_on_trying() -> None:
    source, target = behind()
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        source.away = target.away = UNREACHABLE
        await harness.summaries(4)
        target.away = None
        copy_the_rest(target)
        await harness.summaries(8)
        assert target.offsets["g"][COPY].offset == 15 + JUNK

    harness.play(script)


def test_once_an_interval_however_often_the_source_is_tried() -> None:
    source, target = behind()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        source.away = UNREACHABLE
        await harness.summaries(2)
        instance.interval = 600.0
        await harness.summaries(4)
        asked = target.calls["topics"]
        await asyncio.wait_for(harness.summaries(10), 60)
        assert target.calls["topics"] == asked

    harness.play(script)


def test_a_group_whose_offsets_are_gone_is_not_remembered() -> None:
    source, target = behind()
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        source.group("g", {})
        await harness.rounds(2)
        altered = len(target.altered)
        await gone(harness)
        copy_the_rest(target)
        await harness.summaries(8)
        assert len(target.altered) == altered

    harness.play(script)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round, "MOST", 5)
    kept = LastCommits()
    partitions = [TopicPartition("orders", number) for number in range(3)]
    offsets = {(tp, TopicPartition("A.orders", tp.partition)): Committed(tp.partition) for tp in partitions}
    kept.keep("a", offsets)
    kept.keep("a", offsets)
    kept.keep("b", offsets)
    assert list(kept.get(["a", "b", "c"])) == ["a"]
    kept.keep("a", {})
    kept.forget("c")
    kept.keep("b", offsets)
    assert kept.get(["a", "b"]) == {"b": offsets}


def test_a_target_topic_that_is_deleted_meanwhile_is_no_answer_any_more() -> None:
    source, target = behind(5)
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await gone(harness)
        assert shown(harness.published.reports["g"])[-2:] == (AWAY, True)
        del target.ids["A.orders"], target.logs[COPY]
        target.offsets["g"].clear()
        await harness.summaries(8)
        assert shown(harness.published.reports["g"]) == (
            "pending",
            None,
            None,
            None,
            "target_topic_missing",
            False,
        )

    harness.play(script)


# -- what the source has refused ---------------------------------------------------------------------------------------

REFUSED = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "not allowed")


def test_a_group_that_the_source_refused_before_it_went_away_is_no_yes() -> None:
    """Where the group was when the source answered last nobody knows."""
    source, target = behind()
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert harness.published.reports["g"].ready
        source.group_trouble["g"] = REFUSED
        await harness.rounds(2)
        assert harness.published.reports["g"].reason == "source_not_authorized"
        await gone(harness)
        copy_the_rest(target)
        await harness.summaries(8)
        report = harness.published.reports["g"]
        assert (report.ready, report.reason) == (False, AWAY)
        source.away = None
        source.group_trouble.clear()
        await harness.rounds(2)
        assert harness.published.reports["g"].ready

    harness.play(script)


def test_offsets_of_a_topic_that_the_source_hides_by_now_are_refused_and_not_gone() -> None:
    """A broker leaves out offsets of topics that we may not describe: the rest would look like all."""
    source, target = behind()
    for cluster, name in ((source, "stock"), (target, "A.stock")):
        log = Log()
        log.append(3)
        cluster.topic(name, log)
    both = {("orders", 0): 15, ("stock", 0): 3}
    source.group("g", both)
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        def rows() -> dict[str, tuple[str, str | None]]:
            report = harness.published.reports["g"]
            return {row.topic: (row.verdict, row.reason) for row in report.partitions}

        await harness.rounds(2)
        assert harness.published.reports["g"].ready
        source.topic_trouble["orders"] = REFUSED
        source.group("g", {("stock", 0): 3})
        await harness.rounds(2)
        assert rows() == {"orders": ("pending", "source_not_authorized"), "stock": ("exact", None)}
        assert not harness.published.reports["g"].ready
        await gone(harness)
        assert not harness.published.reports["g"].ready
        source.away = None
        source.topic_trouble.clear()
        await harness.rounds(2)
        assert list(rows()) == ["stock"], "it has no offset of orders any more"
        source.group("g", both)
        await harness.rounds(2)
        assert harness.published.reports["g"].ready

    harness.play(script)


@pytest.mark.parametrize("runs", [True, False])
def test_an_empty_partition_does_not_hold_up_its_group(runs: bool) -> None:
    source, target = mirrored()
    for cluster, topic in ((source, "empty"), (target, "A.empty")):
        cluster.topic(topic, Log())
    source.group("g", {("orders", 0): 5, ("empty", 0): 0})
    if runs:
        put_runs(target, Segment(0, 0, JUNK, 20))
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert harness.published.reports["g"].ready
        await gone(harness)
        report = harness.published.reports["g"]
        assert (report.ready, report.reason) == (True, AWAY)
        assert {row.topic: row.written for row in report.partitions} == {"orders": 5 + JUNK, "empty": 0}

    harness.play(script)


@pytest.mark.parametrize("runs", [True, False])
def test_a_group_whose_records_the_target_has_lost_since_is_no_longer_ready(runs: bool) -> None:
    source, target = mirrored(topics=("orders", "payments"))
    source.group("g", {("orders", 0): 5, ("payments", 0): 6})
    if runs:
        put_runs(target, Segment(0, 0, JUNK, 20))
    harness = GroupOffsetHarness(source, target, translation_verify="false")

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await gone(harness)
        assert harness.published.reports["g"].ready
        target.logs[TopicPartition("A.payments", 0)].start = 8 + JUNK
        await harness.summaries(8)
        report = harness.published.reports["g"]
        assert (report.ready, report.reason) == (False, AWAY)

    harness.play(script)


def test_a_group_that_has_offsets_only_in_topics_of_others_is_none_of_this_flow_then_either() -> None:
    source, target = mirrored()
    source.topic("B.of-the-target", Log())
    source.group("g", {("orders", 0): 5})
    source.group("another", {("B.of-the-target", 0): 0})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await gone(harness)
        assert harness.published.reports.keys() == {"g"}

    harness.play(script)


def test_a_partition_that_the_target_does_not_have_is_named_then_too() -> None:
    """It was added on the source, and the source went away before the mirror had looked."""
    source, target = mirrored()
    source.logs[TopicPartition("orders", 1)] = Log(epoch=1)
    source.group("g", {("orders", 0): 20, ("orders", 1): 0})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert harness.published.reports["g"].reason == "target_partition_missing"
        await gone(harness)
        (*_rest, added) = harness.published.reports["g"].partitions
        assert added.reason == "target_partition_missing"

    harness.play(script)

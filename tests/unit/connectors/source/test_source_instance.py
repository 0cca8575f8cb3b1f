"""The life of a source connector over clusters in memory and a pipeline that only remembers what it is told."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from bridge.errors import KafkaFailure, KafkaFault, OperationRefused
from bridge.model.copying import (
    Gap,
    GapKind,
    PipelineState,
    PipelineStatus,
    Progress,
)
from bridge.model.partition_states import PartitionState, PartitionStatus, Skip
from bridge.model.topics import PatternType, Permission, TopicAcl, TopicOperation
from bridge.model.values import Side, TopicPartition
from connectors.base import Summary
from connectors.source import discovery, take_over, task
from connectors.source.task import SourceInstance, planned_skip
from tests.support.messages import message, message_pattern
from tests.support.waiting import until
from tests.support.waits import WAIT
from tests.unit.connectors.fake_clusters import Log
from tests.unit.connectors.run_instance import ALONE, NOBODY
from tests.unit.connectors.source.source_harness import PROPS, SourceHarness

REFUSED = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "not allowed")
UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "connection refused")
OTHER = KafkaFailure(KafkaFault.OTHER, "no such factor")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(task, "LONGEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(discovery, "LOOK_AGAIN_SECONDS", 0.005)
    monkeypatch.setattr(task, "WATCH_SECONDS", 0.005)
    monkeypatch.setattr(take_over, "PATIENCE_SECONDS", 0.01)


def test_topics_are_made_with_their_configs_and_copied_once_they_are_there() -> None:
    harness = SourceHarness()
    harness.source.topic_admin.overrides["orders"] = {"retention.ms": "7", "min.insync.replicas": "2"}

    async def script(instance: SourceInstance) -> None:
        summary = await harness.begin(instance)
        assert summary.clusters_seen == {"source", "target"}
        (made,) = harness.target.topic_admin.created
        assert made == ("A.orders", 2, 2, {"retention.ms": "7"})
        assert harness.assigned == [(TopicPartition("orders", number), "A.orders") for number in range(2)]
        first = harness.pipeline.assigned[-1][0]
        assert (first.source_topic_id, first.target_topic_id) == ("id-of-orders", "id-of-A.orders")
        assert harness.pipeline.spec == harness.options.spec("mirror", PROPS)
        await harness.until(lambda summary: summary.last_success_ms is not None)

    harness.play(script)


def test_nothing_is_made_in_a_target_that_is_the_source() -> None:
    harness = SourceHarness()
    harness.target.own_id = harness.source.own_id

    async def script(instance: SourceInstance) -> None:
        instance.assign(ALONE)
        summary = await harness.until(lambda summary: summary.failure is not None)
        assert f"both have the id {harness.source.own_id}" in (summary.failure or "")
        assert (harness.target.created, harness.target.topic_admin.created) == ([], [])

    harness.play(script)


def test_configs_that_the_target_does_not_know_are_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = SourceHarness()
    overrides = {"retention.ms": "7", "message.format.version": "2.8", "vendors.own": "x"}
    harness.source.topic_admin.overrides["orders"] = overrides

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        (made,) = harness.target.topic_admin.created
        assert made.configs == {"retention.ms": "7"}
        (line,) = (each for each in caplog.messages if "A.orders is made without" in each)
        assert "message.format.version, vendors.own" in line

    harness.play(script)


def test_internal_topics_of_connect_are_not_copied_and_are_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = SourceHarness()
    harness.often()
    for topic in ("connect-configs", "connect-status"):
        harness.source.grow(topic, 1)

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        assert [each.name for each in harness.target.topic_admin.created] == ["A.orders"]
        (line,) = (each for each in caplog.messages if "internal topics of Connect" in each)
        assert line.startswith("connect-configs, connect-status not copied")

    harness.play(script)


def test_all_configs_are_kept_where_the_target_does_not_show_which_it_knows() -> None:
    harness = SourceHarness()
    overrides = {"retention.ms": "7", "vendors.own": "x"}
    harness.source.topic_admin.overrides["orders"] = overrides
    harness.target.topic_admin.trouble["mm2-offset-runs.A.internal"] = REFUSED

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        (made,) = harness.target.topic_admin.created
        assert made.configs == overrides

    harness.play(script)


def test_what_a_stock_mirror_has_copied_is_known_before_anything_is() -> None:
    harness = SourceHarness()
    harness.often()
    no_offset = 1 << 63
    harness.published.stored = {
        ("A", 0, "orders"): 41,
        ("A", 1, "orders"): no_offset,
        ("A", 0, "later"): -1,
        ("B", 1, "orders"): 7,
    }
    harness.published.answering.clear()

    async def script(instance: SourceInstance) -> None:
        instance.assign(ALONE)
        summary = await harness.until(lambda summary: bool(summary.errors))
        assert message("copying.not_taken_over", partitions=2) in summary.errors[0]
        assert summary.failure is None
        assert not harness.pipelines.started
        harness.published.answering.set()
        await harness.until(lambda summary: not summary.errors)
        assert [each.start for each in harness.pipeline.assigned[-1]] == [42, None]
        # What comes later waits for an answer of its own, and holds nothing else up.
        harness.published.answering.clear()
        harness.source.topic("later", Log())
        await harness.until(lambda summary: bool(summary.errors))
        assert [each.start for each in harness.pipeline.assigned[-1]] == [42, None]
        harness.published.answering.set()
        await harness.until(lambda summary: not summary.errors)
        assert [(each.source.topic, each.start) for each in harness.pipeline.assigned[-1]] == [
            ("later", None),
            ("orders", 42),
            ("orders", None),
        ]
        # Another start of the task asks again: an operator may have altered the offsets meanwhile.
        harness.published.stored["A", 1, "orders"] = 9
        instance.assign(NOBODY)
        await asyncio.wait_for(harness.pipeline.stopping.wait(), 60)
        instance.assign(ALONE)
        await harness.until(lambda _: len(harness.pipelines.started) == 2 and bool(harness.pipeline.assigned))
        assert [each.start for each in harness.pipeline.assigned[-1]] == [None, 42, 10]

    harness.play(script)


@pytest.mark.parametrize("location", ["source", "target", None])
def test_internal_topics_are_made_before_anything_is_copied(location: str | None) -> None:
    harness = SourceHarness()
    harness.options = replace(
        harness.options, syncs_on_target=location == "target", emit_syncs=location is not None
    )
    state = [(f"mm2-{name}.A.internal", 3) for name in ("offset-runs", "layout", "gaps")]

    async def script(instance: SourceInstance) -> None:
        trouble_ = KafkaFailure(KafkaFault.OTHER, "no such factor")
        harness.target.create_trouble[state[2][0]] = trouble_
        instance.assign(ALONE)
        summary = await harness.until(lambda summary: bool(summary.errors))
        assert summary.errors == ["target cluster: no such factor"]
        assert (harness.pipelines.started, harness.target.topic_admin.created) == ([], [])
        harness.target.create_trouble.clear()
        await harness.until(lambda summary: summary.rounds > 0)
        at_source = [("mm2-offset-syncs.B.internal", 3)] if location == "source" else []
        at_target = [("mm2-offset-syncs.A.internal", 3)] if location == "target" else []
        assert harness.source.created == at_source
        assert list(dict.fromkeys(harness.target.created)) == [*state, *at_target]
        assert len(harness.pipelines.started) == 1

    harness.play(script)


@pytest.mark.parametrize("name", ["offset-runs", "layout", "gaps", "offset-syncs"])
def test_nothing_is_copied_with_a_state_topic_that_is_not_compacted(name: str) -> None:
    harness = SourceHarness()
    harness.options = replace(harness.options, syncs_on_target=True)
    topic = f"mm2-{name}.A.internal"
    harness.target.topic(topic, Log())

    async def script(instance: SourceInstance) -> None:
        instance.assign(ALONE)
        summary = await harness.until(lambda summary: summary.failure is not None)
        assert summary.failure is not None
        assert re.search(message_pattern("topics.not_compact", topic=topic), summary.failure)
        assert (harness.pipelines.started, harness.target.topic_admin.created) == ([], [])

    harness.play(script)


def test_a_state_topic_is_looked_at_again_and_made_again_while_records_are_copied() -> None:
    harness = SourceHarness()
    harness.often()
    runs = "mm2-offset-runs.A.internal"

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        del harness.target.ids[runs]
        await harness.until(lambda _: runs in harness.target.ids)
        harness.target.topic_admin.overrides[runs] = {"cleanup.policy": "delete"}
        summary = await harness.until(lambda summary: summary.failure is not None)
        assert runs in str(summary.failure)

    harness.play(script)


def test_b26_what_is_made_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "AWAITED_SECONDS", WAIT)
    harness = SourceHarness()
    harness.target.topic_admin.slow.add("A.orders")

    async def script(instance: SourceInstance) -> None:
        instance.assign(ALONE)
        looked = asyncio.Event()
        harness.target.before = lambda _: looked.set() if harness.target.calls["topics"] > 8 else None
        await looked.wait()
        assert harness.pipelines.started == []
        harness.target.topic_admin.appear()
        await harness.until(lambda summary: summary.rounds > 0)
        assert len(harness.assigned) == 2
        assert len(harness.target.topic_admin.created) == 1

    harness.play(script)


def test_b26_what_does_not_appear_is_told_and_the_rest_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = SourceHarness()
    harness.often()
    monkeypatch.setattr(discovery, "AWAITED_SECONDS", 0.02)
    harness.source.topic("stock", Log())
    harness.target.topic_admin.slow.add("A.orders")

    async def script(instance: SourceInstance) -> None:
        instance.assign(ALONE)
        summary = await harness.until(lambda summary: bool(summary.errors))
        assert summary.failure is None
        (error,) = summary.errors
        assert error == message("copying.partitions_missing", topic="A.orders")
        assert harness.assigned == [(TopicPartition("stock", 0), "A.stock")]

    harness.play(script)


def test_b27_a_first_look_that_fails_is_tried_again_soon_without_refresh_too() -> None:
    harness = SourceHarness(refresh_topics_enabled="false")
    harness.source.away = KafkaFailure(KafkaFault.TIMEOUT, "nobody there")
    began_ms = int(time.time() * 1000)

    async def script(instance: SourceInstance) -> None:
        instance.assign(ALONE)
        summary = await harness.until(lambda summary: bool(summary.errors))
        assert (summary.errors, summary.failure) == (["source cluster: nobody there"], None)
        assert summary.clusters_seen == frozenset()
        assert began_ms <= summary.away_since_ms["source"] <= int(time.time() * 1000)
        assert list(summary.away_since_ms) == ["source"]
        since = summary.away_since_ms
        later = int(time.time() * 1000) + 5
        await harness.until(lambda summary: time.time() * 1000 > later)
        assert harness.published.summaries[-1].away_since_ms == since, "since the first round that failed"
        harness.source.away = None
        summary = await harness.until(lambda summary: summary.rounds > 0 and not summary.errors)
        assert summary.away_since_ms == {}
        assert len(harness.assigned) == 2
        before = harness.source.calls["topic_names"]
        await asyncio.sleep(0.05)
        assert harness.source.calls["topic_names"] == before, "and not refreshed any more"

    harness.play(script)


def test_new_topics_and_partitions_are_found_and_gone_ones_left_out() -> None:
    harness = SourceHarness()
    harness.often()

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        harness.source.grow("orders", 3)
        harness.source.topic("stock", Log())
        await harness.until(lambda _: len(harness.assigned) == 4)
        assert harness.target.topic_admin.grown == [{"A.orders": 3}]
        del harness.source.ids["orders"]
        await harness.until(lambda _: harness.assigned == [(TopicPartition("stock", 0), "A.stock")])
        assert "A.orders" in harness.target.ids, "B28: what was copied stays"
        assert len(harness.pipelines.started) == 1

    harness.play(script)


DAMAGED = PartitionStatus("orders", 0, PartitionState.FAILED, 1, "damaged", "skip it", 5, 9)


def test_offsets_are_left_out_where_the_partition_stands() -> None:
    harness = SourceHarness()

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        place = DAMAGED.source
        progress = {place: Progress(*place, "A.orders", 5, 20)}
        harness.pipeline.status = PipelineStatus(PipelineState.COPYING, 1, progress, partitions=[DAMAGED])
        arguments = {"topic": "orders", "partition": 0, "to": None}
        planned = await instance.operate("skip", {**arguments, "dry_run": True})
        assert planned == {**Skip(*place, 5, 9)._asdict(), "why": "damaged", "done": False}
        assert harness.pipeline.skips == []
        doing = asyncio.create_task(instance.operate("skip", {**arguments, "dry_run": False}))
        await until(lambda: harness.pipeline.skips == [Skip(*place, 5, 9)])
        assert not doing.done()
        progress[place] = progress[place]._replace(position=9)
        assert (await doing)["done"]
        with pytest.raises(OperationRefused, match="is copied"):
            await instance.operate("skip", {**arguments, "partition": 1, "dry_run": False})

    harness.play(script)


@pytest.mark.parametrize(
    ("changes", "to", "expected"),
    [
        ({}, None, 9),
        ({}, 7, 7),
        ({"end": -1}, 7, 7),
        ({"end": -1}, None, "give --to OFFSET"),
        ({}, 5, "not above 5"),
        ({}, 21, "beyond the end"),
        ({"end": 24}, None, 24),
        ({"end": 24}, 25, "beyond the end"),
        ({"offset": -1}, None, "something else than a record"),
        ({"state": PartitionState.GAP}, None, "is copied"),
    ],
)
def test_what_can_be_left_out(changes: dict[str, Any], to: int | None, expected: int | str) -> None:
    known = Progress(*DAMAGED.source, "A.orders", 5, 20)

    def planned() -> Skip:
        return planned_skip("c", DAMAGED.source, DAMAGED._replace(**changes), known, to)

    if isinstance(expected, int):
        assert planned() == Skip("orders", 0, 5, expected)
        return
    with pytest.raises(OperationRefused, match=expected):
        planned()


def test_b28_configs_of_a_topic_that_is_gone_stay() -> None:
    harness = SourceHarness()
    harness.often()
    harness.source.topic_admin.overrides["orders"] = {"retention.ms": "7"}

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        del harness.source.ids["orders"]
        await harness.until(lambda _: harness.assigned == [])
        before = harness.source.calls["topic_names"]
        await harness.until(lambda _: harness.source.calls["topic_names"] > before + 2)
        assert harness.target.topic_admin.overrides["A.orders"] == {"retention.ms": "7"}
        assert harness.target.topic_admin.altered == []

    harness.play(script)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_nobody_can_describe_now_is_copied_on(side: str) -> None:
    harness = SourceHarness()
    harness.often()
    harness.source.topic("stock", Log())

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        before = set(harness.assigned)
        moved = KafkaFailure(KafkaFault.LEADER_MOVED, "leader not available")
        cluster, name = (harness.source, "orders") if side == "source" else (harness.target, "A.orders")
        cluster.topic_trouble[name] = moved
        summary = await harness.until(lambda summary: bool(summary.errors))
        assert summary.errors == [f"{side} cluster: leader not available"]
        assert set(harness.assigned) == before

    harness.play(script)


@pytest.mark.parametrize("failure", [REFUSED, OTHER], ids=["missing right", "other"])
def test_what_may_not_be_made_fails_no_task_and_the_other_topics_are_copied(failure: KafkaFailure) -> None:
    harness = SourceHarness()
    harness.source.topic("stock", Log())
    harness.target.topic_admin.trouble["A.orders"] = failure

    async def script(instance: SourceInstance) -> None:
        instance.assign(ALONE)
        rounds = (await harness.until(lambda summary: bool(summary.errors))).rounds
        summary = await harness.until(lambda summary: summary.rounds > rounds + 3)
        assert summary.errors == [f"target cluster: {failure}"]
        assert (summary.failure, summary.failure_code) == (None, "")
        assert summary.away_since_ms == {}, "it has answered"
        assert harness.assigned == [(TopicPartition("stock", 0), "A.stock")]

    harness.play(script)


def test_missing_describe_configs_acl() -> None:
    """MirrorSourceConnectorTest.testMissingDescribeConfigsAcl: stock's words, in health instead of the log."""
    harness = SourceHarness()
    harness.source.topic("stock", Log())
    harness.source.topic_admin.trouble |= {"orders": REFUSED, "stock": REFUSED}

    async def script(instance: SourceInstance) -> None:
        instance.assign(ALONE)
        summary = await harness.until(lambda summary: bool(summary.errors))
        assert message("copying.configs_denied", topics="orders, stock", cluster="A") in summary.errors[0]

    harness.play(script)


def test_without_an_active_task_nothing_is_copied_and_with_one_again() -> None:
    harness = SourceHarness()

    async def script(instance: SourceInstance) -> None:
        await asyncio.sleep(0.02)
        assert (harness.source.calls, harness.pipelines.started) == ({}, [])
        await harness.begin(instance)
        instance.assign(NOBODY)
        await harness.pipeline.stopping.wait()
        calls = harness.source.calls.total() + harness.target.calls.total()
        await asyncio.sleep(0.03)
        assert harness.source.calls.total() + harness.target.calls.total() == calls
        instance.assign(ALONE)
        await harness.until(lambda _: len(harness.pipelines.started) == 2)

    harness.play(script)


def test_not_enabled_it_does_nothing_at_all() -> None:
    harness = SourceHarness(enabled="false")

    async def script(instance: SourceInstance) -> None:
        instance.assign(ALONE)
        await asyncio.sleep(0.02)
        assert (harness.source.calls, harness.target.calls) == ({}, {})

    harness.play(script)


def test_what_the_pipeline_says_is_said() -> None:
    harness = SourceHarness()
    gaps = [
        Gap(TopicPartition("orders", 1), GapKind.TRUNCATED, "id", number, number + 4, seen, "retention")
        for number, seen in [(99, 1), *((number, int(time.time() * 1000)) for number in range(12))]
    ]

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        harness.pipeline.status = PipelineStatus(
            PipelineState.RETRYING, errors=["the driver ended"], gaps=gaps
        )
        summary = await harness.until(lambda summary: bool(summary.errors))
        assert (summary.errors, summary.failure, len(summary.gaps)) == (["the driver ended"], None, 11)
        gap = {"place": "orders-1", "kind": "truncated", "start": 11, "end": 15, "detail": "retention"}
        assert summary.gaps[-2] == message("copying.gap", **gap)
        assert summary.gaps[-1] == "2 older gap(s), see the gap ledger"
        harness.pipeline.status = PipelineStatus(PipelineState.COPYING, gaps=gaps[:2])
        well = summary.last_success_ms or 0
        await harness.until(lambda summary: (summary.last_success_ms or 0) > well and len(summary.gaps) == 1)
        harness.pipeline.status = PipelineStatus(PipelineState.COPYING, gaps=gaps[:1])
        await harness.until(lambda summary: not summary.gaps)
        harness.pipeline.status = PipelineStatus(
            PipelineState.FAILED, failure="orders-1: policy says fail", failure_code="policy"
        )
        summary = await harness.until(lambda summary: summary.failure is not None)
        assert (summary.failure, summary.failure_code) == ("orders-1: policy says fail", "policy")

    harness.play(script)


def test_claims_to_what_the_configuration_leaves_out_are_released() -> None:
    """By the name alone: a topic that could not be described, or is gone for now, stays claimed."""
    harness = SourceHarness(topics="orders,payments")

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        harness.pipeline.status = PipelineStatus(PipelineState.COPYING, claimed=("audit", "payments"))
        await harness.pipeline.told.wait()
        assert harness.pipeline.released == ["audit"]

    harness.play(script)


def test_a_cluster_that_does_not_answer_the_pipeline_is_away() -> None:
    """The next look for topics may be ten minutes from now."""
    harness = SourceHarness()

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        began_ms = int(time.time() * 1000)
        gone = PipelineStatus(PipelineState.RETRYING, 1, errors=["refused"], away=(Side.SOURCE,))
        harness.pipeline.status = gone
        summary = await harness.until(lambda summary: bool(summary.away_since_ms))
        assert summary.away_since_ms.keys() == {"source"}
        assert summary.away_since_ms["source"] >= began_ms
        harness.pipeline.status = PipelineStatus(PipelineState.COPYING, 1)
        assert (await harness.until(lambda summary: not summary.errors)).away_since_ms == {}

    harness.play(script)


def test_a_cluster_that_is_back_is_seen_soon_however_long_it_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups are not ready before that, though the copy has gone on."""
    monkeypatch.setattr(task, "FIRST_RETRY_SECONDS", 3600.0)
    monkeypatch.setattr(task, "LONGEST_RETRY_SECONDS", 3600.0)
    monkeypatch.setattr(task, "AWAY_SECONDS", 0.02)
    harness = SourceHarness()
    harness.often()

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        harness.source.away = UNREACHABLE
        await harness.until(lambda summary: summary.away_since_ms.keys() == {"source"})
        harness.source.away = None
        await harness.until(lambda summary: not summary.away_since_ms)

    harness.play(script)


def test_copying_goes_on_while_one_topic_has_an_error() -> None:
    """Records of the other topics arrive; the error lasts as long as its cause."""
    harness = SourceHarness()

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)

        async def published(*errors: str, running: bool) -> Summary:
            harness.pipeline.status = PipelineStatus(
                PipelineState.RETRYING, 1, errors=errors, slices_running=running
            )
            return await harness.until(lambda summary: summary.errors == list(errors))

        first = await published("refused", running=True)
        second = await harness.until(lambda summary: (summary.copying_ms or 0) > (first.copying_ms or 0))
        assert second.last_success_ms == first.last_success_ms
        stopped = await published("ended", running=False)
        assert (await published("ended again", running=False)).copying_ms == stopped.copying_ms

    harness.play(script)


def test_progress_is_told_when_it_changes_and_for_the_last_time_when_copying_stops() -> None:
    harness = SourceHarness()
    place = TopicPartition("orders", 1)

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        harness.pipeline.status = PipelineStatus(
            PipelineState.COPYING, 1, {place: Progress(*place, "A.orders", 5, 7)}
        )
        published, summaries = harness.published.copying, harness.published.summaries
        await harness.until(lambda _: bool(published and published[-1].changed))
        (row,) = published[-1].changed
        assert (row.target_topic, row.position, row.lag, row.records) == ("A.orders", 5, 2, 0)
        assert (published[0].whole, published[-1].totals.partitions) == (True, 2)
        reports, looks = len(published), len(summaries)
        await harness.until(lambda _: len(summaries) > looks + 3)
        assert len(published) == reports
        instance.assign(NOBODY)
        harness.pipeline.status = replace(
            harness.pipeline.status,
            progress={place: Progress(*place, "A.orders", 7, 7, 2, 200, 0.0, 0.0, 9, 9)},
        )
        await harness.pipeline.stopping.wait()

    harness.play(script)
    last = harness.published.copying[-1].totals
    assert (last.state, last.records, last.lag) == ("stopped", 2, None)


def test_topics_that_nothing_is_copied_of_are_said() -> None:
    harness = SourceHarness(topics="invoices.*,__audit,B.there", topics_exclude="x")
    harness.often()

    async def script(instance: SourceInstance) -> None:
        summary = await harness.begin(instance)
        assert "topics" in summary.waits_for
        assert [name for error in summary.errors for name in ("__audit", "B.there") if name in error] == [
            "__audit",
            "B.there",
        ]
        harness.source.topic("invoices-1", Log())
        await harness.until(lambda summary: not summary.waits_for)
        assert harness.assigned == [(TopicPartition("invoices-1", 0), "A.invoices-1")]

    harness.play(script)


def test_b25_a_remote_topic_that_overwrites_timestamps_is_named() -> None:
    harness = SourceHarness()
    harness.often()
    harness.target.topic("A.orders", Log(), Log())
    harness.target.append_time.add("A.orders")

    async def script(instance: SourceInstance) -> None:
        (error,) = (await harness.begin(instance)).errors
        assert error.startswith(message("copying.overwrites", topic="A.orders"))
        harness.target.append_time.clear()
        await harness.until(lambda summary: not summary.errors)

    harness.play(script)


def test_configs_are_synced_by_difference_and_nothing_is_written_twice() -> None:
    harness = SourceHarness()
    harness.often()
    harness.target.topic("A.orders", Log(), Log())
    harness.target.topic_admin.overrides["A.orders"] = {"retention.ms": "9"}
    harness.source.topic_admin.overrides["orders"] = {"cleanup.policy": "compact"}

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        await harness.until(lambda _: harness.target.calls["configs"] > 3)
        changes = {"cleanup.policy": "compact", "retention.ms": None}
        assert harness.target.topic_admin.altered == [{"A.orders": changes}]

    harness.play(script)


def rule(name: str, pattern: PatternType = PatternType.LITERAL) -> TopicAcl:
    return TopicAcl(name, pattern, "User:app", "*", TopicOperation.READ, Permission.ALLOW)


@pytest.mark.parametrize("revoke", ["true", "false"])
def test_acls_are_synced_by_difference_and_revoked_when_asked_to(revoke: str) -> None:
    harness = SourceHarness(sync_topic_acls_revoke=revoke)
    harness.often()
    harness.source.topic_admin.rules = {rule("orders"), rule("*")}

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        await harness.until(lambda _: harness.target.calls["acls"] > 2)
        everything = rule("A.", PatternType.PREFIXED)
        assert harness.target.topic_admin.rules_created == [everything, rule("A.orders")]
        harness.source.topic_admin.rules = {rule("orders")}
        seen = harness.target.calls["acls"]
        await harness.until(lambda _: harness.target.calls["acls"] > seen + 2)
        assert harness.target.topic_admin.rules_deleted == ([everything] if revoke == "true" else [])
        assert len(harness.target.topic_admin.rules_created) == 2

    harness.play(script)


@pytest.mark.parametrize("side", ["source", "target"])
def test_no_broker_acl_authorizer(side: str, caplog: pytest.LogCaptureFixture) -> None:
    """MirrorSourceConnectorTest.testNoBrokerAclAuthorizer."""
    harness = SourceHarness()
    harness.often()
    caplog.set_level("INFO", "connectors.source")
    without = harness.source if side == "source" else harness.target
    harness.source.topic_admin.rules = {rule("orders")}
    without.topic_admin.rules = None

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        summary = await harness.until(lambda _: without.calls["acls"] > 3)
        assert (summary.errors, harness.target.topic_admin.rules_created) == ([], [])

    harness.play(script)
    assert caplog.messages.count(f"the {side} cluster has no authorizer: no ACLs to sync") == 1


def test_acls_that_we_may_not_see_fail_nothing_and_are_named() -> None:
    harness = SourceHarness()

    refused = 0

    async def refuse() -> None:
        nonlocal refused
        refused += 1
        raise REFUSED

    async def script(instance: SourceInstance) -> None:
        harness.source.topic_admin.acls = refuse  # type: ignore[method-assign]
        await harness.begin(instance)
        summary = await harness.until(lambda summary: bool(summary.errors))
        assert summary.failure is None
        assert "sync.topic.acls.enabled=false" in summary.errors[0]
        refused_before = refused
        await harness.until(lambda _: refused > refused_before + 1)
        assert harness.published.summaries[-1].failure is None
        assert len(harness.assigned) == 2

    harness.play(script)


def test_a_topic_that_the_source_hides_by_now_is_named_and_not_given_up() -> None:
    """A broker lists no topic that we may not describe."""
    harness = SourceHarness(topics="orders,st.*")
    harness.often()
    harness.source.topic("stock", Log())

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        before = set(harness.assigned)
        assert {place.topic for place, _ in before} == {"orders", "stock"}
        hidden = {name: harness.source.ids.pop(name) for name in ("orders", "stock")}
        for name in hidden:
            harness.source.topic_trouble[name] = KafkaFailure(
                KafkaFault.NOT_AUTHORIZED, f"grant READ on topic {name}"
            )
        summary = await harness.until(lambda summary: len(summary.errors) == 2)
        assert summary.errors == [
            f"source cluster: grant READ on topic {name}" for name in ("orders", "stock")
        ]
        assert (summary.failure, set(harness.assigned)) == (None, before)
        harness.source.ids |= hidden
        harness.source.topic_trouble.clear()
        await harness.until(lambda summary: not summary.errors)
        assert set(harness.assigned) == before

    harness.play(script)

"""The connector at work over clusters in memory: which groups, when, and what is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import Committed, GroupState, TopicPartition, task_of
from connectors import cluster_away
from connectors.base import Assignment
from connectors.group_offset.task import GroupOffsetInstance
from tests.support.messages import message
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import GroupOffsetHarness, hasty

COPY = TopicPartition("A.orders", 0)
UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
REFUSED = KafkaFailure(KafkaFault.CREDENTIALS, "Authentication failed", retriable=False)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)


# -- which groups ----------------------------------------------------------------------------------------------------


def grouped() -> tuple[FakeCluster, FakeCluster]:
    source, target = mirrored()
    for name in ("orders-app", "payments-app", "console-consumer-1"):
        source.group(name, {("orders", 0): 5})
    source.group("tool", {("orders", 0): 5}, protocol="")
    source.group("new", {("orders", 0): 5}, kind="consumer")
    source.group("connect", {("orders", 0): 5}, protocol="connect")
    source.group("shared", {}, kind="share", protocol="share")
    source.group("flows", {}, GroupState.STABLE, kind="streams", protocol="streams")
    return source, target


def written(target: FakeCluster) -> set[str]:
    return {group for group, _ in target.altered}


def test_groups_as_stock_lists_them() -> None:
    harness = GroupOffsetHarness(*grouped())

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)

    harness.play(script)
    assert written(harness.target) == {"orders-app", "payments-app", "tool", "new"}
    reasons = {name: report.reason for name, report in harness.published.reports.items()}
    unsupported = "group_type_unsupported"
    assert reasons == {
        **dict.fromkeys(("orders-app", "payments-app", "tool", "new"), None),
        **dict.fromkeys(("shared", "flows"), unsupported),
    }
    assert not harness.published.reports["shared"].ready
    assert harness.published.reports["shared"].bound is None
    assert len(harness.published.changes) == 2  # the groups, and those of other types; then nothing was new


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"groups": "orders-.*"}, {"orders-app"}),
        ({"groups_exclude": "tool,new"}, {"orders-app", "payments-app", "console-consumer-1"}),
        ({"task_assigned_groups": "tool,absent"}, {"tool"}),
    ],
)
def test_filters(given: dict[str, str], expected: set[str]) -> None:
    harness = GroupOffsetHarness(*grouped(), **given)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds()

    harness.play(script)
    assert written(harness.target) == expected


def test_tasks_share_the_groups_and_take_over_when_told() -> None:
    source, target = mirrored()
    names = [f"g{number}" for number in range(40)]
    for name in names:
        source.group(name, {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)
    mine = {name for name in names if task_of(name, 3) in (0, 2)}

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        assert written(target) == mine == set(harness.published.reports)
        assert {report.task for report in harness.published.reports.values()} == {0, 2}
        instance.assign(Assignment(3, frozenset({0, 1, 2})))
        await harness.rounds(2)
        assert written(target) == set(names)
        instance.assign(Assignment(3, frozenset({1})))
        before, writes = set(harness.published.reports), len(written(target))
        await harness.rounds(2)
        # What is known of groups of a task that does not run stays.
        after = set(harness.published.reports), len(written(target))
        assert after == (before, writes) == (set(names), 40)

    harness.play(script, Assignment(3, frozenset({0, 2})))


def test_without_an_active_task_nothing_is_asked_but_who_else_runs_one() -> None:
    source, target = grouped()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await asyncio.sleep(0.1)
        assert source.calls == {}
        assert set(target.calls) <= {"tail"}
        instance.assign(Assignment(1, frozenset({0})))
        await harness.rounds()

    harness.play(script, Assignment(1, frozenset()))
    assert len(harness.clusters.released) == 2


def test_enabled_false_runs_nothing() -> None:
    source, target = grouped()
    harness = GroupOffsetHarness(source, target, enabled="false")

    async def script(_: GroupOffsetInstance) -> None:
        await asyncio.sleep(0.1)

    harness.play(script)
    assert (source.calls, target.calls) == ({}, {})


# -- when ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
def test_new_groups_are_found_at_the_refresh_interval_when_that_is_enabled(enabled: bool) -> None:
    source, target = mirrored()
    source.group("first", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target, refresh_groups_enabled=str(enabled).lower())
    harness.options = hasty(harness.options, refresh=0.05)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds()
        source.group("second", {("orders", 0): 6})
        if enabled:
            source.delete_group("first")
        await harness.rounds(6)

    harness.play(script)
    assert set(harness.published.reports) == ({"second"} if enabled else {"first"})
    assert written(target) == ({"first", "second"} if enabled else {"first"})


def test_groups_that_a_coordinator_has_not_loaded_yet_stay() -> None:
    source, target = mirrored()
    for name in ("loaded", "loading", "deleted"):
        source.group(name, {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)
    harness.options = hasty(harness.options, refresh=0.05)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds()
        source.delete_group("deleted")
        listed = dict(source.listed)
        source.listed.clear()
        source.group_trouble["loading"] = KafkaFailure(KafkaFault.OTHER, "The coordinator is loading")
        listings = source.calls["list_groups"]
        while source.calls["list_groups"] < listings + 3:
            await harness.rounds()
        await harness.rounds(2)
        assert set(harness.published.reports) == {"loaded", "loading"}
        assert harness.published.reports["loading"].reason is not None
        source.listed |= listed
        source.group_trouble.clear()
        source.group("loaded", {("orders", 0): 6})
        await harness.rounds(2)
        assert (target.altered[-1][0], target.altered[-1][1][COPY].offset) == ("loaded", 13)

    harness.play(script)


def test_groups_are_not_listed_every_round() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(5)

    harness.play(script)
    assert source.calls["list_groups"] == 1


def test_a_commit_crosses_within_an_interval() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds()
        source.group("g", {("orders", 0): 9})
        await harness.rounds(2)

    harness.play(script)
    assert target.offsets["g"][COPY].offset == 9 + JUNK
    assert harness.published.reports["g"].partitions[0].written == 9 + JUNK


# -- trouble ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_round_that_fails_is_tried_again_soon_and_names_the_side(side: str) -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    source.group("shared", {}, kind="share")
    harness = GroupOffsetHarness(source, target)
    harness.options = hasty(harness.options, sync=2.0)
    cluster = source if side == "source" else target

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds()
        assert harness.published.reports["g"].ready
        cluster.away = UNREACHABLE
        instance.assign(Assignment(2, frozenset({0, 1})))  # so that the next round is now
        summary = await harness.summaries(4)
        assert harness.published.reports["g"].reason == f"{side}_unreachable"
        # Its last verdict is still told.
        assert harness.published.reports["g"].partitions[0].written == 5 + JUNK
        assert summary.errors == [f"{side} cluster: nobody there"]
        assert (summary.failure, summary.rounds) == (None, 1)
        cluster.away = None
        healed = await asyncio.wait_for(harness.rounds(), 60.0)
        assert healed.errors == []
        assert harness.published.reports["g"].reason is None
        assert harness.published.reports["shared"].reason == "group_type_unsupported"

    harness.play(script)


def test_a_single_failed_round_is_no_lasting_error() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    source.away = UNREACHABLE
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.summaries(1)
        source.away = None
        assert harness.published.summaries[0].errors == ()
        assert (await harness.rounds()).errors == []

    harness.play(script)


def test_credentials_refused_three_rounds_in_a_row_are_a_failure() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)
    target.away = REFUSED

    async def script(_: GroupOffsetInstance) -> None:
        await harness.summaries(4)
        assert [summary.failure for summary in harness.published.summaries[:4]] == [
            None,
            None,
            "target cluster: Authentication failed",
            "target cluster: Authentication failed",
        ]
        target.away = None  # and still it goes on
        assert (await harness.rounds()).failure is None

    harness.play(script)


def test_credentials_refused_now_and_then_are_none() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)
    failures = iter([REFUSED, REFUSED, UNREACHABLE] * 3)

    def before(_call: str) -> None:
        source.away = next(failures, None)

    source.before = before

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds()

    harness.play(script)
    assert {summary.failure for summary in harness.published.summaries} == {None}


def test_a_cluster_that_hangs_ends_the_round_in_time() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target, admin_timeout_ms="50")
    stuck = True

    class Hanging(FakeCluster):
        async def committed(
            self, groups: Sequence[str], *, right: str = ""
        ) -> dict[str, Mapping[TopicPartition, Committed] | KafkaFailure]:
            if stuck:
                await asyncio.sleep(60)
            return await super().committed(groups, right=right)

    hanging = Hanging()
    hanging.__dict__.update(source.__dict__)
    harness = GroupOffsetHarness(hanging, target, admin_timeout_ms="50")

    async def script(_: GroupOffsetInstance) -> None:
        nonlocal stuck
        while not (summary := await harness.summaries(1)).errors:
            pass
        assert summary.errors == [message("groups.timeout", side="source")]
        assert harness.published.reports["g"].reason == "source_unreachable"
        stuck = False
        await harness.rounds()

    harness.play(script)
    assert target.offsets["g"][COPY] == Committed(5 + JUNK, "", 5)


def test_a_group_in_trouble_keeps_its_last_verdict_with_the_reason() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    source.group("fine", {("orders", 0): 6})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds()
        source.group_trouble["g"] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "no READ on group g")
        summary = await harness.rounds(2)
        report = harness.published.reports["g"]
        assert (report.reason, report.partitions[0].written) == ("source_not_authorized", 5 + JUNK)
        assert harness.published.reports["fine"].reason is None
        assert list(summary.errors) == ["no READ on group g"]
        source.group_trouble.clear()
        assert list((await harness.rounds(2)).errors) == []
        assert harness.published.reports["g"].reason is None

    harness.play(script)


# -- reports ---------------------------------------------------------------------------------------------------------


def test_only_what_changed_is_reported() -> None:
    source, target = mirrored()
    for number in range(5):
        source.group(f"g{number}", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(3)
        assert [set(change) for change in harness.published.changes] == [
            {f"g{number}" for number in range(5)}
        ]
        source.group("g3", {("orders", 0): 6})
        await harness.rounds(2)
        assert [set(change) for change in harness.published.changes[1:]] == [{"g3"}]

    harness.play(script)


def test_a_report_and_the_sums() -> None:
    source, target = mirrored(partitions=2)
    source.group("g", {("orders", 0): 5, ("orders", 1): 30})
    target.group("busy", {("A.orders", 0): 1}, GroupState.STABLE)
    source.group("busy", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)

    harness.play(script)
    report = harness.published.reports["g"]
    assert (report.connector, report.source, report.target, report.task) == ("c", "A", "B", 0)
    assert (report.ready, report.verdict, report.reason) == (False, "pending", "offset_beyond_end")
    first, second = report.partitions
    assert (first.topic, first.target_topic, first.partition) == ("orders", "A.orders", 0)
    assert (first.committed, first.target_offset, first.written) == (5, 5 + JUNK, 5 + JUNK)
    assert (first.verdict, first.evidence, first.bound, first.reason) == ("exact", "verified", 0, None)
    assert (second.committed, second.target_offset, second.written) == (30, None, None)
    busy = harness.published.reports["busy"]
    assert (busy.ready, busy.target_state, busy.reason) == (False, "ACTIVE", "group_active_on_target")
    assert (busy.partitions[0].written, busy.partitions[0].detail["answer"]) == (1, 5 + JUNK)
    summary = harness.published.summaries[-1]
    assert (summary.groups, summary.exact, summary.bounded, summary.pending) == (2, 1, 0, 2)
    assert dict(summary.reasons) == {"offset_beyond_end": 1, "group_active_on_target": 1}
    assert summary.clusters_seen == {"source", "target"}
    assert summary.last_success_ms is not None
    assert (summary.writes, summary.rounds) == (1, 2)

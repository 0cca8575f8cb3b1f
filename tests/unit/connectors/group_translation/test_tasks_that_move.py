"""Tasks of one connector that go from one service to another: their groups stay in the answers."""

from __future__ import annotations

import asyncio

import pytest

from bridge.model.values import task_of
from connectors import cluster_away
from connectors.base import Assignment
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation import readiness_topic
from tests.support.waiting import until
from tests.unit.connectors.fake_clusters import mirrored
from tests.unit.connectors.group_offset.group_offset_harness import GroupOffsetHarness


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(readiness_topic, "TASKS_EVERY", 0.0)


def test_a_group_that_only_the_other_service_has_listed_stays_with_its_task() -> None:
    """Groups are listed every ten minutes, by each service at its own time."""
    source, target = mirrored(20)
    source.group("old", {("orders", 0): 3})
    stands = [GroupOffsetHarness(source, target), GroupOffsetHarness(source, target)]

    async def go() -> None:
        one, two = (
            GroupOffsetInstance("c", each.options, each.clusters, {}, each.published) for each in stands
        )
        tasks = [frozenset({task_of("new", 2)}), frozenset({1 - task_of("new", 2)})]
        for instance, active in zip((one, two), tasks, strict=True):
            instance.assign(Assignment(2, active))
        running = [asyncio.create_task(each.run()) for each in (one, two)]
        try:
            for stand in stands:
                await stand.rounds(2)
            source.group("new", {("orders", 0): 5})
            await one.operate("refresh", {})
            await until(lambda: all("new" in each.published.reports for each in stands))
            one.assign(Assignment(2, frozenset()))
            two.assign(Assignment(2, frozenset({0, 1})))
            source.group("new", {("orders", 0): 7})
            await until(
                lambda: any(
                    (report := each.get("new")) is not None and report.partitions[0].committed == 7
                    for each in stands[1].published.changes
                )
            )
            for stand in stands:
                assert not any("new" in each and each["new"] is None for each in stand.published.changes)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(go(), 30))


def test_a_group_that_is_selected_no_more_is_gone_although_its_task_comes_late() -> None:
    """Connect starts tasks one after the other: until its own runs, what the topic has of a group is shown."""
    source, target = mirrored(20)
    for group in ("old", "new"):
        source.group(group, {("orders", 0): 3})
    before = GroupOffsetHarness(source, target, groups="old")
    after = GroupOffsetHarness(source, target, groups="new")

    async def go() -> None:
        earlier = GroupOffsetInstance("c", before.options, before.clusters, {}, before.published)
        earlier.assign(Assignment(1, frozenset({0})))
        running = asyncio.create_task(earlier.run())
        await before.rounds(2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        later = GroupOffsetInstance("c", after.options, after.clusters, {}, after.published)
        of_old = task_of("old", 2)
        later.assign(Assignment(2, frozenset({1 - of_old})))
        running = asyncio.create_task(later.run())
        try:
            await until(lambda: "old" in after.published.reports)
            later.assign(Assignment(2, frozenset({0, 1})))
            await until(
                lambda: any("old" in each and each["old"] is None for each in after.published.changes)
            )
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(go(), 30))

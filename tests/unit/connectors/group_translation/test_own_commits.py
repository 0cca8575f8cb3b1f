"""What an instance has committed is known to the one after it: an offset that was proved then is nobody else's now."""

from __future__ import annotations

import asyncio

import pytest

from bridge.model.values import task_of
from connectors import cluster_away
from connectors.base import Assignment
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation import readiness_topic
from tests.support.waiting import until
from tests.unit.connectors.group_offset.group_offset_harness import GroupOffsetHarness
from tests.unit.connectors.group_translation.mirrored_topic import Flow


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(readiness_topic, "TASKS_EVERY", 0.0)


def idle() -> Flow:
    """A group that stands still among copies of a mirror that leaves no runs."""
    flow = Flow(ours=False)
    flow.produce(40)
    flow.copy(40)
    flow.commit("g", 13)
    return flow


def stands(service: GroupOffsetHarness) -> tuple[bool, int | None, str | None]:
    report = service.published.reports["g"]
    (row,) = report.partitions
    return report.ready, row.written, report.reason


def test_a_service_that_is_started_again_knows_what_the_one_before_has_committed() -> None:
    """What proved it has gone from the source since, so that no look-up finds it again."""
    flow = idle()
    for _ in range(2):
        service = GroupOffsetHarness(flow.a, flow.b)

        async def script(_: GroupOffsetInstance, service: GroupOffsetHarness = service) -> None:
            await service.rounds(3)
            assert stands(service) == (True, 13, None)
            flow.expire(flow.origin, 30)
            await service.rounds(3)
            assert stands(service) == (True, 13, None)

        service.play(script)


def test_so_does_a_service_to_which_its_task_comes_back() -> None:
    flow = idle()
    services = [GroupOffsetHarness(flow.a, flow.b), GroupOffsetHarness(flow.a, flow.b)]
    task = task_of("g", 2)
    here, there = Assignment(2, frozenset({task})), Assignment(2, frozenset({1 - task}))

    async def go() -> None:
        one, two = (
            GroupOffsetInstance("c", each.options, each.clusters, {}, each.published) for each in services
        )
        one.assign(here)
        two.assign(there)
        running = [asyncio.create_task(each.run()) for each in (one, two)]
        try:
            await until(lambda: all("g" in each.published.reports for each in services))
            one.assign(there)
            two.assign(here)
            flow.commit("g", 20)
            await until(lambda: all(stands(each)[1] == 20 for each in services))
            flow.expire(flow.origin, 30)
            await services[1].rounds(3)
            one.assign(here)
            two.assign(there)
            await services[0].rounds(3)
            assert stands(services[0]) == (True, 20, None)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            for instance in (one, two):
                await instance.close()

    asyncio.run(asyncio.wait_for(go(), 30))

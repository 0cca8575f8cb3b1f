"""An instance of the group offset connector over fakes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from connectors.base import Assignment
from connectors.group_offset.options import GroupOffsetOptions
from connectors.group_offset.task import GroupOffsetInstance
from tests.unit.connectors.fake_clusters import FakeCluster, FakeClusters
from tests.unit.connectors.group_translation.group_rounds import options
from tests.unit.connectors.run_instance import ALONE, Published, Watching, play

WITHOUT_TOPIC = {"emit.group-readiness.enabled": "false"}


class GroupOffsetHarness(Watching):
    """An instance that runs for the time of `play`, with intervals of a few hundredths of a second."""

    def __init__(self, source: FakeCluster, target: FakeCluster, /, **given: str) -> None:
        self.source, self.target = source, target
        self.clusters = FakeClusters(source, target)
        self.published = Published()
        self.options = hasty(options(**given))

    def play(
        self,
        script: Callable[[GroupOffsetInstance], Awaitable[None]],
        assignment: Assignment = ALONE,
        *,
        name: str = "c",
    ) -> None:
        play(
            lambda: GroupOffsetInstance(name, self.options, self.clusters, {}, self.published),
            script,
            assignment,
        )


def hasty(chosen: GroupOffsetOptions, sync: float = 0.02, refresh: float = 600.0) -> GroupOffsetOptions:
    return replace(chosen, sync_interval=sync, refresh_groups_interval=refresh)

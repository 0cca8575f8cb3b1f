"""Group offset connectors over two real clusters, in this process, and what they report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bridge.kafka.cluster import KafkaClusters
from bridge.local import Cluster
from bridge.model.values import TopicPartition
from bridge.protocol.messages import GroupReport
from connectors.base import Assignment, Missing, SourceOffset
from connectors.group_offset.options import GroupOffsetOptions
from connectors.group_offset.task import GroupOffsetInstance
from tests.integration.failover import AnyClient
from tests.support.waits import WAIT

_INTERVAL = 0.2


class Reports:
    """Keeps the reports of groups, and says when there are new ones."""

    def __init__(self) -> None:
        self.known: dict[str, GroupReport | None] = {}
        self.changed = asyncio.Event()

    def summary(self, summary: object) -> None:
        self.changed.set()

    def groups(self, changed: Mapping[str, GroupReport | None]) -> None:
        self.known |= changed
        self.changed.set()

    def records(self, records: object) -> None:
        raise AssertionError("group offsets go past Connect")

    async def stored_offsets(self, partitions: object) -> Sequence[SourceOffset | None]:
        raise AssertionError("Connect stores nothing of them")

    def backlog(self, changed: Mapping[TopicPartition, Missing | None]) -> None: ...

    def progress(self, report: object) -> None: ...


@dataclass(frozen=True)
class GroupFlow:
    """A group offset connector; `settings` use `_` for `.`."""

    source: Cluster
    target: Cluster
    settings: Mapping[str, str]

    def first_report(self, group: str) -> GroupReport:
        """What it answers first, alone."""
        return asyncio.run(_report(self, (), group, lambda _: True))

    def ready_report(self, group: str, *, beside: GroupFlow) -> GroupReport:
        """What it answers once the group is ready, while another one runs."""
        return asyncio.run(_report(self, (beside,), group, lambda report: report.ready))

    def instance(self, clusters: KafkaClusters, reports: Reports) -> GroupOffsetInstance:
        props = {
            "source.cluster.alias": self.source.name,
            "target.cluster.alias": self.target.name,
            "source.cluster.bootstrap.servers": self.source.bootstrap,
            "target.cluster.bootstrap.servers": self.target.bootstrap,
            "group-readiness.topic.replication.factor": "1",
            **{name.replace("_", "."): value for name, value in self.settings.items()},
        }
        options = replace(GroupOffsetOptions.from_props(props, AnyClient()), sync_interval=_INTERVAL)
        name = f"groups-{self.source.name}-{self.target.name}"
        return GroupOffsetInstance(name, options, clusters, props, reports)


async def _report(
    flow: GroupFlow, others: Sequence[GroupFlow], group: str, suits: Callable[[GroupReport], bool]
) -> GroupReport:
    clusters, reports = KafkaClusters(), Reports()
    made = [flow.instance(clusters, reports), *(other.instance(clusters, Reports()) for other in others)]
    running: list[asyncio.Task[None]] = []
    try:
        for instance in made:
            instance.assign(Assignment(1, frozenset({0})))
            running.append(asyncio.create_task(instance.run()))
        async with asyncio.timeout(WAIT):
            while True:
                await reports.changed.wait()
                reports.changed.clear()
                report = reports.known.get(group)
                if report is not None and suits(report):
                    return report
    except TimeoutError:
        raise AssertionError(f"group {group} is not so within {WAIT:g} s: {reports.known}") from None
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for instance in made:
            await instance.close()
        await clusters.close()

"""Pages of groups. The scan counts all matches, and gives way to other requests every thousand groups."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from bridge.protocol.messages import Groups, GroupSummary
from bridge.service.cursors import from_cursor, to_cursor
from bridge.service.frames import PackedGroup
from bridge.service.snapshots import Snapshots

GIVE_WAY = 1_000


@dataclass(frozen=True, slots=True)
class Filter:
    connector: str | None = None
    group: str | None = None
    ready: bool | None = None
    verdict: str | None = None
    reason: str | None = None

    def takes(self, group: PackedGroup) -> bool:
        return (
            (self.group is None or group.group == self.group)
            and (self.ready is None or group.ready is self.ready)
            and (self.verdict is None or group.verdict == self.verdict)
            and (self.reason is None or group.reason == self.reason)
        )


async def page(snapshots: Snapshots, wanted: Filter, limit: int, cursor: str | None) -> Groups:
    start = from_cursor(cursor, (str, str))
    found: list[GroupSummary] = []
    total = ready = seen = 0
    following: str | None = None
    for name in snapshots.names():
        if wanted.connector is not None and name != wanted.connector:
            continue
        for group in snapshots.after(name, ""):
            seen += 1
            if seen % GIVE_WAY == 0:
                await asyncio.sleep(0)
            if not wanted.takes(group):
                continue
            total += 1
            ready += group.ready
            if (name, group.group) < start:
                continue
            if len(found) < limit:
                found.append(_summary(name, group))
            elif following is None:
                following = to_cursor(name, group.group)
    return Groups(groups=found, total=total, ready=ready, next=following)


def _summary(connector: str, group: PackedGroup) -> GroupSummary:
    return GroupSummary(
        group=group.group,
        connector=connector,
        ready=group.ready,
        verdict=group.verdict,
        bound=group.bound,
        reason=group.reason,
        partitions=group.partitions,
    )

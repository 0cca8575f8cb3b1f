"""Pages of groups. The scan counts all matches, and gives way to other requests every thousand groups."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from dataclasses import dataclass

from bridge.errors import ConfigError
from bridge.protocol.messages import Groups, GroupSummary
from bridge.service.failures import BodyErrors
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
    start = _from_cursor(cursor)
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
                following = _to_cursor(name, group.group)
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


def _to_cursor(connector: str, group: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([connector, group]).encode()).decode()


def _from_cursor(cursor: str | None) -> tuple[str, str]:
    if not cursor:
        return "", ""
    try:
        connector, group = json.loads(base64.b64decode(cursor.encode(), b"-_", validate=True))
        if isinstance(connector, str) and isinstance(group, str):
            return connector, group
    except (ValueError, TypeError, RecursionError, binascii.Error):
        pass
    raise BodyErrors([ConfigError("query.next", "is not a `next` of an earlier page")])

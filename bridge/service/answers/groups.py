"""Pages through groups. The scan counts all matches, and yields to other requests every thousand groups."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from bridge.protocol.messages import Groups, GroupSummary
from bridge.protocol.readiness import Readiness
from bridge.service.answers.missing_records import MissingRows
from bridge.service.answers.readiness import Answers, ConnectorView, GroupAnswer
from bridge.service.ipc.messages import PackedGroup, partitions_of
from bridge.service.pages import from_cursor, to_cursor
from bridge.service.state.snapshots import Snapshots

YIELD_EVERY = 1_000
SHOWN = 50
"""Yields to other requests after this many groups of a page, each of which has to be unpacked."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A request's filter on groups; None matches every group."""

    connector: str | None = None
    group: str | None = None
    ready: bool | None = None
    readiness: Readiness | None = None
    verdict: str | None = None
    reason: str | None = None

    @property
    def whole(self) -> bool:
        """Whether it matches every group of its connectors."""
        return (self.group, self.ready, self.readiness, self.verdict, self.reason) == (None,) * 5

    def matches(self, group: PackedGroup, answer: GroupAnswer) -> bool:
        return (
            (self.group is None or group.group == self.group)
            and (self.ready is None or answer.ready is self.ready)
            and (self.readiness is None or answer.readiness is self.readiness)
            and (self.verdict is None or group.verdict == self.verdict)
            and (self.reason is None or group.reason == self.reason)
        )


async def page(
    snapshots: Snapshots,
    views: Mapping[str, ConnectorView],
    chosen: Filter,
    limit: int,
    cursor: str | None,
) -> Groups:
    """Returns a page of the groups that `chosen` matches, from `cursor` on, and counts all that it matches."""
    start = from_cursor(cursor, (str, str)) or ("", "")
    summaries: list[GroupSummary] = []
    total = ready = moved = seen = 0
    following: str | None = None
    for name in snapshots.names():
        if name not in views or (chosen.connector is not None and name != chosen.connector):
            continue
        answers = Answers(views[name], snapshots.connector(name))
        missing = MissingRows(snapshots.connector(name).missing)
        if chosen.whole:
            counts = answers.all()
            total += counts.total()
            ready += counts[Readiness.READY]
            moved += counts[Readiness.MOVED]
            if name < start[0] or following is not None:
                continue
            for group in snapshots.after(name, start[1] if name == start[0] else ""):
                if len(summaries) == limit:
                    following = to_cursor(name, group.group)
                    break
                summaries.append(_summary(name, views[name], group, answers.of(group), missing))
                if len(summaries) % SHOWN == 0:
                    await asyncio.sleep(0)
            continue
        for group in snapshots.after(name, ""):
            seen += 1
            if seen % YIELD_EVERY == 0:
                await asyncio.sleep(0)
            answer = answers.of(group)
            if not chosen.matches(group, answer):
                continue
            total += 1
            ready += answer.ready
            moved += answer.readiness is Readiness.MOVED
            if (name, group.group) < start:
                continue
            if len(summaries) < limit:
                summaries.append(_summary(name, views[name], group, answer, missing))
                if len(summaries) % SHOWN == 0:
                    await asyncio.sleep(0)
            elif following is None:
                following = to_cursor(name, group.group)
    return Groups(groups=summaries, total=total, ready=ready, moved=moved, next=following)


def _summary(
    connector: str, view: ConnectorView, group: PackedGroup, answer: GroupAnswer, missing: MissingRows
) -> GroupSummary:
    assert group.blob is not None, "only reports are kept"
    source, target = view.flow
    return GroupSummary(
        group=group.group,
        connector=connector,
        source=source or "",
        target=target or "",
        ready=answer.ready,
        verdict=group.verdict,
        bound=group.bound,
        reason=group.reason,
        partitions=group.partitions,
        readiness=answer.readiness,
        as_of_ms=answer.as_of_ms,
        reasons=list(answer.reasons),
        moved_at_ms=group.moved_ms,
        not_copied=list(group.not_copied),
        **({} if answer.as_of_ms is None else missing.of_group(partitions_of(group.blob), group.lacking)),
    )

"""Pages through groups. The scan counts all matches, and yields to other requests every thousand groups.

Explains a group's verdicts in sentences: the committed offset, its translation, and the evidence for it.

Finds groups whose offsets two connectors of one flow commit: a second one was made by mistake, say. Pure.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bridge.model.java_values import boolean
from bridge.model.values import iso_time
from bridge.protocol.messages import GroupReport, Groups, GroupSummary, NotBegunPartition, PartitionReport
from bridge.protocol.readiness import Readiness
from bridge.service.answers.missing_records import MissingRows
from bridge.service.answers.readiness import Answers, ConnectorView, GroupAnswer
from bridge.service.answers.reasons import REASONS
from bridge.service.ipc.messages import PackedGroup, partitions_of
from bridge.service.pages import from_cursor, to_cursor
from bridge.service.state.snapshots import Snapshots
from bridge.service.state.task_table import Connector
from connectors.base import GROUP_KINDS

YIELD_EVERY = 1_000
SHOWN = 50
"""Yields to other requests after this many groups of a page, each of which has to be unpacked."""
_EVIDENCE = {
    "run": "an offset run: this range was copied without interruption, and the records of both sides were counted",
    "verified": "the neighbouring records were found and compared on both clusters",
    "sync": "an offset sync of exactly this offset",
    "sync+1": "the offset sync before it, plus one",
    "timestamp": "the record's timestamp alone (translation.verify=false), not verified",
}
_iso_time = partial(iso_time, timespec="milliseconds")
_READINESS = {
    "ready": "ready to fail over",
    "ready_as_of": "was ready to fail over when the source answered last,",
    "not_ready": "not ready to fail over",
    "cannot_tell": "can't tell whether it can fail over;",
    "home": "at home: nobody has moved it on the source, and nothing has to be moved back;",
    "moved": "has failed over, and its connector no longer commits it; its partitions are shown as they were then;",
}


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
                summaries.append(_summary(name, views[name], group, answers.answer(group), missing))
                if len(summaries) % SHOWN == 0:
                    await asyncio.sleep(0)
            continue
        for group in snapshots.after(name, ""):
            seen += 1
            if seen % YIELD_EVERY == 0:
                await asyncio.sleep(0)
            answer = answers.answer(group)
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


def explain(reports: Sequence[GroupReport]) -> list[str]:
    return [line for report in reports for line in _group(report)]


def _group(report: GroupReport) -> Iterator[str]:
    as_of = "" if report.as_of_ms is None else f" as of {_iso_time(report.as_of_ms)}"
    yield (
        f"Group {report.group}, from {report.source} to {report.target}: {_READINESS[report.readiness]}{as_of} "
        f"(connector {report.connector}, task {report.task})."
    )
    for reason in report.reasons:
        since = "" if reason.since_ms is None else f" since {_iso_time(reason.since_ms)}"
        indent = "  " if reason.follows_from is None else "    so "
        yield f"{indent}{reason.reason}{since}: {reason.detail}."
    if report.missing_records:
        since = (
            ""
            if report.missing_since_ms is None
            else f", appended since {_iso_time(report.missing_since_ms)}"
        )
        yield f"  At most {report.missing_records} records of {report.source} were not on {report.target} then{since}."
    state = f"On {report.target} the group is {report.target_state}"
    if report.synced_at_ms is None:
        yield f"{state}; it has not been synced yet."
    else:
        yield f"{state}; unchanged since {_iso_time(report.synced_at_ms)}."
    for partition in report.partitions:
        yield from _partition(partition)
    for begun_partition in report.not_begun:
        yield not_begun(begun_partition, report.target)
    for left in report.not_copied:
        yield f"{left.topic}: not copied, {left_out_by(left.key)}; nothing of it is on {report.target}."


def _partition(part: PartitionReport) -> Iterator[str]:
    tp = f"{part.topic}-{part.partition}"
    if part.target_offset is None:
        yield f"{tp}: committed {part.committed}; not translated: {_why(part.reason)}."
    else:
        answer = f"{part.target_topic}-{part.partition} {part.target_offset}"
        yield f"{tp}: committed {part.committed} -> {answer}, {_bound(part)}."
        if part.evidence is not None:
            yield f"  Evidence: {_EVIDENCE.get(part.evidence, part.evidence)}."
        if part.reason is not None:
            yield f"  It is {part.verdict}: {_why(part.reason)}."
    if part.written is None:
        yield "  The group has no committed offset there."
    elif part.written != part.target_offset:
        yield f"  Committed there: {part.written}."
    if part.flags:
        yield f"  Flags: {', '.join(part.flags)}."
    place = part.detail.get("copied_twice")
    if place is not None:
        yield f"  Another mirror has copied this partition too, up to offset {place} of {part.target_topic}."
    if part.detail:
        yield "  Details: " + ", ".join(f"{name} {value}" for name, value in part.detail.items()) + "."


def not_begun(part: NotBegunPartition, target: str) -> str:
    """Says what is missing of a partition in which a group has committed nothing."""
    lacks = (
        f"how many of its records are not on {target} is not known"
        if part.missing_records is None
        else f"at most {part.missing_records} of its records are not on {target}"
    )
    some = "which" if part.not_on_target == part.missing_records else f"{part.not_on_target} of which"
    past = f", {some} the copy is past" if part.not_on_target else ""
    return f"{part.topic}-{part.partition}: the group has committed nothing there; {lacks}{past}."


def left_out_by(key: str) -> str:
    """Returns what leaves a topic out, in words."""
    return f"left out by {key}" if key else "an internal topic"


def _why(reason: str | None) -> str:
    if reason is None:
        return "no reason reported"
    return f"{reason} ({REASONS[reason].means})" if reason in REASONS else reason


def _bound(part: PartitionReport) -> str:
    if part.verdict == "exact":
        return "exact: nothing is read twice, nothing skipped"
    if part.reason is not None:
        count = part.detail.get("not_on_target")
        lost = f": at most {count} records that the group has not read are not there" if count else ""
        return f"{part.verdict}{lost}"
    if part.bound is None:
        return f"{part.verdict}: how many records are read twice is not known"
    return f"{part.verdict}: at most {part.bound} records are read twice, none skipped"


def shared_groups(connectors: Iterable[Connector], snapshots: Snapshots) -> dict[str, Mapping[str, int]]:
    """By connector, the others that commit offsets of its groups, and of how many."""
    flows = defaultdict[tuple[str | None, str], list[Connector]](list)
    for connector in connectors:
        if connector.active() and _commits(connector):
            flows[connector.flow].append(connector)
    result = defaultdict[str, Counter[str]](Counter)
    for together in flows.values():
        if len(together) < 2:
            continue
        names = defaultdict[str, list[str]](list)
        for connector in together:
            for group in snapshots.connector(connector.name).groups:
                names[group].append(connector.name)
        for several in names.values():
            for name in several if len(several) > 1 else ():
                result[name].update(other for other in several if other != name)
    return dict(result)


def _commits(connector: Connector) -> bool:
    """Of a checkpoint connector that syncs no offsets, another one commits them."""
    if connector.kind not in GROUP_KINDS or _on(connector, "dry.run"):
        return False
    return connector.kind != "checkpoint" or _on(connector, "sync.group.offsets.enabled")


def _on(connector: Connector, key: str) -> bool:
    return boolean(connector.config.get(key) or "") is True

"""Answers whether a group can fail over now: yes, as of a time, no, or can't tell. Pure; the table is in
docs/readiness.md.

A verdict was true when both clusters were last queried. It counts only while its connector and task run, both clusters
answer, it is no older than three intervals, and records are still copied. While the source is away, the last round that
the target has answered must be no older than that. Whatever is unknown makes the answer `cannot_tell`, never `ready`.

Ages are the greater of those by the wall clock, which somebody may set, and by the monotonic clock, which may stand
still while a machine is suspended.

The first row of the table that holds is the answer; it comes with the reasons of all rows that hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bridge.model.partition_states import NOT_COPIED, reasons
from bridge.protocol.base import CountedReason, ReadinessReason
from bridge.protocol.readiness import Readiness
from bridge.service.answers.reasons import REASONS, under_causes
from bridge.service.answers.reasons import reason as _reason
from bridge.service.ipc.messages import PackedGroup
from bridge.service.state.not_running import lapsed, why_not_running
from bridge.service.state.other_services import LEAST_AGE_MS, MOST_INTERVALS, others
from bridge.service.state.snapshots import AnswerKey, ConnectorSnapshot, RoundsState, Snapshots, answer_key
from bridge.service.state.task_table import Connector, TaskTable
from connectors.base import COPYING_KINDS, GROUP_KINDS, Summary

_NOT_KNOWN = (Readiness.CANNOT_TELL, Readiness.READY_AS_OF)
COPY_SILENT_MS = 30_000
"""Copying without success for this long counts as stopped: a broker's failover takes less."""
_UNKNOWN = frozenset(code for code, known in REASONS.items() if known.answer in _NOT_KNOWN)
"""Reasons which mean that it is not known whether a group is ready."""
_CLOCK_STEP_MS = 1_000
"""A time further in the future was taken before the clock was set back."""
_WORST = (
    Readiness.HOME,
    Readiness.MOVED,
    Readiness.READY,
    Readiness.READY_AS_OF,
    Readiness.CANNOT_TELL,
    Readiness.NOT_READY,
)


_FINE = (Readiness.READY, Readiness.MOVED, Readiness.HOME)
AT_HOME = "at_home"
OTHER_SOURCE_OUTDATED = "other_source_outdated"
TARGET_TOPIC_MISSING = "target_topic_missing"
NAMED = 3
"""Groups that the reason of a flow names."""


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """The readiness of a group. `as_of_ms`: when both clusters were last queried for it; None for never."""

    readiness: Readiness
    as_of_ms: int | None
    reasons: Sequence[ReadinessReason] = ()

    @property
    def ready(self) -> bool:
        return self.readiness is Readiness.READY


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """The state of a connector that holds for all of its groups now."""

    own_ms: int | None
    """When both clusters were last queried for the tasks that run on this service,"""
    own_tasks: frozenset[int] = frozenset()
    """and those whose groups were read then."""
    flow: tuple[str | None, str | None] = (None, None)
    unknown: Sequence[ReadinessReason] = ()
    """Why nothing is known of any group."""
    not_copied: Mapping[str, ReadinessReason] = field(default_factory=dict)
    """Source topics whose records are not copied, and why."""
    causes: Sequence[ReadinessReason] = ()
    """Why connectors copy nothing whose topics are not known: told beside what else keeps groups from being ready."""
    source_away: ReadinessReason | None = None
    tasks: Mapping[int, ReadinessReason] = field(default_factory=dict)
    """Tasks that are not running, and why."""
    running: frozenset[int] = frozenset()
    """Tasks that are running."""
    checked: frozenset[int] = frozenset()
    """Tasks whose groups were checked at that time."""
    times: Mapping[int, int] = field(default_factory=dict)
    """By task that runs on another service: when that service last checked its groups."""
    merged: Mapping[str, tuple[ConnectorView, ConnectorSnapshot]] = field(default_factory=dict)
    """Connectors of groups whose flow's copies go to the same topics as this one's (bridge.merge.with)."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Of such a flow, the topics of the target by those of the source."""

    def answer(
        self,
        task: int,
        reason: str | None,
        topics: Collection[str] = (),
        *,
        committed: bool,
        outdated: bool = False,
    ) -> GroupAnswer:
        """Decides the answer for a group. `committed`: each partition is translated, and committed on the target;
        `reason`: why not. `outdated`: an earlier instance has reported the group, and the current one has not yet."""
        unknown = list(self.unknown)
        if not unknown and task not in self.running:
            # A task beyond the count that the connector has now: the next round finds the one that has the group.
            unknown.append(self.tasks.get(task) or _reason("not_looked_at_yet"))
        if not unknown and (outdated or task not in self.checked):
            unknown.append(_reason("not_looked_at_yet"))
        home = [_reason(reason)] if reason == AT_HOME else []
        missing = [] if committed or home else [_reason(reason or "not_looked_at_yet")]
        if missing and missing[0].reason in _UNKNOWN:
            unknown += missing
        # What the flow copies does not concern a group whose own offsets are on the target.
        copying = [] if home else self.copying_reasons(topics)
        away = [self.source_away] if self.source_away is not None else []
        earlier = [_reason(reason)] if committed and reason == OTHER_SOURCE_OUTDATED else []
        if unknown:
            readiness = Readiness.CANNOT_TELL
        elif missing or (copying and not away):
            readiness = Readiness.NOT_READY
        elif away or earlier:
            readiness = Readiness.READY_AS_OF
        else:
            readiness = Readiness.HOME if home else Readiness.READY
        reasons: dict[str, ReadinessReason] = {}
        causes = self.causes if unknown or missing else ()
        for readiness_reason in (*unknown, *missing, *home, *copying, *causes, *away, *earlier):
            reasons.setdefault(readiness_reason.detail, readiness_reason)
        own_ms = self.own_ms if task in self.own_tasks else None
        return GroupAnswer(readiness, self.times.get(task, own_ms), under_causes(reasons.values()))

    def targets(self, topics: Iterable[str]) -> set[str]:
        """Returns the copies of these topics, as far as they are known; else their own names."""
        return {self.copies.get(topic, topic) for topic in topics}

    def copying_reasons(self, topics: Iterable[str]) -> list[ReadinessReason]:
        """Why records of these topics are not copied, each reason once."""
        reasons = (self.not_copied.get(topic) for topic in topics)
        return list({reason.detail: reason for reason in reasons if reason is not None}.values())

    @property
    def as_of_ms(self) -> int | None:
        """The oldest of the times of all tasks."""
        times = [*self.times.values(), *([] if self.own_ms is None else [self.own_ms])]
        return min(times, default=None)


class _Now(NamedTuple):
    """The time by both clocks. `monotonic_ms`: by that which the rounds process reads too."""

    wall_ms: int
    monotonic_ms: int

    def lies_ahead(self, at_ms: int, monotonic_ms: int | None) -> bool:
        """Whether a time was taken by a clock that was set back since, so that nobody knows how long ago it was."""
        return monotonic_ms is None and self.wall_ms - at_ms < -_CLOCK_STEP_MS

    def age_ms(self, at_ms: int, monotonic_ms: int | None) -> int:
        """How long ago something was."""
        age_ms = self.wall_ms - at_ms
        return age_ms if monotonic_ms is None else max(age_ms, self.monotonic_ms - monotonic_ms)


class Answers:
    """The answers for the groups of one connector. Many groups have the same answer; each is built once."""

    def __init__(self, view: ConnectorView, snapshot: ConnectorSnapshot) -> None:
        self._view, self._snapshot = view, snapshot
        self._merged = [(name, other, Answers(one, other)) for name, (one, other) in view.merged.items()]
        self._made: dict[tuple[int, bool, str | None, tuple[str, ...], bool], GroupAnswer] = {}

    def answer(self, group: PackedGroup) -> GroupAnswer:
        if group.moved_ms is not None:
            return moved(group.moved_ms, self._view.as_of_ms)
        answer = self._answer(group.task, group.ready, group.reason, group.topics, group.group)
        for name, snapshot, answers in self._merged:
            report = snapshot.groups.get(group.group)
            other = None if report is None else PackedGroup._make(report)
            if other is not None and not self._view.targets(group.topics).isdisjoint(answers.targets(other)):
                answer = _with_merged(answer, name, answers.answer(other))
        return answer

    def targets(self, group: PackedGroup) -> set[str]:
        return self._view.targets(group.topics)

    def all(self) -> Counter[Readiness]:
        """Counts the groups by readiness."""
        if self._of_counts:
            counts: Counter[Readiness] = Counter()
            for (task, committed, reason, failed_over), count in self._snapshot.answer_counts.items():
                one = (
                    Readiness.MOVED
                    if failed_over
                    else self._answer(task, committed, reason, (), "").readiness
                )
                counts[one] += count
            return counts
        groups = map(PackedGroup._make, self._snapshot.groups.values())
        return Counter(self.answer(group).readiness for group in groups)

    def reasons(self) -> dict[str, CountedReason]:
        """Why groups are not ready, by sentence: each with the number of groups that have it, and the first of them."""
        counts: Counter[str] = Counter()
        reasons: dict[str, ReadinessReason] = {}
        names: dict[str, list[str]] = {}
        for answer, count, first in self._not_ready():
            for reason in answer.reasons:
                counts[reason.detail] += count
                reasons.setdefault(reason.detail, reason)
                names.setdefault(reason.detail, []).extend(first)
        return {
            detail: counted(reason, counts[detail], sorted(names[detail])[:NAMED])
            for detail, reason in reasons.items()
        }

    def _not_ready(self) -> Iterator[tuple[GroupAnswer, int, Sequence[str]]]:
        """Yields the answers that are neither ready nor moved, how many groups have them, and the first ones."""
        groups = self._snapshot.groups
        if not self._of_counts:
            for name in self._snapshot.order:
                answer = self.answer(PackedGroup._make(groups[name])) if name in groups else None
                if answer is not None and answer.readiness not in _FINE:
                    yield answer, 1, [name]
            return
        answers: dict[AnswerKey, GroupAnswer] = {
            (task, committed, reason, failed_over): self._answer(task, committed, reason, (), "")
            for task, committed, reason, failed_over in self._snapshot.answer_counts
            if not failed_over
        }
        first: dict[AnswerKey, list[str]] = {
            key: [] for key, answer in answers.items() if answer.readiness not in _FINE
        }
        lacking = set(first)
        for name in self._snapshot.order:
            if not lacking:
                break
            key = answer_key(groups[name]) if name in groups else None
            if key in lacking:
                first[key].append(name)
                if len(first[key]) == NAMED:
                    lacking.remove(key)
        for key, some in first.items():
            yield answers[key], self._snapshot.answer_counts[key], some

    @property
    def _of_counts(self) -> bool:
        """Whether the snapshot's counts decide the answers: 10,000 groups one by one take 10 ms."""
        return not self._view.not_copied and not self._snapshot.outdated and not self._merged

    def _answer(
        self, task: int, committed: bool, reason: str | None, topics: tuple[str, ...], group: str
    ) -> GroupAnswer:
        not_copied = self._view.not_copied
        concerned = tuple(topic for topic in topics if topic in not_copied) if not_copied else ()
        key = task, committed, reason, concerned, group in self._snapshot.outdated
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._view.answer(
                task, reason, concerned, committed=committed, outdated=key[-1]
            )
        return made


def counted(reason: ReadinessReason, groups: int, names: Sequence[str]) -> CountedReason:
    """The reason, as several groups share it."""
    return CountedReason(**reason.model_dump(), groups=groups, names=list(names))


def _with_merged(answer: GroupAnswer, connector: str, other: GroupAnswer) -> GroupAnswer:
    """Returns the answer for a group that another flow brings into the same topics: its offset there lies behind
    records of both sources, so both have to be ready."""
    times = [group_answer.as_of_ms for group_answer in (answer, other) if group_answer.as_of_ms is not None]
    answer = replace(answer, as_of_ms=min(times, default=None))
    if other.readiness in _FINE:
        return answer
    worse = max(answer.readiness, other.readiness, key=_WORST.index)
    by = f"by connector {connector}: "
    reasons = [_reason(reason.reason, by + reason.detail) for reason in other.reasons]
    return GroupAnswer(worse, answer.as_of_ms, [*answer.reasons, *reasons])


def _with_merged_flows(
    table: TaskTable, snapshots: Snapshots, views: Mapping[str, ConnectorView]
) -> dict[str, ConnectorView]:
    """Returns the views of connectors whose flows share target topics (bridge.merge.with), with those of the others."""
    pairs = ((one, table.get(name)) for one in table for name in one.merges_with)
    named = [(one.flow, other.flow) for one, other in pairs if other is not None]
    merged = {*named, *((other, one) for one, other in named)}
    if not merged:
        return {}
    copies: dict[tuple[str | None, str], dict[str, str]] = {}
    for connector in table:
        if connector.kind in COPYING_KINDS:
            copies.setdefault(connector.flow, {}).update(snapshots.connector(connector.name).copying.copies())
    groups = [connector for connector in table if connector.kind in GROUP_KINDS]
    views = {
        connector.name: replace(views[connector.name], copies=copies.get(connector.flow, {}))
        for connector in groups
    }
    return {
        connector.name: replace(
            views[connector.name],
            merged={
                other.name: (views[other.name], snapshots.connector(other.name))
                for other in groups
                if (connector.flow, other.flow) in merged
            },
        )
        for connector in groups
    }


def moved(since_ms: int, as_of_ms: int | None) -> GroupAnswer:
    """The answer for a group that was failed over: its connector no longer commits it, whether it runs or not."""
    return GroupAnswer(Readiness.MOVED, as_of_ms, [_reason("moved", since_ms=since_ms)])


def connector_views(
    table: TaskTable, snapshots: Snapshots, rounds: RoundsState, now_ms: int
) -> dict[str, ConnectorView]:
    """Returns the view of each connector."""
    now = _Now(now_ms, table.now_ms)
    connectors = [(connector, snapshots.connector(connector.name)) for connector in table]
    copying = [(connector, snapshot) for connector, snapshot in connectors if connector.kind in COPYING_KINDS]
    views = {
        connector.name: _view(
            connector, snapshot, [one for one in copying if one[0].flow == connector.flow], rounds, now, table
        )
        for connector, snapshot in connectors
    }
    return views | _with_merged_flows(table, snapshots, views)


def _view(
    connector: Connector,
    snapshot: ConnectorSnapshot,
    copying: Sequence[tuple[Connector, ConnectorSnapshot]],
    rounds: RoundsState,
    now: _Now,
    table: TaskTable,
) -> ConnectorView:
    """Builds the view of one connector. `copying`: the source connectors of the same flow that this service knows."""
    summary, unknown = snapshot.summary, _does_not_run(connector, snapshot, rounds)
    target_away, source_away = (_away_since_ms(side, summary, copying) for side in ("target", "source"))
    if target_away is not None:
        unknown.append(_reason("target_unreachable", since_ms=target_away))
    if not unknown:
        unknown += _outdated(summary, now, source_away=source_away is not None)
    running = connector.active()
    on_others = others(connector, summary, *now, source_away=source_away is not None)
    lapsed_here = {
        task.index: _reason("task_lapsed", lapsed(connector, task, table.age_ms(task)))
        for task in connector.current_tasks
        if task.index not in running and task.index not in on_others.as_of_ms
    }
    causes = [
        why
        for one, its in copying
        if not its.copying.topics() and (why := _copies_nothing(one, its.summary, now)) is not None
    ]
    stopped, well = _not_copied(copying, now)
    return ConnectorView(
        own_ms=summary.as_of_ms,
        own_tasks=frozenset(summary.tasks),
        flow=connector.flow,
        unknown=unknown,
        not_copied=_not_selected(snapshot, copying, well) | _stuck(snapshot, copying, causes, well) | stopped,
        causes=causes,
        source_away=None if source_away is None else _reason("source_unreachable", since_ms=source_away),
        tasks={**on_others.unknown, **lapsed_here},
        running=running | on_others.as_of_ms.keys(),
        checked=_checked_tasks(connector, summary, now, table) - on_others.unknown.keys()
        | on_others.as_of_ms.keys(),
        times=on_others.as_of_ms,
    )


def _away_since_ms(
    side: str, summary: Summary, copying: Sequence[tuple[Connector, ConnectorSnapshot]]
) -> int | None:
    """Returns since when a cluster does not answer the rounds, or who copies: that asks every two seconds, however long
    the interval of the rounds is."""
    summaries = [summary, *(snapshot.summary for connector, snapshot in copying if connector.active())]
    return min(
        (summary.away_since_ms[side] for summary in summaries if side in summary.away_since_ms), default=None
    )


def _checked_tasks(connector: Connector, summary: Summary, now: _Now, table: TaskTable) -> frozenset[int]:
    """Tasks whose groups were checked by a round that began after the task became active. A round from before a pause
    does not count, unless the source is away: then the answer states its time, and a later round has held the groups
    against the target."""
    tasks, age_ms = set(summary.tasks), now.age_ms(summary.as_of_ms or 0, summary.as_of_monotonic_ms)
    if "source" in summary.away_since_ms:
        tasks.intersection_update(summary.target_tasks)
        age_ms = now.monotonic_ms - (summary.target_monotonic_ms or 0)
    return frozenset(
        index for index in tasks if (task := connector.tasks.get(index)) and age_ms <= table.active_ms(task)
    )


def _does_not_run(
    connector: Connector, snapshot: ConnectorSnapshot, rounds: RoundsState
) -> list[ReadinessReason]:
    if snapshot.summary.failure is not None:
        return [
            _reason("connector_failed", f"connector {connector.name} has failed: {snapshot.summary.failure}")
        ]
    if not connector.active() and not connector.elsewhere:
        return [_reason("connector_stopped", why_not_running(connector).detail)]
    if rounds is not RoundsState.RUNNING:
        return [
            _reason(
                "rounds_process_down", f"the rounds process is {rounds.value}: see the log of the service"
            )
        ]
    if snapshot.instance is not None and snapshot.instance.error is not None:
        return [
            _reason(
                "connector_failed",
                f"connector {connector.name} is restarting after an error: {snapshot.instance.error}",
            )
        ]
    return []


def _outdated(summary: Summary, now: _Now, *, source_away: bool) -> list[ReadinessReason]:
    if summary.as_of_ms is None:
        return [_reason("not_looked_at_yet", "no round that reached both clusters has completed yet")]
    interval_ms = max(summary.interval_ms, int(1000 * summary.usual_round_seconds))
    longest = max(LEAST_AGE_MS, MOST_INTERVALS * interval_ms)
    if now.lies_ahead(summary.as_of_ms, summary.as_of_monotonic_ms):
        return [_reason("outdated", "the clock of the service was set back since the last round")]
    if source_away:
        return _target_outdated(summary, now, longest)
    age = now.age_ms(summary.as_of_ms, summary.as_of_monotonic_ms)
    if age > longest:
        text = f"the last round that reached both clusters was {age // 1000} s ago, more than {longest // 1000} s"
        return [_reason("outdated", text, since_ms=summary.as_of_ms)]
    return []


def _target_outdated(summary: Summary, now: _Now, longest: int) -> list[ReadinessReason]:
    """While the source is away: topics and offsets of the target may have gone since it last answered."""
    if summary.target_monotonic_ms is None:
        return [_reason("not_looked_at_yet", "no round has reached the target yet")]
    age = now.monotonic_ms - summary.target_monotonic_ms
    if age <= longest:
        return []
    text = (
        f"the source does not answer, and the last round that reached the target was {age // 1000} s ago, "
        f"more than {longest // 1000} s"
    )
    return [_reason("outdated", text)]


def _not_copied(
    copying: Sequence[tuple[Connector, ConnectorSnapshot]], now: _Now
) -> tuple[dict[str, ReadinessReason], set[str]]:
    """Finds topics whose connector has stopped copying, and that no other connector copies; and those that one does. Of
    several that have stopped, as after a take-over, the one that copied last is told."""
    stopped: dict[str, ReadinessReason] = {}
    well: set[str] = set()
    for connector, snapshot in sorted(copying, key=lambda each: each[1].summary.copying_ms or 0):
        why = _copies_nothing(connector, snapshot.summary, now)
        topics = snapshot.copying.topics()
        if why is None:
            well |= topics
        else:
            stopped |= dict.fromkeys(topics, why)
    return {topic: why for topic, why in stopped.items() if topic not in well}, well


def _stuck(
    snapshot: ConnectorSnapshot,
    copying: Sequence[tuple[Connector, ConnectorSnapshot]],
    causes: Sequence[ReadinessReason],
    well: set[str],
) -> dict[str, ReadinessReason]:
    """Finds topics with records to be copied of which none is, whichever connector copies them: after a restart the
    service does not know a connector that is paused. `causes`: why connectors copy nothing whose topics are not known:
    they count at once, but for topics that another one copies (`well`)."""
    until_ms = snapshot.summary.as_of_ms or 0
    since: dict[str, int] = {}
    for (topic, _), since_ms in snapshot.stuck.items():
        since[topic] = min(since_ms, since.get(topic, since_ms))
    not_copied = {
        place: status
        for _, its in copying
        for place, status in its.copying.apart.items()
        if status.state in NOT_COPIED and place in snapshot.stuck
    }
    of_topics = {status.topic: status for status in not_copied.values()}
    here = not any(connector.elsewhere for connector, _ in copying)
    stuck: dict[str, ReadinessReason] = {}
    for topic, since_ms in since.items():
        if causes and topic not in well:
            stuck[topic] = causes[0]
        elif here and well and not any(topic in its.copying.topics() for _, its in copying):
            running = ", ".join(connector.name for connector, _ in copying if connector.active())
            text = (
                f"records of topic {topic} wait to be copied, and no connector copies it: see topics and "
                f"topics.exclude of connector {running}"
            )
            stuck[topic] = _reason("copying_stopped", text, since_ms=since_ms)
        elif (status := of_topics.get(topic)) is not None:
            (reason,) = reasons([status])
            stuck[topic] = _reason("copying_stopped", reason.sentence, since_ms=status.since_ms)
        elif until_ms - since_ms > COPY_SILENT_MS:
            names = [connector.name for connector, its in copying if topic in its.copying.topics()]
            who = f"connector {', '.join(names)}" if names else "the connector that copies it"
            text = f"records of topic {topic} wait to be copied, and none is copied: check {who}"
            if topic in well and all(
                any(its.copying.copied_whole(place) for _, its in copying)
                for place in snapshot.stuck
                if place[0] == topic
            ):
                text = (
                    f"records of topic {topic} wait behind an open transaction of a producer on the source, and {who} "
                    "has copied all before it: see kafka-transactions.sh --describe-producers"
                )
            stuck[topic] = _reason("copying_stopped", text, since_ms=since_ms)
    return stuck


def _not_selected(
    snapshot: ConnectorSnapshot, copying: Sequence[tuple[Connector, ConnectorSnapshot]], well: set[str]
) -> dict[str, ReadinessReason]:
    """Finds topics without a copy that no connector is about to copy: one is new, or who copies leaves it out."""
    if not well or any(connector.elsewhere for connector, _ in copying):
        return {}
    if not any(reason == TARGET_TOPIC_MISSING for _, _, reason, _ in snapshot.answer_counts):
        return {}
    copied = set[str]().union(*(its.copying.topics() for _, its in copying))
    running = ", ".join(connector.name for connector, _ in copying if connector.active())
    groups = map(PackedGroup._make, snapshot.groups.values())
    topics = {
        topic for group in groups if group.reason == TARGET_TOPIC_MISSING for topic in group.topics
    } - copied
    return {
        topic: _reason(
            "copying_stopped",
            f"connector {running} does not copy topic {topic}: if it is new, wait until the connector looks for new "
            "topics (refresh.topics.interval.seconds), else see its topics and topics.exclude",
        )
        for topic in topics
    }


def _copies_nothing(connector: Connector, summary: Summary, now: _Now) -> ReadinessReason | None:
    if summary.failure is not None:
        return _reason("copying_failed", f"connector {connector.name} has failed: {summary.failure}")
    if connector.elsewhere:
        return None
    if not connector.active():
        return _reason("copying_stopped", why_not_running(connector).detail)
    if summary.copying_ms is None:
        return _reason("copying_stopped", f"connector {connector.name} has not copied anything yet")
    if summary.away_since_ms:
        return None  # the cause is told: a cluster does not answer
    why = f": {summary.errors[0]}" if summary.errors else ""
    begun = min(task.active_since for task in connector.current_tasks if task.active)
    if summary.copying_monotonic_ms is not None and summary.copying_monotonic_ms < begun:
        # Resumed: what it copied before it was paused says nothing of whether it copies now.
        text = f"connector {connector.name} was started, and has not copied anything since{why}"
        return _reason("copying_stopped", text, since_ms=summary.copying_ms)
    age = now.age_ms(summary.copying_ms, summary.copying_monotonic_ms)
    if now.lies_ahead(summary.copying_ms, summary.copying_monotonic_ms) or age > COPY_SILENT_MS:
        text = f"connector {connector.name} fails to copy{why}"
        return _reason("copying_stopped", text, since_ms=summary.copying_ms)
    return None

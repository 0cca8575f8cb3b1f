"""Whether a group can fail over now: yes, as of a time, no, or can't tell. Pure; the table is in docs/readiness.md.

A verdict tells what was true when both clusters were asked. It counts as an answer only while what it rests on holds:
its connector and task run, both clusters answer, it is no older than three intervals, and records are still copied.
Whatever is not known makes the answer `cannot_tell`, never `ready`.

The first row that holds is the answer; the reasons of all of them are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.protocol.operators import Readiness, ReadinessReason
from bridge.service.answers.reasons import REASONS
from bridge.service.ipc.messages import PackedGroup
from bridge.service.state.halts import halt, lapsed
from bridge.service.state.other_services import LEAST_AGE_MS, MOST_INTERVALS, others
from bridge.service.state.rounds_state import RoundsState
from bridge.service.state.snapshots import ConnectorSnapshot, Snapshots
from bridge.service.state.task_table import Connector, TaskTable
from connectors.base import Summary

COPY_SILENT_MS = 30_000
"""Copying that has not been well for so long counts as stopped: a broker that fails over takes less."""
_UNKNOWN = {
    "source_unreachable",
    "target_unreachable",
    "source_not_authorized",
    "target_not_authorized",
    "group_state_unknown",
    "not_looked_at_yet",
}
"""Reasons of a verdict which say that a cluster could not be asked about the group."""
_CLOCK_STEP_MS = 1_000
"""A time that lies further ahead was measured by a clock that was set back since."""
GROUP_KINDS = frozenset({"checkpoint", "group_offset"})
"""Connectors that look after groups."""
_SOURCE_KIND = "source"


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """`as_of_ms`: when both clusters were asked last for what it rests on; None for never."""

    readiness: Readiness
    as_of_ms: int | None
    reasons: Sequence[ReadinessReason] = ()

    @property
    def ready(self) -> bool:
        return self.readiness is Readiness.READY


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """What holds for all groups of a connector now."""

    own_ms: int | None
    """When both clusters were asked last for the tasks that run here."""
    unknown: Sequence[ReadinessReason] = ()
    """Why nothing can be told."""
    not_copied: Mapping[str, ReadinessReason] = field(default_factory=dict)
    """Source topics whose records are not copied, and why."""
    source_away: ReadinessReason | None = None
    tasks: Mapping[int, ReadinessReason] = field(default_factory=dict)
    """Of those that do not run, why."""
    running: frozenset[int] = frozenset()
    """Tasks that run."""
    asked: frozenset[int] = frozenset()
    """Tasks whose groups were looked at then."""
    times: Mapping[int, int] = field(default_factory=dict)
    """By task that another service looks after: when it has looked at its groups."""

    def answer(
        self,
        task: int,
        reason: str | None,
        topics: Collection[str] = (),
        *,
        stands: bool,
        older: bool = False,
    ) -> GroupAnswer:
        """`stands`: each partition is translated, and the target has these offsets; `reason`: why not. `older`: an
        earlier instance has reported the group, and the present one has not yet."""
        unknown = list(self.unknown)
        if not unknown and task not in self.running:
            unknown.append(self.tasks.get(task) or _reason("task_lapsed", f"task {task} does not run"))
        if not unknown and (older or task not in self.asked):
            unknown.append(_reason("not_looked_at_yet"))
        missing = [] if stands else [_reason(reason or "not_looked_at_yet")]
        if missing and missing[0].reason in _UNKNOWN:
            unknown += missing
        copying = {each.detail: each for topic in topics if (each := self.not_copied.get(topic))}
        away = [self.source_away] if self.source_away is not None else []
        if unknown:
            readiness = Readiness.CANNOT_TELL
        elif missing or (copying and not away):
            readiness = Readiness.NOT_READY
        else:
            readiness = Readiness.READY_AS_OF if away else Readiness.READY
        told: dict[str, ReadinessReason] = {}
        for each in (*unknown, *missing, *copying.values(), *away):
            told.setdefault(each.detail, each)
        return GroupAnswer(readiness, self.times.get(task, self.own_ms), list(told.values()))

    @property
    def as_of_ms(self) -> int | None:
        """The oldest time of any task."""
        times = [*self.times.values(), *([] if self.own_ms is None else [self.own_ms])]
        return min(times, default=None)


class Answers:
    """The answers on the groups of one connector. Many groups have the same: each is made once."""

    def __init__(self, view: ConnectorView, snapshot: ConnectorSnapshot) -> None:
        self._view, self._snapshot = view, snapshot
        self._made: dict[tuple[int, bool, str | None, tuple[str, ...], bool], GroupAnswer] = {}

    def of(self, group: PackedGroup) -> GroupAnswer:
        if group.moved_ms is not None:
            return moved(group.moved_ms, self._view.as_of_ms)
        return self._of(group.task, group.ready, group.reason, group.topics, group.group)

    def all(self) -> Counter[Readiness]:
        """How many groups have which. Counted as they were reported, where that is all that there is to an answer: of
        10,000 groups one by one it takes 10 ms."""
        if not self._view.not_copied and not self._snapshot.outdated:
            found: Counter[Readiness] = Counter()
            for (task, stands, reason, gone), count in self._snapshot.answer_counts.items():
                one = Readiness.MOVED if gone else self._of(task, stands, reason, (), "").readiness
                found[one] += count
            return found
        return Counter(
            self._of(task, stands, reason, topics, name).readiness if moved_ms is None else Readiness.MOVED
            for name, task, stands, _, _, reason, _, moved_ms, topics, _ in self._snapshot.groups.values()
        )

    def _of(
        self, task: int, stands: bool, reason: str | None, topics: tuple[str, ...], group: str
    ) -> GroupAnswer:
        not_copied = self._view.not_copied
        concerned = tuple(topic for topic in topics if topic in not_copied) if not_copied else ()
        key = task, stands, reason, concerned, group in self._snapshot.outdated
        made = self._made.get(key)
        if made is None:
            older = key[-1]
            made = self._made[key] = self._view.answer(task, reason, concerned, stands=stands, older=older)
        return made


def moved(since_ms: int, as_of_ms: int | None) -> GroupAnswer:
    """Of a group that was failed over: whatever runs or does not, its connector commits it no more."""
    return GroupAnswer(Readiness.MOVED, as_of_ms, [_reason("moved", since_ms=since_ms)])


def connector_views(
    table: TaskTable, snapshots: Snapshots, rounds: RoundsState, now_ms: int
) -> dict[str, ConnectorView]:
    """By connector."""
    there = [(each, snapshots.connector(each.name)) for each in table]
    copying = [(each, snapshot) for each, snapshot in there if each.kind == _SOURCE_KIND]
    return {
        each.name: _view(
            each, snapshot, [one for one in copying if flow(one[0]) == flow(each)], rounds, now_ms, table
        )
        for each, snapshot in there
    }


def _view(
    known: Connector,
    snapshot: ConnectorSnapshot,
    copying: Sequence[tuple[Connector, ConnectorSnapshot]],
    rounds: RoundsState,
    now_ms: int,
    table: TaskTable,
) -> ConnectorView:
    """`copying`: the source connectors of the same flow that this service knows."""
    said, unknown = snapshot.summary, _does_not_run(known, snapshot, rounds)
    target_away, source_away = (said.away_since_ms.get(side) for side in ("target", "source"))
    if target_away is not None:
        unknown.append(_reason("target_unreachable", since_ms=target_away))
    if not unknown:
        unknown += _outdated(said, now_ms, source_away=source_away is not None)
    running = known.active()
    elsewhere = others(known, said, now_ms, source_away=source_away is not None)
    lapsed_here = {
        task.index: _reason("task_lapsed", lapsed(known, task, table.age_ms(task)))
        for task in known.tasks.values()
        if task.index not in running and task.index not in elsewhere.as_of_ms
    }
    return ConnectorView(
        own_ms=said.as_of_ms,
        unknown=unknown,
        not_copied=_stuck(snapshot) | _not_copied(copying, now_ms),
        source_away=None if source_away is None else _reason("source_unreachable", since_ms=source_away),
        tasks={**elsewhere.unknown, **lapsed_here},
        running=running | elsewhere.as_of_ms.keys(),
        asked=_asked(known, said, now_ms, table) - elsewhere.unknown.keys() | elsewhere.as_of_ms.keys(),
        times=elsewhere.as_of_ms,
    )


def _asked(known: Connector, said: Summary, now_ms: int, table: TaskTable) -> frozenset[int]:
    """Tasks whose groups a round has looked at that began since they run: one from before a pause is no answer, unless
    the source is away, and the answer says of what time it is."""
    age_ms, away = now_ms - (said.as_of_ms or 0), "source" in said.away_since_ms
    return frozenset(
        index
        for index in said.tasks
        if (task := known.tasks.get(index)) and (away or age_ms <= table.active_ms(task))
    )


def _does_not_run(
    known: Connector, snapshot: ConnectorSnapshot, rounds: RoundsState
) -> list[ReadinessReason]:
    if snapshot.summary.failure is not None:
        return [_reason("connector_failed", f"connector {known.name} has failed: {snapshot.summary.failure}")]
    if not known.active():
        return [_reason("connector_stopped", halt(known).detail)]
    if rounds is not RoundsState.RUNNING:
        return [_reason("rounds_process_down", f"the process that asks the clusters is {rounds.value}")]
    if snapshot.instance is not None and snapshot.instance.error is not None:
        return [
            _reason("connector_failed", f"connector {known.name} restarts after: {snapshot.instance.error}")
        ]
    return []


def _outdated(said: Summary, now_ms: int, *, source_away: bool) -> list[ReadinessReason]:
    if said.as_of_ms is None:
        return [_reason("not_looked_at_yet", "no round has ended yet that asked both clusters")]
    age = now_ms - said.as_of_ms
    interval_ms = max(said.interval_ms, int(1000 * said.usual_round_seconds))
    longest = max(LEAST_AGE_MS, MOST_INTERVALS * interval_ms)
    if source_away and age >= 0:
        return []
    if age > longest:
        text = f"the clusters were asked {age // 1000} s ago, which is more than {longest // 1000} s"
        return [_reason("outdated", text, since_ms=said.as_of_ms)]
    if age < -_CLOCK_STEP_MS:
        return [_reason("outdated", "the clock was set back since the clusters were asked")]
    return []


def _not_copied(
    copying: Sequence[tuple[Connector, ConnectorSnapshot]], now_ms: int
) -> dict[str, ReadinessReason]:
    """Topics that were copied by connectors which do not copy any more, and by no other that does."""
    stopped: dict[str, ReadinessReason] = {}
    well: set[str] = set()
    for known, snapshot in copying:
        why = _copies_nothing(known, snapshot.summary, now_ms)
        topics = snapshot.copying.topics()
        if why is None:
            well |= topics
        else:
            stopped |= dict.fromkeys(topics, why)
    return {topic: why for topic, why in stopped.items() if topic not in well}


def _stuck(snapshot: ConnectorSnapshot) -> dict[str, ReadinessReason]:
    """Topics whose records wait to be copied and are not, whoever should do that: a service that was restarted does not
    know of a connector that is paused."""
    until_ms = snapshot.summary.as_of_ms or 0
    since: dict[str, int] = {}
    for (topic, _), since_ms in snapshot.stuck.items():
        if until_ms - since_ms > COPY_SILENT_MS:
            since[topic] = min(since_ms, since.get(topic, since_ms))
    text = "records of topic {} wait to be copied, and none of them was: look at the connector that copies it"
    return {topic: _reason("copying_stopped", text.format(topic), since_ms=at) for topic, at in since.items()}


def _copies_nothing(known: Connector, said: Summary, now_ms: int) -> ReadinessReason | None:
    if said.failure is not None:
        return _reason("copying_failed", f"connector {known.name} has failed: {said.failure}")
    if not known.active():
        return _reason("copying_stopped", halt(known).detail)
    if said.last_success_ms is None:
        return _reason("copying_stopped", f"connector {known.name} has not begun to copy yet")
    if not -_CLOCK_STEP_MS <= now_ms - said.last_success_ms <= COPY_SILENT_MS:
        why = f": {said.errors[0]}" if said.errors else ""
        text = f"connector {known.name} has trouble{why}"
        return _reason("copying_stopped", text, since_ms=said.last_success_ms)
    return None


def flow(known: Connector) -> tuple[str | None, str | None]:
    """The aliases of the clusters."""
    return known.config.get("source.cluster.alias"), known.config.get("target.cluster.alias") or "target"


def _reason(code: str, detail: str = "", *, since_ms: int | None = None) -> ReadinessReason:
    return ReadinessReason(reason=code, detail=detail or REASONS.get(code, code), since_ms=since_ms)

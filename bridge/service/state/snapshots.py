"""Keeps what the rounds process has reported last, as the HTTP process serves it. Calls no cluster.

Group ids are kept in order, so that a page starts with one bisection. Reports of an earlier instance of a connector
stay until the new one has ended a round: after a restart there are old verdicts rather than none.

The state of the rounds process, as health shows it.

Lists what the connectors of the service copy now, to find conflicts with a new one.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bridge.protocol.messages import GroupReport
from bridge.service.ipc.messages import Backlog, InstanceStatus, Lacking, PackedGroup, unpack_report
from bridge.service.state.copy_progress import CopySnapshot
from bridge.service.state.copy_samples import GroupLatency, as_message, observed
from bridge.service.state.task_table import TaskTable
from connectors.base import COPYING_KINDS, CopiedTopics, CopyReport, Summary

MOST_FORGOTTEN = 1_000
GroupTuple = tuple[
    str,
    int,
    bool,
    str,
    int | None,
    str | None,
    int,
    int | None,
    tuple[str, ...],
    Lacking,
    tuple[str, ...],
    bytes | None,
]
"""A PackedGroup as a plain tuple: the garbage collector stops tracking plain tuples, but never a NamedTuple, and
100,000 tracked objects make a collection, and so a poll, several ms slower."""


AnswerKey = tuple[int, bool, str | None, bool]
"""What a group's readiness depends on: its task, whether it is translated and committed, why not, whether it was failed
over."""
SILENT_SECONDS = 10.0
"""Without a heartbeat for this long the state is `stalled`."""


def answer_key(group: GroupTuple) -> AnswerKey:
    _, task, committed, _, _, reason, _, moved_ms, *_ = group
    return task, committed, reason, moved_ms is not None


@dataclass(slots=True)
class ConnectorSnapshot:
    summary: Summary = field(default_factory=Summary)
    generation: int = 0
    instance: InstanceStatus | None = None
    groups: dict[str, GroupTuple] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    answer_counts: Counter[AnswerKey] = field(default_factory=Counter)
    """How many groups have the same answer, while all topics are copied and no group is outdated."""
    outdated: set[str] = field(default_factory=set)
    """Groups that only an earlier instance has reported."""
    latencies: dict[str, GroupLatency] = field(default_factory=dict)
    """Latencies of groups with a report and at least one checkpoint that Connect has written."""
    copying: CopySnapshot = field(default_factory=CopySnapshot)
    missing: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """By source partition, how many records are missing on the target, and since when: the first two fields of a
    Missing."""
    incomplete: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """The entries of `missing` with at least one record, or an unknown number."""
    lacking: dict[str, Lacking] = field(default_factory=dict)
    """The groups that lack records which the copies have come past."""
    stuck: dict[tuple[str, int], int] = field(default_factory=dict)
    """Source partitions with missing records of which none is copied, and since when."""

    def restart(self) -> None:
        """Begins with another instance, perhaps of other clusters: it has reached none yet, and reported no group."""
        self.outdated, self.missing, self.incomplete, self.stuck = set(self.groups), {}, {}, {}
        self.summary = replace(self.summary, clusters_seen=frozenset())

    def put(self, group: GroupTuple) -> None:
        """Keeps the report of a group."""
        before = self.groups.get(group[0])
        if before is None:
            insort(self.order, group[0])
        else:
            self._uncount(before)
        self.groups[group[0]] = group
        self.lacking.pop(group[0], None)
        if lacks := PackedGroup._make(group).lacking:
            self.lacking[group[0]] = lacks
        self.answer_counts[answer_key(group)] += 1

    def remove(self, group: str) -> bool:
        """Removes a group, but not from `order`. False where there was none."""
        before = self.groups.pop(group, None)
        if before is None:
            return False
        self.latencies.pop(group, None)
        self.lacking.pop(group, None)
        self._uncount(before)
        return True

    def _uncount(self, group: GroupTuple) -> None:
        self.answer_counts[answer_key(group)] -= 1
        if not self.answer_counts[answer_key(group)]:
            del self.answer_counts[answer_key(group)]


class Snapshots:
    """The snapshots of all connectors. Every method takes well under a millisecond."""

    def __init__(self) -> None:
        self._connectors: dict[str, ConnectorSnapshot] = {}
        self.forgotten: dict[str, int] = {}
        """Generations of connectors that were forgotten: what still arrives of them is dropped."""

    def connector(self, name: str) -> ConnectorSnapshot:
        return self._connectors.get(name) or ConnectorSnapshot()

    def names(self) -> list[str]:
        return sorted(self._connectors)

    def report(self, name: str, group: str) -> PackedGroup | None:
        report = self.connector(name).groups.get(group)
        return None if report is None else PackedGroup._make(report)

    def full(self, name: str, group: str) -> GroupReport | None:
        """The whole report of a group, with the latency of its checkpoints."""
        packed, latency = self.report(name, group), self.connector(name).latencies.get(group)
        if packed is None or packed.blob is None:
            return None
        report = unpack_report(packed.blob)
        return (
            report
            if latency is None
            else report.model_copy(update={"checkpoint_latency_ms": as_message(latency)})
        )

    def after(self, name: str, group: str) -> Iterator[PackedGroup]:
        """Iterates over the groups of a connector from `group` on, in order; may miss groups that come or go
        meanwhile."""
        snapshot = self.connector(name)
        for key in snapshot.order[bisect_left(snapshot.order, group) :]:
            report = snapshot.groups.get(key)
            if report is not None:
                yield PackedGroup._make(report)

    # -- reports of the rounds process -------------------------------------------------------------

    def summary(self, name: str, generation: int, summary: Summary) -> bool:
        """Keeps the summary of a connector. True when its `failure` is new."""
        snapshot = self._current(name, generation)
        if snapshot is None:
            return False
        if summary.rounds > 0 and snapshot.outdated:
            self._drop(snapshot, snapshot.outdated)
            snapshot.outdated = set()
        has_failed = summary.failure is not None and summary.failure != snapshot.summary.failure
        snapshot.summary = summary
        return has_failed

    def groups(self, name: str, generation: int, changed: Sequence[PackedGroup]) -> None:
        snapshot = self._current(name, generation)
        if snapshot is None:
            return
        gone: set[str] = set()
        for group in changed:
            snapshot.outdated.discard(group.group)
            if group.blob is None:
                gone.add(group.group)
                continue
            snapshot.put(
                (
                    group.group,
                    group.task,
                    group.ready,
                    sys.intern(group.verdict),
                    group.bound,
                    sys.intern(group.reason) if group.reason is not None else None,
                    group.partitions,
                    group.moved_ms,
                    group.topics,
                    group.lacking,
                    group.not_copied,
                    group.blob,
                )
            )
        self._drop(snapshot, gone)

    def progress(self, name: str, generation: int, report: CopyReport) -> None:
        snapshot = self._current(name, generation)
        if snapshot is not None:
            snapshot.copying.update(report)

    def missing(self, name: str, generation: int, changed: Backlog) -> None:
        snapshot = self._current(name, generation)
        if snapshot is None:
            return
        for (topic, partition), missing in changed.items():
            tp = topic, partition
            snapshot.stuck.pop(tp, None)
            snapshot.incomplete.pop(tp, None)
            if missing is None:
                snapshot.missing.pop(tp, None)
                continue
            snapshot.missing[tp] = row = missing.records, missing.since_ms
            if missing.records:
                snapshot.incomplete[tp] = row
            if missing.stuck_since_ms >= 0:
                snapshot.stuck[tp] = missing.stuck_since_ms

    def instance_status(self, status: InstanceStatus) -> None:
        snapshot = self._current(status.name, status.generation)
        if snapshot is not None:
            snapshot.instance = status

    # -- events in the HTTP process ----------------------------------------------------------------

    def renew(self, name: str) -> None:
        """Drops failure and errors of an instance that is about to be restarted."""
        snapshot = self._connectors.get(name)
        if snapshot is not None:
            snapshot.summary = replace(snapshot.summary, failure=None, errors=())

    def restarted(self) -> None:
        """Marks all reports as outdated: the rounds process was restarted, and its instances keep their generations."""
        for snapshot in self._connectors.values():
            snapshot.restart()
            snapshot.instance = None

    def written(self, name: str, group: str, latency_ms: int) -> None:
        """Counts a checkpoint of this group that Connect has written; keeps nothing for records of no group."""
        snapshot = self._connectors.get(name)
        if snapshot is not None and group in snapshot.groups:
            snapshot.latencies[group] = observed(snapshot.latencies.get(group), latency_ms)

    def forget(self, name: str) -> None:
        snapshot = self._connectors.pop(name, None)
        if snapshot is not None:
            self.forgotten[name] = snapshot.generation
            if len(self.forgotten) > MOST_FORGOTTEN:
                del self.forgotten[next(iter(self.forgotten))]

    def _current(self, name: str, generation: int) -> ConnectorSnapshot | None:
        """The snapshot that a report of this generation belongs to; None where the report is outdated."""
        if generation <= self.forgotten.get(name, -1):
            return None
        snapshot = self._connectors.setdefault(name, ConnectorSnapshot(generation=generation))
        if generation < snapshot.generation:
            return None
        if generation > snapshot.generation:
            snapshot.generation = generation
            snapshot.restart()
        return snapshot

    @staticmethod
    def _drop(snapshot: ConnectorSnapshot, groups: set[str]) -> None:
        present = {group for group in groups if snapshot.remove(group)}
        if len(present) > 8:
            snapshot.order = [group for group in snapshot.order if group not in present]
        else:
            for group in present:
                del snapshot.order[bisect_left(snapshot.order, group)]


class RoundsState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STALLED = "stalled"
    RESTARTING = "restarting"
    STOPPED = "stopped"


def copied_topics(table: TaskTable, snapshots: Snapshots) -> list[CopiedTopics]:
    """Returns the topics of connectors that have a running task: others may have handed their copies back."""
    return [
        CopiedTopics(connector.name, connector.config, _topics(snapshots, connector.name))
        for connector in table
        if connector.kind in COPYING_KINDS and connector.active()
    ]


def _topics(snapshots: Snapshots, name: str) -> set[tuple[str, str]]:
    return {(row.topic, row.target_topic) for row in snapshots.connector(name).copying.partitions()}

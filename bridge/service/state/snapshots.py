"""What the rounds process has said last, as the HTTP process keeps and serves it. Never a call to a cluster.

Group ids are kept in order, so that a page starts with one bisection. What was said by an earlier instance
of a connector stays until the new one has ended a round: a restart shows old verdicts rather than none.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bridge.protocol.messages import GroupReport
from bridge.service.ipc.messages import Backlog, InstanceStatus, PackedGroup, unpack_report
from bridge.service.state.copy_progress import CopySnapshot
from bridge.service.state.latency import GroupLatency, observed, told
from connectors.base import CopyReport, Summary

MOST_FORGOTTEN = 1_000
GroupTuple = tuple[
    str, int, bool, str, int | None, str | None, int, int | None, tuple[str, ...], bytes | None
]
"""A PackedGroup as a plain tuple: the garbage collector stops tracking those, which it never does with a
NamedTuple (100,000 tracked objects cost a collection, and so a poll, several ms)."""


AnswerKey = tuple[int, bool, str | None, bool]
"""Of a group its task, whether it is translated and committed, why not, and whether it was failed over."""


def answer_key(kept: GroupTuple) -> AnswerKey:
    _, task, stands, _, _, reason, _, moved_ms, _, _ = kept
    return task, stands, reason, moved_ms is not None


@dataclass(slots=True)
class ConnectorSnapshot:
    summary: Summary = field(default_factory=Summary)
    generation: int = 0
    note: InstanceStatus | None = None
    groups: dict[str, GroupTuple] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    answer_counts: Counter[AnswerKey] = field(default_factory=Counter)
    """How many groups have the same answer, where all topics are copied and no report is older."""
    older: set[str] = field(default_factory=set)
    """Groups that only an earlier instance has reported."""
    latencies: dict[str, GroupLatency] = field(default_factory=dict)
    """Of groups that have a report and of whose checkpoints Connect has written one."""
    copying: CopySnapshot = field(default_factory=CopySnapshot)
    missing: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Of source partitions how many records are missing on the target, and since when: the first two of a Missing."""
    behind: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Of those the ones of which something is missing, or not known."""
    stuck: dict[tuple[str, int], int] = field(default_factory=dict)
    """Source partitions of which records are missing and none is copied, and since when."""

    def anew(self) -> None:
        """Another instance begins, perhaps with other clusters: it has seen none yet, and reported no group."""
        self.older, self.missing, self.behind, self.stuck = set(self.groups), {}, {}, {}
        self.summary = replace(self.summary, clusters_seen=frozenset())

    def put(self, kept: GroupTuple) -> None:
        """Keeps what is reported of a group now."""
        before = self.groups.get(kept[0])
        if before is None:
            insort(self.order, kept[0])
        else:
            self._uncount(before)
        self.groups[kept[0]] = kept
        self.answer_counts[answer_key(kept)] += 1

    def take(self, group: str) -> bool:
        """Lets go of a group but for its place in `order`; whether it was there."""
        before = self.groups.pop(group, None)
        if before is None:
            return False
        self.latencies.pop(group, None)
        self._uncount(before)
        return True

    def _uncount(self, kept: GroupTuple) -> None:
        self.answer_counts[answer_key(kept)] -= 1
        if not self.answer_counts[answer_key(kept)]:
            del self.answer_counts[answer_key(kept)]


class Snapshots:
    """One ConnectorSnapshot a connector. All methods take well under a millisecond."""

    def __init__(self) -> None:
        self._connectors: dict[str, ConnectorSnapshot] = {}
        self._forgotten: dict[str, int] = {}
        """Generations of connectors that were forgotten: what is still under way from them is dropped."""

    def connector(self, name: str) -> ConnectorSnapshot:
        return self._connectors.get(name) or ConnectorSnapshot()

    def names(self) -> list[str]:
        return sorted(self._connectors)

    def report(self, name: str, group: str) -> PackedGroup | None:
        kept = self.connector(name).groups.get(group)
        return None if kept is None else PackedGroup._make(kept)

    def full(self, name: str, group: str) -> GroupReport | None:
        """The report as it was made, with what is known of its checkpoints' way."""
        packed, latency = self.report(name, group), self.connector(name).latencies.get(group)
        if packed is None or packed.blob is None:
            return None
        report = unpack_report(packed.blob)
        return (
            report if latency is None else report.model_copy(update={"checkpoint_latency_ms": told(latency)})
        )

    def after(self, name: str, group: str) -> Iterator[PackedGroup]:
        """The groups of a connector from `group` on, in order; groups that come or go meanwhile may be
        missed."""
        known = self.connector(name)
        for key in known.order[bisect_left(known.order, group) :]:
            kept = known.groups.get(key)
            if kept is not None:
                yield PackedGroup._make(kept)

    # -- what the rounds process says --------------------------------------------------------------

    def summary(self, name: str, generation: int, summary: Summary) -> bool:
        """True when `failure` is new."""
        known = self._of(name, generation)
        if known is None:
            return False
        if summary.rounds > 0 and known.older:
            self._drop(known, known.older)
            known.older = set()
        fails = summary.failure is not None and summary.failure != known.summary.failure
        known.summary = summary
        return fails

    def groups(self, name: str, generation: int, changed: Sequence[PackedGroup]) -> None:
        known = self._of(name, generation)
        if known is None:
            return
        gone: set[str] = set()
        for group in changed:
            known.older.discard(group.group)
            if group.blob is None:
                gone.add(group.group)
                continue
            known.put(
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
                    group.blob,
                )
            )
        self._drop(known, gone)

    def progress(self, name: str, generation: int, report: CopyReport) -> None:
        known = self._of(name, generation)
        if known is not None:
            known.copying.update(report)

    def missing(self, name: str, generation: int, changed: Backlog) -> None:
        known = self._of(name, generation)
        if known is None:
            return
        for (topic, partition), missing in changed.items():
            place = topic, partition
            known.stuck.pop(place, None)
            known.behind.pop(place, None)
            if missing is None:
                known.missing.pop(place, None)
                continue
            known.missing[place] = row = missing.records, missing.since_ms
            if missing.records:
                known.behind[place] = row
            if missing.stuck_since_ms >= 0:
                known.stuck[place] = missing.stuck_since_ms

    def note(self, note: InstanceStatus) -> None:
        known = self._of(note.name, note.generation)
        if known is not None:
            known.note = note

    # -- what the HTTP process knows ---------------------------------------------------------------

    def renew(self, name: str) -> None:
        """The instance is made anew: its failure and errors are not those of the one to come."""
        known = self._connectors.get(name)
        if known is not None:
            known.summary = replace(known.summary, failure=None, errors=())

    def restarted(self) -> None:
        """The rounds process was started again: every instance will report anew, under its old generation."""
        for known in self._connectors.values():
            known.anew()
            known.note = None

    def written(self, name: str, group: str, latency_ms: int) -> None:
        """Connect has written a checkpoint of this group; of other records nothing is kept here."""
        known = self._connectors.get(name)
        if known is not None and group in known.groups:
            known.latencies[group] = observed(known.latencies.get(group), latency_ms)

    def forget(self, name: str) -> None:
        known = self._connectors.pop(name, None)
        if known is not None:
            self._forgotten[name] = known.generation
            if len(self._forgotten) > MOST_FORGOTTEN:
                del self._forgotten[next(iter(self._forgotten))]

    def _of(self, name: str, generation: int) -> ConnectorSnapshot | None:
        if generation <= self._forgotten.get(name, -1):
            return None
        known = self._connectors.setdefault(name, ConnectorSnapshot(generation=generation))
        if generation < known.generation:
            return None
        if generation > known.generation:
            known.generation = generation
            known.anew()
        return known

    @staticmethod
    def _drop(known: ConnectorSnapshot, groups: set[str]) -> None:
        present = {group for group in groups if known.take(group)}
        if len(present) > 8:
            known.order = [group for group in known.order if group not in present]
        else:
            for group in present:
                del known.order[bisect_left(known.order, group)]

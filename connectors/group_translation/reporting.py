"""Publishes the reports of one connector's groups when they change."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Set

from bridge.errors import KafkaFailure
from bridge.model.state_records.group_record import GroupRecord
from bridge.model.values import Reason, Side, TopicPartition, task_of
from bridge.protocol.messages import GroupReport, PartitionReport
from bridge.translation.plan import GroupPlan
from connectors.base import Publisher
from connectors.cluster_away import reason_of
from connectors.group_translation.options import GroupOptions
from connectors.group_translation.records import record_of, report_of
from connectors.group_translation.report import (
    RoundTally,
    fingerprint,
    lacking,
    pack,
    proven,
    report,
    standing_on_target,
    unpack,
    with_last_verdicts,
)
from connectors.group_translation.round import RoundOutcome


class Reports:
    """The last reports of the groups of this instance. `changed`: what is to be written to the readiness topic; None
    where a group is gone."""

    def __init__(self, name: str, options: GroupOptions, publisher: Publisher) -> None:
        self._name, self._options, self._publisher = name, options, publisher
        self.task_count = 1
        self._last: dict[str, tuple[int | None, bytes]] = {}
        """By group: the fingerprint of the plan that was reported, and the report, compressed to a tenth of its
        size."""
        self.changed: dict[str, GroupRecord | Reason | None] = {}
        """A reason where nothing else has changed."""
        self._without_offsets: set[str] = set()
        """Groups that had no offset of this flow when the source last answered."""

    def task(self, name: str) -> int:
        return task_of(name, self.task_count)

    def names(self) -> list[str]:
        return list(self._last)

    def outcome(self, outcome: RoundOutcome, tally: RoundTally, away: KafkaFailure | None) -> None:
        """Publishes the reports of a portion that differ from the last ones. `away`: why the source did not answer; it
        is the reason of all reports that have no other, and what can't be translated has the last verdict, as long as
        its offset stands on the target."""
        now_ms = int(time.time() * 1000)
        changed: dict[str, GroupReport | None] = {}
        reason = None if away is None else reason_of(Side.SOURCE, away)
        for name, carried_out in outcome.plans.items():
            plan = proven(carried_out, source_away=away is not None)
            if reason is not None and all(row.verdict.reason is reason for row in plan.rows):
                mark, _ = self._last.get(name, (None, b""))
                if not self._still_stands(name, plan):
                    tally.seen.add(name)
                    changed[name] = self._outdated(name, reason, plan=plan)
                elif name in self._last and self._last[name][0] != mark:
                    changed[name] = self._with_lost(name, plan)
                continue
            # Unpacked only where a row is pending: of thousands of groups it takes seconds.
            pending = any(row.verdict.reason for row in plan.rows)
            if reason is not None and pending and (last := self.last(name)) is not None:
                plan = with_last_verdicts(plan, last, reason)
            tally.count(plan)
            mark = hash((fingerprint(plan), reason, self.task(name)))
            if self._last.get(name, (None,))[0] != mark:
                changed[name] = group_report = self._report(plan, now_ms, reason)
                self._last[name] = (mark, pack(group_report))
                if reason is None:
                    task = self.task(name), self.task_count
                    self.changed[name] = record_of(plan, now_ms, *task, group_report.target_state)
        for name, reason in outcome.failures.items():
            tally.seen.add(name)
            changed[name] = self._outdated(name, reason)
            self.changed[name] = reason
        tally.add(outcome)
        if changed:
            self._publisher.groups(changed)

    def looked_at(self, names: Set[str], outcome: RoundOutcome, among: Collection[str]) -> None:
        """Notes which of these groups the source has answered about, and has no offsets of this flow for. `among`: all
        groups that there are."""
        self._without_offsets.intersection_update(among)
        self._without_offsets.difference_update(names)
        self._without_offsets.update(names - outcome.plans.keys() - outcome.failures.keys())

    def not_looked_at(self, names: Iterable[str], outcome: RoundOutcome, away: KafkaFailure) -> None:
        """Takes back that groups are ready which a round without the source knows too little of to hold them against
        the target."""
        reason, changed = reason_of(Side.SOURCE, away), dict[str, GroupReport | None]()
        for name in names:
            if (
                name not in outcome.plans
                and name not in outcome.failures
                and name not in self._without_offsets
                and not self._still_stands(name, None)
            ):
                changed[name] = self._outdated(name, reason)
        if changed:
            self._publisher.groups(changed)

    def unsupported(self, names: Iterable[str], tally: RoundTally) -> dict[str, GroupReport | None]:
        """Returns the changed reports of groups of types that are not synced."""
        changed: dict[str, GroupReport | None] = {}
        for name in names:
            tally.seen.add(name)
            mark = hash((Reason.GROUP_TYPE_UNSUPPORTED, self.task(name)))
            if self._last.get(name, (None,))[0] != mark:
                changed[name] = group_report = self._outdated(name, Reason.GROUP_TYPE_UNSUPPORTED)
                self._last[name] = (mark, pack(group_report))
                self.changed[name] = Reason.GROUP_TYPE_UNSUPPORTED
        return changed

    def gone(self, stay: Collection[str]) -> dict[str, GroupReport | None]:
        """Removes the reports of groups that are not among those that stay, and returns their names with None."""
        changed: dict[str, GroupReport | None] = {name: None for name in self._last if name not in stay}
        for name in changed:
            del self._last[name]
            self.changed[name] = None
        return changed

    def away(self, names: Iterable[str], reason: Reason, *, ready: bool) -> None:
        """Publishes `reason` for these groups: a cluster as a whole does not answer."""
        concerned = (name for name in names if name not in self._without_offsets)
        self._publisher.groups({name: self._outdated(name, reason, ready=ready) for name in concerned})

    def recalled(self, records: Mapping[str, GroupRecord], reason: Reason) -> None:
        """Publishes groups as the readiness topic has them, of tasks that this instance has not looked at. `reason`:
        shown where the record has none."""
        changed: dict[str, GroupReport | None] = {}
        for name, record in records.items():
            changed[name] = group_report = self.recorded(name, record, reason)
            self._last[name] = (None, pack(group_report))
        self._publisher.groups(changed)

    def adopt(self, name: str, record: GroupRecord) -> None:
        """Takes a group over as it is published, by the readiness topic: another instance had it."""
        self._last.setdefault(name, (None, pack(self.recorded(name, record))))

    def last(self, name: str) -> GroupReport | None:
        """Returns the report as it was published last."""
        group_report = self._last.get(name)
        return None if group_report is None else unpack(group_report[1])

    def forget(self, name: str) -> None:
        """Drops the group's report: another instance runs its task."""
        self._last.pop(name, None)
        self.changed.pop(name, None)

    def recorded(self, name: str, record: GroupRecord, reason: Reason | None = None) -> GroupReport:
        """Makes a report of a record. `reason`: shown instead of the record's."""
        aliases = self._options.source_alias, self._options.target_alias
        return report_of(
            record,
            name,
            connector=self._name,
            source=aliases[0],
            target=aliases[1],
            task=self.task(name),
            reason=reason,
            needs_all_topics=self._options.needs_all_topics,
        )

    def forget_marks(self) -> None:
        """Makes every group count as changed: the readiness topic has lost its records."""
        self._last = {name: (None, packed) for name, (_, packed) in self._last.items()}

    def _report(self, plan: GroupPlan, now_ms: int | None, reason: Reason | None = None) -> GroupReport:
        """Makes a report of a plan. `reason`: shown where the plan has none."""
        options = self._options
        state = "ACTIVE" if plan.reason is Reason.GROUP_ACTIVE_ON_TARGET else "EMPTY"
        group_report = report(
            plan,
            connector=self._name,
            source=options.source_alias,
            target=options.target_alias,
            task=self.task(plan.group),
            state=state,
            synced_at_ms=now_ms,
            needs_all_topics=options.needs_all_topics,
        )
        return (
            group_report.model_copy(update={"reason": reason.value})
            if reason and not group_report.reason
            else group_report
        )

    def _still_stands(self, name: str, plan: GroupPlan | None) -> bool:
        """Whether a group that was ready has the same offsets on the target now, in a plan without verdicts; None for
        no plan. True for a group that was not ready."""
        standing = None if plan is None else {row.source: standing_on_target(row) for row in plan.rows}
        mark, packed = self._last.get(name, (None, None))
        not_begun = () if plan is None else plan.not_begun
        held = hash(("held against the target", frozenset((standing or {}).items()), not_begun))
        if packed is None or mark == held:
            return True
        last = unpack(packed)
        if last.ready and (
            standing is None
            or any(
                standing.get(TopicPartition(partition.topic, partition.partition)) != partition.written
                for partition in last.partitions
            )
        ):
            return False
        self._last[name] = held, packed
        return True

    def _with_lost(self, name: str, plan: GroupPlan) -> GroupReport:
        """Returns the last report of a group, with what the target lacks by now of partitions that it has yet to
        begin."""
        mark, packed = self._last[name]
        group_report = unpack(packed).model_copy(update={"not_begun": lacking(plan.not_begun)})
        self._last[name] = mark, pack(group_report)
        return group_report

    def _outdated(
        self, name: str, reason: Reason, *, ready: bool = False, plan: GroupPlan | None = None
    ) -> GroupReport:
        """Returns the report of a group that could not be read: its last verdicts, and why there are no newer ones
        (R5). `ready`: whether it stays ready if it was; `plan`: what stands on the target now."""
        _, packed = self._last.get(name, (None, None))
        last = self._report(GroupPlan(name, (), reason), None) if packed is None else unpack(packed)
        if plan is not None:
            last = last.model_copy(update={"partitions": _with_standing(last.partitions, plan)})
        group_report = last.model_copy(update={"reason": reason.value, "ready": ready and last.ready})
        self._last[name] = (None, pack(group_report))
        return group_report


def _with_standing(partitions: Iterable[PartitionReport], plan: GroupPlan) -> list[PartitionReport]:
    """Returns the partitions with what stands on the target now."""
    standing = {row.source: row.standing for row in plan.rows}
    return [
        partition.model_copy(
            update={"written": standing.get(TopicPartition(partition.topic, partition.partition))}
        )
        for partition in partitions
    ]

"""Publishes what the readiness topic has of groups whose task runs in another service, or ran before this one was
started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from bridge.model.assignment import task_of
from bridge.model.state_records.group_record import GroupRecord
from bridge.model.values import Reason, TopicPartition
from bridge.protocol.messages import GroupReport
from bridge.translation.plan import NotBegun
from connectors.base import Assignment, Missing, Publisher
from connectors.group_translation.listed_groups import ListedGroups
from connectors.group_translation.records import committed_of, written_of
from connectors.group_translation.reporting import Reports
from connectors.group_translation.round import GroupRounds
from connectors.group_translation.round_records import RoundRecords

_UNREADABLE = {Reason.SOURCE_NOT_AUTHORIZED, Reason.TARGET_NOT_AUTHORIZED}
"""Reasons of groups that could not be read when all others were."""


_PORTION = 100
"""Groups after which other tasks of the event loop have a turn."""


class OtherInstances:
    """Publishes reports and missing records that other instances of the connector have written to the topic."""

    def __init__(
        self,
        records: RoundRecords,
        publisher: Publisher,
        reports: Reports,
        forget: Callable[[str], None],
    ) -> None:
        """`forget`: drops what was committed for a group that another instance has."""
        self._records, self._publisher, self._reports = records, publisher, reports
        self._forget = forget
        self._shown: set[str] = set()
        self._missing: dict[TopicPartition, Missing] = {}
        self._assignment: Assignment | None = None

    def show(self, assignment: Assignment) -> None:
        """Publishes what is new in the topic about groups of tasks that don't run here."""
        store, reports = self._records.store, self._reports
        names: Collection[str] = store.drain_changed()
        if assignment != self._assignment:
            names = {*store.names(GroupRecord), *self._shown}
            self._assignment = assignment
        changed: dict[str, GroupReport | None] = {}
        for name in names:
            record, shown = store.get(GroupRecord, name), name in self._shown
            own = task_of(name, assignment.task_count) in assignment.active
            if record is not None and not own:
                reports.forget(name)
                self._forget(name)
                changed[name] = reports.recorded(name, record)
                self._shown.add(name)
            elif shown:
                self._shown.discard(name)
                if record is None:
                    changed[name] = None
                else:
                    # Its task comes here: what is shown stays until a round reports the group, or finds it gone.
                    reports.adopt(name, record)
        if changed:
            self._publisher.groups(changed)

    def missing(
        self, own: Collection[TopicPartition], *, others: bool
    ) -> dict[TopicPartition, Missing | None]:
        """Returns what has changed of the missing records of partitions that are not among this instance's own.
        `others`: whether another instance looks at some."""
        now = self._records.missing(own) if others else {}
        changed: dict[TopicPartition, Missing | None] = {
            tp: missing for tp, missing in now.items() if self._missing.get(tp) != missing
        }
        changed |= {tp: None for tp in self._missing.keys() - now.keys() if tp not in own}
        self._missing = now
        return changed

    async def recall(
        self,
        assignment: Assignment,
        tasks: Collection[int],
        groups: ListedGroups,
        rounds: GroupRounds,
        reason: Reason,
    ) -> None:
        """Restores the state of these tasks' groups, which this instance has not looked at, from the topic: rounds
        without the source go on from there."""
        store, count = self._records.store, assignment.task_count
        names = [name for name in store.names(GroupRecord) if task_of(name, count) in tasks]
        for at in range(0, len(names), _PORTION):
            records: dict[str, GroupRecord] = {}
            for name in names[at : at + _PORTION]:
                record = store.get(GroupRecord, name)
                if record is None or not groups.recall(name, _type(record)):
                    continue
                records[name] = record
                if record.reason not in _UNREADABLE:
                    not_begun = tuple(map(NotBegun._make, record.not_begun))
                    rounds.recall(name, committed_of(record), written_of(record), not_begun)
            if records:
                self._reports.recalled(records, reason)
            await asyncio.sleep(0)


def _type(record: GroupRecord) -> str:
    return "unsupported" if record.reason == Reason.GROUP_TYPE_UNSUPPORTED else "classic"

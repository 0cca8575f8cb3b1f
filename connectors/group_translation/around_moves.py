"""Keeps reports of moved groups from being published: a moved group has a report of its own (`moves`)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from bridge.model.values import TopicPartition
from bridge.protocol.messages import GroupReport
from connectors.base import (
    CopyReport,
    EmittedRecord,
    Missing,
    Publisher,
    SourceOffset,
    SourcePartition,
    Summary,
)


class AroundMoves:
    """A connectors.base.Publisher that leaves out reports of moved groups."""

    def __init__(self, publisher: Publisher, moved: Container[str]) -> None:
        self._publisher, self._moved = publisher, moved

    def groups(self, changed: Mapping[str, GroupReport | None]) -> None:
        rest = {name: report for name, report in changed.items() if name not in self._moved}
        if rest:
            self._publisher.groups(rest)

    def records(self, records: Sequence[EmittedRecord]) -> None:
        self._publisher.records(records)

    def summary(self, summary: Summary) -> None:
        self._publisher.summary(summary)

    def backlog(self, changed: Mapping[TopicPartition, Missing | None]) -> None:
        self._publisher.backlog(changed)

    async def stored_offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        return await self._publisher.stored_offsets(partitions)

    def progress(self, report: CopyReport) -> None:
        self._publisher.progress(report)

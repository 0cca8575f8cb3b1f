"""Instances of connectors, run for the time of a script over clusters in memory, and what they publish meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from bridge.model.values import TopicPartition
from bridge.protocol.messages import GroupReport
from connectors.base import (
    Assignment,
    CopyReport,
    EmittedRecord,
    Instance,
    Missing,
    SourceOffset,
    SourcePartition,
    Summary,
)

ALONE = Assignment(1, frozenset({0}))
NOBODY = Assignment(1, frozenset())

Made = TypeVar("Made", bound=Instance)


def play(
    make: Callable[[], Made], script: Callable[[Made], Awaitable[None]], assignment: Assignment | None
) -> None:
    """Runs an instance until the script is over, which it must not outrun; `assignment` None: the script assigns."""

    async def go() -> None:
        instance = make()
        if assignment is not None:
            instance.assign(assignment)
        running = asyncio.create_task(instance.run())
        try:
            await asyncio.wait_for(script(instance), 60)
            assert not running.done(), running.exception()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await instance.close()

    asyncio.run(go())


class Published:
    """Keeps what was published; `reports` is the sum of it."""

    def __init__(self) -> None:
        self.summaries: list[Summary] = []
        self.changes: list[dict[str, GroupReport | None]] = []
        self.reports: dict[str, GroupReport] = {}
        self.copying: list[CopyReport] = []
        self.missing: dict[TopicPartition, Missing] = {}
        self.stored: dict[tuple[str | int, ...], int] = {}
        """What Connect keeps: offset by source partition, its values in the order of their keys."""
        self.answering = asyncio.Event()
        self.answering.set()
        self.more = asyncio.Event()

    def records(self, records: Sequence[EmittedRecord]) -> None:
        raise AssertionError("group offsets go past Connect")

    def summary(self, summary: Summary) -> None:
        self.summaries.append(summary)
        self.more.set()

    def groups(self, changed: Mapping[str, GroupReport | None]) -> None:
        self.changes.append(dict(changed))
        for name, report in changed.items():
            if report is None:
                del self.reports[name]
            else:
                self.reports[name] = report

    def backlog(self, changed: Mapping[TopicPartition, Missing | None]) -> None:
        for place, missing in changed.items():
            if missing is None:
                del self.missing[place]
            else:
                self.missing[place] = missing

    def progress(self, report: CopyReport) -> None:
        self.copying.append(report)
        self.more.set()

    async def stored_offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        await self.answering.wait()
        keys = [tuple(value for _, value in sorted(each.items())) for each in partitions]
        return [{"offset": self.stored[key]} if key in self.stored else None for key in keys]


class Watching:
    """Waits for rounds by what is published."""

    published: Published
    more = 1
    """Rounds that are waited for unless told otherwise."""

    async def rounds(self, more: int | None = None) -> Summary:
        """Waits for `more` rounds to end well."""
        before = self.published.summaries[-1].rounds if self.published.summaries else 0
        goal = before + (self.more if more is None else more)
        return await self._until(lambda: self.published.summaries[-1].rounds >= goal)

    async def summaries(self, more: int) -> Summary:
        """Waits for `more` rounds to end, well or not."""
        goal = len(self.published.summaries) + more
        return await self._until(lambda: len(self.published.summaries) >= goal)

    async def _until(self, done: Callable[[], bool]) -> Summary:
        while not self.published.summaries or not done():
            self.published.more.clear()
            await self.published.more.wait()
        return self.published.summaries[-1]

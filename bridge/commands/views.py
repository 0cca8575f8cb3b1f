"""What a person sees of copying as it goes on: a table that stays in its place, or a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from bridge.commands.exit_status import note
from bridge.commands.show import printable
from bridge.commands.tables import by_topic, sums, topics_table
from bridge.model.copying import Progress
from bridge.model.values import TopicPartition
from bridge.protocol.messages import CopyTotals
from connectors.base import CopyReport, Summary

LINE_SECONDS = 5.0
_ABOVE_AND_BELOW = 8
"""Lines of a terminal that are not topics: sums, head, what is left out, room for the prompt."""


class Copying:
    """The Publisher of a source connector that runs without a service: the last word on everything."""

    def __init__(self) -> None:
        self.said = Summary()
        self.totals: CopyTotals | None = None
        self.rows: dict[TopicPartition, Progress] = {}

    def records(self, records: Sequence[object]) -> None:
        raise AssertionError("records go past Connect")

    def groups(self, changed: Mapping[str, object]) -> None:
        raise AssertionError("no group is looked after")

    def summary(self, summary: Summary) -> None:
        self.said = summary

    def backlog(self, changed: object) -> None:
        """Of groups, which this command does not look after."""

    def progress(self, report: CopyReport) -> None:
        self.totals = report.totals
        for place in report.gone:
            self.rows.pop(place, None)
        self.rows |= {row.source: row for row in report.changed}

    async def stored_offsets(self, partitions: Sequence[Mapping[str, str | int]]) -> Sequence[None]:
        """There is no Connect that could have kept any."""
        return [None] * len(partitions)


class View(Protocol):
    def show(self, copying: Copying) -> None:
        """Called often; what is shown is the view's to decide."""

    def close(self, copying: Copying) -> None:
        """With the last word."""


class Lines:
    """For logs and pipes: a line every few seconds on standard output, what is wrong at once on standard error."""

    def __init__(self) -> None:
        self._due = time.monotonic() + LINE_SECONDS
        self._told: frozenset[str] = frozenset()

    def show(self, copying: Copying) -> None:
        wrong = dict.fromkeys([*copying.said.errors, *copying.said.gaps])
        for line in wrong:
            if line not in self._told:
                note(printable(line))
        self._told = frozenset(wrong)
        if time.monotonic() >= self._due:
            self._line(copying)

    def close(self, copying: Copying) -> None:
        self._line(copying)

    def _line(self, copying: Copying) -> None:
        self._due = time.monotonic() + LINE_SECONDS
        if copying.totals is not None:
            sys.stdout.write(f"{time.strftime('%H:%M:%S')} {sums(copying.totals)}\n")
            sys.stdout.flush()


class LiveTable:
    """For a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def show(self, copying: Copying) -> None:
        self._live.update(picture(copying, self._console.height - _ABOVE_AND_BELOW), refresh=True)

    def close(self, copying: Copying) -> None:
        self.show(copying)
        self._live.stop()


def picture(copying: Copying, most: int) -> RenderableType:
    """At most so many topics, those with most lag first."""
    if copying.totals is None:
        return Text("looking for topics")
    wrong = list(dict.fromkeys([*copying.said.errors, *copying.said.gaps]))
    topics = by_topic(copying.rows.values())
    shown = topics[: max(1, most - len(wrong))]
    parts: list[RenderableType] = [Text(sums(copying.totals)), topics_table(shown)]
    if len(shown) < len(topics):
        parts.append(Text(f"and {len(topics) - len(shown)} more topic(s) with less lag"))
    parts += [Text(printable(line), style="red") for line in wrong]
    return Group(*parts)

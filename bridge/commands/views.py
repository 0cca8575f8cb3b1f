"""Shows the progress of `mirror-bridge replicate`: a table that is redrawn in place, or a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from bridge.commands.exit_status import note
from bridge.commands.show import printable
from bridge.commands.tables import by_topic, sums, topics_table
from bridge.model.copying import Progress
from bridge.model.values import TopicPartition

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from bridge.protocol.messages import CopyTotals
    from connectors.base import CopyReport, Summary
    from connectors.ports import Clusters

LINE_SECONDS = 5.0
_OTHER_LINES = 8
"""Lines of a terminal that are not for topics: sums, head, what is left out, the prompt."""


class LocalPublisher:
    """The Publisher of a source connector that runs without a service: keeps the latest of everything."""

    def __init__(self) -> None:
        from connectors.base import Summary

        self.latest = Summary()
        self.totals: CopyTotals | None = None
        self.rows: dict[TopicPartition, Progress] = {}

    def records(self, records: Sequence[object]) -> None:
        raise AssertionError("a source connector emits no records through Connect")

    def groups(self, changed: Mapping[str, object]) -> None:
        raise AssertionError("a source connector reports no groups")

    def summary(self, summary: Summary) -> None:
        self.latest = summary

    def backlog(self, changed: object) -> None:
        """Ignored: it is for groups, and this command has none."""

    def progress(self, report: CopyReport) -> None:
        self.totals = report.totals
        for tp in report.gone:
            self.rows.pop(tp, None)
        self.rows |= {row.source: row for row in report.changed}

    async def stored_offsets(
        self, partitions: Sequence[Mapping[str, str | int]]
    ) -> Sequence[Mapping[str, int] | None]:
        """Returns None for all: without Connect nothing has stored any."""
        return [None] * len(partitions)

    async def begin(self, clusters: Clusters, props: Mapping[str, str]) -> None:
        """Called before anything is copied. Raises KafkaFailure."""

    async def run(self) -> None:
        """Runs beside the copy until cancelled."""

    async def finish(self) -> None:
        """Called when the copy has ended."""


class View(Protocol):
    def show(self, copying: LocalPublisher) -> None:
        """Called often; the view decides when it shows something."""

    def close(self, copying: LocalPublisher) -> None:
        """Shows the end."""


class LineView:
    """Writes for logs and pipes: a line every few seconds on standard output, and errors at once on standard error."""

    def __init__(self) -> None:
        self._due = time.monotonic() + LINE_SECONDS
        self._shown_errors: frozenset[str] = frozenset()

    def show(self, copying: LocalPublisher) -> None:
        errors = dict.fromkeys([*copying.latest.errors, *copying.latest.gaps])
        for error in errors:
            if error not in self._shown_errors:
                note(printable(error))
        self._shown_errors = frozenset(errors)
        if time.monotonic() >= self._due:
            self._line(copying)

    def close(self, copying: LocalPublisher) -> None:
        self._line(copying)

    def _line(self, copying: LocalPublisher) -> None:
        self._due = time.monotonic() + LINE_SECONDS
        if copying.totals is not None:
            sys.stdout.write(f"{time.strftime('%H:%M:%S')} {sums(copying.totals)}\n")
            sys.stdout.flush()


class LiveTable:
    """Draws a table for terminals, and redraws it in place."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def show(self, copying: LocalPublisher) -> None:
        self._live.update(rendered(copying, self._console.height - _OTHER_LINES), refresh=True)

    def close(self, copying: LocalPublisher) -> None:
        self.show(copying)
        self._live.stop()


def rendered(copying: LocalPublisher, most: int) -> RenderableType:
    """The table with `most` topics at most, those with most lag first, and errors below it."""
    from rich.console import Group
    from rich.text import Text

    if copying.totals is None:
        return Text("looking for topics")
    errors = list(dict.fromkeys([*copying.latest.errors, *copying.latest.gaps]))
    topics = by_topic(copying.rows.values())
    shown = topics[: max(1, most - len(errors))]
    parts: list[RenderableType] = [Text(sums(copying.totals)), topics_table(shown)]
    if len(shown) < len(topics):
        parts.append(Text(f"and {len(topics) - len(shown)} more topic(s) with less lag"))
    parts += [Text(printable(line), style="red") for line in errors]
    return Group(*parts)

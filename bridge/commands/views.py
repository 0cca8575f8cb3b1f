"""Shows the progress of `mirror-bridge replicate`: a table that is redrawn in place, or a line every few seconds.

Progress of copying as text and tables for people. Pure.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bridge.commands.exit_status import note
from bridge.commands.show import printable, table
from bridge.model.copying import Progress
from bridge.model.values import TopicPartition

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from bridge.protocol.messages import CopyTotals
    from connectors.base import CopyReport, Summary
    from connectors.ports import Clusters


UNKNOWN = "-"
_COLUMNS = ("topic", "target topic", "partitions", "lag", "records", "records/s", "bytes/s", "age at commit")
_SIZES = ("B", "kB", "MB", "GB", "TB")
LINE_SECONDS = 5.0
_OTHER_LINES = 8
"""Lines of a terminal that are not for topics: sums, head, what is left out, the prompt."""


class TopicFigures(NamedTuple):
    """Sums over a topic's partitions; None for what is not known of any. `latency`: from a record's timestamp to its
    commit, the greatest, in ms."""

    topic: str
    target_topic: str
    partitions: int
    lag: int | None
    records: int
    record_rate: float
    byte_rate: float
    latency: int | None


def by_topic(rows: Iterable[Progress]) -> list[TopicFigures]:
    """Sums by topic, those with most lag first."""
    topics: defaultdict[str, list[Progress]] = defaultdict(list)
    for row in rows:
        topics[row.topic].append(row)
    figures = [_topic(topic, progress) for topic, progress in topics.items()]
    return sorted(figures, key=lambda progress: (-(progress.lag or 0), progress.topic))


def _topic(topic: str, rows: Sequence[Progress]) -> TopicFigures:
    lags = [row.lag for row in rows if row.lag >= 0]
    latencies = [row.replication_latency_ms for row in rows if row.replication_latency_ms >= 0]
    return TopicFigures(
        topic,
        rows[0].target_topic,
        len(rows),
        sum(lags) if lags else None,
        sum(row.records for row in rows),
        sum(row.record_rate for row in rows),
        sum(row.byte_rate for row in rows),
        max(latencies, default=None),
    )


def count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def size(value: float) -> str:
    """Bytes in units that are powers of 1,000."""
    for unit in _SIZES[:-1]:
        if value < 999.95:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} {_SIZES[-1]}"


def duration(ms: int | None) -> str:
    if ms is None:
        return UNKNOWN
    for most, per, unit in ((1000, 1, "ms"), (60_000, 1000, "s"), (3_600_000, 60_000, "min")):
        if ms < most:
            return f"{ms} ms" if per == 1 else f"{ms / per:.1f} {unit}"
    return f"{ms / 3_600_000:.1f} h"


def sums(totals: CopyTotals) -> str:
    """The sums of a connector in one line."""
    parts = [
        f"{totals.source} -> {totals.target} {totals.state}",
        f"{count(totals.partitions)} partition(s)",
        f"lag {count(totals.lag)}",
        f"{count(totals.record_rate)} records/s",
        f"{size(totals.byte_rate)}/s",
        f"{count(totals.records)} records, {size(totals.bytes)} in all",
        f"age at commit {duration(totals.replication_latency_ms)}",
    ]
    if gaps := sum(totals.gaps.values()):
        parts.append(f"{count(gaps)} gap(s)")
    return printable(", ".join(parts))


def topics_table(topics: Sequence[TopicFigures]) -> Table:
    rows = [
        {
            "topic": topic.topic,
            "target topic": topic.target_topic,
            "partitions": count(topic.partitions),
            "lag": count(topic.lag),
            "records": count(topic.records),
            "records/s": count(topic.record_rate),
            "bytes/s": size(topic.byte_rate),
            "age at commit": duration(topic.latency),
        }
        for topic in topics
    ]
    return table(rows, _COLUMNS, right=_COLUMNS[2:])


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

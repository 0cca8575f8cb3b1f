"""Progress of copying as text and tables for people. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridge.commands.show import printable, table
from bridge.model.copying import Progress

if TYPE_CHECKING:
    from rich.table import Table

    from bridge.protocol.messages import CopyTotals

UNKNOWN = "-"
_COLUMNS = ("topic", "target topic", "partitions", "lag", "records", "records/s", "bytes/s", "age at commit")
_SIZES = ("B", "kB", "MB", "GB", "TB")


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
    figures = [_topic(topic, each) for topic, each in topics.items()]
    return sorted(figures, key=lambda each: (-(each.lag or 0), each.topic))


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
            "topic": each.topic,
            "target topic": each.target_topic,
            "partitions": count(each.partitions),
            "lag": count(each.lag),
            "records": count(each.records),
            "records/s": count(each.record_rate),
            "bytes/s": size(each.byte_rate),
            "age at commit": duration(each.latency),
        }
        for each in topics
    ]
    return table(rows, _COLUMNS, right=_COLUMNS[2:])

"""A report as rows of tables: one by partition and time window, one of differences."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from bridge.audit.differences import NO_WINDOW, AuditWindow, DifferenceKind, NotCompared
from bridge.audit.report import AuditReport, PartitionResult

SUMMARY: Mapping[str, str] = MappingProxyType(
    {
        "topic": "string",
        "partition": "int",
        "target_topic": "string",
        "window_start": "timestamp",
        "window_end": "timestamp",
        "source_records": "bigint",
        "target_records": "bigint",
        "source_digest": "string",
        "target_digest": "string",
        "same": "bigint",
        **{kind.value: "bigint" for kind in DifferenceKind},
        "unknown": "bigint",
        "verdict": "string",
        "by_runs": "boolean",
        "not_compared": "map<string, bigint>",
        "failures": "array<string>",
    }
)
DIFFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "topic": "string",
        "partition": "int",
        "target_topic": "string",
        "kind": "string",
        **dict.fromkeys(("source_offset", "target_offset", "claimed_offset", "copy_offset"), "bigint"),
        "run": "bigint",
        "records": "bigint",
        "timestamp": "timestamp",
    }
)
"""Columns with their types, as Spark writes them."""


def schema(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def summary_rows(report: AuditReport) -> list[dict[str, Any]]:
    """A row for each partition and window. What was not compared, and why something could not be, is said in the first
    row of a partition, which is there in any case."""
    return [row for part in report.partitions for row in _partition_rows(part, report.window_ms)]


def _partition_rows(part: PartitionResult, window_ms: int) -> list[dict[str, Any]]:
    windows: Mapping[int, AuditWindow] = part.findings.windows or {NO_WINDOW: AuditWindow()}
    rows = list[dict[str, Any]]()
    for number, window in sorted(windows.items()):
        rows.append(
            {
                "topic": part.source.topic,
                "partition": part.source.partition,
                "target_topic": part.target.topic,
                "window_start": None if number == NO_WINDOW else time_of(number * window_ms),
                "window_end": None if number == NO_WINDOW else time_of((number + 1) * window_ms),
                "source_records": window.source_records,
                "target_records": window.target_records,
                "source_digest": f"{window.source_digest:016x}",
                "target_digest": f"{window.target_digest:016x}",
                "same": window.same,
                **{kind.value: window.found.get(kind, 0) for kind in DifferenceKind},
                "unknown": window.unknown,
                "verdict": part.verdict.value,
                "by_runs": part.by_runs,
                "not_compared": {}
                if rows
                else {str(why): n for why, n in part.findings.not_compared.items()},
                "failures": [] if rows else list(part.failures),
            }
        )
    return rows


def difference_rows(report: AuditReport) -> list[dict[str, Any]]:
    return [
        {
            "topic": part.source.topic,
            "partition": part.source.partition,
            "target_topic": part.target.topic,
            "kind": each.kind.value,
            "source_offset": each.source_offset,
            "target_offset": each.target_offset,
            "claimed_offset": each.claimed_offset,
            "copy_offset": each.copy_offset,
            "run": each.run,
            "records": each.records,
            "timestamp": time_of(each.timestamp) if each.timestamp >= 0 else None,
        }
        for part in report.partitions
        for each in part.findings.differences
    ]


def totals(part: PartitionResult) -> dict[str, int]:
    """Sums of a partition over its windows."""
    total = AuditWindow()
    for window in part.findings.windows.values():
        total.add(window)
    return {
        "source_records": total.source_records,
        "target_records": total.target_records,
        "same": total.same,
        **{kind.value: total.found.get(kind, 0) for kind in DifferenceKind},
        "unknown": total.unknown,
    }


def not_compared(report: AuditReport) -> dict[str, int]:
    """Sums of all partitions, by why."""
    total = dict[str, int]()
    for why in NotCompared:
        count = sum(part.findings.not_compared.get(why, 0) for part in report.partitions)
        if count:
            total[why.value] = count
    return total


def time_of(at_ms: int) -> datetime | None:
    """Converts ms since the epoch; None for a time that no calendar has."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    except OverflowError:
        return None

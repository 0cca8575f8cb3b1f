"""Puts together what the stretches of all partitions have found, and gives the verdict.

What an audit finds: differences by record, and counts by time window.

A report as rows of tables: one by partition and time window, one of differences.

Findings as JSON, between executors and the driver.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from bridge.audit.stretches import LogPair
from bridge.model.values import TopicPartition

DIGEST_BITS = (1 << 64) - 1
NO_WINDOW = -1
"""The window of records without a timestamp."""
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
_COUNTS = ("source_records", "target_records", "source_digest", "target_digest", "same", "unknown")


class DifferenceKind(StrEnum):
    """How a record of the source and the target's copy differ."""

    MISSING = "missing"
    """The source has a record, and the target no copy of it."""
    EXTRA = "extra"
    """The target has a record that is no copy."""
    CHANGED = "changed"
    """Key, value, headers or timestamp of the copy are others."""
    TWICE = "twice"
    """The target has one more copy of a record; the other one is `copy_offset`, where that is known."""
    OUT_OF_ORDER = "out_of_order"
    """The copy is there, and not where its order has its place."""
    WRONG_RUN = "wrong_run"
    """An offset run says that the copy is at `claimed_offset`, and it is not: one line for each run."""


class Difference(NamedTuple):
    """Offsets are None where there is none on that side. `records`: how many a run is wrong about, else 1. `run`: where
    on the source the run starts. `digest` and `claimed` serve to put together what several stretches have found."""

    kind: DifferenceKind
    source_offset: int | None
    target_offset: int | None
    timestamp: int = -1
    claimed_offset: int | None = None
    copy_offset: int | None = None
    run: int | None = None
    records: int = 1
    digest: int = 0


class NotCompared(StrEnum):
    """Why records are outside of the comparison."""

    BELOW_SOURCE_START = "below the source's log start"
    BELOW_TARGET_START = "below the target's log start"
    NOT_COPIED_YET = "not copied yet"
    BEFORE_THE_COPY = "before copying began"
    TRANSFORMED = "changed by transforms"


NOT_OFFSETS = frozenset({NotCompared.BELOW_SOURCE_START, NotCompared.BELOW_TARGET_START})


@dataclass(slots=True)
class AuditWindow:
    """Counts of a partition's time window: of the records that were compared. `digest`s are sums of the records'
    digests, so that they do not depend on order or batches."""

    source_records: int = 0
    target_records: int = 0
    source_digest: int = 0
    target_digest: int = 0
    same: int = 0
    unknown: int = 0
    found: dict[str, int] = field(default_factory=dict)

    def add(self, other: AuditWindow) -> None:
        self.source_records += other.source_records
        self.target_records += other.target_records
        self.source_digest = (self.source_digest + other.source_digest) & DIGEST_BITS
        self.target_digest = (self.target_digest + other.target_digest) & DIGEST_BITS
        self.same += other.same
        self.unknown += other.unknown
        for kind, count in other.found.items():
            self.count(kind, count)

    def count(self, kind: str, count: int = 1) -> None:
        self.found[kind] = self.found.get(kind, 0) + count


@dataclass(slots=True)
class Findings:
    """What the comparison of one stretch, or of several, has found: counts by window, of all differences; the first
    differences themselves; and what was not compared, by why."""

    windows: dict[int, AuditWindow] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    not_compared: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    """Differences that are counted and not listed."""

    def window(self, number: int) -> AuditWindow:
        return self.windows.setdefault(number, AuditWindow())

    def leave(self, why: NotCompared, count: int) -> None:
        if count:
            self.not_compared[why] = self.not_compared.get(why, 0) + count

    @property
    def found(self) -> dict[str, int]:
        """All differences, by kind."""
        total = AuditWindow()
        for window in self.windows.values():
            for kind, count in window.found.items():
                total.count(kind, count)
        return total.found


class AuditVerdict(StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_KNOWN = "not known"
    """No difference was found, and not all could be compared."""


@dataclass(slots=True)
class PartitionResult:
    """The result for one partition. `by_runs`: whether runs told which records belong together. `failures`: why
    something could not be compared. `offsets`: how many both logs have, together."""

    source: TopicPartition
    target: TopicPartition
    by_runs: bool
    findings: Findings = field(default_factory=Findings)
    failures: list[str] = field(default_factory=list)
    offsets: int = 0

    @property
    def verdict(self) -> AuditVerdict:
        """Returns DIFFERENT with any difference. What retention took and the mirror's lag are none; that copies which
        went through transforms are right, nobody knows."""
        if self.findings.found:
            return AuditVerdict.DIFFERENT
        unknown = self.failures or NotCompared.TRANSFORMED in self.findings.not_compared
        return AuditVerdict.NOT_KNOWN if unknown else AuditVerdict.EQUAL


@dataclass(slots=True)
class AuditReport:
    """The result of an audit. `failures`: of topics as a whole. `sample`: share of the stretches that were compared,
    None for all. `window_ms`: of a time window."""

    partitions: list[PartitionResult]
    failures: list[str]
    window_ms: int
    sample: float | None = None

    @property
    def verdict(self) -> AuditVerdict:
        verdicts = {partition.verdict for partition in self.partitions}
        if AuditVerdict.DIFFERENT in verdicts:
            return AuditVerdict.DIFFERENT
        unknown = self.failures or AuditVerdict.NOT_KNOWN in verdicts or self.compared_nothing
        return AuditVerdict.NOT_KNOWN if unknown else AuditVerdict.EQUAL

    @property
    def compared_nothing(self) -> bool:
        """Whether no record was compared, though the logs have some: all of it may be outside of the times that were
        asked for, or not copied yet."""
        windows = (window for part in self.partitions for window in part.findings.windows.values())
        if any(window.source_records or window.target_records for window in windows):
            return False
        return not self.partitions or any(part.offsets for part in self.partitions)


Outcome = tuple[LogPair, Findings | str]
"""Of one stretch; text says why it could not be compared."""


def put_together(
    partitions: Iterable[PartitionResult], outcomes: Iterable[Outcome], window_ms: int
) -> list[PartitionResult]:
    """Adds what stretches have found to the reports of their partitions. A record that one stretch misses and another
    one has too much is out of order."""
    reports = {partition.source: partition for partition in partitions}
    by_partition: defaultdict[TopicPartition, list[Findings]] = defaultdict(list)
    for sides, outcome in outcomes:
        if isinstance(outcome, str):
            reports[sides.source].failures.append(outcome)
        else:
            by_partition[sides.source].append(outcome)
    for tp, several in by_partition.items():
        findings = reports[tp].findings
        for findings_of_one in several:
            _add(findings, findings_of_one)
        findings.differences = _paired(findings, window_ms)
    return list(reports.values())


def _add(total: Findings, part: Findings) -> None:
    for number, window in part.windows.items():
        total.window(number).add(window)
    for why, count in part.not_compared.items():
        total.not_compared[why] = total.not_compared.get(why, 0) + count
    total.differences += part.differences
    total.left_out += part.left_out


def extra_digests(part: PartitionResult) -> frozenset[int]:
    """The digests of the records that the target has too many of, as far as they are listed."""
    return frozenset(
        difference.digest
        for difference in part.findings.differences
        if difference.kind is DifferenceKind.EXTRA
    )


def name_copies(part: PartitionResult, originals: Mapping[int, tuple[int, int]], window_ms: int) -> None:
    """Names what is there too often, by where on the source records of these digests stand and where their copies are
    claimed to be (-1 for unknown)."""
    findings = part.findings

    def named(difference: Difference) -> Difference:
        if difference.kind is not DifferenceKind.EXTRA or difference.digest not in originals:
            return difference
        offset, copy = originals[difference.digest]
        _recount(findings, difference, DifferenceKind.TWICE, window_ms)
        return difference._replace(
            kind=DifferenceKind.TWICE, source_offset=offset, copy_offset=copy if copy >= 0 else None
        )

    findings.differences = sorted(map(named, findings.differences), key=_place)


def _paired(findings: Findings, window_ms: int) -> list[Difference]:
    """The differences in order, those that belong together as one."""
    missing: defaultdict[int, list[Difference]] = defaultdict(list)
    for difference in findings.differences:
        if difference.kind is DifferenceKind.MISSING:
            missing[difference.digest].append(difference)
    result: list[Difference] = []
    moved = set[Difference]()
    for difference in findings.differences:
        if difference.kind is DifferenceKind.EXTRA and missing.get(difference.digest):
            lost = missing[difference.digest].pop(0)
            moved.add(lost)
            _recount(findings, difference, None, window_ms)
            _recount(findings, lost, DifferenceKind.OUT_OF_ORDER, window_ms)
            result.append(
                lost._replace(kind=DifferenceKind.OUT_OF_ORDER, target_offset=difference.target_offset)
            )
        else:
            result.append(difference)
    return sorted((difference for difference in result if difference not in moved), key=_place)


def _recount(findings: Findings, difference: Difference, kind: DifferenceKind | None, window_ms: int) -> None:
    """Counts a difference as one of another kind, or not at all."""
    window = findings.window(difference.timestamp // window_ms if difference.timestamp >= 0 else NO_WINDOW)
    window.count(difference.kind, -1)
    if not window.found[difference.kind]:
        del window.found[difference.kind]
    if kind is not None:
        window.count(kind)


def _place(difference: Difference) -> tuple[bool, int, int]:
    source = difference.source_offset if difference.source_offset is not None else -1
    return (difference.source_offset is None, source, difference.target_offset or 0)


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
            "kind": difference.kind.value,
            "source_offset": difference.source_offset,
            "target_offset": difference.target_offset,
            "claimed_offset": difference.claimed_offset,
            "copy_offset": difference.copy_offset,
            "run": difference.run,
            "records": difference.records,
            "timestamp": time_of(difference.timestamp) if difference.timestamp >= 0 else None,
        }
        for part in report.partitions
        for difference in part.findings.differences
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


def packed(findings: Findings) -> str:
    windows = {
        number: [*(getattr(window, name) for name in _COUNTS), window.found]
        for number, window in findings.windows.items()
    }
    return json.dumps([windows, findings.differences, findings.not_compared, findings.left_out])


def unpacked(text: str) -> Findings:
    windows, differences, not_compared, left_out = json.loads(text)
    return Findings(
        {int(number): AuditWindow(*row) for number, row in windows.items()},
        [_difference(row) for row in differences],
        not_compared,
        left_out,
    )


def _difference(row: list[Any]) -> Difference:
    return Difference(DifferenceKind(row[0]), *row[1:])

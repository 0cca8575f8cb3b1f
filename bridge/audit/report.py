"""Puts together what the stretches of all partitions have found, and gives the verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.audit.differences import NO_WINDOW, Difference, DifferenceKind, Findings, NotCompared
from bridge.audit.stretches import LogPair
from bridge.model.values import TopicPartition


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
        verdicts = {each.verdict for each in self.partitions}
        if AuditVerdict.DIFFERENT in verdicts:
            return AuditVerdict.DIFFERENT
        unknown = self.failures or AuditVerdict.NOT_KNOWN in verdicts or self.compared_nothing
        return AuditVerdict.NOT_KNOWN if unknown else AuditVerdict.EQUAL

    @property
    def compared_nothing(self) -> bool:
        """Whether no record was compared, though the logs have some: all of it may be outside of the times that were
        asked for, or not copied yet."""
        windows = (window for part in self.partitions for window in part.findings.windows.values())
        if any(each.source_records or each.target_records for each in windows):
            return False
        return not self.partitions or any(part.offsets for part in self.partitions)


Outcome = tuple[LogPair, Findings | str]
"""Of one stretch; text says why it could not be compared."""


def put_together(
    partitions: Iterable[PartitionResult], outcomes: Iterable[Outcome], window_ms: int
) -> list[PartitionResult]:
    """Adds what stretches have found to the reports of their partitions. A record that one stretch misses and another
    one has too much is out of order."""
    reports = {each.source: each for each in partitions}
    by_partition: defaultdict[TopicPartition, list[Findings]] = defaultdict(list)
    for sides, outcome in outcomes:
        if isinstance(outcome, str):
            reports[sides.source].failures.append(outcome)
        else:
            by_partition[sides.source].append(outcome)
    for tp, several in by_partition.items():
        findings = reports[tp].findings
        for each in several:
            _add(findings, each)
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
    return frozenset(each.digest for each in part.findings.differences if each.kind is DifferenceKind.EXTRA)


def name_copies(part: PartitionResult, originals: Mapping[int, tuple[int, int]], window_ms: int) -> None:
    """Names what is there too often, by where on the source records of these digests stand and where their copies are
    claimed to be (-1 for unknown)."""
    findings = part.findings

    def named(each: Difference) -> Difference:
        if each.kind is not DifferenceKind.EXTRA or each.digest not in originals:
            return each
        offset, copy = originals[each.digest]
        _recount(findings, each, DifferenceKind.TWICE, window_ms)
        return each._replace(
            kind=DifferenceKind.TWICE, source_offset=offset, copy_offset=copy if copy >= 0 else None
        )

    findings.differences = sorted(map(named, findings.differences), key=_place)


def _paired(findings: Findings, window_ms: int) -> list[Difference]:
    """The differences in order, those that belong together as one."""
    missing: defaultdict[int, list[Difference]] = defaultdict(list)
    for each in findings.differences:
        if each.kind is DifferenceKind.MISSING:
            missing[each.digest].append(each)
    result: list[Difference] = []
    moved = set[Difference]()
    for each in findings.differences:
        if each.kind is DifferenceKind.EXTRA and missing.get(each.digest):
            lost = missing[each.digest].pop(0)
            moved.add(lost)
            _recount(findings, each, None, window_ms)
            _recount(findings, lost, DifferenceKind.OUT_OF_ORDER, window_ms)
            result.append(lost._replace(kind=DifferenceKind.OUT_OF_ORDER, target_offset=each.target_offset))
        else:
            result.append(each)
    return sorted((each for each in result if each not in moved), key=_place)


def _recount(findings: Findings, each: Difference, kind: DifferenceKind | None, window_ms: int) -> None:
    """Counts a difference as one of another kind, or not at all."""
    window = findings.window(each.timestamp // window_ms if each.timestamp >= 0 else NO_WINDOW)
    window.count(each.kind, -1)
    if not window.found[each.kind]:
        del window.found[each.kind]
    if kind is not None:
        window.count(kind)


def _place(each: Difference) -> tuple[bool, int, int]:
    source = each.source_offset if each.source_offset is not None else -1
    return (each.source_offset is None, source, each.target_offset or 0)

"""Findings of stretches put together: verdicts, what stands across stretches, rows."""

from __future__ import annotations

from datetime import UTC, datetime

from bridge.audit.report import (
    NO_WINDOW,
    AuditReport,
    AuditVerdict,
    AuditWindow,
    Difference,
    DifferenceKind,
    Findings,
    NotCompared,
    PartitionResult,
    difference_rows,
    extra_digests,
    name_copies,
    not_compared,
    packed,
    put_together,
    summary_rows,
    totals,
    unpacked,
)
from bridge.audit.stretches import LogPair
from bridge.model.values import TopicPartition

SIDES = LogPair(TopicPartition("orders", 0), "a", TopicPartition("A.orders", 0), "b")
HOUR = 3_600_000


def found(*differences: Difference, same: int = 10) -> Findings:
    findings = Findings({0: AuditWindow(same, same, 5, 5, same)}, list(differences))
    for each in differences:
        findings.window(each.timestamp // HOUR if each.timestamp >= 0 else NO_WINDOW).count(each.kind)
    return findings


def report(*outcomes: Findings | str) -> PartitionResult:
    (part,) = put_together(
        [PartitionResult(SIDES.source, SIDES.target, True)], [(SIDES, each) for each in outcomes], HOUR
    )
    return part


def test_findings_are_the_same_behind_the_wire() -> None:
    findings = found(
        Difference(DifferenceKind.WRONG_RUN, 1, 2, 3, 4, None, 6, 7, -8),
        Difference(DifferenceKind.EXTRA, None, 5),
    )
    findings.leave(NotCompared.NOT_COPIED_YET, 3)
    findings.left_out = 2
    assert unpacked(packed(findings)) == findings


def test_what_can_not_be_compared_is_never_equal() -> None:
    equal, failed = report(found()), report(found(), "orders-0: no answer")
    both = report(found(Difference(DifferenceKind.MISSING, 1, None)), "orders-0: no answer")
    verdicts = [each.verdict for each in (equal, failed, both)]
    assert verdicts == [AuditVerdict.EQUAL, AuditVerdict.NOT_KNOWN, AuditVerdict.DIFFERENT]
    assert AuditReport([equal], [], HOUR).verdict is AuditVerdict.EQUAL
    assert AuditReport([equal], ["there is no topic x"], HOUR).verdict is AuditVerdict.NOT_KNOWN
    assert AuditReport([], [], HOUR).verdict is AuditVerdict.NOT_KNOWN
    assert AuditReport([equal, both], [], HOUR).verdict is AuditVerdict.DIFFERENT


def test_a_mirror_of_which_no_record_was_compared_is_not_known() -> None:
    """All of it is lag, or outside of the times that were asked for. Two empty logs are equal."""
    lag = Findings()
    lag.leave(NotCompared.NOT_COPIED_YET, 7)
    behind = PartitionResult(SIDES.source, SIDES.target, False, lag, offsets=7)
    empty = PartitionResult(SIDES.source, SIDES.target, False)
    for partitions, verdict in (
        ([behind], AuditVerdict.NOT_KNOWN),
        ([empty], AuditVerdict.EQUAL),
        ([behind, report(found())], AuditVerdict.EQUAL),
        ([], AuditVerdict.NOT_KNOWN),
    ):
        assert AuditReport(partitions, [], HOUR).verdict is verdict, partitions


def test_a_copy_in_another_stretch_is_out_of_order() -> None:
    part = report(
        found(Difference(DifferenceKind.MISSING, 7, None, 5, 8, digest=42)),
        found(Difference(DifferenceKind.EXTRA, None, 99, HOUR, digest=42)),
    )
    assert part.findings.differences == [Difference(DifferenceKind.OUT_OF_ORDER, 7, 99, 5, 8, digest=42)]
    assert part.findings.found == {DifferenceKind.OUT_OF_ORDER: 1}


def test_a_second_copy_in_another_stretch_is_named() -> None:
    part = report(
        found(
            Difference(DifferenceKind.EXTRA, None, 99, 5, digest=42),
            Difference(DifferenceKind.EXTRA, None, 98, 5, digest=43),
        )
    )
    assert extra_digests(part) == {42, 43}
    name_copies(part, {42: (7, 8)}, HOUR)
    assert part.findings.differences == [
        Difference(DifferenceKind.TWICE, 7, 99, 5, None, 8, digest=42),
        Difference(DifferenceKind.EXTRA, None, 98, 5, digest=43),
    ]
    assert part.findings.found == {DifferenceKind.TWICE: 1, DifferenceKind.EXTRA: 1}


def test_rows_have_windows_and_what_was_not_compared() -> None:
    findings = found(Difference(DifferenceKind.MISSING, 7, None, HOUR, 8))
    findings.leave(NotCompared.BELOW_SOURCE_START, 4)
    part = report(findings)
    whole = AuditReport(
        [part, PartitionResult(SIDES.source, SIDES.target, False, failures=["why"])], [], HOUR
    )
    first, second, third = summary_rows(whole)
    assert (first["window_start"], first["same"], first["missing"]) == (
        datetime(1970, 1, 1, tzinfo=UTC),
        10,
        0,
    )
    assert (second["window_start"], second["missing"]) == (datetime(1970, 1, 1, 1, tzinfo=UTC), 1)
    assert [row["not_compared"] for row in (first, second)] == [{"below the source's log start": 4}, {}]
    assert (third["verdict"], third["failures"], third["window_start"]) == ("not known", ["why"], None)
    (row,) = difference_rows(whole)
    assert (row["kind"], row["source_offset"], row["claimed_offset"]) == ("missing", 7, 8)
    assert totals(part)["source_records"] == 10
    assert not_compared(whole) == {"below the source's log start": 4}

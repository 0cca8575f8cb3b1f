"""A group's verdicts in sentences: what was committed, what the answer is, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from bridge.protocol.messages import GroupReport, PartitionReport
from bridge.service.answers.reasons import REASONS

_EVIDENCE = {
    "run": "an offset run: this stretch was copied without interruption, and both sides were counted",
    "verified": "the neighbouring records were found and compared on both clusters",
    "sync": "an offset sync of exactly this offset",
    "sync+1": "the offset sync before it, plus one",
    "timestamp": "the record's timestamp alone (translation.verify=false), not verified",
}


_READINESS = {
    "ready": "ready to fail over",
    "ready_as_of": "was ready to fail over when the source answered last,",
    "not_ready": "not ready to fail over",
    "cannot_tell": "can't tell whether it can fail over;",
    "moved": "has failed over, and its connector commits it no more; its partitions are as they were then;",
}


def explain(reports: Sequence[GroupReport]) -> list[str]:
    return [line for report in reports for line in _group(report)]


def _group(report: GroupReport) -> Iterator[str]:
    asked = "" if report.as_of_ms is None else f" as of {_time(report.as_of_ms)}"
    yield (
        f"Group {report.group}, from {report.source} to {report.target}: {_READINESS[report.readiness]}{asked} "
        f"(connector {report.connector}, task {report.task})."
    )
    for reason in report.reasons:
        since = "" if reason.since_ms is None else f" since {_time(reason.since_ms)}"
        yield f"  {reason.reason}{since}: {reason.detail}."
    if report.missing_records:
        since = (
            "" if report.missing_since_ms is None else f", appended since {_time(report.missing_since_ms)}"
        )
        yield f"  At most {report.missing_records} records of {report.source} were not on {report.target} then{since}."
    state = f"On {report.target} the group is {report.target_state}"
    if report.synced_at_ms is None:
        yield f"{state}; it was not synced yet."
    else:
        yield f"{state}; the report reads like this since {_time(report.synced_at_ms)}."
    for partition in report.partitions:
        yield from _partition(partition)


def _partition(part: PartitionReport) -> Iterator[str]:
    place = f"{part.topic}-{part.partition}"
    if part.target_offset is None:
        yield f"{place}: committed {part.committed}; no answer yet: {_why(part.reason)}."
    else:
        answer = f"{part.target_topic}-{part.partition} {part.target_offset}"
        yield f"{place}: committed {part.committed} -> {answer}, {_bound(part)}."
        if part.evidence is not None:
            yield f"  It rests on {_EVIDENCE.get(part.evidence, part.evidence)}."
        if part.reason is not None:
            yield f"  It is {part.verdict}: {_why(part.reason)}."
    if part.written is None:
        yield "  The target has no offset of the group here."
    elif part.written != part.target_offset:
        yield f"  The target has {part.written} now."
    if part.flags:
        yield f"  Remarks: {', '.join(part.flags)}."
    if part.detail:
        yield "  Seen: " + ", ".join(f"{name} {value}" for name, value in part.detail.items()) + "."


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _why(reason: str | None) -> str:
    if reason is None:
        return "not looked at"
    return f"{reason} ({REASONS[reason]})" if reason in REASONS else reason


def _bound(part: PartitionReport) -> str:
    if part.verdict == "exact":
        return "exact: nothing is read twice, nothing skipped"
    if part.bound is None:
        return f"{part.verdict}: how many records are read twice is not known"
    return f"{part.verdict}: at most {part.bound} records are read twice, none skipped"

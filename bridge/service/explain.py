"""A group's verdicts in sentences: what was committed, what the answer is, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from bridge.protocol.messages import GroupReport, PartitionReport

_EVIDENCE = {
    "run": "an offset run: this stretch was copied without interruption, and both sides were counted",
    "verified": "the neighbouring records were found and compared on both clusters",
    "sync": "an offset sync of exactly this offset",
    "sync+1": "the offset sync before it, plus one",
    "timestamp": "the record's timestamp alone (translation.verify=false), not verified",
}


def explain(reports: Sequence[GroupReport]) -> list[str]:
    return [line for report in reports for line in _group(report)]


def _group(report: GroupReport) -> Iterator[str]:
    ready = "can fail over" if report.ready else "is not ready to fail over"
    yield (
        f"Group {report.group} {ready} from {report.source} to {report.target} "
        f"(connector {report.connector}, task {report.task}): {report.verdict}."
    )
    state = f"On {report.target} the group is {report.target_state}"
    if report.synced_at_ms is None:
        yield f"{state}; it was not synced yet."
    else:
        when = datetime.fromtimestamp(report.synced_at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        yield f"{state}; it reads like this since {when}."
    if report.reason is not None:
        yield f"The whole group waits: {report.reason}."
    for partition in report.partitions:
        yield from _partition(partition)


def _partition(part: PartitionReport) -> Iterator[str]:
    place = f"{part.topic}-{part.partition}"
    if part.target_offset is None:
        yield f"{place}: committed {part.committed}; no answer yet: {part.reason or 'not looked at'}."
    else:
        answer = f"{part.target_topic}-{part.partition} {part.target_offset}"
        yield f"{place}: committed {part.committed} -> {answer}, {_bound(part)}."
        if part.evidence is not None:
            yield f"  It rests on {_EVIDENCE.get(part.evidence, part.evidence)}."
        if part.reason is not None:
            yield f"  It is {part.verdict}: {part.reason}."
    if part.written is None:
        yield "  The target has no offset of the group here."
    elif part.written != part.target_offset:
        yield f"  The target has {part.written} now."
    if part.flags:
        yield f"  Remarks: {', '.join(part.flags)}."
    if part.detail:
        yield "  Seen: " + ", ".join(f"{name} {value}" for name, value in part.detail.items()) + "."


def _bound(part: PartitionReport) -> str:
    if part.verdict == "exact":
        return "exact: nothing is read twice, nothing skipped"
    if part.bound is None:
        return f"{part.verdict}: how many records are read twice is not known"
    return f"{part.verdict}: at most {part.bound} records are read twice, none skipped"

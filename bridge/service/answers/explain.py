"""Explains a group's verdicts in sentences: the committed offset, its translation, and the evidence for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from bridge.model.times import iso_time
from bridge.protocol.messages import GroupReport, NotBegunPartition, PartitionReport
from bridge.service.answers.reasons import REASONS

_EVIDENCE = {
    "run": "an offset run: this range was copied without interruption, and the records of both sides were counted",
    "verified": "the neighbouring records were found and compared on both clusters",
    "sync": "an offset sync of exactly this offset",
    "sync+1": "the offset sync before it, plus one",
    "timestamp": "the record's timestamp alone (translation.verify=false), not verified",
}


_iso_time = partial(iso_time, timespec="milliseconds")
_READINESS = {
    "ready": "ready to fail over",
    "ready_as_of": "was ready to fail over when the source answered last,",
    "not_ready": "not ready to fail over",
    "cannot_tell": "can't tell whether it can fail over;",
    "home": "at home: nobody has moved it on the source, and nothing has to be moved back;",
    "moved": "has failed over, and its connector no longer commits it; its partitions are shown as they were then;",
}


def explain(reports: Sequence[GroupReport]) -> list[str]:
    return [line for report in reports for line in _group(report)]


def _group(report: GroupReport) -> Iterator[str]:
    as_of = "" if report.as_of_ms is None else f" as of {_iso_time(report.as_of_ms)}"
    yield (
        f"Group {report.group}, from {report.source} to {report.target}: {_READINESS[report.readiness]}{as_of} "
        f"(connector {report.connector}, task {report.task})."
    )
    for reason in report.reasons:
        since = "" if reason.since_ms is None else f" since {_iso_time(reason.since_ms)}"
        indent = "  " if reason.follows_from is None else "    so "
        yield f"{indent}{reason.reason}{since}: {reason.detail}."
    if report.missing_records:
        since = (
            ""
            if report.missing_since_ms is None
            else f", appended since {_iso_time(report.missing_since_ms)}"
        )
        yield f"  At most {report.missing_records} records of {report.source} were not on {report.target} then{since}."
    state = f"On {report.target} the group is {report.target_state}"
    if report.synced_at_ms is None:
        yield f"{state}; it has not been synced yet."
    else:
        yield f"{state}; unchanged since {_iso_time(report.synced_at_ms)}."
    for partition in report.partitions:
        yield from _partition(partition)
    for each in report.not_begun:
        yield not_begun(each, report.target)
    for left in report.not_copied:
        yield f"{left.topic}: not copied, {left_out_by(left.key)}; nothing of it is on {report.target}."


def _partition(part: PartitionReport) -> Iterator[str]:
    tp = f"{part.topic}-{part.partition}"
    if part.target_offset is None:
        yield f"{tp}: committed {part.committed}; not translated: {_why(part.reason)}."
    else:
        answer = f"{part.target_topic}-{part.partition} {part.target_offset}"
        yield f"{tp}: committed {part.committed} -> {answer}, {_bound(part)}."
        if part.evidence is not None:
            yield f"  Evidence: {_EVIDENCE.get(part.evidence, part.evidence)}."
        if part.reason is not None:
            yield f"  It is {part.verdict}: {_why(part.reason)}."
    if part.written is None:
        yield "  The group has no committed offset there."
    elif part.written != part.target_offset:
        yield f"  Committed there: {part.written}."
    if part.flags:
        yield f"  Flags: {', '.join(part.flags)}."
    place = part.detail.get("copied_twice")
    if place is not None:
        yield f"  Another mirror has copied this partition too, up to offset {place} of {part.target_topic}."
    if part.detail:
        yield "  Details: " + ", ".join(f"{name} {value}" for name, value in part.detail.items()) + "."


def not_begun(part: NotBegunPartition, target: str) -> str:
    """Says what is missing of a partition in which a group has committed nothing."""
    lacks = (
        f"how many of its records are not on {target} is not known"
        if part.missing_records is None
        else f"at most {part.missing_records} of its records are not on {target}"
    )
    some = "which" if part.not_on_target == part.missing_records else f"{part.not_on_target} of which"
    past = f", {some} the copy is past" if part.not_on_target else ""
    return f"{part.topic}-{part.partition}: the group has committed nothing there; {lacks}{past}."


def left_out_by(key: str) -> str:
    """Returns what leaves a topic out, in words."""
    return f"left out by {key}" if key else "an internal topic"


def _why(reason: str | None) -> str:
    if reason is None:
        return "no reason reported"
    return f"{reason} ({REASONS[reason].means})" if reason in REASONS else reason


def _bound(part: PartitionReport) -> str:
    if part.verdict == "exact":
        return "exact: nothing is read twice, nothing skipped"
    if part.reason is not None:
        count = part.detail.get("not_on_target")
        lost = f": at most {count} records that the group has not read are not there" if count else ""
        return f"{part.verdict}{lost}"
    if part.bound is None:
        return f"{part.verdict}: how many records are read twice is not known"
    return f"{part.verdict}: at most {part.bound} records are read twice, none skipped"

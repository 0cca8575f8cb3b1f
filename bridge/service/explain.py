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

_REASONS = {
    "offset_beyond_end": "the source's log ends before the offset: it was truncated or made anew",
    "copy_not_found": "no record before the offset has its copy on the target",
    "not_mirrored_yet": "the record at the offset has not arrived on the target",
    "record_gone": "the record at the offset is gone from the source",
    "evidence_disagrees": "records, offset runs and syncs, or a sync and the target's end, contradict each other",
    "no_offset_syncs": "there are no offset syncs of the partition, and translation.evidence=syncs allows nothing else",
    "older_than_syncs": "the offset is older than the oldest offset sync that is left (translation.evidence=syncs)",
    "moved_by_mirror": "the offset is not past where the opposite flow has put it, so no consumer has moved it",
    "target_ahead": "the target has a higher offset of the group, which is not moved back unasked",
    "group_active_on_target": "the group has members on the target",
    "group_state_unknown": "the group's state on the target can't be asked",
    "group_type_unsupported": "it is a share or streams group",
    "target_topic_missing": "the target has no such topic",
    "target_partition_missing": "the target's topic has fewer partitions",
    "source_topic_missing": "the source has no such topic or partition any more",
    "source_unreachable": "the source cluster does not answer",
    "target_unreachable": "the target cluster does not answer",
    "source_not_authorized": "an ACL is missing on the source cluster",
    "target_not_authorized": "an ACL is missing on the target cluster",
    "target_timestamp_type": "the target's topic overwrites timestamps, so copies can't be told by them",
    "timestamp_unusable": "the record at the offset has no timestamp to look for",
    "commit_failed": "the target refused the commit",
    "dry_run": "dry.run=true: planned, and not written",
    "not_looked_at_yet": "it is looked at in the next round",
}
"""Reason's words in bridge.translation.model, each in a clause."""


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
        yield f"The whole group waits: {_why(report.reason)}."
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


def _why(reason: str | None) -> str:
    if reason is None:
        return "not looked at"
    return f"{reason} ({_REASONS[reason]})" if reason in _REASONS else reason


def _bound(part: PartitionReport) -> str:
    if part.verdict == "exact":
        return "exact: nothing is read twice, nothing skipped"
    if part.bound is None:
        return f"{part.verdict}: how many records are read twice is not known"
    return f"{part.verdict}: at most {part.bound} records are read twice, none skipped"

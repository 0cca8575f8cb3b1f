"""Decides where copying of a partition goes on, and what is missing there (promise R7). Pure.

Everything here is decided before the first record is copied, so that a gap is in the ledger in the same transaction as
the first record behind it, or, where the policy says `fail`, nothing is committed at all.

Decides whether the newest run of a partition can be true, given the logs as they are. Pure.

Copying goes on where the newest run ends. One that goes beyond the logs (a bug, or somebody who may write to the runs
topic) would have all skipped that is not copied yet. It may be true all the same, where a log was cut back: then the
other cluster still has the record that it ends with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bridge.model.copying import Copied, Gap, GapKind
from bridge.model.lookups import Window
from bridge.model.state_records.fields import LAST_MS, LAST_OFFSET, SchemaError, number, read_object, text
from bridge.model.values import LAST_PARTITION, Bounds, CopyId, Side, TopicPartition
from bridge.translation.runs.markers import holes_of
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import OffsetRun

_VERSION = 1
"""Of ledger entries; those of version 0 do not name the target topic."""
_KINDS = frozenset(GapKind)
_REMEDIES = {
    GapKind.TARGET_NOT_EMPTY: (
        "Set source.gap.policy=report to copy nevertheless, or delete topic {target} on the target to copy all records "
        "again"
    ),
    GapKind.TARGET_RECREATED: (
        "Set source.gap.policy=report to copy nevertheless: with bridge.target.recreated=recopy again, as far as the "
        "new topic is empty, with continue behind what was copied before"
    ),
    GapKind.RUN_CONTRADICTED: "Set source.gap.policy=report to go on without these offset runs; they are deleted then",
}


class RunCheck(NamedTuple):
    """The record that has to be there if the run is true. `timestamp`: -1 for not known."""

    side: Side
    offset: int
    timestamp: int

    def confirms(self, window: Window) -> bool:
        return any(
            record.offset == self.offset and self.timestamp in (-1, record.timestamp)
            for record in window.records
        )


def doubted(
    run: OffsetRun, copied: Copied, source: Bounds, target: Bounds, others: Iterable[OffsetRun]
) -> RunCheck | str | None:
    """Compares a run with the logs: None where nothing contradicts it; why it can't be true; or the record that would
    prove it. `others`: the runs of the partition that it contradicts.

    A position beyond the source's end is not checked here: nothing was copied between the run's records and it
    (see gaps.resume).
    """
    rivals = any(_of_these(other, copied) for other in others)
    if not _of_these(run, copied):
        return "its topics were deleted, and other runs are of the topics that exist" if rivals else None
    beyond_source = run.upstream_end > source.end
    beyond_target = run.upstream_count > 0 and run.downstream_end > target.end
    if rivals and (beyond_source or beyond_target):
        return "a log ends before it, and other runs contradict it"
    if beyond_source and (beyond_target or not run.upstream_count):
        return "both logs end before it"
    if beyond_source:
        return RunCheck(Side.TARGET, run.downstream_end - 1, run.last_timestamp)
    if beyond_target:
        # What a transform made of the timestamp is the copy's, and not the record's.
        return RunCheck(Side.SOURCE, run.upstream_end - 1, -1 if run.transformed else run.last_timestamp)
    return None


def reach(runs: Sequence[OffsetRun], end: int) -> int | None:
    """The offset up to which a log that ends at `end`, below what was copied, was copied for sure; None where no run
    tells of it. `runs`: in the order of both logs. A run that lists its holes accounts for each offset; of another one
    as many offsets are copied for sure as it has copies, and what lies between is copied again."""
    for run in reversed(runs):
        if run.upstream_start < end or not run.upstream_start:
            holes, sound = holes_of(run)
            listed = holes is not None and sound
            return min(end, run.upstream_end if listed else run.upstream_start + run.copies)
    return None


def _of_these(run: OffsetRun, copied: Copied) -> bool:
    """Whether the run is of the topics that are there now; of unknown ids it is."""
    pairs = (run.source_topic_id, copied.source_topic_id), (run.target_topic_id, copied.target_topic_id)
    return all(one == other or not (one and other) for one, other in pairs)


class Resume(NamedTuple):
    offset: int
    gaps: tuple[Gap, ...] = ()
    again: bool = False
    """What was copied before is copied again, because the target topic was deleted."""


def resume(
    copied: Copied,
    runs: Sequence[OffsetRun],
    source: Bounds,
    target: Bounds,
    *,
    from_latest: bool,
    now_ms: int,
    not_again: str | None = "",
) -> Resume:
    """Returns where to go on after the last of `runs`, the committed ones of the partition in their order; `source` and
    `target` are the logs as they are now, under the topic ids in `copied`, as far as they are those that were copied
    from and to.

    Without a run, or after one that was handed back: where a stock mirror had come to (`copied.start`). Without that
    too the source's start, or its end with consumer.auto.offset.reset=latest. What was in the log before the first copy
    is no gap: nobody asked for it. But a target that is not empty then is one: what it holds may be copies. What a
    stock mirror has filled is none, unless this connector has copied there too.

    After copies to a target topic that was deleted: where its copy had begun, in the topic that was created again, or
    after them as before, where `not_again` says why ("": it is configured so). After a bare position, which an operator
    may have chosen, always there.
    """
    last = runs[-1] if runs else None
    if last is None:
        if copied.start is None:
            begin = source.end if from_latest else source.start
            return Resume(begin, not_empty(copied, begin, target, from_latest, now_ms))
        taken = _taken_over(copied, copied.start, source, now_ms)
        twice = not_empty(copied, taken.offset, target, False, now_ms) if copied.copied_before else ()
        return Resume(taken.offset, (*taken.gaps, *twice))
    anew = _other(last.target_topic_id, copied.target_topic_id)
    if not_again is None and anew and last.upstream_count and last.source_topic_id == copied.source_topic_id:
        return _again(copied, runs, source, from_latest, now_ms)
    gaps = copies_lost(copied, last, target, now_ms, not_again or "")
    if _other(last.source_topic_id, copied.source_topic_id):
        detail = "the source topic was deleted and created again; records after the last one copied are lost"
        gaps.append(
            Gap(
                copied.source,
                GapKind.SOURCE_RECREATED,
                last.source_topic_id,
                last.position,
                -1,
                now_ms,
                detail,
                copied.target_topic,
            )
        )
    stock = copied.start if last.handed_back else None
    if stock is not None:
        goes_on = _taken_over(copied, stock, source, now_ms)
    elif _other(last.source_topic_id, copied.source_topic_id):
        return Resume(source.start, tuple(gaps))
    else:
        copied_to = reach(runs, source.end)
        if copied_to is None:
            copied_to = source.start if copied.start is None else copied.start
        goes_on = _within(copied, last.position, source, now_ms, copied_to)
    return Resume(goes_on.offset, (*gaps, *goes_on.gaps))


def _again(
    copied: Copied, runs: Sequence[OffsetRun], source: Bounds, from_latest: bool, now_ms: int
) -> Resume:
    """Begins again where the copy in `runs` had begun, with what the source still has of it."""
    first, last = runs[0], runs[-1]
    filled = copied.start is not None  # by a stock mirror, up to where ours had begun
    begin = source.start
    if from_latest:
        begin = max(begin, min(first.covered_from, source.end))
    since = -1 if filled and begin > source.start else begin
    gaps = [copied_again(copied, since, begin, now_ms)]
    began = 0 if filled else first.covered_from
    if began < source.start:
        gaps.append(truncated(copied, began, source.start, now_ms, "copied again"))
    come_to = copied.start if copied.start is not None and last.handed_back else last.position
    if come_to > source.end:
        gaps.append(cut_back(copied, come_to, source.end, now_ms))
    return Resume(begin, tuple(gaps), again=True)


def skipped(copied: Copied, begin: int, end: int, now_ms: int) -> Gap:
    """The entry of offsets that an operator has left out."""
    return _gap(copied, GapKind.SKIPPED, begin, end, now_ms, "skipped by an operator")


def copied_again(copied: Copied, since: int, begin: int, now_ms: int) -> Gap:
    """The entry of a target topic that was deleted: what is not copied again lies from `since` to `begin`."""
    detail = f"{copied.target_topic} was deleted and created again"
    return _gap(copied, GapKind.TARGET_RECREATED, since, begin, now_ms, detail)


def holds_none(copied: Copied, runs: Sequence[OffsetRun], target: Bounds) -> bool:
    """Whether the remote partition holds none of our copies for sure: it is empty, and those that the committed `runs`
    tell of stood in another topic."""
    ours = any(run.upstream_count and not _other(run.target_topic_id, copied.target_topic_id) for run in runs)
    return target.start >= target.end and not ours


def why_not_again(
    main: Copied, runs: Mapping[CopyId, PartitionRuns], ends: Mapping[CopyId, Bounds]
) -> str | None:
    """Why records that were copied to a topic that is gone are not copied again, None for nothing that is against it:
    wherever they would go, none of them may be there already. `ends`: the remote logs."""
    for copy in main.copies:
        if not holds_none(copy, runs[copy.id].runs, ends[copy.id]):
            return f"{copy.target_topic}-{copy.source.partition} is not empty, and may hold copies of them"
    return None


def copies_lost(
    copied: Copied, last: OffsetRun, target: Bounds, now_ms: int, not_again: str = ""
) -> list[Gap]:
    """Whether the target still holds what stands before the end of `last`. `not_again`: why it is not copied again."""
    if _other(last.target_topic_id, copied.target_topic_id):
        why = f", and not copied again: {not_again}" if not_again else ""
        detail = (
            f"{copied.target_topic} was deleted and created again: the records copied before are lost{why}"
        )
    elif target.end < last.downstream_end:
        detail = (
            f"{copied.target_topic} ends at offset {target.end}, copies had reached {last.downstream_end}"
        )
    else:
        return []
    return [_gap(copied, GapKind.TARGET_RECREATED, -1, last.position, now_ms, detail)]


def not_empty(copied: Copied, begin: int, target: Bounds, from_latest: bool, now_ms: int) -> tuple[Gap, ...]:
    """The gap of a target that holds records which no run covers: they may be copies; copying begins at `begin`."""
    if target.start >= target.end:
        return ()
    since, until, what = (
        (-1, begin, "were not copied before are missing")
        if from_latest
        else (begin, -1, "were copied before are duplicated")
    )
    detail = (
        f"{copied.target_topic}-{copied.source.partition} on the target holds offsets {target.start} to "
        f"{target.end - 1}, and no offset run covers them: copying begins at source offset {begin}, and records "
        f"that {what}"
    )
    return (_gap(copied, GapKind.TARGET_NOT_EMPTY, since, until, now_ms, detail),)


def contradicted(copied: Copied, passed_over: Sequence[OffsetRun], why: str, offset: int, now_ms: int) -> Gap:
    """The gap of runs that can't be true, the furthest first; copying goes on at `offset` without them."""
    furthest = passed_over[0]
    detail = (
        f"{len(passed_over)} offset run(s) up to source offset {furthest.position} and target offset "
        f"{furthest.downstream_end} were ignored: {why}; records from source offset {offset} on may be duplicated"
    )
    return _gap(copied, GapKind.RUN_CONTRADICTED, offset, -1, now_ms, detail)


def refusal(gaps: Sequence[Gap]) -> str:
    """The text for why nothing is copied behind the gaps where the policy says so, and what to do."""
    remedy = _REMEDIES.get(gaps[0].kind, "").format(target=gaps[0].target_topic)
    return f"source.gap.policy is fail: {gaps[0].sentence}{'. ' if remedy else ''}{remedy}"


def _taken_over(copied: Copied, start: int, source: Bounds, now_ms: int) -> Resume:
    """Returns where a stock mirror had come to. It keeps no topic ids: whether a log that ends before that was cut back
    or made again nobody knows, so all of it is copied, as stock would do (auto.offset.reset)."""
    if start <= source.end:
        return _within(copied, start, source, now_ms)
    detail = (
        f"stock MirrorMaker had copied up to offset {start}, and the log ends at {source.end}: it was truncated, or "
        "the topic was created again; the whole log is copied"
    )
    return Resume(source.start, (_gap(copied, GapKind.CUT_BACK, source.end, start, now_ms, detail),))


def _within(
    copied: Copied, position: int, source: Bounds, now_ms: int, copied_to: int | None = None
) -> Resume:
    """The position, or the nearest one that the log has. `copied_to`: up to where it was copied for
    sure, so that a position beyond the log's end goes back to it and skips nothing."""
    if position < source.start:
        return Resume(source.start, (truncated(copied, position, source.start, now_ms),))
    if position > source.end:
        back = source.end if copied_to is None else max(source.start, min(source.end, copied_to))
        return Resume(back, (cut_back(copied, position, source.end, now_ms),))
    return Resume(position)


def agreement(runs: Sequence[OffsetRun], epoch: int, end: int) -> int:
    """The offset up to which a log is what was copied whose leader epochs up to `epoch`, the last one that we may have
    in common, end at `end` (-1 each for not known): what was copied of later epochs diverges."""
    agreed = max(end, 0)
    for run in reversed(runs):
        if run.leader_epoch <= epoch:
            break
        agreed = min(agreed, run.upstream_start)
    return agreed


def truncated(copied: Copied, position: int, log_start: int, now_ms: int, done: str = "copied") -> Gap:
    detail = f"retention or DeleteRecords removed records before they were {done}"
    return _gap(copied, GapKind.TRUNCATED, position, log_start, now_ms, detail)


def cut_back(copied: Copied, position: int, log_end: int, now_ms: int) -> Gap:
    """The gap of a log that diverged at `log_end`: what was copied from there to `position` is on the target only."""
    detail = f"copied up to offset {position}, and the log diverges from what was copied at offset {log_end}"
    return _gap(copied, GapKind.CUT_BACK, log_end, position, now_ms, detail)


def _gap(copied: Copied, kind: GapKind, start: int, end: int, now_ms: int, detail: str) -> Gap:
    return Gap(copied.source, kind, copied.source_topic_id, start, end, now_ms, detail, copied.target_topic)


def _other(one: str, other: str) -> bool:
    """Whether two topic ids are known and differ."""
    return bool(one and other and one != other)


def ledger_entry(gap: Gap, connector: str) -> tuple[bytes, bytes]:
    """Key and value of the gap in the ledger: JSON, one entry for each range of offsets where something is missing."""
    copy = {
        "topic": gap.source.topic,
        "partition": gap.source.partition,
        "topicId": gap.topic_id,
        "targetTopic": gap.target_topic,
    }
    key = {"version": _VERSION, **copy, "kind": gap.kind.value, "from": gap.upstream_from}
    value = {
        "version": _VERSION,
        "to": gap.upstream_to,
        "seenAtMs": gap.seen_at_ms,
        "detail": gap.detail,
        "connector": connector,
    }
    return json.dumps(key).encode(), json.dumps(value).encode()


def read_ledger(key: bytes | None, value: bytes | None) -> Gap | None:
    """Reads an entry of the ledger; None for one that was deleted. Raises SchemaError for what is no entry of a version
    that we know."""
    if value is None:
        return None
    where, what = read_object(key, "key of an entry"), read_object(value, "value of an entry")
    names_target, names_connector = (number(names, "version", 0, _VERSION) for names in (where, what))
    kind = text(where, "kind")
    if kind not in _KINDS:
        raise SchemaError(f"kind is {kind!r}: none that this version knows")
    return Gap(
        TopicPartition(text(where, "topic", 1), number(where, "partition", 0, LAST_PARTITION)),
        GapKind(kind),
        text(where, "topicId"),
        number(where, "from", -1, LAST_OFFSET),
        number(what, "to", -1, LAST_OFFSET),
        number(what, "seenAtMs", 0, LAST_MS),
        text(what, "detail"),
        text(where, "targetTopic") if names_target else "",
        text(what, "connector") if names_connector else "",
    )

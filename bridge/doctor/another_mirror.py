"""Finds topics that another mirror copies beside ours, by the records on the target that our runs know nothing of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.doctor.facts import CopiesBeside, Pair
from bridge.errors import KafkaFailure
from bridge.model.values import Bounds, CopyId, LogRecord, RecordView, Side, TopicPartition, Verdict
from bridge.translation.records.copied_twice import AnotherMirror, find_another_mirror, turns_of
from bridge.translation.records.log_window import CapReached, LogBounds, Steps, first_record
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.run_table import read_runs
from connectors.group_translation.translating.driver import Job, translate_all
from connectors.ports import Cluster

ENDED_MS = 600_000
"""A mirror has ended that has not copied a record of ten minutes ago, which ours has."""


async def copied_beside_ours(
    source: Cluster, target: Cluster, records: Sequence[LogRecord], pairs: Sequence[Pair], *, now_ms: int
) -> CopiesBeside:
    """Looks at all partitions where others have written between our runs. `records`: of the runs topic."""
    names = {(pair.source, pair.target) for pair in pairs}
    runs: dict[CopyId, ConsistentRuns] = {}
    for copy, kept in sorted(read_runs(records, []).items()):
        ledger = ConsistentRuns(kept.runs)
        if (copy.source.topic, copy.target_topic) in names and ledger.last is not None:
            runs[copy] = ledger
    topics = await target.topics(sorted({copy.target_topic for copy in runs}))
    await source.topics(sorted({copy.source.topic for copy in runs}))  # their leaders are known then
    copies = {copy: TopicPartition(copy.target_topic, copy.source.partition) for copy in runs}
    ends = await target.bounds(list(copies.values()), committed_only=True)
    begins = await source.bounds([copy.source for copy in runs], committed_only=False)
    jobs: dict[tuple[CopyId, int], Job[AnotherMirror]] = {}
    for copy, ledger in runs.items():
        origin, goal = begins[copy.source], ends[copies[copy]]
        info, last = topics[copy.target_topic], ledger.last
        if not isinstance(origin, Bounds) or not isinstance(goal, Bounds) or isinstance(info, KafkaFailure):
            continue
        if last is None or info.topic_id != last.target_topic_id:
            continue
        behind = LogBounds(last.downstream_end, goal.end)
        # Ours may have copied on, which only timestamps show.
        is_others = not last.handed_back and not info.log_append_time
        # Below stand older copies of ours, which an operator has had copied again.
        begin = max(goal.start, ledger.target_from(ledger.position or 0))
        places = [*([behind] if is_others else []), *ledger.others]
        for turn in range(turns_of(places)):
            steps = find_another_mirror(
                places,
                ledger.copied_before,
                LogBounds(origin.start, origin.end),
                LogBounds(min(begin, goal.end), goal.end),
                turn,
                recognisable=not info.log_append_time,
            )
            jobs[copy, turn] = Job(copy.source, copies[copy], origin.end, steps)
    found: dict[CopyId, AnotherMirror] = {}
    looked = await translate_all(jobs, source, target, source_committed_only=False)
    for (copy, _), another in looked.items():
        if isinstance(another, AnotherMirror):
            found[copy] = found.get(copy, AnotherMirror()).with_newer(another)
    left = await _left_out(source, target, found, {copy: runs[copy] for copy in found}, begins)
    copied = {copy.source.topic for copy, another in found.items() if another.twice is not None}
    unknown = {copy.source.topic for copy, another in found.items() if another.unknown >= 0}
    goes_on = {
        copy.source.topic
        for copy, another in found.items()
        if another.twice is not None and left.get(copy, now_ms) > now_ms - ENDED_MS
    }
    ended: dict[str, int] = {}
    for copy, left_ms in left.items():
        topic = copy.source.topic
        if topic not in goes_on:
            ended[topic] = min(left_ms, ended.get(topic, left_ms))
    return CopiesBeside(sorted(goes_on), sorted(unknown - copied), ended)


async def _left_out(
    source: Cluster,
    target: Cluster,
    found: Mapping[CopyId, AnotherMirror],
    ledgers: Mapping[CopyId, ConsistentRuns],
    begins: Mapping[TopicPartition, Bounds | KafkaFailure],
) -> dict[CopyId, int]:
    """Returns when the first record behind the newest one that another mirror has copied too was written (ms), where
    ours has copied it."""
    jobs: dict[CopyId, Job[RecordView | None]] = {}
    for copy, another in found.items():
        bounds = begins[copy.source]
        if another.twice is None or not isinstance(bounds, Bounds):
            continue
        rest = LogBounds(max(another.twice.upstream + 1, bounds.start), bounds.end)
        if rest.start < rest.end:
            on_target = TopicPartition(copy.target_topic, copy.source.partition)
            jobs[copy] = Job(copy.source, on_target, rest.start, _first_record(rest))
    records = await translate_all(jobs, source, target, source_committed_only=True)
    return {
        copy: record.timestamp
        for copy, record in records.items()
        if record is not None
        and not isinstance(record, Verdict)
        and record.timestamp >= 0
        and ledgers[copy].copied_before(record.offset) == record.offset
    }


def _first_record(stretch: LogBounds) -> Steps[RecordView | None]:
    try:
        return (yield from first_record(Side.SOURCE, stretch))
    except CapReached:
        return None

"""Finds topics that another mirror copies beside ours, by the records on the target that our runs know nothing of."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.doctor.facts import CopiesBeside, Pair
from bridge.errors import KafkaFailure
from bridge.model.values import Bounds, CopyId, LogRecord, TopicPartition
from bridge.translation.records.copied_twice import AnotherMirror, find_another_mirror, turns_of
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.run_table import read_runs
from connectors.group_translation.translating.driver import Job, translate_all
from connectors.ports import Cluster


async def copied_beside_ours(
    source: Cluster, target: Cluster, records: Sequence[LogRecord], pairs: Sequence[Pair]
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
    found = await translate_all(jobs, source, target, source_committed_only=False)
    seen = [(copy.source.topic, each) for (copy, _), each in found.items() if isinstance(each, AnotherMirror)]
    copied = {topic for topic, another in seen if another.twice >= 0}
    return CopiesBeside(
        sorted(copied), sorted({topic for topic, another in seen if another.unknown >= 0} - copied)
    )

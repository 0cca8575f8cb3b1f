"""Finds topics that another mirror copies beside ours, by the records on the target that our runs know nothing of."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.doctor.facts import Pair
from bridge.errors import KafkaFailure
from bridge.model.values import Bounds, CopyId, LogRecord, TopicPartition
from bridge.translation.records.copied_twice import AnotherMirror, find_another_mirror
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.run_table import read_runs
from connectors.group_translation.translating.driver import Job, translate_all
from connectors.ports import Cluster

_MOST = 500
"""Partitions that are looked at."""


async def copied_beside_ours(
    source: Cluster, target: Cluster, records: Sequence[LogRecord], pairs: Sequence[Pair]
) -> list[str]:
    """Returns the topics with copies that another mirror has made of what ours has copied. `records`: of the runs
    topic."""
    names = {(pair.source, pair.target) for pair in pairs}
    runs = {
        copy: ConsistentRuns(kept.runs)
        for copy, kept in sorted(read_runs(records, []).items())
        if (copy.source.topic, copy.target_topic) in names
    }
    runs = {copy: ledger for copy, ledger in list(runs.items())[:_MOST] if ledger.last is not None}
    topics = await target.topics(sorted({copy.target_topic for copy in runs}))
    await source.topics(sorted({copy.source.topic for copy in runs}))  # their leaders are known then
    ids = {name: None if isinstance(info, KafkaFailure) else info.topic_id for name, info in topics.items()}
    copies = {copy: TopicPartition(copy.target_topic, copy.source.partition) for copy in runs}
    ends = await target.bounds(list(copies.values()), committed_only=True)
    begins = await source.bounds([copy.source for copy in runs], committed_only=False)
    jobs: dict[CopyId, Job[AnotherMirror]] = {}
    for copy, ledger in runs.items():
        origin, goal, last = begins[copy.source], ends[copies[copy]], ledger.last
        if not isinstance(origin, Bounds) or not isinstance(goal, Bounds):
            continue
        if last is None or ids[copy.target_topic] != last.target_topic_id:
            continue
        behind = [] if last.handed_back else [LogBounds(last.downstream_end, goal.end)]
        steps = find_another_mirror(
            [*behind, *ledger.others],
            ledger.copied_before,
            LogBounds(origin.start, origin.end),
            LogBounds(goal.start, goal.end),
        )
        jobs[copy] = Job(copy.source, copies[copy], origin.end, steps)
    found = await translate_all(jobs, source, target, source_committed_only=False)
    return sorted(
        {
            copy.source.topic
            for copy, another in found.items()
            # Below stand older copies of ours, which an operator has had copied again.
            if isinstance(another, AnotherMirror)
            and another.twice >= runs[copy].target_from(runs[copy].position or 0)
        }
    )

"""Has a stopped connector copy again, or skip, from where an operator says (see
bridge.translation.runs.reset_positions).

No slice can commit any more (fenced) when the positions are read; then all partitions change in one transaction, with a
ledger entry for what is skipped. Ended in between nothing has changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple

from bridge.errors import KafkaFailure, OperationRefused
from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.log_bounds import all_bounds, offsets_at_times
from bridge.kafka.network.client import NetworkClient
from bridge.model.copying import Copied, Gap, PipelineSpec
from bridge.model.values import Bounds, CopyId, Side, TopicPartition
from bridge.pipeline.layouts.fencing import driver, shut_out
from bridge.pipeline.layouts.hanging import take_over
from bridge.pipeline.layouts.records import LayoutTopic
from bridge.pipeline.positions import (
    committed_runs,
    positions,
    require_partitions,
    sent_elsewhere,
    stopped,
    topic_ids,
)
from bridge.pipeline.slices.gaps import ledger_entry, resume, skipped, why_not_again
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.reset_positions import (
    Destination,
    OutOfRange,
    PartitionReset,
    ResetOutcome,
    ResetTo,
    plan,
)

Remote = Callable[[str], str | None]
Choose = Callable[[Mapping[TopicPartition, PartitionRuns]], Mapping[TopicPartition, Destination]]
"""Of the partitions that were copied those that change, and where they go on. May raise OperationRefused."""
_NO_TOPIC = "none"
"""The id of a topic that is gone: no topic has it."""


async def reset(
    spec: PipelineSpec,
    remote: Remote,
    choose: Choose,
    *,
    dry_run: bool = False,
    force: bool = False,
    patience: float = 0.0,
) -> list[PartitionReset]:
    """Changes positions; returns what was changed, or with `dry_run` would be. `remote` as in positions(); `patience`:
    seconds to wait until copying has stopped; `force`: slices of a service that is gone are shut out.

    Raises OperationRefused and KafkaFailure; then nothing has changed, unless it was the commit that got no answer.
    """
    async with AsyncExitStack() as stack:
        source = NetworkClient(client_settings(Side.SOURCE, spec.props).raw)
        stack.push_async_callback(source.close)
        target = NetworkClient(client_settings(Side.TARGET, spec.props).raw)
        stack.push_async_callback(target.close)
        layouts = await stopped(target, spec, force=force, patience=patience)
        # Before anybody is fenced: what is refused changes nothing.
        planned = await _planned(spec, remote, choose, source, target, layouts)
        if dry_run or not any(row.changes for row in planned.rows):
            return planned.rows
        leader = driver(spec)
        stack.push_async_callback(leader.close)
        await take_over(spec, leader)
        await shut_out(spec, target, leader)
        rows, runs, committed, again = await _planned(spec, remote, choose, source, target, layouts)
        changing = [row for row in rows if row.changes]
        elsewhere = sent_elsewhere(
            committed, spec, {row.source: runs[row.source] for row in changing}, layouts
        )
        topics = {row.target_topic for row in changing} | {copy.target_topic for copy in elsewhere}
        gone = {
            topic for topic, topic_id in (await topic_ids(target, sorted(topics))).items() if topic_id is None
        }
        changed = {CopyId(row.source, row.target_topic): (row.to, runs[row.source]) for row in changing}
        to = {row.source: row.to for row in changing}
        changed |= {
            copy: (to[copy.source], each) for copy, each in elsewhere.items() if copy.target_topic not in gone
        }
        # With what is not committed: our own aborted copies are part of the log too.
        logs = await all_bounds(
            target,
            list(dict.fromkeys(copy.remote for copy in changed if copy.target_topic not in gone)),
            committed_only=False,
        )
        ends = {copy: logs[copy.remote].end if copy.remote in logs else 0 for copy in changed}
        changes = [
            change
            for copy, (offset, each) in changed.items()
            for change in each.reset(offset, ends[copy], recopy=copy.source in again)
        ]
        ledger = [
            ledger_entry(_skipped(row, runs[row.source]), spec.name)
            for row in changing
            if row.outcome is ResetOutcome.SKIPPED
        ]
        await leader.begin()
        try:
            await leader.send_records(spec.runs_topic, changes)
            await leader.send_records(spec.gaps_topic, ledger)
            await leader.commit()
        except KafkaFailure:
            await leader.abort()
            raise
        return rows


async def check_first_positions(
    spec: PipelineSpec, destinations: Mapping[TopicPartition, Destination]
) -> None:
    """Checks where copying is to begin of a connector that has copied nothing. Raises OperationRefused and
    KafkaFailure."""
    async with AsyncExitStack() as stack:
        source = NetworkClient(client_settings(Side.SOURCE, spec.props).raw)
        stack.push_async_callback(source.close)
        await require_partitions(source, spec.source_alias, _stored(destinations, ()))


def _stored(
    destinations: Mapping[TopicPartition, Destination], copied: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Partitions that were not copied, whose offset Connect stores: copying begins there."""
    return [tp for tp, to in destinations.items() if tp not in copied and to.kind is ResetTo.OFFSET]


class _Planned(NamedTuple):
    """What a reset would change. `runs`: of the connector's own copies; `committed`: of all in the runs topic; `again`:
    where copying would begin again of itself, because the target topic was deleted since."""

    rows: list[PartitionReset]
    runs: Mapping[TopicPartition, PartitionRuns]
    committed: Mapping[CopyId, PartitionRuns]
    again: Mapping[TopicPartition, int]


async def _planned(
    spec: PipelineSpec,
    remote: Remote,
    choose: Choose,
    source: NetworkClient,
    target: NetworkClient,
    layouts: LayoutTopic,
) -> _Planned:
    committed = await committed_runs(target, spec)
    runs = positions(committed, spec, remote, layouts)
    newest = {tp: last for tp, each in runs.items() if (last := each.last) is not None}
    destinations = choose(runs)
    await require_partitions(source, spec.source_alias, _stored(destinations, runs))
    ids = await topic_ids(source, sorted({tp.topic for tp in destinations}))
    existing = [tp for tp in destinations if ids[tp.topic] is not None]
    logs = await all_bounds(source, existing, committed_only=spec.committed_only)
    times = {tp: destinations[tp].value for tp in existing if destinations[tp].kind is ResetTo.TIMESTAMP}
    at_time = await offsets_at_times(source, times, committed_only=spec.committed_only)
    offsets = {tp: logs[tp].end if at is None else at for tp, at in at_time.items()}
    existing_runs = {tp: runs[tp] for tp in existing}
    elsewhere = sent_elsewhere(committed, spec, existing_runs, layouts)
    again = await _again(spec, target, existing_runs, elsewhere, ids, logs)
    try:
        return _Planned(plan(newest, destinations, ids, logs, offsets, again), runs, committed, again)
    except OutOfRange as error:
        raise OperationRefused(str(error)) from None


async def _again(
    spec: PipelineSpec,
    target: NetworkClient,
    runs: Mapping[TopicPartition, PartitionRuns],
    elsewhere: Mapping[CopyId, PartitionRuns],
    source_ids: Mapping[str, str | None],
    logs: Mapping[TopicPartition, Bounds],
) -> dict[TopicPartition, int]:
    """Where copying would begin again of itself, as `open_partitions` does it once a topic that is gone is there again.
    Raises KafkaFailure."""
    if not spec.recopy:
        return {}
    last = {tp: each.last for tp, each in runs.items() if each.last is not None}
    known = {CopyId(tp, run.target_topic): runs[tp] for tp, run in last.items()} | dict(elsewhere)
    described = await topic_ids(target, sorted({copy.target_topic for copy in known}))
    ids = {topic: _NO_TOPIC if topic_id is None else topic_id for topic, topic_id in described.items()}
    also: dict[TopicPartition, list[tuple[str, str]]] = {}
    for copy in elsewhere:
        also.setdefault(copy.source, []).append((copy.target_topic, ids[copy.target_topic]))
    lost = [
        Copied(
            tp,
            source_ids[tp.topic] or "",
            run.target_topic,
            ids[run.target_topic],
            also=tuple(also.get(tp, ())),
        )
        for tp, run in last.items()
        if ids[run.target_topic] != run.target_topic_id
    ]
    copies = [copy for main in lost for copy in main.copies]
    there = list({copy.remote: None for copy in copies if described[copy.target_topic] is not None})
    ends = await all_bounds(target, there, committed_only=False)
    logs_of = {copy.id: ends.get(copy.remote) or Bounds(0, 0) for copy in copies}
    return {
        main.source: resume(
            main,
            runs[main.source].runs,
            logs[main.source],
            Bounds(0, 0),
            from_latest=spec.from_latest,
            now_ms=0,
            not_again=None,
        ).offset
        for main in lost
        if why_not_again(main, known, logs_of) is None
    }


def _skipped(row: PartitionReset, runs: PartitionRuns) -> Gap:
    last = runs.last
    assert last is not None, "only what was copied is changed"
    copied = Copied(row.source, last.source_topic_id, row.target_topic, last.target_topic_id)
    return skipped(copied, row.position, row.to, int(time.time() * 1000))

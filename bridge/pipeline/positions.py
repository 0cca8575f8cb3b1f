"""Reads the positions of a connector that is stopped, resets them, and hands them back to a stock mirror.

Hands copying back to a stock mirror (see bridge.translation.runs.source_offsets).

Order is what keeps a record from being lost or there twice: no slice can commit any more (fenced), then the positions
are read, then Connect's source offsets are written, and last the runs say that somebody else copies on from them. Ended
in between it is to be done again, and does the same.

Has a stopped connector copy again, or skip, from where an operator says (see
bridge.translation.runs.reset_positions).

No slice can commit any more (fenced) when the positions are read; then all partitions change in one transaction, with a
ledger entry for what is skipped. Ended in between nothing has changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault, NothingCopied, OperationRefused
from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.log_bounds import all_bounds, bounds, offsets_at_times
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.state_topics import read_committed, verify_compacted
from bridge.model.copying import Copied, Gap, PipelineSpec
from bridge.model.state_records.fields import SchemaError
from bridge.model.values import Bounds, CopyId, Side, TopicPartition
from bridge.pipeline.layouts.fencing import driver, shut_out, take_over
from bridge.pipeline.layouts.ownership import owned, ownership, withdrawn
from bridge.pipeline.layouts.records import LayoutTopic
from bridge.pipeline.layouts.state import layout_topic, state_topics
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
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.source_offsets import HandBackOutcome, PartitionHandBack
from bridge.translation.runs.source_offsets import plan as plan_hand_back

_LOOK = 0.2
"""Seconds between looks at whether copying has stopped."""
Remote = Callable[[str], str | None]
Choose = Callable[[Mapping[TopicPartition, PartitionRuns]], Mapping[TopicPartition, Destination]]
"""Of the partitions that were copied those that change, and where they go on. May raise OperationRefused."""
_NO_TOPIC = "none"
"""The id of a topic that is gone: no topic has it."""


async def stopped(
    target: NetworkClient, spec: PipelineSpec, *, force: bool, patience: float = 0.0
) -> LayoutTopic:
    """The layout topic once copying has stopped in order, or at once with `force`. Waits for `patience` seconds.

    Raises NothingCopied, OperationRefused where copying goes on, and KafkaFailure.
    """
    described = await target.metadata(list(state_topics(spec)))
    for topic in (spec.layout_topic, spec.runs_topic):
        failed = of_code(described[topic].error, f"describe topic {topic}", f"READ on topic {topic}")
        if failed is not None and failed.fault is KafkaFault.UNKNOWN_TOPIC:
            raise NothingCopied(f"{spec.name} has left no positions on the target: there is no topic {topic}")
        if failed is not None:
            raise failed
    await verify_compacted(target, state_topics(spec))
    end = time.monotonic() + patience
    while True:
        layouts = await layout_topic(target, spec)
        before = layouts.before
        if not before.layout or before.stop or force:
            return layouts
        if time.monotonic() >= end:
            raise OperationRefused(
                f"layout {before.layout} of {spec.name} has not been stopped: records may still be copied. Wait until "
                "the service has stopped copying (within bridge.task.lease.ms); if the service is gone for good, use "
                "the option --force of mirror-bridge, which shuts out whatever of it may still run"
            )
        await asyncio.sleep(_LOOK)


async def committed_runs(target: NetworkClient, spec: PipelineSpec) -> dict[CopyId, PartitionRuns]:
    """Reads the runs topic, which connectors may share. Raises OperationRefused when some of it can't be read."""
    errors: list[SchemaError] = []
    runs = read_runs(await read_committed(target, spec.runs_topic), errors)
    if errors:
        raise OperationRefused(
            f"{len(errors)} record(s) of {spec.runs_topic} can't be read, so that positions may be missing: "
            f"{errors[0]}. A later version has written them: do it with that one"
        )
    return runs


def positions(
    runs: Mapping[CopyId, PartitionRuns],
    spec: PipelineSpec,
    remote: Callable[[str], str | None],
    layouts: LayoutTopic,
) -> dict[TopicPartition, PartitionRuns]:
    """The runs of the connector's copies. `remote`: the target topic of each topic that it replicates, None for others.
    Raises OperationRefused when another connector copies them, NothingCopied when there are none."""
    replicated = [copy for copy in runs if remote(copy.source.topic) == copy.target_topic]
    taken = ownership(layouts, {copy.topics for copy in replicated}, spec.name).taken
    own = {copy.source: runs[copy] for copy in replicated if copy.topics not in taken}
    if not own and taken:
        owners = ", ".join(sorted(set(taken.values())))
        raise OperationRefused(f"what {spec.name} replicates is copied by {owners}: name that connector")
    if not own:
        raise NothingCopied(f"{spec.runs_topic} holds no position of a topic that {spec.name} replicates")
    return own


def sent_elsewhere(
    runs: Mapping[CopyId, PartitionRuns],
    spec: PipelineSpec,
    main: Mapping[TopicPartition, PartitionRuns],
    layouts: LayoutTopic,
) -> dict[CopyId, PartitionRuns]:
    """The runs of the other copies of the same partitions, which the connector's transforms send records to."""
    pairs = owned(layouts, {tp.topic for tp in main}, spec.name)
    return {
        copy: run
        for copy, run in runs.items()
        if copy.topics in pairs
        and copy.source in main
        and (last := main[copy.source].last) is not None
        and copy.target_topic != last.target_topic
    }


async def require_partitions(source: NetworkClient, alias: str, partitions: Iterable[TopicPartition]) -> None:
    """Raises OperationRefused where the source does not have one of the partitions, and KafkaFailure."""
    wanted = sorted(set(partitions))
    described = await source.metadata(sorted({tp.topic for tp in wanted}))
    for tp in wanted:
        topic = described[tp.topic]
        failed = of_code(topic.error, f"describe topic {tp.topic}", f"DESCRIBE on topic {tp.topic}")
        if failed is not None and failed.fault is not KafkaFault.UNKNOWN_TOPIC:
            raise failed
        if failed is not None or tp.partition not in topic.partitions:
            has = "there is no such topic" if failed is not None else f"the topic has {len(topic.partitions)}"
            raise OperationRefused(
                f"partition {tp.partition} of topic {tp.topic} does not exist on source cluster {alias}: {has}. Only "
                "an offset of a partition that exists can be altered"
            )


async def topic_ids(source: NetworkClient, topics: Sequence[str]) -> dict[str, str | None]:
    """The id of each topic, None for those that do not exist. Raises KafkaFailure."""
    described = await source.metadata(topics)
    ids: dict[str, str | None] = {}
    for topic in topics:
        doing, right = f"describe topic {topic}", f"READ on topic {topic}"
        failed: KafkaFailure | None = of_code(described[topic].error, doing, right)
        if failed is not None and failed.fault is not KafkaFault.UNKNOWN_TOPIC:
            raise failed
        ids[topic] = None if failed is not None else described[topic].topic_id
    return ids


async def hand_back(
    spec: PipelineSpec,
    remote: Callable[[str], str | None],
    write: Callable[[Sequence[PartitionHandBack]], None],
    *,
    force: bool = False,
) -> list[PartitionHandBack]:
    """Ends the connector's copying and its claims; answers what `write` was given, and what was left alone.

    `remote`: the target topic of each topic that the connector replicates, None for others, which may share its runs
    topic. `force`: slices of a service that is gone are shut out. Raises OperationRefused, KafkaFailure,
    and what `write` raises; then nothing is marked as handed back."""
    async with AsyncExitStack() as stack:
        source = NetworkClient(client_settings(Side.SOURCE, spec.props).raw)
        stack.push_async_callback(source.close)
        target = NetworkClient(client_settings(Side.TARGET, spec.props).raw)
        stack.push_async_callback(target.close)
        layouts = await stopped(target, spec, force=force)
        leader = driver(spec)
        stack.push_async_callback(leader.close)
        await take_over(spec, leader)
        await shut_out(spec, target, leader)
        runs = positions(await committed_runs(target, spec), spec, remote, layouts)
        rows = plan_hand_back(runs, await topic_ids(source, sorted({tp.topic for tp in runs})))
        await _within_the_logs(source, rows, spec.name)
        written = [row for row in rows if row.written]
        if written:
            await asyncio.to_thread(write, written)
            marks = [change for row in written for change in runs[row.source].hand_back()]
            await leader.write(spec.runs_topic, marks)
        topics = {tp.topic for tp in runs}
        handed = {(topic, str(remote(topic))) for topic in topics} | owned(layouts, topics, spec.name)
        await leader.write(spec.layout_topic, withdrawn(handed, spec.name))
        return rows


async def _within_the_logs(source: NetworkClient, rows: Sequence[PartitionHandBack], connector: str) -> None:
    """Raises OperationRefused for a position beyond the log's end: stock would begin anew there, or skip what is not
    copied yet. Raises KafkaFailure."""
    positions = {row.source: row.position for row in rows if row.outcome is HandBackOutcome.HANDED_BACK}
    for tp, log in (await bounds(source, list(positions), committed_only=False)).items():
        if isinstance(log, KafkaFailure):
            if log.fault is KafkaFault.UNKNOWN_TOPIC:
                continue
            raise log
        if positions[tp] > log.end:
            raise OperationRefused(
                f"offset runs say that {tp.topic}-{tp.partition} is copied up to {positions[tp]}, and the log "
                f"ends at {log.end}: let {connector} run once more, which verifies that, and hand back then"
            )


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
            copy: (to[copy.source], runs) for copy, runs in elsewhere.items() if copy.target_topic not in gone
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
            for copy, (offset, runs) in changed.items()
            for change in runs.reset(offset, ends[copy], recopy=copy.source in again)
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
    newest = {tp: last for tp, run in runs.items() if (last := run.last) is not None}
    destinations = choose(runs)
    await require_partitions(source, spec.source_alias, _stored(destinations, runs))
    ids = await topic_ids(source, sorted({tp.topic for tp in destinations}))
    existing = [tp for tp in destinations if ids[tp.topic] is not None]
    logs = await all_bounds(source, existing, committed_only=spec.committed_only)
    times = {tp: destinations[tp].value for tp in existing if destinations[tp].kind is ResetTo.TIMESTAMP}
    at_time = await offsets_at_times(source, times, committed_only=spec.committed_only)
    offsets = {tp: logs[tp].end if position is None else position for tp, position in at_time.items()}
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
    last = {tp: run.last for tp, run in runs.items() if run.last is not None}
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
    remotes = list({copy.remote: None for copy in copies if described[copy.target_topic] is not None})
    ends = await all_bounds(target, remotes, committed_only=False)
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

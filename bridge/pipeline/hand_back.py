"""Hands copying back to a stock mirror (see bridge.translation.runs.source_offsets).

Order is what keeps a record from being lost or there twice: no slice can commit any more (fenced), then the positions
are read, then Connect's source offsets are written, and last the runs say that somebody else copies on from them. Ended
in between it is to be done again, and does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from bridge.errors import KafkaFailure, KafkaFault, OperationRefused
from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.log_bounds import bounds
from bridge.kafka.network.client import NetworkClient
from bridge.model.copying import PipelineSpec
from bridge.model.values import Side
from bridge.pipeline.layouts.claims import owned, withdrawn
from bridge.pipeline.layouts.fencing import driver, shut_out
from bridge.pipeline.layouts.hanging import take_over
from bridge.pipeline.positions import committed_runs, positions, stopped, topic_ids
from bridge.translation.runs.source_offsets import HandBackOutcome, PartitionHandBack, plan


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
        rows = plan(runs, await topic_ids(source, sorted({tp.topic for tp in runs})))
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

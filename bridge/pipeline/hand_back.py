"""Back to a stock mirror, carried out (see bridge.translation.handing_back).

Order is what keeps a record from being lost or there twice: no slice can commit any more (fenced), then the positions
are read, then Connect is told, and last the runs say that somebody else copies on from them. Ended in between it is to
be done again, and does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from bridge.errors import KafkaFault
from bridge.kafka.client_config import client_settings
from bridge.kafka.errors import of_code
from bridge.kafka.link import Link
from bridge.kafka.state_topics import read_committed
from bridge.pipeline.claims import ownership, withdrawn
from bridge.pipeline.fencing import driver, shut_out
from bridge.pipeline.layout_records import LayoutTopic
from bridge.pipeline.state import layout_topic
from bridge.translation.copying import PipelineSpec
from bridge.translation.fields import SchemaError
from bridge.translation.handing_back import Row, plan
from bridge.translation.model import Side, TopicPartition
from bridge.translation.partition_runs import PartitionRuns
from bridge.translation.run_table import read_runs


class HandBackRefused(Exception):
    """It would lose records or copy them twice; the text says why, and what to do."""


async def hand_back(
    spec: PipelineSpec,
    remote: Callable[[str], str | None],
    write: Callable[[Sequence[Row]], None],
    *,
    force: bool = False,
) -> list[Row]:
    """Ends the connector's copying and its claims; answers what `write` was given, and what was left alone.

    `remote`: the target topic of each topic that the connector replicates, None for others, which may share its runs
    topic. `force`: slices of a service that is gone are shut out. Raises HandBackRefused, KafkaFailure,
    and what `write` raises; then nothing is marked as handed back."""
    async with AsyncExitStack() as stack:
        source = Link(client_settings(Side.SOURCE, spec.props).raw)
        stack.push_async_callback(source.close)
        target = Link(client_settings(Side.TARGET, spec.props).raw)
        stack.push_async_callback(target.close)
        await _there(target, spec)
        layouts = await layout_topic(target, spec)
        before = layouts.before
        if before.layout and not before.stop and not force:
            raise HandBackRefused(
                f"layout {before.layout} of {spec.name} has not been stopped: records may still be copied. Wait until "
                "the service has stopped copying (within bridge.task.lease.ms); if the service is gone for good, give "
                "--force, which shuts out whatever of it may still run"
            )
        leader = driver(spec)
        stack.push_async_callback(leader.close)
        await leader.start()
        await shut_out(spec, target, leader)
        runs = await _runs(target, spec, remote, layouts)
        rows = plan(runs, await _topic_ids(source, sorted({place.topic for place in runs})))
        written = [row for row in rows if row.written]
        if written:
            await asyncio.to_thread(write, written)
            marks = [change for row in written for change in runs[row.source].hand_back()]
            await leader.write(spec.runs_topic, marks)
        handed = {(place.topic, str(remote(place.topic))) for place in runs}
        await leader.write(spec.layout_topic, withdrawn(handed, spec.name))
        return rows


async def _there(target: Link, spec: PipelineSpec) -> None:
    """Raises HandBackRefused where nothing was ever copied."""
    for topic, meta in (await target.metadata([spec.layout_topic, spec.runs_topic])).items():
        failed = of_code(meta.error, f"describe topic {topic}")
        if failed is not None and failed.fault is KafkaFault.UNKNOWN_TOPIC:
            raise HandBackRefused(
                f"{spec.name} has left no positions on the target: there is no topic {topic}"
            )
        if failed is not None:
            raise failed


async def _runs(
    target: Link, spec: PipelineSpec, remote: Callable[[str], str | None], layouts: LayoutTopic
) -> dict[TopicPartition, PartitionRuns]:
    """Those of the connector's copies. Raises HandBackRefused when there are none, or some can't be read."""
    troubles: list[SchemaError] = []
    runs = read_runs(await read_committed(target, spec.runs_topic), troubles)
    if troubles:
        raise HandBackRefused(
            f"{len(troubles)} record(s) of {spec.runs_topic} can't be read, so that positions may be missing: "
            f"{troubles[0]}. A later version has written them: hand back with that one"
        )
    replicated = [copy for copy in runs if remote(copy.source.topic) == copy.target_topic]
    taken = ownership(
        layouts, {(copy.source.topic, copy.target_topic) for copy in replicated}, spec.name
    ).taken
    found = {
        copy.source: runs[copy] for copy in replicated if (copy.source.topic, copy.target_topic) not in taken
    }
    if not found and taken:
        owners = ", ".join(sorted(set(taken.values())))
        raise HandBackRefused(f"what {spec.name} replicates is copied by {owners}: hand that one back")
    if not found:
        raise HandBackRefused(f"{spec.runs_topic} holds no position of a topic that {spec.name} replicates")
    return found


async def _topic_ids(source: Link, topics: Sequence[str]) -> dict[str, str | None]:
    described = await source.metadata(topics)
    ids: dict[str, str | None] = {}
    for topic in topics:
        failed = of_code(described[topic].error, f"describe topic {topic}")
        if failed is not None and failed.fault is not KafkaFault.UNKNOWN_TOPIC:
            raise failed
        ids[topic] = None if failed is not None else described[topic].topic_id
    return ids

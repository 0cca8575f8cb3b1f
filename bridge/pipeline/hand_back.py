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
from bridge.kafka.producing import TransactionalProducer, fence, producer_settings
from bridge.kafka.state_topics import read_committed
from bridge.pipeline.layouts import LayoutRecord, layout_key, transactional_id
from bridge.pipeline.state import newest_layout
from bridge.translation.copying import PipelineSpec
from bridge.translation.fields import SchemaError
from bridge.translation.handing_back import Row, plan
from bridge.translation.model import Side, TopicPartition
from bridge.translation.partition_runs import PartitionRuns, read_runs


class HandBackRefused(Exception):
    """It would lose records or copy them twice; the text says why, and what to do."""


async def hand_back(
    spec: PipelineSpec,
    replicates: Callable[[str], bool],
    write: Callable[[Sequence[Row]], None],
    *,
    force: bool = False,
) -> list[Row]:
    """What `write` was given, and what was left alone. `replicates` says which topics are the connector's: others may
    share its runs topic. `force`: slices of a service that is gone are shut out. Raises HandBackRefused, KafkaFailure,
    and what `write` raises; then nothing is marked as handed back."""
    async with AsyncExitStack() as stack:
        source = Link(client_settings(Side.SOURCE, spec.props).raw)
        stack.push_async_callback(source.close)
        target = Link(client_settings(Side.TARGET, spec.props).raw)
        stack.push_async_callback(target.close)
        await _there(target, spec)
        before = await newest_layout(target, spec)
        if before.layout and not before.stop and not force:
            raise HandBackRefused(
                f"layout {before.layout} of {spec.name} has not been stopped: records may still be copied. Wait until "
                "the service has stopped copying (within bridge.task.lease.ms); if the service is gone for good, give "
                "--force, which shuts out whatever of it may still run"
            )
        leader = TransactionalProducer(
            producer_settings(Side.TARGET, spec.props), transactional_id(spec, "driver")
        )
        stack.push_async_callback(leader.close)
        await leader.start()
        layout = LayoutRecord(before.layout + 1, max(1, before.slots), stop=True)
        await leader.write(spec.layout_topic, [(layout_key(spec), layout.value())])
        slots = [transactional_id(spec, slot) for slot in range(layout.slots)]
        await fence(producer_settings(Side.TARGET, spec.props), slots)
        runs = await _runs(target, spec, replicates)
        rows = plan(runs, await _topic_ids(source, sorted({place.topic for place in runs})))
        written = [row for row in rows if row.written]
        if written:
            await asyncio.to_thread(write, written)
            marks = [change for row in written for change in runs[row.source].hand_back()]
            await leader.write(spec.runs_topic, marks)
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
    target: Link, spec: PipelineSpec, replicates: Callable[[str], bool]
) -> dict[TopicPartition, PartitionRuns]:
    troubles: list[SchemaError] = []
    runs = read_runs(await read_committed(target, spec.runs_topic), troubles)
    if troubles:
        raise HandBackRefused(
            f"{len(troubles)} record(s) of {spec.runs_topic} can't be read, so that positions may be missing: "
            f"{troubles[0]}. A later version has written them: hand back with that one"
        )
    found = {place: each for place, each in runs.items() if each.last is not None and replicates(place.topic)}
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

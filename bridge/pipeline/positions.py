"""Reads the positions of a connector that is stopped, for commands that change them (hand_back, reset)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault, NothingCopied, OperationRefused
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.state_topics import read_committed, verify_compacted
from bridge.model.copying import PipelineSpec
from bridge.model.state_records.fields import SchemaError
from bridge.model.values import CopyId, TopicPartition
from bridge.pipeline.layouts.claims import owned, ownership
from bridge.pipeline.layouts.records import LayoutTopic
from bridge.pipeline.layouts.state import layout_topic, state_topics
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_table import read_runs

_LOOK = 0.2
"""Seconds between looks at whether copying has stopped."""


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
        copy: each
        for copy, each in runs.items()
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

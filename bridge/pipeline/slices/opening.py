"""Finds where partitions begin that join a slice, while the others are copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.record.batch_plan import TopicLimits
from bridge.kafka.state_topics import read_committed
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.values import CopyId, TopicPartition
from bridge.pipeline.layouts.additions import Addition
from bridge.pipeline.slices.resume import Opened, Seen, open_partitions, topic_limits
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_table import read_runs
from bridge.translation.runs.runs import runs_of


class Joined(NamedTuple):
    """Partitions that join, and where they begin. `limits`: by target topic."""

    additions: Sequence[Addition]
    runs: Mapping[CopyId, PartitionRuns]
    opened: Opened
    limits: Mapping[str, TopicLimits]

    @property
    def partitions(self) -> list[Copied]:
        return [each.copied for each in self.additions]


async def open_joining(
    source: NetworkClient,
    target: NetworkClient,
    spec: PipelineSpec,
    additions: Sequence[Addition],
    *,
    retried: bool,
    ended: Set[TopicPartition],
    ending: Set[TopicPartition],
) -> Joined:
    """Finds where partitions begin that join. `retried`: the slice may have copied some of them before, so that only
    the runs topic tells how far. `ended` and `ending`: as of open_partitions.

    Raises KafkaFailure, and Moved where a topic has another id than its Copied says."""
    partitions = [each.copied for each in additions]
    if retried:
        ours = runs_of([each.source for each in partitions])
        records = await read_committed(target, spec.runs_topic, counts=ours)
    else:
        records = [run for each in additions for run in each.runs]
    known = read_runs(records)
    runs = {each.id: known.get(each.id) or PartitionRuns([]) for each in partitions}
    opened = await open_partitions(source, target, spec, partitions, runs, Seen(), ended=ended, ending=ending)
    topics = sorted({each.target_topic for each in partitions})
    return Joined(additions, runs, opened, await topic_limits(target, topics))

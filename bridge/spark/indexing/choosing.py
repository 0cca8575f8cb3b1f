"""Chooses which copies are indexed, and says why others are not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.cluster import KafkaCluster
from bridge.model.copying import Copied
from bridge.model.values import CopyId, TopicInfo, TopicPartition
from bridge.pipeline.layouts.records import LayoutTopic
from bridge.translation.runs.partition_runs import PartitionRuns

_COMPACT = "compact"


class ChosenTopics(NamedTuple):
    """The topics to index. `refused`: a sentence for each topic that is left out."""

    copies: list[Copied]
    refused: list[str]


async def choose(
    source: KafkaCluster,
    target: KafkaCluster,
    remote: Callable[[str], str | None],
    named: Collection[str],
    layouts: LayoutTopic | None,
    runs: Mapping[CopyId, PartitionRuns],
) -> ChosenTopics:
    """Chooses the topics to index. `remote`: the target topic of each topic that is mirrored, None for others. `named`:
    topics that the source may hide from who may not describe them; they are asked for by name. `layouts`: None where no
    connector has ever claimed a copy. Topics that the target does not have are not mirrored yet, and refused only where
    they are named. Raises KafkaFailure."""
    names = {*await source.topic_names(), *named}
    remotes = {name: to for name in names if (to := remote(name)) is not None}
    here = await source.topics(list(remotes))
    there = await target.topics(list(remotes.values()))
    compacted = await _compacted(target, [to for to in remotes.values() if isinstance(there[to], TopicInfo)])
    copies: list[Copied] = []
    refused: list[str] = []
    for name, to in sorted(remotes.items()):
        original, copy = here[name], there[to]
        if _is_missing(original) or _is_missing(copy):
            if name in named:
                side = f"{name} on the source" if _is_missing(original) else f"{to} on the target"
                refused.append(f"{name}: there is no topic {side}")
            continue
        if isinstance(original, KafkaFailure) or isinstance(copy, KafkaFailure):
            refused.append(f"{name}: {original if isinstance(original, KafkaFailure) else copy}")
            continue
        some = _copies(original, copy)
        owner = None if layouts is None else layouts.owner((name, to))
        why = _refusal(to, owner, copy, compacted.get(to)) or _others(some, runs)
        if why is None:
            copies += some
        else:
            refused.append(f"{name}: {why}")
    return ChosenTopics(copies, refused)


def _is_missing(topic: TopicInfo | KafkaFailure) -> bool:
    return isinstance(topic, KafkaFailure) and topic.fault is KafkaFault.UNKNOWN_TOPIC


def _copies(original: TopicInfo, copy: TopicInfo) -> list[Copied]:
    return [
        Copied(TopicPartition(original.name, number), original.topic_id, copy.name, copy.topic_id)
        for number in range(min(original.partitions, copy.partitions))
    ]


def _refusal(to: str, owner: str | None, copy: TopicInfo, compacted: bool | str | None) -> str | None:
    if owner is not None:
        return (
            f"connector {owner} copies it to {to} and writes its runs itself. Leave the topic out with topics.exclude, "
            f"or hand its copies back (mirror-bridge hand-back {owner})"
        )
    if copy.log_append_time:
        return f"{to} overwrites timestamps (message.timestamp.type=LogAppendTime): no copy can be told from another"
    if isinstance(compacted, str):
        return f"whether {to} is compacted can't be verified: {compacted}"
    if compacted:
        return (
            f"{to} is compacted: of records that the mirror copies twice the cleaner may take the first copy, and what "
            "is read twice then has no bound"
        )
    return None


def _others(copies: Sequence[Copied], runs: Mapping[CopyId, PartitionRuns]) -> str | None:
    """Refuses runs that a connector of ours has left without handing back."""
    for each in copies:
        last = runs[each.id].last if each.id in runs else None
        if last is not None and not last.handed_back:
            return (
                f"there are runs of partition {each.source.partition} that no connector has claimed or handed back: "
                "start the connector that has copied it, then hand it back (mirror-bridge hand-back)"
            )
    return None


async def _compacted(target: KafkaCluster, topics: Sequence[str]) -> dict[str, bool | str]:
    """Whether each topic is compacted, or why that is not known."""
    answers: dict[str, bool | str] = {}
    for topic, configs in (await target.topic_admin.configs(topics)).items() if topics else ():
        if isinstance(configs, KafkaFailure):
            answers[topic] = str(configs)
        else:
            answers[topic] = _COMPACT in (configs["cleanup.policy"].value or "")
    return answers

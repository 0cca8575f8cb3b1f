"""Finds the partitions that groups have yet to begin: they read them from the log's start, whatever their other offsets
are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter

from bridge.model.values import TopicPartition
from bridge.translation.plan import NotBegun
from connectors.group_translation.translating.pair_memory import Lacked
from connectors.group_translation.translating.pair_state import BothSides, PairState
from connectors.group_translation.translating.partition_pairs import GroupOffsets, PartitionPair


def yet_to_begin(committed: GroupOffsets, states: Mapping[PartitionPair, PairState]) -> list[PartitionPair]:
    """Returns the partitions that some group has yet to begin: it has committed in others of their topics."""
    pairs: dict[str, list[PartitionPair]] = {}
    for (source, target), state in states.items():
        if source.topic not in pairs and isinstance(state, BothSides):
            pairs[source.topic] = [
                (TopicPartition(source.topic, number), TopicPartition(target.topic, number))
                for number in range(state.partitions)
            ]
    begun: Counter[PartitionPair] = Counter()
    readers: Counter[str] = Counter()
    for offsets in committed.values():
        topics = {source.topic for source, _ in offsets}
        if topics <= pairs.keys() and sum(len(pairs[topic]) for topic in topics) == len(offsets):
            continue  # it has begun all, as nearly every group has
        begun.update(offsets.keys())
        readers.update(topics)
    return [pair for topic, count in readers.items() for pair in pairs.get(topic, ()) if begun[pair] < count]


def not_begun_of(
    committed: GroupOffsets, lacked_of: Mapping[PartitionPair, Lacked]
) -> dict[str, tuple[NotBegun, ...]]:
    """Returns the partitions that each group has yet to begin."""
    by_topic: dict[str, list[tuple[PartitionPair, NotBegun]]] = {}
    for pair, lacked in sorted(lacked_of.items(), key=itemgetter(0)):
        each = NotBegun(*pair[0], lacked.records, lacked.target_start)
        by_topic.setdefault(pair[0].topic, []).append((pair, each))
    if not by_topic:
        return {}
    return {
        group: tuple(
            each
            for topic in sorted({source.topic for source, _ in offsets} & by_topic.keys())
            for pair, each in by_topic[topic]
            if pair not in offsets
        )
        for group, offsets in committed.items()
    }

"""OffsetForLeaderEpoch, encoding only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.wire import Call, Reader, Writer
from bridge.model.values import TopicPartition


class EpochEnd(NamedTuple):
    """The greatest epoch of the log that is not above the one asked for, and where it ends; -1 for none."""

    error: int
    epoch: int
    end_offset: int


def epoch_ends(epochs: Mapping[TopicPartition, int]) -> Call:
    """OffsetForLeaderEpoch v3, which 2.3 to 4.x brokers speak."""
    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), epoch in epochs.items():
        topics.setdefault(topic, []).append((partition, epoch))

    def write(writer: Writer, _version: int) -> None:
        writer.int32(-1)
        writer.array(len(topics))
        for topic, partitions in topics.items():
            writer.string(topic)
            writer.array(len(partitions))
            for partition, epoch in partitions:
                writer.int32(partition)
                writer.int32(-1)
                writer.int32(epoch)

    return Call(ApiKeys.OFFSET_FOR_LEADER_EPOCH, versions=range(3, 4), flexible_from=4, write=write)


def read_epoch_ends(response: Reader) -> dict[TopicPartition, EpochEnd]:
    response.skip(4)
    ends = {}
    for _ in response.array():
        topic = response.string()
        for _ in response.array():
            error, partition = response.int16(), response.int32()
            ends[TopicPartition(topic, partition)] = EpochEnd(error, response.int32(), response.int64())
    return ends

"""Requests about topics, encoding only: Metadata, ListOffsets, Fetch.

OffsetForLeaderEpoch, encoding only.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bridge.kafka.protocol.wire import ApiKeys, BytesLike, Call, Reader, Writer
from bridge.model.values import TopicPartition

LATEST, EARLIEST = -1, -2
NO_OPERATIONS = -(1 << 31)
"""What a broker sends where it does not say which operations are allowed."""
_DIVERGING_EPOCH = 0
"""Number of the tagged field of a fetched partition."""
_EPOCH_END = struct.Struct(">iq")


class PartitionMetadata(NamedTuple):
    error: int
    leader: int
    leader_epoch: int


class TopicMetadata(NamedTuple):
    """`operations`: the bits of those that are allowed (AclOperation), where they were asked for."""

    error: int
    topic_id: str
    partitions: Mapping[int, PartitionMetadata]
    operations: int = NO_OPERATIONS


def metadata(topics: Sequence[str] | None, *, operations: bool = False) -> Call:
    """Metadata v9 to v12: topic ids from v10 on ("" before), leaders with their epochs; with `operations` also what is
    allowed on each topic. Creates no topic. None asks for all topics."""

    def write(writer: Writer, version: int) -> None:
        writer.array(None if topics is None else len(topics))
        for topic in topics or ():
            if version >= 10:
                writer.uuid("00000000-0000-0000-0000-000000000000")
            writer.string(topic)
            writer.tags()
        writer.int8(0)
        if version <= 10:
            writer.int8(0)
        writer.int8(operations)
        writer.tags()

    return Call(ApiKeys.METADATA, versions=range(9, 13), flexible_from=9, write=write)


def read_cluster_id(response: Reader) -> str:
    """The cluster's id that Metadata names."""
    response.skip(4)
    for _ in response.array():  # brokers
        response.skip(4)
        response.string()
        response.skip(4)
        response.string()
        response.tags()
    return response.string()


def read_controller(response: Reader) -> int:
    """The node that Metadata names as the controller (under KRaft any node that passes requests on), -1 for none."""
    read_cluster_id(response)
    return response.int32()


def read_metadata(response: Reader, version: int) -> dict[str, TopicMetadata]:
    read_controller(response)
    topics: dict[str, TopicMetadata] = {}
    for _ in response.array():
        error, name = response.int16(), response.string()
        topic_id = response.uuid() if version >= 10 else ""
        response.skip(1)
        partitions = {}
        for _ in response.array():
            partition_error, index = response.int16(), response.int32()
            partitions[index] = PartitionMetadata(partition_error, response.int32(), response.int32())
            for _ in range(3):
                response.skip(4 * len(response.array()))
            response.tags()
        topics[name] = TopicMetadata(error, topic_id, partitions, response.int32())
        response.tags()
    return topics


class ListedOffset(NamedTuple):
    error: int
    offset: int
    leader_epoch: int


def list_offsets(timestamps: Mapping[TopicPartition, int], *, committed_only: bool) -> Call:
    """ListOffsets v4 to v5: the offset of a timestamp (or LATEST, EARLIEST), one for each partition."""
    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), timestamp in timestamps.items():
        topics.setdefault(topic, []).append((partition, timestamp))

    def write(writer: Writer, _version: int) -> None:
        writer.int32(-1)
        writer.int8(1 if committed_only else 0)
        writer.array(len(topics))
        for topic, partitions in topics.items():
            writer.string(topic)
            writer.array(len(partitions))
            for partition, timestamp in partitions:
                writer.int32(partition)
                writer.int32(-1)
                writer.int64(timestamp)

    return Call(ApiKeys.LIST_OFFSETS, versions=range(4, 6), flexible_from=6, write=write)


def read_listed_offsets(response: Reader) -> dict[TopicPartition, ListedOffset]:
    response.skip(4)
    listed = {}
    for _ in response.array():
        topic = response.string()
        for _ in response.array():
            partition, error = response.int32(), response.int16()
            response.skip(8)
            listed[TopicPartition(topic, partition)] = ListedOffset(error, response.int64(), response.int32())
    return listed


class FetchPartition(NamedTuple):
    """Where to fetch a partition from. `topic_id` is used from Fetch v13 on: a topic that was deleted and made again
    under the same name then answers UNKNOWN_TOPIC_ID instead of other records. `last_epoch`: leader epoch of the last
    batch before `offset`, -1 for unknown; from v12 on a log that diverged is noticed (`diverged`)."""

    topic_id: str
    offset: int
    max_bytes: int
    last_epoch: int = -1


class PartitionData(NamedTuple):
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: Sequence[tuple[int, int]]
    """(producer id, first offset) of aborted transactions in what was fetched; read committed only."""
    records: BytesLike
    diverged: tuple[int, int] | None = None
    """Epoch and end offset up to which the log agrees with what was fetched before; None while it does."""
    preferred: int = -1
    """The replica that the leader names for our rack, with no records then; -1 for none."""


class FetchParams(NamedTuple):
    """The fields of a fetch beside its partitions; by default it has no session. Sizes in bytes.

    `session`, `epoch`: of an incremental session (KIP-227); (0, -1) is none, (0, 0) asks for a new one. `forgotten`:
    topic id and partition of what leaves the session. `rack`: ours, "" for none, so that no leader names a replica.
    """

    max_wait_ms: int = 0
    max_bytes: int = 64 * 1024 * 1024
    session: int = 0
    epoch: int = -1
    forgotten: Sequence[tuple[str, TopicPartition]] = ()
    rack: str = ""


_NO_SESSION = FetchParams()


def fetch(
    parts: Mapping[TopicPartition, FetchPartition],
    *,
    committed_only: bool,
    by_id: bool | None = None,
    params: FetchParams = _NO_SESSION,
) -> Call:
    """Fetch v11 to v13; v11 only unless every topic's id is known. `by_id` says so in a session, where `parts` are only
    those that have changed."""
    topics: dict[str, list[tuple[int, FetchPartition]]] = {}
    for (topic, partition), part in parts.items():
        topics.setdefault(topic, []).append((partition, part))
    forgotten: dict[tuple[str, str], list[int]] = {}
    for topic_id, (topic, partition) in params.forgotten:
        forgotten.setdefault((topic_id, topic), []).append(partition)
    if by_id is None:
        by_id = all(part.topic_id for part in parts.values())

    def topic_key(writer: Writer, version: int, topic_id: str, topic: str) -> None:
        if version >= 13:
            writer.uuid(topic_id)
        else:
            writer.string(topic)

    def write(writer: Writer, version: int) -> None:
        writer.int32(-1)
        writer.int32(params.max_wait_ms)
        writer.int32(1)
        writer.int32(params.max_bytes)
        writer.int8(1 if committed_only else 0)
        writer.int32(params.session)
        writer.int32(params.epoch)
        writer.array(len(topics))
        for topic, partitions in topics.items():
            topic_key(writer, version, partitions[0][1].topic_id, topic)
            writer.array(len(partitions))
            for partition, part in partitions:
                writer.int32(partition)
                writer.int32(-1)
                writer.int64(part.offset)
                if version >= 12:
                    writer.int32(part.last_epoch)
                writer.int64(-1)
                writer.int32(part.max_bytes)
                writer.tags()
            writer.tags()
        writer.array(len(forgotten))
        for (topic_id, topic), numbers in forgotten.items():
            topic_key(writer, version, topic_id, topic)
            writer.array(len(numbers))
            for number in numbers:
                writer.int32(number)
            writer.tags()
        writer.string(params.rack)
        writer.tags()

    return Call(
        ApiKeys.FETCH, versions=range(11, 14) if by_id else range(11, 12), flexible_from=12, write=write
    )


class FetchResponse(NamedTuple):
    """A response to Fetch. `error` and `session` are those of the whole response."""

    error: int
    session: int
    parts: dict[TopicPartition, PartitionData]


def read_fetch_response(response: Reader, version: int, names: Mapping[str, str]) -> FetchResponse:
    """Reads a response to Fetch. `names` maps topic ids to names, for v13."""
    response.skip(4)
    failed, session = response.int16(), response.int32()
    fetched = {}
    for _ in response.array():
        topic = names.get(response.uuid(), "") if version >= 13 else response.string()
        for _ in response.array():
            partition, error = response.int32(), response.int16()
            high, stable, start = response.int64(), response.int64(), response.int64()
            aborted = []
            for _ in response.array():
                aborted.append((response.int64(), response.int64()))
                response.tags()
            preferred = response.int32()
            records = response.buffer()
            tagged = response.tagged()
            end = tagged.get(_DIVERGING_EPOCH)
            diverged = None if end is None or len(end) < _EPOCH_END.size else _EPOCH_END.unpack_from(end)
            fetched[TopicPartition(topic, partition)] = PartitionData(
                error, high, stable, start, aborted, records, diverged, preferred
            )
        response.tags()
    return FetchResponse(failed, session, fetched)


def read_fetched(
    response: Reader, version: int, names: Mapping[str, str]
) -> dict[TopicPartition, PartitionData]:
    return read_fetch_response(response, version, names).parts


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

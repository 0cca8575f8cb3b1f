"""The requests of a round, encoding only: Metadata, ListOffsets, Fetch, groups and their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bridge.kafka.wire import Call, Reader, Writer
from bridge.translation.model import Committed, GroupListing, GroupState, TopicPartition

LATEST, EARLIEST = -1, -2


class PartitionMeta(NamedTuple):
    error: int
    leader: int
    leader_epoch: int


class TopicMeta(NamedTuple):
    error: int
    topic_id: str
    partitions: Mapping[int, PartitionMeta]


def metadata(topics: Sequence[str]) -> Call:
    """Metadata v9 to v12: topic ids from v10 on ("" before), leaders with their epochs. Creates no topic."""

    def write(writer: Writer, version: int) -> None:
        writer.array(len(topics))
        for topic in topics:
            if version >= 10:
                writer.uuid("00000000-0000-0000-0000-000000000000")
            writer.string(topic)
            writer.tags()
        writer.int8(0)
        if version <= 10:
            writer.int8(0)
        writer.int8(0)
        writer.tags()

    return Call(3, range(9, 13), 9, write)


def read_metadata(answer: Reader, version: int) -> dict[str, TopicMeta]:
    answer.skip(4)
    for _ in answer.array():  # brokers
        answer.skip(4)
        answer.string()
        answer.skip(4)
        answer.string()
        answer.tags()
    answer.string()
    answer.skip(4)
    topics: dict[str, TopicMeta] = {}
    for _ in answer.array():
        error, name = answer.int16(), answer.string()
        topic_id = answer.uuid() if version >= 10 else ""
        answer.skip(1)
        partitions = {}
        for _ in answer.array():
            partition_error, index = answer.int16(), answer.int32()
            partitions[index] = PartitionMeta(partition_error, answer.int32(), answer.int32())
            for _ in range(3):
                answer.skip(4 * len(answer.array()))
            answer.tags()
        answer.skip(4)
        answer.tags()
        topics[name] = TopicMeta(error, topic_id, partitions)
    return topics


class ListedOffset(NamedTuple):
    error: int
    offset: int
    leader_epoch: int


def list_offsets(wanted: Mapping[TopicPartition, int], *, committed_only: bool) -> Call:
    """ListOffsets v4 to v5: the offset of a timestamp (or LATEST, EARLIEST), one for each partition."""
    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), timestamp in wanted.items():
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

    return Call(2, range(4, 6), 6, write)


def read_listed_offsets(answer: Reader) -> dict[TopicPartition, ListedOffset]:
    answer.skip(4)
    listed = {}
    for _ in answer.array():
        topic = answer.string()
        for _ in answer.array():
            partition, error = answer.int32(), answer.int16()
            answer.skip(8)
            listed[TopicPartition(topic, partition)] = ListedOffset(error, answer.int64(), answer.int32())
    return listed


class FetchPart(NamedTuple):
    """Where to fetch a partition from. `topic_id` is used from Fetch v13 on: a topic that was deleted and made again
    under the same name then answers UNKNOWN_TOPIC_ID instead of other records."""

    topic_id: str
    offset: int
    max_bytes: int


class Fetched(NamedTuple):
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: Sequence[tuple[int, int]]
    """(producer id, first offset) of aborted transactions in what was fetched; read committed only."""
    records: bytes


def fetch(parts: Mapping[TopicPartition, FetchPart], *, committed_only: bool) -> Call:
    """Fetch v11 or v13, without a session: what is there now, without waiting."""
    topics: dict[str, list[tuple[int, FetchPart]]] = {}
    for (topic, partition), part in parts.items():
        topics.setdefault(topic, []).append((partition, part))
    by_id = all(part.topic_id for part in parts.values())

    def write(writer: Writer, version: int) -> None:
        writer.int32(-1)
        writer.int32(0)
        writer.int32(1)
        writer.int32(64 * 1024 * 1024)
        writer.int8(1 if committed_only else 0)
        writer.int32(0)
        writer.int32(-1)
        writer.array(len(topics))
        for topic, partitions in topics.items():
            if version >= 13:
                writer.uuid(partitions[0][1].topic_id)
            else:
                writer.string(topic)
            writer.array(len(partitions))
            for partition, part in partitions:
                writer.int32(partition)
                writer.int32(-1)
                writer.int64(part.offset)
                if version >= 12:
                    writer.int32(-1)
                writer.int64(-1)
                writer.int32(part.max_bytes)
                writer.tags()
            writer.tags()
        writer.array(0)
        writer.string("")
        writer.tags()

    return Call(1, range(11, 14) if by_id else range(11, 12), 12, write)


def read_fetched(answer: Reader, version: int, names: Mapping[str, str]) -> dict[TopicPartition, Fetched]:
    """`names` maps topic ids to names, for v13."""
    answer.skip(4 + 2 + 4)
    fetched = {}
    for _ in answer.array():
        topic = names.get(answer.uuid(), "") if version >= 13 else answer.string()
        for _ in answer.array():
            partition, error = answer.int32(), answer.int16()
            high, stable, start = answer.int64(), answer.int64(), answer.int64()
            aborted = []
            for _ in answer.array():
                aborted.append((answer.int64(), answer.int64()))
                answer.tags()
            answer.skip(4)
            fetched[TopicPartition(topic, partition)] = Fetched(
                error, high, stable, start, aborted, answer.blob()
            )
            answer.tags()
        answer.tags()
    return fetched


def list_groups() -> Call:
    """ListGroups v4 to v5: the groups that one broker keeps, with state (v4) and type (v5, KIP-848)."""

    def write(writer: Writer, version: int) -> None:
        writer.array(0)
        if version >= 5:
            writer.array(0)
        writer.tags()

    return Call(16, range(4, 6), 3, write)


def read_groups(answer: Reader, version: int) -> tuple[int, list[GroupListing]]:
    """The error code, and the groups; before v5 all are of type `classic`."""
    answer.skip(4)
    error = answer.int16()
    listed = []
    for _ in answer.array():
        group, protocol_type, state = answer.string(), answer.string(), answer.string()
        kind = answer.string() if version >= 5 else "classic"
        answer.tags()
        listed.append(GroupListing(group, group_state(state), kind.lower(), protocol_type))
    return error, listed


def group_state(name: str) -> GroupState:
    """`PreparingRebalance` as on the wire, to PREPARING_REBALANCE; UNKNOWN for a state of the future."""
    upper = "".join(f"_{char}" if char.isupper() and at else char for at, char in enumerate(name)).upper()
    return GroupState(upper) if upper in GroupState.__members__ else GroupState.UNKNOWN


def find_coordinators(groups: Sequence[str]) -> Call:
    """FindCoordinator v4: the brokers that keep these groups, many in one request (KIP-699)."""

    def write(writer: Writer, _version: int) -> None:
        writer.int8(0)
        writer.array(len(groups))
        for group in groups:
            writer.string(group)
        writer.tags()

    return Call(10, range(4, 5), 3, write)


def read_coordinators(answer: Reader) -> dict[str, tuple[int, int]]:
    """Group → (error, node)."""
    answer.skip(4)
    found = {}
    for _ in answer.array():
        group, node = answer.string(), answer.int32()
        answer.string()
        answer.skip(4)
        found[group] = (answer.int16(), node)
        answer.string()
        answer.tags()
    return found


def fetch_offsets(groups: Sequence[str]) -> Call:
    """OffsetFetch v8: every committed offset of many groups in one request (KIP-709)."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(groups))
        for group in groups:
            writer.string(group)
            writer.array(None)
            writer.tags()
        writer.int8(0)
        writer.tags()

    return Call(9, range(8, 9), 6, write)


def read_fetched_offsets(answer: Reader) -> dict[str, tuple[int, dict[TopicPartition, Committed]]]:
    """Group → (error, offsets). Partitions with an error of their own, or without an offset (-1), are left out."""
    answer.skip(4)
    found = {}
    for _ in answer.array():
        group = answer.string()
        offsets = {}
        for _ in answer.array():
            topic = answer.string()
            for _ in answer.array():
                partition, offset, epoch = answer.int32(), answer.int64(), answer.int32()
                text, error = answer.string(), answer.int16()
                answer.tags()
                if error == 0 and offset >= 0:
                    offsets[TopicPartition(topic, partition)] = Committed(offset, text, epoch)
            answer.tags()
        found[group] = (answer.int16(), offsets)
        answer.tags()
    return found


def commit_offsets(group: str, offsets: Mapping[TopicPartition, Committed]) -> Call:
    """OffsetCommit v6 to v7 as an admin: no generation, no member; the broker refuses it for a group with members."""
    topics: dict[str, list[tuple[int, Committed]]] = {}
    for (topic, partition), committed in offsets.items():
        topics.setdefault(topic, []).append((partition, committed))

    def write(writer: Writer, version: int) -> None:
        writer.string(group)
        writer.int32(-1)
        writer.string("")
        if version >= 7:
            writer.string(None)
        writer.array(len(topics))
        for topic, partitions in topics.items():
            writer.string(topic)
            writer.array(len(partitions))
            for partition, committed in partitions:
                writer.int32(partition)
                writer.int64(committed.offset)
                writer.int32(committed.leader_epoch)
                writer.string(committed.metadata)

    return Call(8, range(6, 8), 8, write)


def read_committed_offsets(answer: Reader) -> dict[TopicPartition, int]:
    """The error code of each partition."""
    answer.skip(4)
    codes = {}
    for _ in answer.array():
        topic = answer.string()
        for _ in answer.array():
            partition = TopicPartition(topic, answer.int32())
            codes[partition] = answer.int16()
    return codes

"""Encodes and decodes the records of MirrorMaker's internal topics, to the byte (Kafka 4.3.1).

    record       key                                        value
    OffsetSync   topic STRING, partition INT32              upstreamOffset INT64, offset INT64
    Checkpoint   group STRING, topic STRING, partition      version INT16 = 0, upstreamOffset INT64, offset INT64,
                 INT32                                      metadata STRING
    Heartbeat    source STRING, target STRING               version INT16 = 0, timestamp INT64 (ms)

As stock does, a reader passes over what stands after the last field and takes any version for 0. `decode` takes any
number, for `str()` of a record is what stock's formatters print; `checked` is for whoever acts on it.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple, TypeVar

from bridge.model.state_records.fields import (
    LAST_OFFSET,
    read_numbers,
    read_string,
    write_numbers,
    write_string,
)
from bridge.model.state_records.fields import SchemaError as SchemaError
from bridge.model.values import TopicPartition

VERSION = 0

_INT32 = Struct(">i")
_SYNC_VALUE = Struct(">qq")
_CHECKPOINT_VALUE = Struct(">hqq")
_HEARTBEAT_VALUE = Struct(">hq")
_KEYS_KEPT = 8192


class OffsetSync(NamedTuple):
    """The record at `upstream_offset` of a source partition was written to `downstream_offset` of its remote one."""

    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        topic, partition = self.topic_partition
        return write_string(topic, "topic") + write_numbers(_INT32, "partition", partition)

    def value(self) -> bytes:
        offsets = self.upstream_offset, self.downstream_offset
        return write_numbers(_SYNC_VALUE, "upstreamOffset and offset", *offsets)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Raises SchemaError."""
        upstream, downstream = read_numbers(_SYNC_VALUE, value, 0, "upstreamOffset and offset of the value")
        return cls(_topic_partition(key), upstream, downstream)

    @classmethod
    def checked(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Raises SchemaError; also for numbers that no log has."""
        # A topic may have millions of them: what is right is found out first, in as few calls as can be.
        if value is not None and len(value) >= _SYNC_VALUE.size:
            upstream, downstream = _SYNC_VALUE.unpack_from(value)
            if 0 <= upstream <= LAST_OFFSET and 0 <= downstream <= LAST_OFFSET:
                # A NamedTuple's own constructor takes twice as long.
                return tuple.__new__(cls, (_partition_of_log(key), upstream, downstream))
        return _in_range(cls.decode(key, value))

    def __str__(self) -> str:
        topic, partition = self.topic_partition
        return (
            f"OffsetSync{{topicPartition={topic}-{partition}, upstreamOffset={self.upstream_offset}, "
            f"downstreamOffset={self.downstream_offset}}}"
        )


class SyncColumns(NamedTuple):
    """Offset syncs in the order of their topic, each field by itself."""

    topic_partitions: list[TopicPartition]
    upstream: array[int]
    downstream: array[int]

    @classmethod
    def from_syncs(cls, syncs: Iterable[OffsetSync]) -> SyncColumns:
        columns = cls([], array("q"), array("q"))
        for topic_partition, upstream, downstream in syncs:
            columns.topic_partitions.append(topic_partition)
            columns.upstream.append(upstream)
            columns.downstream.append(downstream)
        return columns

    @classmethod
    def decode(cls, records: Sequence[tuple[bytes | None, bytes | None]]) -> SyncColumns | None:
        """Decodes keys and values together, in half of the time that `OffsetSync.checked` takes for each. None where
        one of them is not what a source connector writes: `OffsetSync.checked` says why."""
        try:
            topic_partitions = [_partition_of_log(key) for key, _ in records]
        except SchemaError:
            return None
        values = [value for _, value in records if value is not None and len(value) == _SYNC_VALUE.size]
        offsets = array("q", b"".join(values))
        if sys.byteorder == "little":
            offsets.byteswap()
        if len(values) < len(records) or min(offsets, default=0) < 0 or max(offsets, default=0) > LAST_OFFSET:
            return None
        return cls(topic_partitions, offsets[::2], offsets[1::2])


class Checkpoint(NamedTuple):
    """A group that had read up to `upstream_offset` resumes on the target at `downstream_offset`. `topic_partition` is
    the remote one."""

    group: str
    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str

    def key(self) -> bytes:
        topic, partition = self.topic_partition
        return (
            write_string(self.group, "group")
            + write_string(topic, "topic")
            + write_numbers(_INT32, "partition", partition)
        )

    def value(self) -> bytes:
        offsets = self.upstream_offset, self.downstream_offset
        numbers = write_numbers(_CHECKPOINT_VALUE, "upstreamOffset and offset", VERSION, *offsets)
        return numbers + write_string(self.metadata, "metadata")

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Raises SchemaError."""
        _, upstream, downstream = read_numbers(
            _CHECKPOINT_VALUE, value, 0, "version, upstreamOffset and offset of the value"
        )
        metadata, _ = read_string(value, _CHECKPOINT_VALUE.size, "metadata of the value")
        return cls(*cls.decode_key(key), upstream, downstream, metadata)

    @staticmethod
    def decode_key(key: bytes | None) -> tuple[str, TopicPartition]:
        """Returns the group and the remote partition. Raises SchemaError."""
        group, position = read_string(key, 0, "group of the key")
        topic, position = read_string(key, position, "topic of the key")
        (partition,) = read_numbers(_INT32, key, position, "partition of the key")
        return group, TopicPartition(topic, partition)

    @classmethod
    def checked(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Raises SchemaError; also for numbers that no log has."""
        return _in_range(cls.decode(key, value))

    def __str__(self) -> str:
        topic, partition = self.topic_partition
        return (
            f"Checkpoint{{consumerGroupId={self.group}, topicPartition={topic}-{partition}, "
            f"upstreamOffset={self.upstream_offset}, downstreamOffset={self.downstream_offset}, "
            f"metadata={self.metadata}}}"
        )


class Heartbeat(NamedTuple):
    """The flow from `source_alias` to `target_alias` was alive at `timestamp` (ms)."""

    source_alias: str
    target_alias: str
    timestamp: int

    def key(self) -> bytes:
        return write_string(self.source_alias, "sourceClusterAlias") + write_string(
            self.target_alias, "targetClusterAlias"
        )

    def value(self) -> bytes:
        return write_numbers(_HEARTBEAT_VALUE, "timestamp", VERSION, self.timestamp)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """Raises SchemaError."""
        _, timestamp = read_numbers(_HEARTBEAT_VALUE, value, 0, "version and timestamp of the value")
        source, position = read_string(key, 0, "sourceClusterAlias of the key")
        target, _ = read_string(key, position, "targetClusterAlias of the key")
        return cls(source, target, timestamp)

    def __str__(self) -> str:
        return (
            f"Heartbeat{{sourceClusterAlias={self.source_alias}, targetClusterAlias={self.target_alias}, "
            f"timestamp={self.timestamp}}}"
        )


Positioned = TypeVar("Positioned", OffsetSync, Checkpoint)


def _in_range(record: Positioned) -> Positioned:
    topic, partition = record.topic_partition
    if not topic:
        raise SchemaError("topic of the key is empty")
    for what, number in (
        ("partition of the key", partition),
        ("upstreamOffset of the value", record.upstream_offset),
        ("offset of the value", record.downstream_offset),
    ):
        if number < 0:
            raise SchemaError(f"{what} is {number}, and can't be below 0")
        if number > LAST_OFFSET:
            raise SchemaError(f"{what} is {number}, and no log has that offset")
    return record


@lru_cache(_KEYS_KEPT)
def _partition_of_log(key: bytes | None) -> TopicPartition:
    """Decodes a key that names a partition; cached as _topic_partition is. Raises SchemaError."""
    return _in_range(OffsetSync(_topic_partition(key), 0, 0)).topic_partition


@lru_cache(_KEYS_KEPT)
def _topic_partition(key: bytes | None) -> TopicPartition:
    """Decodes a key. Cached: a topic of a million offset syncs has a thousand keys, and the syncs then share one object
    for each."""
    topic, position = read_string(key, 0, "topic of the key")
    (partition,) = read_numbers(_INT32, key, position, "partition of the key")
    return TopicPartition(topic, partition)

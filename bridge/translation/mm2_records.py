"""The records of MirrorMaker's internal topics, to the byte (Kafka 4.3.1).

    record       key                                        value
    OffsetSync   topic STRING, partition INT32              upstreamOffset INT64, offset INT64
    Checkpoint   group STRING, topic STRING, partition      version INT16 = 0, upstreamOffset INT64, offset INT64,
                 INT32                                      metadata STRING
    Heartbeat    source STRING, target STRING               version INT16 = 0, timestamp INT64 (ms)

Big-endian; a STRING is its length in bytes as INT16 and UTF-8. As stock does, a reader passes over what stands after
the last field and takes any version for 0; UTF-8 that is none becomes U+FFFD, to the same number of them as in Java.
`str()` of a record is what stock's formatters print.
"""

from __future__ import annotations

import re
from functools import lru_cache
from struct import Struct, error
from typing import NamedTuple

from bridge.translation.model import TopicPartition

VERSION = 0

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_SYNC_VALUE = Struct(">qq")
_CHECKPOINT_VALUE = Struct(">hqq")
_HEARTBEAT_VALUE = Struct(">hq")
_LONGEST = 2**15 - 1
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""An encoded surrogate: Java puts one U+FFFD for it, Python one for each byte."""
_KEYS_KEPT = 8192


class SchemaError(ValueError):
    """A record that can't be read, or a value that has no place in one; the text names the field."""


class OffsetSync(NamedTuple):
    """The record at `upstream_offset` of a source partition was written to `downstream_offset` of its remote one."""

    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        topic, partition = self.topic_partition
        return _string(topic, "topic") + _numbers(_INT32, "partition", partition)

    def value(self) -> bytes:
        offsets = self.upstream_offset, self.downstream_offset
        return _numbers(_SYNC_VALUE, "upstreamOffset and offset", *offsets)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Raises SchemaError."""
        upstream, downstream = _read(_SYNC_VALUE, value, 0, "upstreamOffset and offset of the value")
        return cls(_topic_partition(key), upstream, downstream)

    def __str__(self) -> str:
        topic, partition = self.topic_partition
        return (
            f"OffsetSync{{topicPartition={topic}-{partition}, upstreamOffset={self.upstream_offset}, "
            f"downstreamOffset={self.downstream_offset}}}"
        )


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
            _string(self.group, "group") + _string(topic, "topic") + _numbers(_INT32, "partition", partition)
        )

    def value(self) -> bytes:
        offsets = self.upstream_offset, self.downstream_offset
        numbers = _numbers(_CHECKPOINT_VALUE, "upstreamOffset and offset", VERSION, *offsets)
        return numbers + _string(self.metadata, "metadata")

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Raises SchemaError."""
        _, upstream, downstream = _read(
            _CHECKPOINT_VALUE, value, 0, "version, upstreamOffset and offset of the value"
        )
        metadata, _ = _read_string(value, _CHECKPOINT_VALUE.size, "metadata of the value")
        group, at = _read_string(key, 0, "group of the key")
        topic, at = _read_string(key, at, "topic of the key")
        (partition,) = _read(_INT32, key, at, "partition of the key")
        return cls(group, TopicPartition(topic, partition), upstream, downstream, metadata)

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
        return _string(self.source_alias, "sourceClusterAlias") + _string(
            self.target_alias, "targetClusterAlias"
        )

    def value(self) -> bytes:
        return _numbers(_HEARTBEAT_VALUE, "timestamp", VERSION, self.timestamp)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """Raises SchemaError."""
        _, timestamp = _read(_HEARTBEAT_VALUE, value, 0, "version and timestamp of the value")
        source, at = _read_string(key, 0, "sourceClusterAlias of the key")
        target, _ = _read_string(key, at, "targetClusterAlias of the key")
        return cls(source, target, timestamp)

    def __str__(self) -> str:
        return (
            f"Heartbeat{{sourceClusterAlias={self.source_alias}, targetClusterAlias={self.target_alias}, "
            f"timestamp={self.timestamp}}}"
        )


@lru_cache(_KEYS_KEPT)
def _topic_partition(key: bytes | None) -> TopicPartition:
    """Kept: a topic of a million offset syncs has a thousand keys, and the values then share one object for each."""
    topic, at = _read_string(key, 0, "topic of the key")
    (partition,) = _read(_INT32, key, at, "partition of the key")
    return TopicPartition(topic, partition)


def _read(layout: Struct, buffer: bytes | None, at: int, what: str) -> tuple[int, ...]:
    if buffer is None:
        raise SchemaError(f"no {what}: it is null")
    try:
        return layout.unpack_from(buffer, at)
    except error:
        left = max(0, len(buffer) - at)
        raise SchemaError(f"no {what}: {layout.size} bytes needed, {left} there") from None


def _read_string(buffer: bytes | None, at: int, what: str) -> tuple[str, int]:
    """The text, and where the next field begins."""
    (length,) = _read(_INT16, buffer, at, what)
    assert buffer is not None
    if length < 0:
        raise SchemaError(f"no {what}: its length is {length}")
    begin, end = at + _INT16.size, at + _INT16.size + length
    if end > len(buffer):
        raise SchemaError(f"no {what}: {length} bytes needed, {len(buffer) - begin} there")
    return _text(buffer[begin:end]), end


def _text(encoded: bytes) -> str:
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", encoded).decode("utf-8", "replace")


def _numbers(layout: Struct, what: str, *numbers: int) -> bytes:
    try:
        return layout.pack(*numbers)
    except error as problem:
        raise SchemaError(f"{what}: {', '.join(map(str, numbers))} can't be written: {problem}") from None


def _string(text: str, what: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError as problem:
        raise SchemaError(f"{what} {text!r} can't be written as UTF-8: {problem.reason}") from None
    if len(encoded) > _LONGEST:
        raise SchemaError(f"{what} has {len(encoded)} bytes; a STRING has {_LONGEST} at most")
    return _INT16.pack(len(encoded)) + encoded

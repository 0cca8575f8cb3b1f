"""Defines offset runs and their bytes (docs/offset-runs.md): a run maps a range of source offsets to the target.

    key      version INT16 = 1, topic STRING, partition INT32, targetTopic STRING, upstreamStart INT64
             version INT16 = 0, topic STRING, partition INT32, upstreamStart INT64 (read, and written no more)
    value    version INT16 = 0, coveredFrom INT64, downstreamStart INT64, upstreamCount INT64, skipped INT64,
             extra INT64, position INT64, leaderEpoch INT32, lastTimestamp INT64 (ms),
             size INT64 (bytes), sourceTopicId STRING, targetTopic STRING, targetTopicId STRING,
             flags INT8 (1: handed back, 2: copied again, 4: transformed, 8: found; left out where it is 0 and nothing
             follows),
             holes BYTES (left out where there is no list and nothing follows; see holes),
             times BYTES (of the commit that wrote it; left out where there are none and nothing follows; see
             commit_times),
             recopyEnd INT64 (left out where it is 0)

Topic ids are the brokers' UUIDs as text, "" where brokers have none. A null value drops the run. A reader passes over
what stands after the last field; of a version that it does not know it reads nothing (docs/offset-runs.md).

A key of version 0 does not name the copy: two copies of one topic overwrote each other's runs.

Encodes how long the records of one commit took, which stands behind a run's value: how old they were when they were
fetched, and when they were about to be committed (docs/offset-runs.md).

    times    count, then of the ages and of the latencies: sum, least, greatest; unsigned base-128 varints, lowest bits
             first; ms

It says nothing of offsets: a reader that can't decode it goes without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from bridge.model.copying import Latencies
from bridge.model.state_records.fields import (
    LAST_OFFSET,
    SchemaError,
    read_bytes,
    read_numbers,
    read_string,
    write_bytes,
    write_numbers,
    write_string,
)
from bridge.model.values import CopyId, TopicPartition

VERSION = 0
"""Of values; the only one so far."""
KEY_VERSION = 1
_NAMELESS = 0
"""The version of keys that do not name the target topic."""

_VERSION = Struct(">h")
_PARTITION = Struct(">i")
_OFFSET = Struct(">q")
_PARTITION_AND_START = Struct(">iq")
_VALUE = Struct(">hqqqqqqiqq")
_HANDED_BACK, _AGAIN, _TRANSFORMED, _FOUND = 1, 2, 4, 8
"""Flags of the value."""
_KEPT = 1024
"""Names kept encoded: a slot writes those of its partitions ten times a second."""
_NUMBERS = 7
_MOST = 2**62
_LONGEST = 9 * _NUMBERS
"""Bytes: longer numbers are none that records can have, and take long to read."""


class RunKey(NamedTuple):
    """The key of a run's record. `target_topic` is "" in a key of version 0; the value then names it."""

    source: TopicPartition
    target_topic: str
    upstream_start: int

    def encode(self) -> bytes:
        if not self.target_topic:
            topic, partition = self.source
            numbers = write_numbers(
                _PARTITION_AND_START, "partition and upstreamStart", partition, self.upstream_start
            )
            return _VERSION.pack(_NAMELESS) + write_string(topic, "topic") + numbers
        return _copy(*self.source, self.target_topic) + write_numbers(
            _OFFSET, "upstreamStart", self.upstream_start
        )

    @classmethod
    def decode(cls, key: bytes | None) -> RunKey:
        """Raises SchemaError."""
        version = _version(key, "key", _NAMELESS, KEY_VERSION)
        topic, position = read_string(key, _VERSION.size, "topic of the key")
        if version == _NAMELESS:
            partition, start = read_numbers(
                _PARTITION_AND_START, key, position, "partition and upstreamStart of the key"
            )
            return cls(TopicPartition(topic, partition), "", start)
        (partition,) = read_numbers(_PARTITION, key, position, "partition of the key")
        target, position = read_string(key, position + _PARTITION.size, "targetTopic of the key")
        if not target:
            raise SchemaError("no targetTopic of the key: it is empty")
        (start,) = read_numbers(_OFFSET, key, position, "upstreamStart of the key")
        return cls(TopicPartition(topic, partition), target, start)


class OffsetRun(NamedTuple):
    """Source offsets [upstream_start, upstream_end) stand, in their order, at [downstream_start, downstream_end) of the
    target. The first and the last of either side belong together: they are a record and its copy.

    `skipped`: offsets in between that have no copy. `extra`: downstream offsets in between that are no copies, such as
    our own transaction markers. Without records (upstream_count 0) it is a bare position: where copying begins.
    """

    source: TopicPartition
    source_topic_id: str
    target_topic: str
    target_topic_id: str
    covered_from: int
    """Nothing in [covered_from, upstream_start) was copied; not above upstream_start."""
    upstream_start: int
    downstream_start: int
    upstream_count: int
    skipped: int
    extra: int
    leader_epoch: int
    """Of the source's last batch, -1 when not known."""
    position: int
    """Where copying goes on: nothing in [upstream_end, position) was copied."""
    last_timestamp: int
    """Of the last record, ms; -1 when there is none."""
    size: int = 0
    """Bytes of the batches that hold the copies."""
    handed_back: bool = False
    """Of the last run: copying was handed back to a stock mirror at `position`; what it has copied since is not
    known."""
    holes: bytes = b""
    """The list of skipped and extra offsets (see `holes`); b"" where there are none, or they are not known."""
    again: bool = False
    """An operator had copying begin again here: what the target holds below `downstream_start` is an older copy, which
    counts for no offset from `upstream_start` on."""
    transformed: bool = False
    """Its records went through transforms: the copies may differ from them."""
    found: bool = False
    """Another mirror has made the copies; they were found by their content (`mirror-bridge index`)."""
    recopy_end: int = 0
    """Of the last run: up to here it was copied before copying began again further back. What lies from `position` to
    here is not on the target, or counts no longer there. 0 once all of it is copied again."""

    @property
    def upstream_end(self) -> int:
        return self.upstream_start + self.upstream_count

    @property
    def downstream_end(self) -> int:
        return self.downstream_start + self.upstream_count - self.skipped + self.extra

    @property
    def copy(self) -> CopyId:
        return CopyId(self.source, self.target_topic)

    @property
    def copies(self) -> int:
        return self.upstream_count - self.skipped

    @property
    def incarnation(self) -> tuple[str, str, str]:
        """Which topics the offsets are of: runs of others say nothing about these."""
        return self.source_topic_id, self.target_topic, self.target_topic_id

    def key(self) -> bytes:
        return RunKey(self.source, self.target_topic, self.upstream_start).encode()

    def value(self, times: bytes = b"") -> bytes:
        """Encodes the record's value. `times`: of the commit that adds it; none where an older run is written again."""
        numbers = write_numbers(
            _VALUE,
            "coveredFrom, downstreamStart, upstreamCount, skipped, extra, position, leaderEpoch, lastTimestamp, size",
            VERSION,
            self.covered_from,
            self.downstream_start,
            self.upstream_count,
            self.skipped,
            self.extra,
            self.position,
            self.leader_epoch,
            self.last_timestamp,
            self.size,
        )
        flags = _HANDED_BACK * self.handed_back | _AGAIN * self.again
        flags |= _TRANSFORMED * self.transformed | _FOUND * self.found
        rest = bytes([flags]) if flags or self.holes or times or self.recopy_end else b""
        if self.holes or times or self.recopy_end:
            rest += write_bytes(self.holes, "holes")
        if times or self.recopy_end:
            rest += write_bytes(times, "times")
        if self.recopy_end:
            rest += write_numbers(_OFFSET, "recopyEnd", self.recopy_end)
        return numbers + _names(*self.incarnation) + rest

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> OffsetRun:
        """Raises SchemaError; also for numbers that no run can have, so that no answer rests on them."""
        source, named, upstream = RunKey.decode(key)
        _version(value, "value", VERSION)
        _, covered, downstream, count, skipped, extra, position, epoch, timestamp, size = read_numbers(
            _VALUE, value, 0, "offsets and counts of the value"
        )
        source_id, place = read_string(value, _VALUE.size, "sourceTopicId of the value")
        target, place = read_string(value, place, "targetTopic of the value")
        if named and named != target:
            raise SchemaError(f"targetTopic is {named} in the key and {target} in the value")
        target_id, place = read_string(value, place, "targetTopicId of the value")
        assert value is not None
        flags = value[place] if len(value) > place else 0
        holes, place = (
            read_bytes(value, place + 1, "holes of the value")
            if len(value) > place + 1
            else (b"", len(value))
        )
        run = cls(
            source,
            source_id,
            target,
            target_id,
            covered,
            upstream,
            downstream,
            count,
            skipped,
            extra,
            epoch,
            position,
            timestamp,
            size,
            bool(flags & _HANDED_BACK),
            holes,
            bool(flags & _AGAIN),
            bool(flags & _TRANSFORMED),
            bool(flags & _FOUND),
            _recopy_end(value, place),
        )
        if not run._sound():
            raise SchemaError(f"no run has these numbers: {run}")
        return run

    def _sound(self) -> bool:
        return (
            bool(self.source.topic and self.target_topic)
            and self.source.partition >= 0
            and 0 <= self.covered_from <= self.upstream_start
            and self.upstream_end <= self.position <= LAST_OFFSET
            and 0 <= self.downstream_start <= self.downstream_end <= LAST_OFFSET
            and min(self.skipped, self.extra, self.size, self.recopy_end) >= 0
            and self.recopy_end <= LAST_OFFSET
            and min(self.leader_epoch, self.last_timestamp) >= -1
            and (self.copies > 0 or self.upstream_count == self.skipped == self.extra == 0)
        )

    def __str__(self) -> str:
        topic, partition = self.source
        return (
            f"OffsetRun{{topicPartition={topic}-{partition}, sourceTopicId={self.source_topic_id}, "
            f"targetTopic={self.target_topic}, targetTopicId={self.target_topic_id}, "
            f"coveredFrom={self.covered_from}, upstreamStart={self.upstream_start}, "
            f"downstreamStart={self.downstream_start}, upstreamCount={self.upstream_count}, "
            f"skipped={self.skipped}, extra={self.extra}, leaderEpoch={self.leader_epoch}, "
            f"position={self.position}, lastTimestamp={self.last_timestamp}, size={self.size}, "
            f"handedBack={str(self.handed_back).lower()}, holes={self.holes.hex()}, again={str(self.again).lower()}, "
            f"transformed={str(self.transformed).lower()}, found={str(self.found).lower()}, "
            f"recopyEnd={self.recopy_end}}}"
        )


@dataclass(slots=True)  # not frozen: that doubles the cost of a batch
class Segment:
    """Records that one transaction has copied without a hole on either side: `count` records from `upstream_start` on
    stand from `downstream_start` on. Nothing in [covered_from, upstream_start) was copied. `leader_epoch` is the
    source's, `last_timestamp` that of the last record (ms), `size` the bytes of its batches."""

    covered_from: int
    upstream_start: int
    downstream_start: int
    count: int
    leader_epoch: int = -1
    last_timestamp: int = -1
    size: int = 0

    @property
    def upstream_end(self) -> int:
        return self.upstream_start + self.count

    @property
    def downstream_end(self) -> int:
        return self.downstream_start + self.count

    def joined(self, new: Segment) -> Segment:
        """Joins both; the new one goes on where this one ends, on both sides."""
        return Segment(
            self.covered_from,
            self.upstream_start,
            self.downstream_start,
            self.count + new.count,
            new.leader_epoch,
            new.last_timestamp,
            self.size + new.size,
        )


def decode_change(key: bytes | None, value: bytes | None) -> tuple[RunKey, OffsetRun | None]:
    """Decodes a record of the topic: a run, or None for one that was dropped. Raises SchemaError."""
    return RunKey.decode(key), None if value is None else OffsetRun.decode(key, value)


def runs_of(sources: Collection[TopicPartition]) -> Callable[[bytes | None], bool]:
    """Returns what tells whether a key may be that of a run of these partitions: one that nobody can decode may."""
    known = frozenset(sources)

    def may_be(key: bytes | None) -> bool:
        try:
            return RunKey.decode(key).source in known
        except SchemaError:
            return True

    return may_be


def commit_times(value: bytes | None) -> bytes:
    """Reads the times of a run's value that can be decoded; b"" where it has none, or they are cut short."""
    assert value is not None
    try:
        position = _VALUE.size
        for _ in range(3):
            _, position = read_bytes(value, position, "a name of the value")
        _, position = read_bytes(value, position + 1, "holes of the value")
        return read_bytes(value, position, "times of the value")[0]
    except SchemaError:
        return b""


def _recopy_end(value: bytes, at: int) -> int:
    """Reads what stands behind the times, which begin at `at`; 0 where they are cut short, or nothing stands there."""
    try:
        _, at = read_bytes(value, at, "times of the value")
        return read_numbers(_OFFSET, value, at, "recopyEnd of the value")[0]
    except SchemaError:
        return 0


@lru_cache(_KEPT)
def _copy(topic: str, partition: int, target_topic: str) -> bytes:
    """Encodes what all keys of one copy begin with."""
    number = write_numbers(_PARTITION, "partition", partition)
    names = write_string(topic, "topic"), write_string(target_topic, "targetTopic")
    return _VERSION.pack(KEY_VERSION) + names[0] + number + names[1]


@lru_cache(_KEPT)
def _names(source_topic_id: str, target_topic: str, target_topic_id: str) -> bytes:
    return (
        write_string(source_topic_id, "sourceTopicId")
        + write_string(target_topic, "targetTopic")
        + write_string(target_topic_id, "targetTopicId")
    )


def _version(buffer: bytes | None, what: str, *supported: int) -> int:
    (version,) = read_numbers(_VERSION, buffer, 0, f"version of the {what}")
    if version not in supported:
        raise SchemaError(
            f"version {version} of the {what} is not known; known: {', '.join(map(str, supported))}"
        )
    return version


def encode_times(age: Latencies, latency: Latencies) -> bytes:
    """Returns b"" where no record has a timestamp."""
    if not age.records:
        return b""
    encoded = bytearray()
    for number in (age.records, *age[1:4], *latency[1:4]):
        number = min(number, _MOST)
        while number > 0x7F:
            encoded.append(number & 0x7F | 0x80)
            number >>= 7
        encoded.append(number)
    return bytes(encoded)


def decode_times(times: bytes) -> tuple[Latencies, Latencies] | None:
    """Returns ages and latencies, of which the last one is not known and 0; None where there are none, or they are not
    what records can have."""
    if len(times) > _LONGEST:
        return None
    try:
        count, *rest = _numbers(times)
    except (SchemaError, ValueError):
        return None
    if len(rest) != _NUMBERS - 1 or not 0 < count <= _MOST:
        return None
    latencies = Latencies(count, *rest[:3]), Latencies(count, *rest[3:])
    return latencies if all(_sound(latency) for latency in latencies) else None


def _sound(latencies: Latencies) -> bool:
    least, most = latencies.records * latencies.least, latencies.records * latencies.greatest
    return latencies.least <= latencies.greatest <= _MOST and min(_MOST, least) <= latencies.total <= min(
        _MOST, most
    )


def _numbers(data: bytes) -> list[int]:
    numbers: list[int] = []
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
        else:
            shift += 7
    if shift:
        raise SchemaError("times that are cut short")
    return numbers

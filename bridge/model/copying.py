"""Defines what the source connector and its pipeline exchange: partitions to copy, progress, gaps, status.

Defines samples: what was copied of a partition in a stretch of time, and how long that took its records. Samples of
later stretches are joined, so that a reader who is slow loses nothing but the times in between.

Limits how large a batch of records may get when it is decompressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from bridge.model.java_values import integer
from bridge.model.partition_states import PartitionState, PartitionStates, PartitionStatus
from bridge.model.values import CopyId, Side, TopicPartition

TAKE_OVER_FROM = "bridge.take.over.from"
"""The key that names connectors whose copies this one takes over."""
MERGE_WITH = "bridge.merge.with"
"""The key that names connectors of other source aliases that copy to the same target topics as this one."""
GAPS_SHOWN_MS = 24 * 3600 * 1000
"""A gap is shown for a day as what is the matter with its partition; the ledger, the API and the metrics keep it."""
_GREATEST = 2**62
"""Of a sum: Java's long has room for it, and nothing that records can have comes near."""
KEY = "bridge.batch.decompressed.max.bytes"
MOST_BYTES = 128 * 1024 * 1024
"""Its default."""
RATIO, FREE = 1000, 8
"""A batch may be RATIO times as large as it is compressed; up to one part in FREE of the most bytes it may be
larger."""
BYTES_A_RECORD = 32
"""Bytes of the limit that each record of a batch counts for, beside its own."""


class Transform(NamedTuple):
    """A function that records go through: its name in the configuration, the function as `module.function`, its
    parameters, and other target topics that it may send records to."""

    name: str
    function: str
    parameters: Mapping[str, str]
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Copied:
    """A partition to be copied; its remote partition, of the same number, exists.

    `start`: the offset to begin at when the partition has no run yet, taken over from a stock mirror; None for where
    `consumer.auto.offset.reset` says. Topic ids are the brokers' UUIDs as text, "" where brokers have none.
    `transforms`: those of the pipeline that its records go through, by their numbers. `also`: other target topics that
    they may send records to, with their ids; they have a partition of that number too. `copied_before`: its connector
    has copied its topic already, so that a partition without a run has lost it, or is a new one.
    """

    source: TopicPartition
    source_topic_id: str
    target_topic: str
    target_topic_id: str
    start: int | None = None
    transforms: tuple[int, ...] = ()
    also: tuple[tuple[str, str], ...] = ()
    copied_before: bool = False

    @property
    def id(self) -> CopyId:
        return CopyId(self.source, self.target_topic)

    @property
    def remote(self) -> TopicPartition:
        return self.id.remote

    @property
    def copies(self) -> tuple[Copied, ...]:
        """Returns this one, and one for each other target topic."""
        others = (
            replace(self, target_topic=topic, target_topic_id=topic_id, start=None, also=())
            for topic, topic_id in self.also
        )
        return self, *others


class GapKind(StrEnum):
    """Why records of the source can't be, or may not have been, copied (R7)."""

    TRUNCATED = "truncated"
    """The source's log begins above where copying had come to: retention or DeleteRecords was faster."""
    CUT_BACK = "cut_back"
    """The source's log ends below where copying had come to, or has diverged from what was copied: an unclean
    election."""
    SOURCE_RECREATED = "source_recreated"
    """The source topic was deleted and created again under its name."""
    TARGET_RECREATED = "target_recreated"
    """The remote topic was deleted, created again, or truncated: copies are gone. A range that ends where it begins:
    copying begins again there."""
    SKIPPED = "skipped"
    """An operator moved the position past them (`mirror-bridge reset`, or Connect's source offsets)."""
    TARGET_NOT_EMPTY = "target_not_empty"
    """No run is known of the copy, and the remote partition holds something: the runs topic was deleted or has lost
    what it held, another tool has copied, or others write to the remote topic."""
    RUN_CONTRADICTED = "run_contradicted"
    """A run claims more than the logs hold, and no record confirms it: the run was rejected."""
    RECORD_REFUSED = "record_refused"
    """The target's broker refuses a record, or it can't be decoded, and source.record.policy says to go on."""
    TRANSFORM_FAILED = "transform_failed"
    """A transform fails with a record, and source.record.policy says to go on."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One entry of the gap ledger: offsets [`upstream_from`, `upstream_to`) of the source; -1 for not known. Times in
    ms since the epoch. `topic_id`: of the topic that the offsets belong to."""

    source: TopicPartition
    kind: GapKind
    topic_id: str
    upstream_from: int
    upstream_to: int
    seen_at_ms: int
    detail: str = ""
    target_topic: str = ""
    """Of the copy that lacks them; "" in entries of version 0, which lack it."""
    connector: str = ""
    """The connector that wrote the entry; "" before it is written, and in entries of version 0."""

    @property
    def sentence(self) -> str:
        """Returns the gap as a sentence."""
        tp = f"{self.source.topic}-{self.source.partition}"
        if 0 <= self.upstream_from == self.upstream_to:
            return f"{tp} is copied again from upstream offset {self.upstream_from} on ({self.kind}): {self.detail}"
        since = "start" if self.upstream_from < 0 else self.upstream_from
        until = "end" if self.upstream_to < 0 else self.upstream_to
        detail = f": {self.detail}" if self.detail else ""
        return f"gap in {tp} ({self.kind}): upstream offsets [{since}, {until}){detail}"


class Progress(NamedTuple):
    """How far one partition is copied, by its committed runs. It is the same value on its way from the driver to the
    HTTP process; there may be many thousands, each second.

    `position`: the next offset of the source to be copied; `source_end`: where the copyable log ended when last asked,
    -1 before. The driver counts from its own start and leaves the rates at 0. The source connector counts on over
    restarts of the driver, and fills in the rates per second. Ages and latencies in ms, -1 before the first record.
    """

    topic: str
    partition: int
    target_topic: str
    position: int
    source_end: int = -1
    records: int = 0
    bytes: int = 0
    record_rate: float = 0.0
    byte_rate: float = 0.0
    record_age_ms: int = -1
    replication_latency_ms: int = -1

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def lag(self) -> int:
        """Offsets that are still to be copied, -1 when not known."""
        return max(0, self.source_end - self.position) if self.source_end >= 0 else -1


class PipelineState(StrEnum):
    STARTING = "starting"
    COPYING = "copying"
    RETRYING = "retrying"
    """The last attempt failed; the next one comes after a pause."""
    SILENT = "silent"
    """The driver runs and has reported nothing for longer than it may: whether it copies is not known."""
    CAUGHT_UP = "caught_up"
    """Only with `until_caught_up`: all is copied, and the pipeline has ended."""
    STOPPED = "stopped"
    FAILED = "failed"
    """A permanent error; the pipeline has given up."""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The state of a pipeline. `errors`: those that time may heal; `failure` is the permanent one. `gaps` are the
    newest entries of the gap ledger, `gap_counts` counts all of them by kind."""

    state: PipelineState = PipelineState.STARTING
    layout: int = 0
    progress: Mapping[TopicPartition, Progress] = field(default_factory=dict)
    gaps: Sequence[Gap] = ()
    errors: Sequence[str] = ()
    failure: str | None = None
    restarts: int = 0
    gap_counts: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[str, int] = field(default_factory=dict)
    """Records that were left out, by state topic."""
    failure_code: str = ""
    """The name of `failure`, where it has one."""
    spark_ui: str = ""
    """The address of Spark's UI, "" where there is none."""
    away: Sequence[Side] = ()
    """The clusters that do not answer the driver as a whole."""
    slices_running: bool = False
    """Whether the slices of a layout run, and how far they are is known: an error of one topic does not end that."""
    partitions: Sequence[PartitionStatus] = ()
    """Partitions that are not copied, and those whose records were left out; `errors` has the former too."""
    claimed: Sequence[str] = ()
    """Source topics that the connector owns, and that it is not asked to copy now."""

    @property
    def partition_states(self) -> PartitionStates:
        """The states of all partitions."""
        usual = {
            PipelineState.CAUGHT_UP: PartitionState.DONE,
            PipelineState.STOPPED: PartitionState.STOPPED,
            PipelineState.FAILED: PartitionState.FAILED,
            PipelineState.COPYING: PartitionState.COPYING,
        }.get(self.state, PartitionState.COPYING if self.slices_running else PartitionState.WAITING)
        if usual is PartitionState.STOPPED:
            return PartitionStates(usual)  # what was the matter before nobody watches now
        return PartitionStates(usual, self.partitions)


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """How one connector's records are copied; equal specs are the same pipeline.

    `props` is the connector's whole configuration: clients and `spark.*` are read from it. Times in seconds, sizes in
    bytes. `syncs_topic` is "" where no offset syncs are written. `transform_timeout` and `transform_memory`: what one
    call of a transform may take. `compression`: the codec that batches are to have on the target, "" for their own;
    `compression_level`: None for the codec's default.
    """

    name: str
    props: Mapping[str, str] = field(repr=False)
    source_alias: str
    runs_topic: str
    layout_topic: str
    gaps_topic: str
    syncs_topic: str
    syncs_on_target: bool
    offset_lag_max: int
    from_latest: bool
    committed_only: bool
    fail_on_gap: bool
    fail_on_refused_record: bool
    transaction_interval: float
    batch_size: int
    compression: str = ""
    compression_level: int | None = None
    until_caught_up: bool = False
    gives_way: bool = False
    """Whether it has failed for good when another driver of its name takes over: no worker assigns the connector to one
    process at a time, and both would shut each other out in turns."""
    take_over_from: Sequence[str] = ()
    """Names of connectors that are fenced where they copy what this one is to copy."""
    opposite_layouts: str = ""
    """The topic on the source that has the claims of connectors which copy from the target back to the source; "" where
    names tell what came from where."""
    merge_with: Sequence[str] = ()
    """Names of connectors of other source aliases that may copy to the same target topics."""
    max_rate: int = 0
    """Bytes per second that all slices together copy at most; 0 for any."""
    transforms: tuple[Transform, ...] = ()
    transform_timeout: float = 5.0
    transform_memory: int = 256 * 1024 * 1024
    recopy: bool = True
    """Whether what a target topic held is copied again when it was deleted and made anew."""


class Latencies(NamedTuple):
    """How long some records took, in ms: how many they are, the sum, the least, the greatest, and that of the last
    record."""

    records: int = 0
    total: int = 0
    least: int = 0
    greatest: int = 0
    last: int = 0

    def joined(self, newer: Latencies) -> Latencies:
        if not self.records:
            return newer
        if not newer.records:
            return self
        return Latencies(
            self.records + newer.records,
            min(_GREATEST, self.total + newer.total),
            min(self.least, newer.least),
            max(self.greatest, newer.greatest),
            newer.last,
        )


NO_LATENCIES = Latencies()


class CopySample(NamedTuple):
    """What was copied of a partition. `age`: of the records when they were fetched, `latency`: until they were
    committed on the target, as stock measures both; records without a timestamp have neither. `written_ms`: the time of
    the last commit."""

    topic: str
    partition: int
    target_topic: str
    records: int = 0
    bytes: int = 0
    written_ms: int = 0
    age: Latencies = NO_LATENCIES
    latency: Latencies = NO_LATENCIES

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @classmethod
    def from_row(cls, row: Iterable[object]) -> CopySample:
        """Reads a sample that went through JSON."""
        *fields, age, latency = row
        return cls._make([*fields, Latencies._make(_numbers(age)), Latencies._make(_numbers(latency))])

    def joined(self, newer: CopySample) -> CopySample:
        if self.target_topic != newer.target_topic:
            return newer
        return newer._replace(
            records=self.records + newer.records,
            bytes=self.bytes + newer.bytes,
            written_ms=max(self.written_ms, newer.written_ms),
            age=self.age.joined(newer.age),
            latency=self.latency.joined(newer.latency),
        )


def join(waiting: MutableMapping[TopicPartition, CopySample], samples: Iterable[CopySample]) -> None:
    """Joins samples to those that wait."""
    for sample in samples:
        before = waiting.get(sample.source)
        waiting[sample.source] = sample if before is None else before.joined(sample)


def _numbers(row: object) -> list[int]:
    return list(row) if isinstance(row, list | tuple) else []


class Overlarge(ValueError):
    """Raised for a batch that holds more than the limit allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"it holds more than {limit} bytes when it is decompressed, or more records or headers than there may be; "
            f"a higher {KEY} allows more"
        )


def limit(size: int, most: int) -> int:
    """Returns how many bytes `size` compressed ones may become, where a batch may have `most`."""
    return min(most, max(most // FREE, RATIO * size))


def most_bytes(props: Mapping[str, str]) -> int:
    """Returns the limit of a connector's configuration, which was checked before."""
    return integer(props.get(KEY, "")) or MOST_BYTES

"""Messages about a pipeline that copies records, for operators: sums, partitions, gaps. Part of the contract; see
messages."""

from __future__ import annotations

from pydantic import Field

from bridge.protocol.base import Message


class CopyTotals(Message):
    """The sums over all partitions of a connector. `state` is the pipeline's: starting, copying, retrying, silent (no
    report for 30 s, so not known), caught_up, stopped or failed; `layout` and `restarts` count how often the work was
    distributed again. `lag`: offsets yet to be copied, null while it is not known of any partition. Counters since the
    connector was started here, rates per second over the last 15 to 30 s. Age and latency in ms, the greatest of
    partitions that copied in that time; null where none did. `gaps`: entries of the gap ledger by kind. `spark_ui`: the
    address of Spark's UI, null where there is none. `states`: how many partitions are in each state of
    PartitionProgress."""

    source: str
    target: str
    state: str
    layout: int = 0
    restarts: int = 0
    partitions: int = 0
    lag: int | None = None
    records: int = 0
    bytes: int = 0
    record_rate: float = 0.0
    byte_rate: float = 0.0
    record_age_ms: int | None = None
    replication_latency_ms: int | None = None
    gaps: dict[str, int] = {}
    states: dict[str, int] = {}
    spark_ui: str | None = None


class PartitionProgress(Message):
    """One partition, from what is committed on the target. `position`: the next offset of the source to be copied;
    `source_end`: where the source's log ended when last asked. Of the last committed records, in ms from their
    timestamp: `record_age_ms` until they were fetched, `replication_latency_ms` until they were committed. Null for
    what is not known yet.

    `state`: copying; gap, copying, and records were left out or lost within a day; waiting, not copied and tried again;
    failed, not copied, and `way_out` says what can be done; done, all is copied that was asked for; stopped. `why` and
    `since_ms` are of a state that is of this partition alone."""

    topic: str
    partition: int
    target_topic: str
    position: int | None
    source_end: int | None = None
    lag: int | None = None
    records: int = 0
    bytes: int = 0
    record_rate: float = 0.0
    byte_rate: float = 0.0
    record_age_ms: int | None = None
    replication_latency_ms: int | None = None
    state: str
    since_ms: int | None = None
    why: str = ""
    way_out: str = ""


class SkipOffsets(Message):
    """POST /v1/connectors/{name}/skip: leave out offsets of a partition that can't be copied, up to `to`, or where that
    is null as far as what can't be copied reaches. `dry_run`: nothing changes; `timeout_ms`: for the slice's work."""

    topic: str = Field(min_length=1)
    partition: int = Field(ge=0, le=(1 << 31) - 1)
    to: int | None = Field(default=None, ge=0)
    dry_run: bool = False
    timeout_ms: int = Field(default=60_000, ge=100, le=300_000)


class SkippedOffsets(Message):
    """The offsets [offset, end) that are left out, or would be in a dry run (`done`): the gap ledger names them.
    `why`: what kept the partition from being copied."""

    topic: str
    partition: int
    offset: int
    end: int
    why: str
    done: bool


class MeasuredLatencies(Message):
    """How long the records of a partition took, in ms. `last`: the last one."""

    count: int
    sum: int
    min: int
    max: int
    last: int


class MeasuredPartition(Message):
    """What was copied of a partition since the last answer that named it; `topic` is the target's. `record_age_ms`:
    from a record's timestamp until it was fetched, `replication_latency_ms`: until it was committed; null where no
    record had a timestamp."""

    topic: str
    partition: int
    records: int = 0
    bytes: int = 0
    record_age_ms: MeasuredLatencies | None = None
    replication_latency_ms: MeasuredLatencies | None = None


class MeasuredTopicPartition(Message):
    topic: str
    partition: int


class Measured(Message):
    """The measurements that feed stock's MBeans of a source connector. The first answer of a session names every
    partition. `number`: to be repeated in the next poll. `gone`: partitions of target topics that are copied no
    more."""

    number: int
    partitions: list[MeasuredPartition] = []
    gone: list[MeasuredTopicPartition] = []


class Position(Message):
    """Every record of a source partition below `position` that is copied is committed on the target."""

    topic: str
    partition: int
    position: int


class Positions(Message):
    """The positions that a sink connector's group is to commit. The first answer of a session names every partition
    that is copied, later ones those that have moved. `number`: to be repeated in the next poll."""

    number: int
    partitions: list[Position] = []


class CopyProgress(Message):
    """GET /v1/connectors/{name}/progress: the sums of the whole connector, null where it copies nothing, then a page of
    partitions; `total` counts every match."""

    connector: str
    totals: CopyTotals | None
    partitions: list[PartitionProgress]
    total: int
    next: str | None = None


class GapReport(Message):
    """An entry of the gap ledger: offsets from `upstream_from` up to, not including, `upstream_to` of the source topic
    with that id; null for not known."""

    topic: str
    partition: int
    kind: str
    topic_id: str
    upstream_from: int | None
    upstream_to: int | None
    seen_at_ms: int
    detail: str = ""


class Gaps(Message):
    """GET /v1/connectors/{name}/gaps: the newest entries, newest first; `total` and `kinds` count all of the ledger."""

    connector: str
    total: int
    kinds: dict[str, int]
    gaps: list[GapReport]

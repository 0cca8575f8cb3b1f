"""The messages of the HTTP contract. Every one has a JSON sample in tests/contract/samples, read by pytest and JUnit.

Unknown fields are ignored on both sides, so that version N understands N+1 (`extra="ignore"`); a field is never
renamed or given another meaning within /v1.

The requests and answers of failover, rollback and failback.

Connectors' keys and their values, in Connect's own vocabulary (ConfigInfos of Connect's REST API).

Answers of /v1/connectors/{name}/clusters/{side}: what MirrorClient says of a cluster.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from bridge.protocol.base import CountedReason, ErrorBody, Message, ReadinessReason, Refusal, ValidationError
from bridge.protocol.operators import (
    AlteredOffset,
    AlteredOffsets,
    CheckpointLatency,
    Condition,
    ConfigWarning,
    Connectors,
    ConnectorStatus,
    CopyProgress,
    CopyTotals,
    Explanation,
    FlowReadiness,
    FlowStatus,
    GapReport,
    Gaps,
    GroupReport,
    GroupReports,
    Groups,
    GroupSummary,
    Health,
    IgnoredSetting,
    Live,
    Measured,
    MeasuredLatencies,
    MeasuredPartition,
    MeasuredTopicPartition,
    NotBegunPartition,
    NotCopiedTopic,
    PartitionProgress,
    PartitionReport,
    Position,
    Positions,
    ReadinessReport,
    Ready,
    SkipOffsets,
    SkippedOffsets,
    TaskStatus,
)

__all__ = [
    "Accepted",
    "AckRequest",
    "AlterOffsets",
    "AlteredOffset",
    "AlteredOffsets",
    "BeginSession",
    "Begun",
    "CheckpointLatency",
    "Condition",
    "ConfigEntry",
    "ConfigKey",
    "ConfigValue",
    "ConfigWarning",
    "ConnectorStatus",
    "Connectors",
    "CopyProgress",
    "CopyTotals",
    "CountedReason",
    "ErrorBody",
    "Explanation",
    "Failover",
    "FailoverPlan",
    "FlowReadiness",
    "FlowStatus",
    "GapReport",
    "Gaps",
    "GroupReport",
    "GroupReports",
    "GroupSummary",
    "Groups",
    "Header",
    "Health",
    "IdleTask",
    "IgnoredSetting",
    "LeftOffset",
    "LeftOut",
    "Live",
    "Measured",
    "MeasuredLatencies",
    "MeasuredPartition",
    "MeasuredTopicPartition",
    "Message",
    "MoveGroups",
    "MovedGroup",
    "Names",
    "NotBegunPartition",
    "NotCopiedTopic",
    "PartitionProgress",
    "PartitionReport",
    "PlannedOffset",
    "PluginInfo",
    "Plugins",
    "PollRequest",
    "PollResponse",
    "Position",
    "Positions",
    "ReadinessReason",
    "ReadinessReport",
    "Ready",
    "Record",
    "Refreshed",
    "Refusal",
    "RemoteGroup",
    "RemoteOffset",
    "RemoteOffsets",
    "ReplicationHops",
    "RolledBack",
    "Session",
    "SkipOffsets",
    "SkippedOffsets",
    "StartConnector",
    "StartTask",
    "StopConnector",
    "StopTask",
    "StoredOffset",
    "TaskStatus",
    "ValidateRequest",
    "ValidateResponse",
    "ValidationError",
    "Version",
]
Session = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{13}-[0-9A-Za-z-]{1,64}$",
        description="13-digit start time in ms, a dash, a unique part. The lexicographically greater session wins. "
        "`POST /v1/sessions` gives one by the service's clock; only an older shim makes its own.",
        examples=["1795230000123-9b2f0c5e"],
    ),
]


class Refreshed(Message):
    """POST /v1/connectors/{name}/refresh, after the round: how many groups, or topics of a source connector, were
    `found`; of those that are new and of those that are gone up to 1,000 names; `errors`: topics that could not be
    described, or created on the target."""

    name: str
    kind: str
    seconds: float
    found: int
    added: list[str] = []
    removed: list[str] = []
    errors: list[str] = []


class MoveGroups(Message):
    """Which groups of which flow (`<source alias>-to-<target alias>`): either `groups` or `all`. `dry_run`: everything
    is checked, and nothing changed. `accept_as_of`: groups that are `ready_as_of` are moved too. `timeout_ms`: for the
    round that comes first."""

    flow: str = Field(min_length=1)
    groups: list[str] = Field(default=[], max_length=100_000)
    all: bool = False
    dry_run: bool = False
    accept_as_of: bool = False
    timeout_ms: int = Field(default=60_000, ge=100, le=300_000)


class PlannedOffset(Message):
    """Where a group resumes on the target: `offset` of `target_topic` is the translation of `committed` of `topic`.
    `missing_records`: at most so many of the source's partition were not on the target, null for not known. `reason`:
    why a reader from there would skip records, or may (null for no)."""

    topic: str
    partition: int
    committed: int
    target_topic: str
    offset: int
    verdict: str
    bound: int | None = None
    missing_records: int | None = None
    reason: str | None = None


class MovedGroup(Message):
    """A group that `connector` no longer commits, since `moved_at_ms`; null in a dry run. `as_of_ms`: when both
    clusters were queried last for it; `source_away`: the source did not answer. `not_begun`: partitions
    of its topics in which it has committed nothing and of which the target lacks records."""

    group: str
    connector: str
    moved_at_ms: int | None
    as_of_ms: int
    source_away: bool = False
    partitions: list[PlannedOffset]
    not_begun: list[NotBegunPartition] = []


class LeftOut(Message):
    """A group that only a connector reports which Connect has stopped or deleted long ago."""

    group: str
    connector: str


class Failover(Message):
    """Every group of the request is moved (or, with `dry_run`, could be). `missing_records`: at most so many of the
    source's records, of the partitions that these groups read, were not on the target; null for not known. `left_out`:
    groups that `all` does not move, because nothing commits them any more. `members_on_source`: groups that
    consumers are still in on the source, as listed just now. `at_home`: groups that nobody has moved on the source,
    which are left as they are. `next`: what to do now."""

    flow: str
    source: str
    target: str
    dry_run: bool = False
    groups: list[MovedGroup]
    missing_records: int | None = None
    missing_since_ms: int | None = None
    not_copied: list[NotCopiedTopic] = []
    left_out: list[LeftOut] = []
    members_on_source: list[str] = []
    at_home: list[str] = []
    next: list[str] = []


class FailoverPlan(Message):
    """GET /v1/failover/plan: where the groups would resume on the target. `as_of_ms` is the oldest of the flow;
    `left_out` and `at_home`: as in a failover."""

    flow: str
    as_of_ms: int | None
    groups: list[MovedGroup]
    not_copied: list[NotCopiedTopic] = []
    left_out: list[LeftOut] = []
    at_home: list[str] = []


class LeftOffset(Message):
    """A committed offset on the target that the snapshot does not have."""

    group: str
    topic: str
    partition: int
    offset: int


class RolledBack(Message):
    """POST /v1/failover/rollback and /back: `groups` are not moved any more. After a rollback their offsets on the
    target are those of the snapshot, but for `left`: partitions that had none. `unchanged`: groups that were not
    moved."""

    flow: str
    dry_run: bool = False
    groups: list[str]
    unchanged: list[str] = []
    left: list[LeftOffset] = []
    next: list[str] = []


class ConfigKey(Message):
    """A configuration key as Connect describes one (`ConfigKeyInfo`)."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str
    order_in_group: int
    width: str
    display_name: str
    dependents: list[str] = []


class ConfigValue(Message):
    """The value of a key and what is wrong with it (`ConfigValueInfo`). Values of PASSWORD keys are `[hidden]`."""

    name: str
    value: str | None
    recommended_values: list[str] = []
    errors: list[str] = []
    visible: bool = True


class ConfigEntry(Message):
    definition: ConfigKey
    value: ConfigValue


class PluginInfo(Message):
    kind: str
    connector_class: str
    version: str
    config: list[ConfigKey]


class Plugins(Message):
    version: str
    protocol: int
    plugins: list[PluginInfo]


class ValidateRequest(Message):
    """`connect_group_id`, `connect_kafka_cluster_id`: as in StartConnector."""

    config: dict[str, str | None]
    connect_group_id: str | None = None
    connect_kafka_cluster_id: str | None = None


class ValidateResponse(Message):
    """Connect's `ConfigInfos`: every key with its value; `error_count` over all of them. `ignored_settings`: those
    without effect, for which Connect has no field; their values are not `visible`. `warnings`: problems that are no
    errors."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ConfigEntry]
    ignored_settings: list[IgnoredSetting] = []
    warnings: list[ConfigWarning] = []


class ReplicationHops(Message):
    """The distance of a cluster: `hops` from the cluster `alias` to the one that was asked, -1 when nothing comes from
    there."""

    alias: str
    hops: int


class Names(Message):
    """Names of topics or, where those are asked for, of clusters; in order."""

    names: list[str]


class RemoteOffset(Message):
    """Where a group resumes in a remote topic."""

    topic: str
    partition: int
    offset: int
    metadata: str


class RemoteGroup(Message):
    group: str
    offsets: list[RemoteOffset]


class RemoteOffsets(Message):
    groups: list[RemoteGroup]


class Version(Message):
    version: str
    protocol: int


# -- life cycle of connectors and tasks ------------------------------------------------------------------------------


class BeginSession(Message):
    """POST /v1/sessions: a connector or a task started `age_us` microseconds ago, by a monotonic clock. It sends this
    again whenever the service does not know its session, with the age at that time."""

    age_us: int = Field(ge=0)


class Begun(Message):
    """A session that is greater than those of all that started earlier, whatever the clocks of their workers."""

    session: Session


class StartConnector(Message):
    """PUT /v1/connectors/{name}: the connector has started in a worker. `connect_group_id`,
    `connect_kafka_cluster_id`: the `group.id` of the worker and the id of its Kafka cluster, by which its Connect
    cluster is known; absent where the shim can't tell."""

    session: Session
    kind: str
    config: dict[str, str | None]
    connect_group_id: str | None = None
    connect_kafka_cluster_id: str | None = None
    version: str = "0"
    protocol: int = 1


class StopConnector(Message):
    """PUT /v1/connectors/{name}/stop: Connect has paused or stopped the connector, or shuts down; nothing is
    deleted."""

    session: Session
    connect_group_id: str | None = None
    connect_kafka_cluster_id: str | None = None


class StartTask(Message):
    """PUT /v1/connectors/{name}/tasks/{n}: has the whole configuration, so that a service that has just started needs
    nothing else."""

    session: Session
    kind: str
    task_count: int = Field(ge=1, le=10_000)
    config: dict[str, str | None]
    connect_group_id: str | None = None
    connect_kafka_cluster_id: str | None = None
    version: str = "0"
    protocol: int = 1


class Accepted(Message):
    """Answer to start and stop calls; all of them are idempotent."""

    name: str
    task: int | None = None
    lease_ms: int
    version: str
    protocol: int


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """The offset of a source partition in Connect's offset storage; null where it has none."""

    # No Message: there are thousands in a request, and of each Message the garbage collector visits four objects.

    source_partition: dict[str, Any]
    source_offset: dict[str, Any] | None


class AlterOffsets(Message):
    """POST /v1/connectors/{name}/offsets: an operator alters or deletes the source offsets of a stopped connector in
    Connect (KIP-875). Without any, all offsets are deleted: Connect stores none for a connector whose records it does
    not write. `kind`: source, or sink, whose offsets are those of its consumer group."""

    kind: str = "source"
    config: dict[str, str | None]
    offsets: list[StoredOffset] = Field(default=[], max_length=1_000_000)
    version: str = "0"
    protocol: int = 1


class PollRequest(Message):
    """POST …/poll. `wait_ms`: how long the service may hold the call, a second at most. `batch`: number of the last
    batch that this session has read, absent before the first; the service repeats a batch that got lost. `offsets`: the
    stored offsets that `offsets_of` of earlier answers requested; absent from a shim that can't read them, which then
    gets no such requests. `measured`: number of the last `measured` that this session has read, 0 before the first;
    absent from a shim that shows no metrics of copying, which then gets none. `positions`: likewise, of the last
    `positions`; absent from a shim whose connector is no sink."""

    session: Session
    wait_ms: int = Field(default=1000, ge=0, le=1000)
    max_records: int = Field(default=500, ge=1, le=10_000)
    batch: int | None = None
    offsets: list[StoredOffset] | None = Field(default=None, max_length=2_000)
    measured: int | None = Field(default=None, ge=0)
    positions: int | None = Field(default=None, ge=0)


class Header(Message):
    key: str
    value: str | None


class Record(Message):
    """A record for Connect to write. Key, value and header values are base64 of the bytes, or null."""

    source_partition: dict[str, str | int]
    source_offset: dict[str, str | int]
    topic: str
    partition: int | None = None
    key: str | None = None
    value: str | None = None
    timestamp: int | None = None
    headers: list[Header] = []


class PollResponse(Message):
    """The answer to a poll. `failure` is set only for a permanent error that an operator must correct: the shim fails
    the task with this message. `batch`: to be repeated in the next poll. `offsets_of`: source partitions whose stored
    offsets the shim is to send with one of its next polls; requested until they are answered. `measured`,
    `positions`: absent where nothing is new."""

    records: list[Record] = []
    failure: str | None = None
    held_ms: float = 0.0
    batch: int | None = None
    offsets_of: list[dict[str, str | int]] = []
    measured: Measured | None = None
    positions: Positions | None = None


class AckRequest(Message):
    """Records that Connect has written, the last of each source partition: `source_partition` and `timestamp` as they
    were handed out; `age_ms`: how long ago that was, now if absent."""

    session: Session
    acked: list[dict[str, Any]] = Field(default=[], max_length=2_000)


class StopTask(Message):
    session: Session
    connect_group_id: str | None = None
    connect_kafka_cluster_id: str | None = None


class IdleTask(Message):
    """POST …/idle: the task is alive, and Connect has not polled it for `idle_ms`: it is paused, or Connect is still
    writing its records."""

    session: Session
    idle_ms: int = Field(ge=0)

"""The messages of the HTTP contract. Every one has a JSON sample in tests/contract/samples, read by pytest and JUnit.

Unknown fields are ignored on both sides, so that version N understands N+1 (`extra="ignore"`); a field is never
renamed or given another meaning within /v1.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from bridge.protocol.base import CountedReason, ErrorBody, Message, ReadinessReason, Refusal, ValidationError
from bridge.protocol.copying import (
    CopyProgress,
    CopyTotals,
    GapReport,
    Gaps,
    Measured,
    MeasuredLatencies,
    MeasuredPartition,
    MeasuredTopicPartition,
    PartitionProgress,
    Position,
    Positions,
    SkipOffsets,
    SkippedOffsets,
)
from bridge.protocol.failover import (
    Failover,
    FailoverPlan,
    LeftOffset,
    LeftOut,
    MovedGroup,
    MoveGroups,
    PlannedOffset,
    Refreshed,
    RolledBack,
)
from bridge.protocol.mirror import Names, RemoteGroup, RemoteOffset, RemoteOffsets, ReplicationHops
from bridge.protocol.operators import (
    AlteredOffset,
    AlteredOffsets,
    CheckpointLatency,
    Condition,
    ConfigWarning,
    Connectors,
    ConnectorStatus,
    Explanation,
    FlowReadiness,
    FlowStatus,
    GroupReport,
    GroupReports,
    Groups,
    GroupSummary,
    Health,
    IgnoredSetting,
    Live,
    NotBegunPartition,
    NotCopiedTopic,
    PartitionReport,
    ReadinessReport,
    Ready,
    TaskStatus,
)
from bridge.protocol.plugins import (
    ConfigEntry,
    ConfigKey,
    ConfigValue,
    PluginInfo,
    Plugins,
    ValidateRequest,
    ValidateResponse,
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

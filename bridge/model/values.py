"""Defines the values of translation: partitions, offsets, records, verdicts. Words are Kafka's own
(docs/glossary.md).

Writes times, which are milliseconds since the epoch, as people read them: ISO 8601, in UTC.

Assigns groups to tasks by rendezvous hashing, so that a group moves only when its own task appears or goes.

Connect's task configurations stay the same whatever groups come and go (docs/architecture.md); the service spreads
the groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

LAST_PARTITION = (1 << 31) - 1
"""The highest number that a partition can have in Kafka's protocol."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class CopyId(NamedTuple):
    """Names one copy: records of a source partition, written to the partition of the same number of `target_topic`.

    Everything that is remembered about copying is kept by this: one source topic may be copied to several topics.
    """

    source: TopicPartition
    target_topic: str

    @property
    def topics(self) -> tuple[str, str]:
        """The source topic and the target topic, which is what a connector claims."""
        return self.source.topic, self.target_topic

    @property
    def remote(self) -> TopicPartition:
        """The partition of the target that holds the copies."""
        return TopicPartition(self.target_topic, self.source.partition)


class Side(StrEnum):
    SOURCE = "source"
    TARGET = "target"


class RecordView(Protocol):
    """A record as a look-up sees it. Timestamps in ms, -1 for none; headers in order."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> object: ...


class Committed(NamedTuple):
    """A committed group offset: the next record to read. `leader_epoch` is -1 when the commit carried none."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupState(StrEnum):
    """Group states as the admin API names them, and NOT_FOUND / UNKNOWN, which it does not (KAFKA-19794)."""

    EMPTY = "EMPTY"
    STABLE = "STABLE"
    PREPARING_REBALANCE = "PREPARING_REBALANCE"
    COMPLETING_REBALANCE = "COMPLETING_REBALANCE"
    ASSIGNING = "ASSIGNING"
    RECONCILING = "RECONCILING"
    DEAD = "DEAD"
    NOT_FOUND = "NOT_FOUND"
    UNKNOWN = "UNKNOWN"


WITH_MEMBERS = frozenset(
    {
        GroupState.STABLE,
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.ASSIGNING,
        GroupState.RECONCILING,
    }
)
"""States of groups that consumers are in."""


class GroupListing(NamedTuple):
    group: str
    state: GroupState
    type: str
    """`classic`, `consumer`, `share`, `streams`; brokers before 3.8 say nothing and count as `classic`."""
    protocol_type: str = "consumer"


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic. `topic_id` is the broker's UUID as text ("" from brokers before 3.1)."""

    name: str
    topic_id: str
    partitions: int
    log_append_time: bool = False
    """The broker overwrites timestamps, or has: copies can't be recognised by them."""
    compacted: bool | None = False
    """Whether cleanup.policy has `compact`: a record may be gone because a later one has its key; None where the
    configuration can't be read."""
    sets_append_time: bool = False
    """Whether its configuration has LogAppendTime now."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Log start, end (high watermark, or last stable offset under read_committed) and the current leader epoch."""

    start: int
    end: int
    leader_epoch: int = -1


class LogRecord(NamedTuple):
    """A record of an internal topic, as stored. Timestamp in ms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class LogRecords(Protocol):
    """Records in the order of their log: a list, or what decodes each when it is iterated."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[LogRecord]: ...


@dataclass(frozen=True, slots=True)
class TailPart:
    """Records that a tail has read. `restarted`: the topic was created again or truncated; what was read before counts
    no longer, and the records are those from its new beginning. `at_end`: the records reach as far as the log did when
    the read began. `unreadable`: batches that were skipped, because they can't be decoded."""

    records: LogRecords
    restarted: bool
    at_end: bool
    unreadable: int = 0


class Evidence(StrEnum):
    """Why a translated offset is what it is (docs/glossary.md)."""

    RUN = "run"
    VERIFIED = "verified"
    SYNC = "sync"
    SYNC_PLUS_1 = "sync+1"
    TIMESTAMP = "timestamp"


class Judgement(StrEnum):
    EXACT = "exact"
    BOUNDED = "bounded"
    PENDING = "pending"


class Reason(StrEnum):
    """Why a group-partition is not (or not yet) synced; API, metrics, logs and pages all show these codes."""

    OFFSET_BEYOND_END = "offset_beyond_end"
    COPY_NOT_FOUND = "copy_not_found"
    NOT_MIRRORED_YET = "not_mirrored_yet"
    RECORD_GONE = "record_gone"
    EVIDENCE_DISAGREES = "evidence_disagrees"
    NO_OFFSET_SYNCS = "no_offset_syncs"
    OLDER_THAN_SYNCS = "older_than_syncs"
    MOVED_BY_MIRROR = "moved_by_mirror"
    AT_HOME = "at_home"
    """Of a group as a whole: all of its partitions are MOVED_BY_MIRROR, as records of the opposite flow prove."""
    TARGET_AHEAD = "target_ahead"
    GROUP_ACTIVE_ON_TARGET = "group_active_on_target"
    GROUP_STATE_UNKNOWN = "group_state_unknown"
    GROUP_TYPE_UNSUPPORTED = "group_type_unsupported"
    TARGET_TOPIC_MISSING = "target_topic_missing"
    TARGET_PARTITION_MISSING = "target_partition_missing"
    SOURCE_TOPIC_MISSING = "source_topic_missing"
    SOURCE_UNREACHABLE = "source_unreachable"
    TARGET_UNREACHABLE = "target_unreachable"
    SOURCE_NOT_AUTHORIZED = "source_not_authorized"
    TARGET_NOT_AUTHORIZED = "target_not_authorized"
    SOURCE_BATCH_UNREADABLE = "source_batch_unreadable"
    TARGET_BATCH_UNREADABLE = "target_batch_unreadable"
    TARGET_TIMESTAMP_TYPE = "target_timestamp_type"
    TIMESTAMP_UNUSABLE = "timestamp_unusable"
    COMMIT_FAILED = "commit_failed"
    DRY_RUN = "dry_run"
    NOT_LOOKED_AT_YET = "not_looked_at_yet"
    REPORT_TOO_LARGE = "report_too_large"
    MOVED = "moved"
    TOPIC_NOT_SELECTED = "topic_not_selected"
    RECORDS_NOT_ON_TARGET = "records_not_on_target"
    COPIES_UNKNOWN = "copies_unknown"
    TOPIC_LEFT_OUT = "topic_left_out"
    TOPIC_NOT_COPIED = "topic_not_copied"
    OTHER_SOURCE_UNKNOWN = "other_source_unknown"
    """Another source is copied to the same partition, and where the group is there is not known."""
    OTHER_SOURCE_NOT_READY = "other_source_not_ready"
    """The group has the other source too, and is not ready there."""
    OTHER_SOURCE_OUTDATED = "other_source_outdated"
    """What is known of the other source is of an earlier time. A remark on a group that is ready."""


class Flag(StrEnum):
    """Remarks on a verdict that still stands."""

    TRUNCATED = "truncated"
    """The committed offset lies below the source's log start."""
    AHEAD_OF_MIRROR = "ahead_of_mirror"
    """The group is past what the target holds; the bound counts what may still arrive."""
    REWOUND = "rewound"
    """The target offset was moved back, as sync.group.offsets.rewind allows."""
    OTHER_SOURCE_NOT_READY = "other_source_not_ready"
    OTHER_SOURCE_OUTDATED = "other_source_outdated"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one partition of a group.

    `offset` is the downstream offset, None when pending. `bound` is the greatest number of records that a reader
    from `offset` reads although the group had processed them: 0 when exact, None when not known (timestamp evidence).
    `detail` holds what the answer rests on, for `explain`.
    """

    judgement: Judgement
    offset: int | None = None
    bound: int | None = None
    evidence: Evidence | None = None
    reason: Reason | None = None
    flags: tuple[Flag, ...] = ()
    leader_epoch: int = -1
    """Leader epoch of the *target* batch at `offset`, -1 when not known; never the source's: a consumer on
    the target would wait for an epoch that does not come."""
    detail: dict[str, str | int | None] = field(default_factory=dict)
    not_on_target: int | None = field(default=None, compare=False)
    """At most so many of the source's records at or after the committed offset, and before the position up to which
    the partition is copied, are not on the target; None where that is not known, which is never a yes."""

    @staticmethod
    def pending(reason: Reason, **detail: str | int | None) -> Verdict:
        return Verdict(Judgement.PENDING, reason=reason, detail=detail)


def iso_time(at_ms: int, timespec: str = "seconds") -> str:
    """Formats a time as ISO 8601 has it. `timespec`: as of datetime.isoformat."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec=timespec)


def task_of(group: str, task_count: int) -> int:
    """Returns the task, below `task_count`, with the greatest weight for this group. The same on every machine."""
    if task_count == 1:
        return 0
    return max(range(task_count), key=lambda task: _weight(group, task))


def _weight(group: str, task: int) -> bytes:
    return hashlib.blake2b(f"{task}\0{group}".encode(), digest_size=8).digest()

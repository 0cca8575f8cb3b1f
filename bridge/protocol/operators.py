"""Messages that operators read: verdicts on groups, states of connectors, health. Part of the contract; see
messages.

Messages about a pipeline that copies records, for operators: sums, partitions, gaps.

Answer of /v1/connectors/{name}/doctor: what is wrong with a connector, and what to do.
"""

from __future__ import annotations

from pydantic import Field

from bridge.protocol.base import CountedReason, Message, ReadinessReason


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


class TaskStatus(Message):
    task: int
    session: str
    state: str
    last_poll_age_ms: int


class IgnoredSetting(Message):
    """A setting without effect, which does not change what is copied; `reason` says why, and what to use instead, if
    anything."""

    key: str
    reason: str


class ConfigWarning(Message):
    """A problem with the value of a key that does not make the configuration invalid."""

    key: str
    message: str


class Condition(Message):
    """Something that does not work in a connector: a name, a sentence with what to do, and since when (null for not
    known). `starting` is no alarm: it started less than a minute ago."""

    condition: str
    detail: str
    since_ms: int | None = None


class ConnectorStatus(Message):
    """GET /v1/connectors/{name}/status. `waiting_for`: what it waits for before it can work (a task, the rounds
    process, a cluster that has not answered, its first round); empty while it works; `checkpoints`: emitted so far;
    `unreadable_records`: by internal topic, left out; `records_…`: on their way to Connect; `oldest_waiting_ms`: how
    long the first of those that wait has been waiting for a poll, null when none does; `conditions`: what does not
    work, and why, of which `errors` has the sentences; `copying`: of a connector that copies records;
    `ignored_settings`: settings of its configuration without effect."""

    name: str
    kind: str
    state: str
    waiting_for: list[str] = []
    tasks: list[TaskStatus]
    task_count: int
    groups: int = 0
    exact: int = 0
    bounded: int = 0
    pending: int = 0
    reasons: dict[str, int] = {}
    last_success_ms: int | None = None
    last_round_seconds: float | None = None
    rounds: int = 0
    checkpoints: int = 0
    unreadable_records: dict[str, int] = {}
    records_waiting: int = 0
    records_in_flight: int = 0
    records_written: int = 0
    oldest_waiting_ms: int | None = None
    conditions: list[Condition] = []
    errors: list[str] = []
    failure: str | None = None
    copying: CopyTotals | None = None
    ignored_settings: list[IgnoredSetting] = []


class AlteredOffset(Message):
    """Where copying of a source partition resumes: at `to` instead of `position`. `outcome` in words: `copied again`,
    `skipped`, `unchanged`, …"""

    topic: str
    partition: int
    target_topic: str
    position: int
    to: int
    outcome: str


class AlteredOffsets(Message):
    offsets: list[AlteredOffset] = []


class Connectors(Message):
    connectors: list[ConnectorStatus]


class PartitionReport(Message):
    """Verdict on one partition of one group. `bound`: greatest number of records that can be read twice, null when
    not known. `written`: the offset on the target cluster now. `detail`: the evidence, for `explain`.
    `missing_records`: of the source's partition at most so many are not on the target, null when not known: those
    that are yet to be copied, and those at or after the committed offset that the copy is past (`not_on_target` of
    `detail`)."""

    topic: str
    partition: int
    target_topic: str
    committed: int
    target_offset: int | None
    written: int | None
    verdict: str
    evidence: str | None = None
    bound: int | None = None
    reason: str | None = None
    flags: list[str] = []
    detail: dict[str, str | int | None] = {}
    missing_records: int | None = None


class CheckpointLatency(Message):
    """From the timestamps of a group's checkpoints until Connect had written them, in ms; of the records that Connect
    has acknowledged since the service started."""

    last: int
    max: int
    mean: float
    count: int


class NotCopiedTopic(Message):
    """A topic that a group has committed offsets in and the flow does not copy. `key`: what leaves it out, "" for an
    internal topic. `groups`: where it is told of several groups, those that read it."""

    topic: str
    key: str
    groups: list[str] = []


class NotBegunPartition(Message):
    """A partition of the source in which a group has committed nothing: it will read it from the log's start there.
    `not_on_target`: at most so many of its records that the copy is past are not on the target; `missing_records`: with
    those that are yet to be copied. null for not known."""

    topic: str
    partition: int
    not_on_target: int | None = None
    missing_records: int | None = None


class GroupReport(Message):
    """GET /v1/groups/{group}. `readiness`: `ready` (every partition is exact or bounded and committed on the target,
    and what this depends on holds now), `ready_as_of` (so it was when the source last answered), `not_ready`,
    `cannot_tell`, `moved` (it has failed over), or `home` (nobody has moved it on the source); the last two are
    no alarm. `reasons` say why. `as_of_ms`: when both clusters
    were last queried. `ready`: `readiness` is `ready`. `missing_records`: of the source's records at most so many were
    not on the target at `as_of_ms`, null for not known; none that was appended before `missing_since_ms` is missing.
    `synced_at_ms`: since when the report is unchanged. `checkpoint_latency_ms`: null where no checkpoint was written.
    `moved_at_ms`: when the group was failed over; its partitions are as they were then. `rounds`: so many rounds,
    which both clusters answered, have ended since the connector started; after two more the report counts in what was
    committed before. `not_copied`: topics that it reads and the flow does not copy. `not_begun`: partitions of its
    topics in which it has committed nothing and of which the target lacks records."""

    group: str
    connector: str
    source: str
    target: str
    task: int
    ready: bool
    verdict: str
    bound: int | None
    target_state: str
    synced_at_ms: int | None
    reason: str | None = None
    partitions: list[PartitionReport]
    checkpoint_latency_ms: CheckpointLatency | None = None
    readiness: str = "cannot_tell"
    as_of_ms: int | None = None
    missing_records: int | None = None
    missing_since_ms: int | None = None
    reasons: list[ReadinessReason] = []
    moved_at_ms: int | None = None
    rounds: int = 0
    not_copied: list[NotCopiedTopic] = []
    not_begun: list[NotBegunPartition] = []


class GroupSummary(Message):
    group: str
    connector: str
    source: str = ""
    target: str = ""
    ready: bool
    verdict: str
    bound: int | None
    reason: str | None
    partitions: int
    readiness: str = "cannot_tell"
    as_of_ms: int | None = None
    missing_records: int | None = None
    missing_since_ms: int | None = None
    reasons: list[ReadinessReason] = []
    moved_at_ms: int | None = None
    not_copied: list[str] = []


class FlowReadiness(Message):
    """Counts the groups of one connector by readiness. `as_of_ms`: when both clusters were last queried.
    `missing_records` is over all partitions that its groups read. `reasons`: those of the connector, and of its groups
    that are not ready, each once."""

    connector: str
    source: str
    target: str
    readiness: str
    as_of_ms: int | None
    groups: int
    ready: int
    ready_as_of: int
    not_ready: int
    cannot_tell: int
    moved: int = 0
    home: int = 0
    missing_records: int | None = None
    missing_since_ms: int | None = None
    reasons: list[CountedReason] = []


class ReadinessReport(Message):
    """GET /v1/readiness: can everything fail over now? `readiness` is the weakest of the flows, and `cannot_tell` where
    there is none; `as_of_ms` the oldest of theirs; `missing_records` their sum, null where one is not known."""

    readiness: str
    as_of_ms: int | None
    missing_records: int | None = None
    flows: list[FlowReadiness]


class Groups(Message):
    groups: list[GroupSummary]
    total: int
    ready: int
    moved: int = 0
    next: str | None = None


class GroupReports(Message):
    """One group as every connector sees it (several cluster pairs may carry the same group id)."""

    group: str
    reports: list[GroupReport]


class Explanation(Message):
    group: str
    lines: list[str]
    reports: list[GroupReport]


class Live(Message):
    status: str


class Ready(Message):
    """GET /health/ready: `ready`, or with 503 `not_ready` and the reasons why the service can accept no work now."""

    status: str
    reasons: list[str] = []


class FlowStatus(Message):
    """A flow of `mirror-bridge mirror`. `state`: `running` on this node; `elsewhere`, on another one; `waiting` for
    this node or another one to get it. `node` runs it, or is to: `host:port` as it listens; null for not known.
    `connectors`: those of the flow by the names that they have on the node that runs it. `detail`: what this node has
    to say of it, null for nothing."""

    flow: str
    source: str
    target: str
    copies: bool
    state: str
    node: str | None = None
    since_ms: int | None = None
    connectors: list[str] = []
    detail: str | None = None


class Health(Message):
    """GET /health: `status` is ok, starting, degraded or down; per connector and task its conditions. `insecure`:
    settings by which everybody who reaches the service has access. `flows`: those of the file, of `mirror-bridge
    mirror` only; `connectors` are those of the flows that this node runs."""

    status: str
    version: str
    uptime_seconds: float
    rounds_process: str
    insecure: list[str] = []
    connectors: list[ConnectorStatus]
    flows: list[FlowStatus] = []


class DoctorFinding(Message):
    """One thing that doctor has looked at. `severity`: `problem`, `warning`, `not_checked` (it could not be), `skipped`
    (not requested) or `ok`; `remedy`: what to do, "" for nothing."""

    check: str
    severity: str
    found: str
    remedy: str = ""


class DoctorReport(Message):
    """GET /v1/connectors/{name}/doctor: at least one finding of each check."""

    name: str
    findings: list[DoctorFinding]

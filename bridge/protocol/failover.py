"""The requests and answers of failover, rollback and failback. Part of the contract; see messages."""

from __future__ import annotations

from pydantic import Field

from bridge.protocol.base import Message
from bridge.protocol.operators import NotBegunPartition, NotCopiedTopic


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

"""Facts that checks are made of: values that were collected, or why they could not be. Pure.

Findings of checks. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from bridge.model.values import Side

NOT_CHECKED = ": not checked, "
_NAMED = 5
"""Most names in a finding, which then says how many more there are."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be collected, and why. `skipped`: no option says where to ask."""

    why: str
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster that answers. `fetch_version`: the highest version of Fetch that all brokers support, which identifies
    the release of Kafka; `offsets_version`: the same of OffsetFetch."""

    cluster_id: str
    brokers: Mapping[int, str]
    allowed: frozenset[str] | None
    """Operations on the cluster that the user may do; None if the broker does not say."""
    fetch_version: int | Unknown = Unknown("not asked")
    offsets_version: int | Unknown = Unknown("not asked")


class CopiesBeside(NamedTuple):
    """Topics whose copies another mirror makes too, and those where nobody can tell whose records stand between ours:
    timestamps are overwritten there, or the source has deleted what they may be copies of. `ended`: topics that the
    other mirror no longer copies, and when the first record was written (ms) that it has left out."""

    copied: Sequence[str] = ()
    unknown: Sequence[str] = ()
    ended: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic. `partitions` 0: it does not exist, or we may not describe it. `allowed`: operations that the user may
    do, None if the broker does not say."""

    partitions: int
    allowed: frozenset[str] | None
    append_time: bool | None = None
    """Whether it has message.timestamp.type=LogAppendTime; None if its configuration can't be read."""


@dataclass(frozen=True, slots=True)
class Need:
    """A right that the connector needs. `resource`: `cluster`, `topic`, `group` or `transactional id`; `name`: "" for
    the cluster. `optional`: the connector works without it."""

    side: Side
    operation: str
    resource: str
    name: str
    what_for: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Replication:
    """A replication factor of the configuration, and the cluster whose topics get it."""

    key: str
    factor: int
    side: Side


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic of the source and its copy."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Other:
    """Another connector of the service, by what decides how it names topics. `same_groups`: of how many groups both
    commit the offsets."""

    name: str
    policy: str
    separator: str
    aliases: str = ""
    topic_map: str = ""
    topic_map_file: str = ""
    same_groups: int = 0


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Java's major version, and pyspark's version."""

    java: int | Unknown
    java_home: str
    spark: str | Unknown


@dataclass(frozen=True, slots=True)
class Facts:
    """All that one run of doctor has collected about one connector."""

    kind: str
    name: str
    errors: Sequence[tuple[str, str]] = ()
    """Keys, and what validation says is wrong with them."""
    ignored: Sequence[tuple[str, str]] = ()
    clusters: Mapping[Side, ClusterFacts | Unknown] = field(default_factory=dict)
    """The clusters that the connector connects to."""
    one_cluster: bool = False
    """Whether source and target may be the same (bridge.same.cluster)."""
    topics: Mapping[Side, Mapping[str, TopicFacts] | Unknown] = field(default_factory=dict)
    groups: Mapping[Side, Mapping[str, frozenset[str] | None] | Unknown] = field(default_factory=dict)
    """By side and group, the operations that the user may do."""
    ids: Mapping[str, frozenset[str] | None] | Unknown = field(default_factory=dict)
    """By transactional id, the operations on it that the user may do."""
    beyond: Mapping[str, int] = field(default_factory=dict)
    """Of `topics` and `groups`, how many were not looked at, because there are too many."""
    planned: Unknown | None = None
    """Why nothing is known of what the connector needs; then `needs`, `replications` and `pairs` are empty."""
    needs: Sequence[Need] = ()
    replications: Sequence[Replication] = ()
    pairs: Sequence[Pair] = ()
    claims: Mapping[tuple[str, str], str] | Unknown = field(default_factory=dict)
    """By source and target topic, the connector that copies them."""
    stock_syncs: bool | Unknown = False
    """Whether another mirror has written offset syncs: there are some, and no connector of ours has a claim."""
    copied_beside: CopiesBeside | Unknown = field(default_factory=CopiesBeside)
    worker_cluster_id: str | Unknown = Unknown("give --connect-url", skipped=True)
    others: Sequence[Other] | Unknown = Unknown("give --connector and --url", skipped=True)
    policy: str = ""
    separator: str = ""
    aliases: str = ""
    topic_map: str = ""
    topic_map_file: str = ""
    ahead: Mapping[Side, Sequence[str] | Unknown] = field(default_factory=dict)
    """Topics with records from the future, by the clock of this machine."""
    service_skew: float | Unknown = Unknown("give --url", skipped=True)
    """Seconds by which the service's clock is ahead of this machine's."""
    machine: MachineFacts | Unknown = Unknown("the connector runs no Spark", skipped=True)


class Severity(StrEnum):
    PROBLEM = "problem"
    """Something does not work, or will not."""
    WARNING = "warning"
    """It works, but there is something that the operator should know."""
    NOT_CHECKED = "not_checked"
    """The check failed."""
    SKIPPED = "skipped"
    """Not checked, since no option says where to ask."""
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding. `check`: the check's name in the table; `remedy`: what to do, "" for nothing."""

    check: str
    severity: Severity
    found: str
    remedy: str = ""


def exit_status(findings: Iterable[Finding]) -> int:
    """0: no problem; 1: problems; 3: none, but not all could be checked."""
    severities = {finding.severity for finding in findings}
    if Severity.PROBLEM in severities:
        return 1
    return 3 if Severity.NOT_CHECKED in severities else 0


CheckResults = Iterator[tuple[Severity, str, str]]
"""What a check yields: severity, what was found, and what to do."""


def named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def unknown(what: str, why: Unknown) -> tuple[Severity, str, str]:
    """A finding that `what` could not be checked."""
    if why.skipped:
        return Severity.SKIPPED, f"{what}: not checked", why.why
    return (
        Severity.NOT_CHECKED,
        f"{what}{NOT_CHECKED}{why.why}",
        "remove the cause, and run doctor again",
    )

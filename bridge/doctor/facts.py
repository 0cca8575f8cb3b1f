"""What is known before a check: values that adapters have collected, or why they could not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bridge.model.values import Side


@dataclass(frozen=True, slots=True)
class Unknown:
    """What could not be learnt, and why. `skipped`: nobody has said where to ask."""

    why: str
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Of a cluster that answers. `fetch_version`: the highest of Fetch that all brokers speak, by which releases of
    Kafka are told apart; `offsets_version`: of OffsetFetch."""

    cluster_id: str
    brokers: Mapping[int, str]
    allowed: frozenset[str] | None
    """Operations on the cluster that the user may do; None for not said."""
    fetch_version: int | Unknown = Unknown("not asked")
    offsets_version: int | Unknown = Unknown("not asked")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """`partitions` 0: there is no such topic, or we may not describe it. `allowed` None: the broker does not say."""

    partitions: int
    allowed: frozenset[str] | None
    append_time: bool | None = None
    """The broker overwrites timestamps."""


@dataclass(frozen=True, slots=True)
class Need:
    """A right that the connector has to have. `resource`: `cluster`, `topic`, `group` or `transactional id`; `name`: ""
    for the cluster. `spare`: it does its work without."""

    side: Side
    operation: str
    resource: str
    name: str
    what_for: str
    spare: bool = False


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
    """Another connector of the service, as far as it can differ in how topics are named."""

    name: str
    policy: str
    separator: str


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """`java`: major version; `spark`: pyspark's."""

    java: int | Unknown
    java_home: str
    spark: str | Unknown


@dataclass(frozen=True, slots=True)
class Facts:
    kind: str
    name: str
    errors: Sequence[tuple[str, str]] = ()
    """Keys and what is wrong with them, as validation has it."""
    ignored: Sequence[tuple[str, str]] = ()
    clusters: Mapping[Side, ClusterFacts | Unknown] = field(default_factory=dict)
    """Of those that the connector connects to."""
    topics: Mapping[Side, Mapping[str, TopicFacts] | Unknown] = field(default_factory=dict)
    groups: Mapping[Side, Mapping[str, frozenset[str] | None] | Unknown] = field(default_factory=dict)
    """By side and group, the operations that the user may do."""
    ids: Mapping[str, frozenset[str] | None] | Unknown = field(default_factory=dict)
    """By transactional id, the operations on it that the user may do."""
    planned: Unknown | None = None
    """Why it is not known what the connector needs: `needs`, `replications` and `pairs` are empty then."""
    needs: Sequence[Need] = ()
    replications: Sequence[Replication] = ()
    pairs: Sequence[Pair] = ()
    claims: Mapping[tuple[str, str], str] | Unknown = field(default_factory=dict)
    """By source and target topic, the connector that copies them."""
    stock_syncs: bool | Unknown = False
    """There are offset syncs, and no connector of ours has claimed anything: another mirror has written them."""
    worker_cluster_id: str | Unknown = Unknown("give --connect-url", skipped=True)
    others: Sequence[Other] | Unknown = Unknown("give --connector and --url", skipped=True)
    policy: str = ""
    separator: str = ""
    ahead: Mapping[Side, Sequence[str] | Unknown] = field(default_factory=dict)
    """Topics with records from the future, by the clock of this machine."""
    service_skew: float | Unknown = Unknown("give --url", skipped=True)
    """Seconds that the service's clock is ahead of this machine's."""
    machine: MachineFacts | Unknown = Unknown("the connector runs no Spark", skipped=True)

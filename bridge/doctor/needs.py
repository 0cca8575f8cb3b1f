"""Every right that is needed on the clusters, by connectors, by dedicated mode and by commands: the one list that
doctor, the tables in the documentation (rights_pages.py) and tests read. Pure.

READ, WRITE, ALTER and DELETE include DESCRIBE, and ALTER_CONFIGS includes DESCRIBE_CONFIGS, as in Kafka's own
authorizer: so neither stands here beside one that is needed whenever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge.doctor.facts import Need
from bridge.model.values import Side


class On(StrEnum):
    """The resources of rights; the values are for documentation."""

    CLUSTER = "the cluster"
    TOPICS = "the topics that `topics` chooses"
    COPIES = "their copies, `<source alias>.<topic>`"
    GROUPS = "the groups that `groups` chooses"
    IDS = "those that begin with `mirror-bridge-<source alias>-<connector name>-`"
    OTHERS_IDS = "the same of the connectors in `bridge.take.over.from`"
    STATE = (
        "`mm2-offset-runs.<source alias>.internal`, `mm2-layout.<source alias>.internal`, "
        "`mm2-gaps.<source alias>.internal`"
    )
    RUNS = "`mm2-offset-runs.<source alias>.internal`"
    READINESS = "`mm2-group-readiness.<source alias>.internal`"
    SYNCS = "the offset-syncs topic"
    CHECKPOINTS = "`<source alias>.checkpoints.internal`"
    OPPOSITE = "`<target alias>.checkpoints.internal`, `mm2-group-readiness.<target alias>.internal`"
    OTHER_FLOWS = "`mm2-layout.<other alias>.internal`, `mm2-group-readiness.<other alias>.internal`"
    HEARTBEATS = "`heartbeats`"
    OPPOSITE_LAYOUT = "`mm2-layout.<target alias>.internal`"
    LAYOUT = "`mm2-layout.<source alias>.internal`"
    CONNECTS_GROUP = "`connect-<connector name>`"
    NODES = "`<source alias>-mm2`, or `<source alias>-mm2-heartbeats` where the file does not enable the flow"
    CONFIGS = "`mm2-configs.<source alias>.internal`"
    OFFSETS = "`mm2-offsets.<source alias>.internal`"
    RECORDS_ID = "`mirror-bridge-<source alias>-<source alias>-><target alias>-records`, or `…-heartbeats`"
    INDEX_ID = "`mirror-bridge-<source alias>-index of <source alias>-driver`"

    @property
    def resource(self) -> str:
        return _RESOURCES.get(self, "topic")


_RESOURCES = {
    On.CLUSTER: "cluster",
    **dict.fromkeys((On.GROUPS, On.CONNECTS_GROUP, On.NODES), "group"),
    **dict.fromkeys((On.IDS, On.OTHERS_IDS, On.RECORDS_ID, On.INDEX_ID), "transactional id"),
}


class By(StrEnum):
    """Who needs a right; the values are for documentation."""

    OURSELVES = "the connector"
    PRODUCER = "Connect's producer"
    CONSUMER = "Connect's consumer"
    ADMIN = "Connect's admin client"
    HAND_BACK = "`mirror-bridge hand-back`"


@dataclass(frozen=True, slots=True)
class Right:
    """A right that kinds of connectors need. `side` None: the cluster with the offset syncs
    (`offset-syncs.topic.location`). `without`: it is not needed with any of these settings; `only`: it is needed with
    one of these settings alone. `optional`: the connector works without it, and says what is missing. `by`: clients of
    Connect may log in as another user."""

    kinds: tuple[str, ...]
    side: Side | None
    operation: str
    on: On
    what_for: str
    without: tuple[tuple[str, str], ...] = ()
    only: tuple[tuple[str, str], ...] = ()
    optional: bool = False
    by: By = By.OURSELVES

    @property
    def by_connect(self) -> bool:
        return self.by in (By.PRODUCER, By.CONSUMER, By.ADMIN)

    def needed(self, setting: Callable[[str], str | None]) -> bool:
        """Whether it is needed with these settings. `setting`: the value of a key, None for one that this kind of
        connector does not have."""
        if any(setting(key) == value for key, value in self.without):
            return False
        return not self.only or any(setting(key) == value for key, value in self.only)


_SOURCE, _TARGET = Side.SOURCE, Side.TARGET
_COPIES, _SINKS, _BEATS, _CHECKPOINTS = ("source", "sink"), ("sink",), ("heartbeat",), ("checkpoint",)
_GROUPS = ("group_offset", "checkpoint")
_NO_CONFIGS = ("sync.topic.configs.enabled", "false")
_NO_ACLS = (("sync.topic.acls.enabled", "false"),)
_NO_SYNCS = (("emit.offset-syncs.enabled", "false"),)
_NO_READINESS = (("emit.group-readiness.enabled", "false"), ("dry.run", "true"))
_BY_SYNCS = (("translation.evidence", "syncs"),)
"""No record is looked at: DESCRIBE is enough to see where logs begin and end."""
_NO_COMMITS = (("dry.run", "true"), ("sync.group.offsets.enabled", "false"))
_NAMES_STAY = tuple(
    ("replication.policy.class", f"org.apache.kafka.connect.mirror.{name}ReplicationPolicy")
    for name in ("Identity", "Legacy")
)
_SEEN_COMPACTED = "to see that it loses nothing (`cleanup.policy=compact`); without it the log says so"

RIGHTS = (
    # -- the copy
    Right(_COPIES, _SOURCE, "READ", On.TOPICS, "to copy their records"),
    Right(
        _COPIES,
        _SOURCE,
        "DESCRIBE_CONFIGS",
        On.TOPICS,
        "to make copies with their configurations, and to keep these alike",
    ),
    Right(_COPIES, _SOURCE, "DESCRIBE", On.CLUSTER, "to read the ACLs that are copied", _NO_ACLS),
    Right(_COPIES, None, "WRITE", On.SYNCS, "to write offset syncs", _NO_SYNCS),
    Right(_COPIES, None, "CREATE", On.SYNCS, "to make it", _NO_SYNCS),
    Right(_COPIES, None, "DESCRIBE_CONFIGS", On.SYNCS, _SEEN_COMPACTED, _NO_SYNCS, optional=True),
    Right(_COPIES, _TARGET, "WRITE", On.COPIES, "to write copies"),
    Right(_COPIES, _TARGET, "CREATE", On.COPIES, "to make them"),
    Right(_COPIES, _TARGET, "ALTER", On.COPIES, "to add partitions to them"),
    Right(_COPIES, _TARGET, "ALTER_CONFIGS", On.COPIES, "to copy configurations to them", (_NO_CONFIGS,)),
    Right(
        _COPIES,
        _TARGET,
        "DESCRIBE_CONFIGS",
        On.COPIES,
        "to know their `max.message.bytes` and `message.timestamp.type`",
        only=(_NO_CONFIGS,),
        optional=True,
    ),
    Right(
        _COPIES,
        _TARGET,
        "READ",
        On.COPIES,
        "to verify the last record copied where the source's log has become shorter than what was copied of it",
    ),
    Right(_COPIES, _TARGET, "READ", On.STATE, "to go on where copying has stopped"),
    Right(_COPIES, _TARGET, "WRITE", On.STATE, "to keep positions, layouts and gaps"),
    Right(_COPIES, _TARGET, "CREATE", On.STATE, "to make them"),
    Right(_COPIES, _TARGET, "DESCRIBE_CONFIGS", On.STATE, _SEEN_COMPACTED, optional=True),
    Right(_COPIES, _TARGET, "WRITE", On.IDS, "to copy in transactions"),
    Right(
        _COPIES,
        _SOURCE,
        "READ",
        On.OPPOSITE_LAYOUT,
        "to see that no connector copies in the opposite direction",
        only=_NAMES_STAY,
    ),
    Right(_COPIES, _TARGET, "ALTER", On.CLUSTER, "to write the ACLs that are copied", _NO_ACLS),
    # -- groups and checkpoints
    Right(_GROUPS, _SOURCE, "DESCRIBE", On.GROUPS, "to list them and to read their committed offsets"),
    Right(_GROUPS, _SOURCE, "READ", On.TOPICS, "to compare records at the groups' offsets", _BY_SYNCS),
    Right(
        _CHECKPOINTS,
        _SOURCE,
        "DESCRIBE",
        On.TOPICS,
        "to read the groups' offsets in them, and where their logs begin",
        only=_BY_SYNCS,
    ),
    Right(_GROUPS, _TARGET, "READ", On.GROUPS, "to commit their offsets", _NO_COMMITS),
    Right(
        _GROUPS,
        _TARGET,
        "DESCRIBE",
        On.GROUPS,
        "to read their committed offsets",
        without=(("sync.group.offsets.enabled", "false"),),
        only=(("dry.run", "true"),),
    ),
    Right(
        _GROUPS, _TARGET, "READ", On.COPIES, "to find the copies of records, and to commit offsets", _BY_SYNCS
    ),
    Right(_CHECKPOINTS, _TARGET, "READ", On.COPIES, "to commit offsets", _NO_COMMITS, only=_BY_SYNCS),
    Right(_CHECKPOINTS, _TARGET, "DESCRIBE", On.COPIES, "to see where their logs end", only=_BY_SYNCS),
    Right(
        _GROUPS,
        _TARGET,
        "DESCRIBE_CONFIGS",
        On.COPIES,
        "to say so where the target overwrites timestamps (`message.timestamp.type`)",
        optional=True,
    ),
    Right(
        _GROUPS,
        _TARGET,
        "READ",
        On.RUNS,
        "to translate by what the mirror writes of its copies; beside a stock mirror there is none",
        (
            ("translation.verify", "false"),
            ("translation.evidence", "syncs"),
            ("translation.evidence", "timestamps"),
        ),
        optional=True,
    ),
    Right(
        _GROUPS,
        _TARGET,
        "READ",
        On.READINESS,
        "to know which groups are moved, and groups while the source is away",
        optional=True,
    ),
    Right(
        _GROUPS,
        _TARGET,
        "WRITE",
        On.READINESS,
        "to keep what is known of groups, and moves",
        _NO_READINESS,
        optional=True,
    ),
    Right(_GROUPS, _TARGET, "CREATE", On.READINESS, "to make it", _NO_READINESS, optional=True),
    Right(_GROUPS, _TARGET, "DESCRIBE_CONFIGS", On.READINESS, _SEEN_COMPACTED, _NO_READINESS, optional=True),
    Right(
        _GROUPS,
        _TARGET,
        "READ",
        On.OTHER_FLOWS,
        "to commit no offset beyond that of another source whose records a copy holds too (`bridge.merge.with`)",
        optional=True,
    ),
    Right(
        _CHECKPOINTS,
        None,
        "READ",
        On.SYNCS,
        "to translate by offset syncs",
        (("translation.evidence", "timestamps"),),
    ),
    Right(_CHECKPOINTS, _TARGET, "READ", On.CHECKPOINTS, "to know which checkpoints are written"),
    Right(_CHECKPOINTS, _TARGET, "CREATE", On.CHECKPOINTS, "to make it"),
    Right(_CHECKPOINTS, _TARGET, "DESCRIBE_CONFIGS", On.CHECKPOINTS, _SEEN_COMPACTED, optional=True),
    Right(_CHECKPOINTS, _TARGET, "WRITE", On.CHECKPOINTS, "to write checkpoints", by=By.PRODUCER),
    Right(
        _GROUPS,
        _SOURCE,
        "READ",
        On.OPPOSITE,
        "to know where the opposite flow has put groups, for the way home",
        only=(("reverse.checkpointing.enabled", "true"),),
    ),
    # -- heartbeats
    Right(
        _BEATS,
        _TARGET,
        "DESCRIBE",
        On.HEARTBEATS,
        "to see whether it is there; without it the log says so",
        optional=True,
    ),
    Right(_BEATS, _TARGET, "CREATE", On.HEARTBEATS, "to make it"),
    Right(_BEATS, _TARGET, "WRITE", On.HEARTBEATS, "to write heartbeats", by=By.PRODUCER),
    # -- take-over
    Right(_COPIES, _TARGET, "WRITE", On.OTHERS_IDS, "to shut them out, and go on where they have stopped"),
    # -- Connect's own clients
    Right(
        _SINKS,
        _SOURCE,
        "READ",
        On.CONNECTS_GROUP,
        "to be a member, and to commit how far the copy is",
        by=By.CONSUMER,
    ),
    Right(
        _SINKS, _SOURCE, "READ", On.TOPICS, "to commit offsets in them; it reads no record", by=By.CONSUMER
    ),
    Right(_SINKS, _SOURCE, "READ", On.CONNECTS_GROUP, "to show and alter offsets", by=By.ADMIN),
    Right(_SINKS, _SOURCE, "READ", On.TOPICS, "to show and alter offsets in them", by=By.ADMIN),
    Right(_SINKS, _SOURCE, "DELETE", On.CONNECTS_GROUP, "to delete offsets", by=By.ADMIN),
)
"""Of connectors."""

DEDICATED = (
    Right((), _TARGET, "READ", On.NODES, "to share the flow: its nodes are the members"),
    Right((), _TARGET, "READ", On.CONFIGS, "to share the flow: whoever is assigned its partition runs it"),
    Right((), _TARGET, "CREATE", On.CONFIGS, "to make it"),
    Right(
        (), _TARGET, "READ", On.OFFSETS, "to go on where a stock mirror has stopped, or to see that none has"
    ),
    Right((), _TARGET, "WRITE", On.RECORDS_ID, "to write checkpoints and heartbeats in transactions"),
    Right(
        (), _TARGET, "WRITE", On.OFFSETS, "to have stock go on where the flow has stopped", by=By.HAND_BACK
    ),
    Right((), _TARGET, "CREATE", On.OFFSETS, "to make it", by=By.HAND_BACK),
)
"""Of a flow of dedicated mode, beside those of its connectors."""

AUDIT = (
    Right((), _SOURCE, "READ", On.TOPICS, "to read their records"),
    Right((), _SOURCE, "DESCRIBE_CONFIGS", On.TOPICS, "to know whether compaction may have taken records"),
    Right((), _TARGET, "READ", On.COPIES, "to read their records"),
    Right((), _TARGET, "DESCRIBE_CONFIGS", On.COPIES, "to know that, and whether timestamps are overwritten"),
    Right(
        (), _TARGET, "READ", On.RUNS, "to know which record is whose copy, or to see that there are no runs"
    ),
)
"""Of `mirror-bridge audit`."""

INDEX = (
    Right((), _SOURCE, "READ", On.TOPICS, "to read their records"),
    Right((), _TARGET, "READ", On.COPIES, "to read their records"),
    Right((), _TARGET, "DESCRIBE_CONFIGS", On.COPIES, "to leave out those that can't be indexed"),
    Right((), _TARGET, "READ", On.LAYOUT, "to leave out what a connector copies, or to see that none does"),
    Right((), _TARGET, "READ", On.RUNS, "to go on where the last index has ended"),
    Right((), _TARGET, "WRITE", On.RUNS, "to write what is found"),
    Right((), _TARGET, "CREATE", On.RUNS, "to make it"),
    Right((), _TARGET, "WRITE", On.INDEX_ID, "to write in transactions, and to shut another index out"),
)
"""Of `mirror-bridge index`."""


def needs(
    kind: str,
    setting: Callable[[str], str | None],
    syncs: Side | None,
    names: Mapping[On, Sequence[str]],
) -> Iterator[Need]:
    """The rights that a connector of this kind needs, by its settings. `syncs`: the cluster with the offset syncs;
    `names`: the names of resources, "" for the cluster. Rights of Connect's clients are left out: they may log in as
    another user."""
    for right in RIGHTS:
        side = right.side or syncs
        if kind not in right.kinds or side is None or right.by_connect or not right.needed(setting):
            continue
        for name in names.get(right.on, ()):
            yield Need(
                side, right.operation, right.on.resource, name, right.what_for, optional=right.optional
            )

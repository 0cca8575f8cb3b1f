"""Every right that a connector needs on its clusters: the one table that doctor, docs/security.md and tests read. Pure.

READ, WRITE, ALTER and DELETE include DESCRIBE, and ALTER_CONFIGS includes DESCRIBE_CONFIGS, as in Kafka's own
authorizer: so neither stands here beside one that is needed whenever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge.doctor.facts import Need
from bridge.model.copying import TAKE_OVER_FROM
from bridge.model.values import Side
from connectors.registry import KINDS


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
    HEARTBEATS = "`heartbeats`"

    @property
    def resource(self) -> str:
        return {On.CLUSTER: "cluster", On.GROUPS: "group"}.get(
            self, "transactional id" if self in (On.IDS, On.OTHERS_IDS) else "topic"
        )


@dataclass(frozen=True, slots=True)
class Right:
    """A right that kinds of connectors need. `side` None: the cluster with the offset syncs
    (`offset-syncs.topic.location`). `without`: it is not needed with any of these settings; `only`: it is needed with
    one of these settings alone. `optional`: the connector works without it, and says what is missing; `by_connect`:
    Connect's producer needs it, which writes the connector's records."""

    kinds: tuple[str, ...]
    side: Side | None
    operation: str
    on: On
    what_for: str
    without: tuple[tuple[str, str], ...] = ()
    only: tuple[tuple[str, str], ...] = ()
    optional: bool = False
    by_connect: bool = False

    def needed(self, setting: Callable[[str], str | None]) -> bool:
        """Whether it is needed with these settings. `setting`: the value of a key, None for one that this kind of
        connector does not have."""
        if any(setting(key) == value for key, value in self.without):
            return False
        return not self.only or any(setting(key) == value for key, value in self.only)


_SOURCE, _TARGET = Side.SOURCE, Side.TARGET
_COPIES, _BEATS, _CHECKPOINTS = ("source", "sink"), ("heartbeat",), ("checkpoint",)
_GROUPS = ("group_offset", "checkpoint")
_NO_CONFIGS = ("sync.topic.configs.enabled", "false")
_NO_ACLS = (("sync.topic.acls.enabled", "false"),)
_NO_SYNCS = (("emit.offset-syncs.enabled", "false"),)
_NO_READINESS = (("emit.group-readiness.enabled", "false"), ("dry.run", "true"))
_BY_SYNCS = (("translation.evidence", "syncs"),)
"""No record is looked at: DESCRIBE is enough to see where logs begin and end."""
_NO_COMMITS = (("dry.run", "true"), ("sync.group.offsets.enabled", "false"))
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
    Right(_CHECKPOINTS, _TARGET, "WRITE", On.CHECKPOINTS, "to write checkpoints", by_connect=True),
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
    Right(_BEATS, _TARGET, "WRITE", On.HEARTBEATS, "to write heartbeats", by_connect=True),
    # -- take-over
    Right(_COPIES, _TARGET, "WRITE", On.OTHERS_IDS, "to shut them out, and go on where they have stopped"),
)


def needs(
    kind: str,
    setting: Callable[[str], str | None],
    syncs: Side | None,
    names: Mapping[On, Sequence[str]],
) -> Iterator[Need]:
    """The rights that a connector of this kind needs, by its settings. `syncs`: the cluster with the offset syncs;
    `names`: the names of resources, "" for the cluster. Rights of Connect's producer are left out: it may log in as
    another user."""
    for right in RIGHTS:
        side = right.side or syncs
        if kind not in right.kinds or side is None or right.by_connect or not right.needed(setting):
            continue
        for name in names.get(right.on, ()):
            yield Need(
                side, right.operation, right.on.resource, name, right.what_for, optional=right.optional
            )


PAGE = "docs/security.md"
MARKS = ("<!-- rights: generated by `mirror-bridge definitions` -->\n", "<!-- end of rights -->\n")
_HEADINGS = {
    "source": "BridgeMirrorSourceConnector",
    "sink": "BridgeMirrorSinkConnector",
    "group_offset": "MirrorGroupOffsetConnector",
    "checkpoint": "BridgeMirrorCheckpointConnector",
    "heartbeat": "BridgeMirrorHeartbeatConnector",
}
_COLUMNS = "| Cluster | Operation | Resource | Name | Why | Needed |\n| --- | --- | --- | --- | --- | --- |\n"


def with_tables(page: str) -> str:
    """The text of docs/security.md with the tables between the two marks replaced."""
    begin, end = MARKS
    head, _, rest = page.partition(begin)
    _, _, tail = rest.partition(end)
    tables = (f"\n### {heading}\n\n{_COLUMNS}{_lines(kind)}" for kind, heading in _HEADINGS.items())
    return head + begin + "".join(tables) + "\n" + end + tail


def _lines(kind: str) -> str:
    return "".join(f"| {' | '.join(_row(right, kind))} |\n" for right in RIGHTS if kind in right.kinds)


def _row(right: Right, kind: str) -> tuple[str, ...]:
    on = right.on
    return _cluster(right), right.operation, on.resource, on.value, right.what_for, _when(right, kind)


def _cluster(right: Right) -> str:
    return right.side.value if right.side else "that of `offset-syncs.topic.location`"


def _when(right: Right, kind: str) -> str:
    conditions = ["by Connect's producer"] if right.by_connect else []
    if right.on is On.OTHERS_IDS:
        conditions.append(f"only with `{TAKE_OVER_FROM}`, until it is done")
    for word, settings in (("not", right.without), ("only", right.only)):
        own = [f"`{key}={value}`" for key, value in settings if key in KINDS[kind].definition.keys]
        if own:
            conditions.append(f"{word} with {', '.join(own)}")
    if right.operation == "CREATE":
        conditions.append("where nobody else makes it")
    return "; ".join(conditions) or ("better with" if right.optional else "always")

"""Which rights a kind of connector needs, and which of them are missing. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bridge.doctor.facts import Facts, Need, Pair, Unknown
from bridge.doctor.findings import Finds, Severity, named, unknown
from bridge.translation.model import Side

SOURCE, TARGET = Side.SOURCE, Side.TARGET


def needs_of_source(
    pairs: Sequence[Pair],
    state_topics: Sequence[str],
    syncs: tuple[Side, str] | None,
    *,
    acls: bool,
    configs: bool,
) -> Iterator[Need]:
    """Of BridgeMirrorSourceConnector. `syncs`: where offset syncs are written, None for nowhere."""
    for pair in pairs:
        yield Need(SOURCE, "READ", "topic", pair.source, "to copy its records")
        yield Need(TARGET, "WRITE", "topic", pair.target, "to write copies")
        if configs:
            yield Need(SOURCE, "DESCRIBE_CONFIGS", "topic", pair.source, "to copy its configuration")
            yield Need(TARGET, "ALTER_CONFIGS", "topic", pair.target, "to copy the configuration to it")
        yield Need(TARGET, "ALTER", "topic", pair.target, "to add partitions to it")
    for topic in state_topics:
        yield Need(TARGET, "READ", "topic", topic, "to go on where copying has stopped")
        yield Need(TARGET, "WRITE", "topic", topic, "to keep positions")
    if syncs is not None:
        yield Need(syncs[0], "WRITE", "topic", syncs[1], "to write offset syncs")
    if acls:
        yield Need(SOURCE, "DESCRIBE", "cluster", "", "to read the ACLs that sync.topic.acls.enabled copies")
        yield Need(TARGET, "ALTER", "cluster", "", "to write the ACLs that sync.topic.acls.enabled copies")


def needs_of_groups(
    pairs: Sequence[Pair],
    groups: Sequence[str],
    read: Sequence[tuple[Side, str]],
    readiness_topic: str | None,
    *,
    commits: bool,
) -> Iterator[Need]:
    """Of connectors that follow groups. `read`: internal topics; `commits`: offsets are written on the target;
    `readiness_topic`: where the last answers are kept, None for nowhere."""
    for pair in pairs:
        yield Need(SOURCE, "READ", "topic", pair.source, "to compare records at the groups' offsets")
        yield Need(
            TARGET, "READ", "topic", pair.target, "to find the copies of records, and to commit offsets"
        )
    for group in groups:
        yield Need(SOURCE, "DESCRIBE", "group", group, "to read its committed offsets")
        if commits:
            yield Need(TARGET, "READ", "group", group, "to commit its offsets")
    for side, topic in read:
        yield Need(side, "READ", "topic", topic, "to read what the mirror writes of its progress")
    if readiness_topic is not None:
        for operation in ("READ", "WRITE"):
            yield Need(
                TARGET, operation, "topic", readiness_topic, "to keep what is known of groups", spare=True
            )


def rights(facts: Facts) -> Finds:
    if facts.planned is not None:
        yield unknown("rights", facts.planned)
    missing: dict[Need, list[str]] = {}
    unsaid: dict[tuple[Side, str], list[str]] = {}
    for need in facts.needs:
        allowed = _allowed(facts, need)
        if isinstance(allowed, Unknown):
            unsaid.setdefault((need.side, allowed.why), []).append(need.name or "the cluster")
        elif allowed is not None and need.operation not in allowed:
            missing.setdefault(replace(need, name=""), []).append(need.name)
    for need, names in missing.items():
        on = "the cluster" if need.resource == "cluster" else f"{need.resource} {named(names)}"
        yield (
            Severity.WARNING if need.spare else Severity.PROBLEM,
            f"{need.operation} on {on} is missing on the {need.side}, {need.what_for}",
            f"grant {need.operation} on {on} to the connector's user on the {need.side}",
        )
    yield from _creating(facts)
    for (side, why), names in unsaid.items():
        yield unknown(f"rights on {named(sorted(set(names)))} of the {side} cluster", Unknown(why))


def _creating(facts: Facts) -> Finds:
    """Topics that are missing have to be made, by CREATE on the cluster or on the topic."""
    for side in Side:
        topics, cluster = facts.topics.get(side, {}), facts.clusters.get(side)
        if cluster is None or isinstance(cluster, Unknown) or isinstance(topics, Unknown):
            continue
        made = {
            need.name
            for need in facts.needs
            if need.side is side and need.operation == "WRITE" and not need.spare
        }
        denied = [
            name
            for name in sorted(made)
            if (topic := topics.get(name)) is not None
            and not topic.partitions
            and cluster.allowed is not None
            and "CREATE" not in cluster.allowed
            and "CREATE" not in (topic.allowed or ())
        ]
        if denied:
            yield (
                Severity.PROBLEM,
                f"CREATE is missing for {named(denied)}, which the {side} cluster does not have",
                f"grant CREATE on them or on the {side} cluster, or make them",
            )


def _allowed(facts: Facts, need: Need) -> frozenset[str] | Unknown | None:
    """None where there is nothing to be said: a topic that does not exist yet."""
    cluster = facts.clusters.get(need.side)
    if cluster is None or isinstance(cluster, Unknown):
        return Unknown(f"the {need.side} cluster did not answer")
    if need.resource == "cluster":
        return Unknown("the broker does not say") if cluster.allowed is None else cluster.allowed
    if need.resource == "topic":
        topics = facts.topics.get(need.side, {})
        if isinstance(topics, Unknown):
            return topics
        topic = topics.get(need.name)
        if topic is None:
            return Unknown("it was not described")
        if not topic.partitions and topic.allowed:
            return None
        return None if topic.allowed is None and not topic.partitions else _said(topic.allowed)
    groups = facts.groups.get(need.side, {})
    if isinstance(groups, Unknown):
        return groups
    return _said(groups[need.name]) if need.name in groups else Unknown("it was not described")


def _said(allowed: frozenset[str] | None) -> frozenset[str] | Unknown:
    return Unknown("the broker does not say") if allowed is None else allowed

"""The check for rights that a connector needs (bridge.doctor.needs) and does not have. Pure."""

from __future__ import annotations

from dataclasses import replace

from bridge.doctor.facts import Facts, Need, Unknown
from bridge.doctor.findings import NOT_CHECKED, CheckResults, Severity, named, unknown
from bridge.model.values import Side


def rights(facts: Facts) -> CheckResults:
    if facts.planned is not None:
        yield unknown("rights", facts.planned)
    for what, count in facts.beyond.items():
        yield (
            Severity.NOT_CHECKED,
            f"{count:,} {what}{NOT_CHECKED}doctor looks at the first 2,000",
            f"set {what} to fewer of them in a copy of the configuration, and run doctor on each part",
        )
    missing: dict[Need, list[str]] = {}
    unknown_rights: dict[tuple[Side, str], list[str]] = {}
    for need in facts.needs:
        if need.operation == "CREATE":
            continue
        allowed = _allowed(facts, need)
        if isinstance(allowed, Unknown):
            unknown_rights.setdefault((need.side, allowed.why), []).append(need.name or "the cluster")
        elif allowed is not None and need.operation not in allowed:
            missing.setdefault(replace(need, name=""), []).append(need.name)
    for need, names in missing.items():
        on = "the cluster" if need.resource == "cluster" else f"{need.resource} {named(names)}"
        yield (
            Severity.WARNING if need.optional else Severity.PROBLEM,
            f"{need.operation} on {on} is missing on the {need.side}, {need.what_for}",
            f"grant {need.operation} on {on} to the connector's user on the {need.side}",
        )
    for optional in (False, True):
        yield from _creating(facts, optional=optional)
    for (side, why), names in unknown_rights.items():
        yield unknown(f"rights on {named(sorted(set(names)))} of the {side} cluster", Unknown(why))


def _creating(facts: Facts, *, optional: bool) -> CheckResults:
    """Findings for topics that have to be made, which takes CREATE on the cluster or on the topic."""
    for side in Side:
        topics, cluster = facts.topics.get(side, {}), facts.clusters.get(side)
        if cluster is None or isinstance(cluster, Unknown) or isinstance(topics, Unknown):
            continue
        denied = [
            need.name
            for need in facts.needs
            if (need.side, need.operation, need.optional) == (side, "CREATE", optional)
            and (topic := topics.get(need.name)) is not None
            and not topic.partitions
            and cluster.allowed is not None
            and "CREATE" not in cluster.allowed
            and "CREATE" not in (topic.allowed or ())
        ]
        if denied:
            yield (
                Severity.WARNING if optional else Severity.PROBLEM,
                f"CREATE is missing for {named(sorted(denied))}, which the {side} cluster does not have",
                f"grant CREATE on them or on the {side} cluster, or make them",
            )


def _allowed(facts: Facts, need: Need) -> frozenset[str] | Unknown | None:
    """Operations on the resource that the user may do; None for a topic that does not exist yet."""
    cluster = facts.clusters.get(need.side)
    if cluster is None or isinstance(cluster, Unknown):
        return Unknown(f"the {need.side} cluster did not answer")
    if need.resource == "cluster":
        return Unknown("the broker does not say") if cluster.allowed is None else cluster.allowed
    if need.resource == "transactional id":
        ids = facts.ids
        return ids if isinstance(ids, Unknown) else _or_unknown(ids.get(need.name))
    if need.resource == "topic":
        topics = facts.topics.get(need.side, {})
        if isinstance(topics, Unknown):
            return topics
        topic = topics.get(need.name)
        if topic is None:
            return Unknown("it was not described")
        return None if topic.allowed is None and not topic.partitions else _or_unknown(topic.allowed)
    groups = facts.groups.get(need.side, {})
    if isinstance(groups, Unknown):
        return groups
    return _or_unknown(groups[need.name]) if need.name in groups else Unknown("it was not described")


def _or_unknown(allowed: frozenset[str] | None) -> frozenset[str] | Unknown:
    return Unknown("the broker does not say") if allowed is None else allowed

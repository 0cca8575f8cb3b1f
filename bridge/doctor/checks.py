"""The table of doctor's checks; each is a function from facts to findings. Pure.

Checks of clusters: reachability, versions, replication factors, the worker's cluster, clocks. Pure.

Checks of the configuration and of this machine. Pure.

Checks of topics and their copies. Pure.

The check for rights that a connector needs (bridge.doctor.needs) and does not have. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from bridge.doctor.facts import (
    NOT_CHECKED,
    CheckResults,
    ClusterFacts,
    Facts,
    Finding,
    Need,
    Severity,
    Unknown,
    named,
    unknown,
)
from bridge.mm2.replication_policy import ALIASES, TOPIC_MAP, TOPIC_MAP_FILE
from bridge.model.values import Side, iso_time
from bridge.pipeline.driver.spark_problem import LEAST
from connectors.base import COPYING_KINDS, GROUP_KINDS
from connectors.config.mirror_options import STOCK

P, W, OK = Severity.PROBLEM, Severity.WARNING, Severity.OK
_MOST_SKEW = 2.0
"""Seconds by which two clocks may differ without a finding."""
_RELEASES = {
    11: "2.3 to 2.6",
    12: "2.7 to 3.0",
    13: "3.1 to 3.4",
    15: "3.5 or 3.6",
    16: "3.7 or 3.8",
    17: "3.9 or 4.0",
}
_OFFSETS_OF_MANY = 8
"""The version of OffsetFetch from which on it takes many groups at once (KIP-709, Kafka 3.0)."""
_WORKERS = {
    "checkpoint": (Side.TARGET, "writes records to"),
    "heartbeat": (Side.TARGET, "writes records to"),
    "sink": (Side.SOURCE, "commits the group's offsets on"),
}
"""The side at which a worker of these kinds has to stand, and what it does there."""


def reachability(facts: Facts) -> CheckResults:
    for side, cluster in facts.clusters.items():
        if isinstance(cluster, Unknown) and facts.planned is not None:
            yield unknown(f"the {side} cluster", cluster)
        elif isinstance(cluster, Unknown):
            remedy = "remove the cause: nothing works without the cluster"
            yield P, f"the {side} cluster can't be reached: {cluster.why}", remedy
        else:
            yield OK, f"the {side} cluster {cluster.cluster_id} answers, {len(cluster.brokers)} broker(s)", ""
    ids = [cluster.cluster_id for cluster in facts.clusters.values() if isinstance(cluster, ClusterFacts)]
    if len(ids) == len(Side) and len(set(ids)) == 1 and not facts.one_cluster:
        remedy = "correct target.cluster.bootstrap.servers, or set bridge.same.cluster=true"
        yield P, f"the target is the source cluster: both have the id {ids[0]}", remedy


def versions(facts: Facts) -> CheckResults:
    for side, cluster in facts.clusters.items():
        if isinstance(cluster, Unknown):
            yield unknown(f"versions of the {side} cluster's brokers", Unknown(_why_not_asked(facts, side)))
            continue
        fetch, offsets = cluster.fetch_version, cluster.offsets_version
        if isinstance(fetch, Unknown):
            yield unknown(f"versions of the {side} cluster's brokers", fetch)
        elif isinstance(offsets, Unknown):
            yield unknown(f"versions of the {side} cluster's brokers", offsets)
        elif facts.kind not in COPYING_KINDS and offsets < _OFFSETS_OF_MANY:
            yield (
                P,
                f"brokers of the {side} cluster are of Kafka {_release(fetch)}",
                "groups need brokers from 3.0 on",
            )
        elif fetch < min(_RELEASES):
            yield (
                P,
                f"brokers of the {side} cluster are older than Kafka 2.3",
                "copying needs brokers from 2.5 on",
            )
        else:
            yield OK, f"brokers of the {side} cluster are of Kafka {_release(fetch)}", ""


def _release(fetch: int) -> str:
    return _RELEASES.get(fetch, "4.1 or newer" if fetch > max(_RELEASES) else "an unknown release")


def _why_not_asked(facts: Facts, side: Side) -> str:
    return f"the {side} cluster did not answer" if facts.planned is None else facts.planned.why


def replication(facts: Facts) -> CheckResults:
    if facts.planned is not None:
        yield unknown("replication factors", facts.planned)
    for described in facts.replications:
        cluster = facts.clusters.get(described.side)
        if cluster is None or isinstance(cluster, Unknown):
            yield unknown(described.key, Unknown(f"the {described.side} cluster did not answer"))
        elif described.factor > len(cluster.brokers):
            brokers = len(cluster.brokers)
            what = f"{described.key} is {described.factor}, and the {described.side} cluster has {brokers} broker(s)"
            yield P, what, f"set {described.key}={brokers}, or -1 for the brokers' default"


def worker(facts: Facts) -> CheckResults:
    if facts.kind not in _WORKERS:
        return
    side, does = _WORKERS[facts.kind]
    cluster, worker_cluster = facts.clusters.get(side), facts.worker_cluster_id
    if isinstance(worker_cluster, Unknown):
        yield unknown("the worker's cluster", worker_cluster)
    elif cluster is None or isinstance(cluster, Unknown):
        yield unknown("the worker's cluster", Unknown(_why_not_asked(facts, side)))
    elif worker_cluster != cluster.cluster_id:
        what = f"the worker {does} cluster {worker_cluster}, and the {side} is {cluster.cluster_id}"
        yield P, what, f"deploy the connector on a worker whose bootstrap.servers are the {side}'s"


def clocks(facts: Facts) -> CheckResults:
    for side, topics in facts.ahead.items():
        if isinstance(topics, Unknown):
            yield unknown(f"clocks of the {side} cluster", topics)
        elif topics:
            yield (
                W,
                f"records of {named(topics)} on the {side} are more than a minute in the future by this clock",
                "set the clocks of this machine and of the producers by NTP",
            )
    skew = facts.service_skew
    if isinstance(skew, Unknown):
        yield unknown("the service's clock", skew)
    elif abs(skew) > _MOST_SKEW:
        yield (
            W,
            f"the service's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's",
            "set both by NTP; ages and recovery points are wrong by that much",
        )


def configuration(facts: Facts) -> CheckResults:
    for key, message in facts.errors:
        yield P, message, f"correct {key}"


def ignored(facts: Facts) -> CheckResults:
    for key, reason in facts.ignored:
        yield W, f"{key} does nothing: {reason}", f"remove {key}"


def machine(facts: Facts) -> CheckResults:
    if facts.kind not in COPYING_KINDS:
        return
    machine_facts = facts.machine
    if isinstance(machine_facts, Unknown):
        yield unknown("Java and Spark", machine_facts)
        return
    if isinstance(machine_facts.java, Unknown):
        home = (
            f" (JAVA_HOME is {machine_facts.java_home})"
            if machine_facts.java_home
            else " (JAVA_HOME is not set)"
        )
        yield (
            P,
            f"{machine_facts.java.why}{home}",
            f"install a JDK {LEAST} or newer where the service runs, set JAVA_HOME",
        )
    elif machine_facts.java < LEAST:
        yield (
            P,
            f"Java is {machine_facts.java}",
            f"install a JDK {LEAST} or newer where the service runs, set JAVA_HOME",
        )
    else:
        yield OK, f"Java is {machine_facts.java}", ""
    if isinstance(machine_facts.spark, Unknown):
        yield (
            P,
            machine_facts.spark.why,
            "install the service's dependencies again: pip install -r requirements.txt",
        )
    else:
        yield OK, f"pyspark is {machine_facts.spark}", ""


def second_mirror(facts: Facts) -> CheckResults:
    if facts.kind in GROUP_KINDS:
        yield from _second_commits(facts)
    if facts.kind not in COPYING_KINDS:
        return
    if isinstance(facts.claims, Unknown):
        yield unknown("claims of other connectors", facts.claims)
    else:
        by_owner: dict[str, list[str]] = {}
        for pair in facts.pairs:
            owner = facts.claims.get((pair.source, pair.target))
            if owner is not None and owner != facts.name:
                by_owner.setdefault(owner, []).append(pair.source)
        for owner, topics in by_owner.items():
            yield (
                P,
                f"connector {owner} copies {named(sorted(topics))} already",
                f"exclude them with topics.exclude, or set bridge.take.over.from={owner}",
            )
    if isinstance(facts.stock_syncs, Unknown):
        yield unknown("offset syncs of another mirror", facts.stock_syncs)
    elif facts.stock_syncs:
        yield (
            W,
            "there are offset syncs of this flow, and no connector of ours has copied: a stock mirror wrote them",
            "stop it before this connector starts, and see docs/take-over.md",
        )
    if isinstance(facts.copied_beside, Unknown):
        yield unknown("copies of another mirror", facts.copied_beside)
        return
    if facts.copied_beside.copied:
        yield (
            P,
            f"another mirror copies {named(facts.copied_beside.copied)} too: the target has these records twice",
            "stop it if it still runs, or leave the topics to it with topics.exclude",
        )
    if ended := facts.copied_beside.ended:
        yield (
            W,
            f"another mirror has copied {named(sorted(ended))} too, and nothing that was written since "
            f"{iso_time(max(ended.values()))}: the target has older records twice",
            "nothing once it is stopped; groups that stand before these read them twice, and explain says up to where",
        )
    if facts.copied_beside.unknown:
        yield (
            W,
            f"records of others stand between the copies of {named(facts.copied_beside.unknown)}, and it is not known "
            "whether another mirror copies there: timestamps are overwritten, or the source has deleted older records",
            "look for a second mirror of these topics, or for an application that writes into their copies",
        )


def _second_commits(facts: Facts) -> CheckResults:
    if isinstance(facts.others, Unknown):
        yield unknown("other connectors that commit the offsets of its groups", facts.others)
        return
    for other in facts.others:
        if other.same_groups:
            yield (
                W,
                f"connector {other.name} commits the offsets of {other.same_groups} of its groups too",
                "give one of the two other groups, or delete it",
            )


def timestamps(facts: Facts) -> CheckResults:
    topics = facts.topics.get(Side.TARGET, {})
    if isinstance(topics, Unknown):
        yield unknown("timestamp types", topics)
        return
    copies = {pair.target for pair in facts.pairs}
    wrong = sorted(name for name, topic in topics.items() if topic.append_time and name in copies)
    unread = sorted(
        name
        for name, topic in topics.items()
        if topic.append_time is None and topic.partitions and name in copies
    )
    if wrong:
        yield (
            P,
            f"the target overwrites the timestamps of {named(wrong)}: copies can't be found by timestamp",
            "set message.timestamp.type=CreateTime on them",
        )
    if unread:
        why = Unknown(f"the configs of {named(unread)} can't be read; grant DESCRIBE_CONFIGS")
        yield unknown("timestamp types", why)


def partitions(facts: Facts) -> CheckResults:
    source, target = facts.topics.get(Side.SOURCE, {}), facts.topics.get(Side.TARGET, {})
    for side, topics in ((Side.SOURCE, source), (Side.TARGET, target)):
        if isinstance(topics, Unknown):
            yield unknown(f"partition counts of the {side} cluster", topics)
    if isinstance(source, Unknown) or isinstance(target, Unknown):
        return
    for pair in facts.pairs:
        mine, copy = source.get(pair.source), target.get(pair.target)
        if mine is None or copy is None or not mine.partitions or not copy.partitions:
            continue
        if mine.partitions > copy.partitions:
            yield (
                W if facts.kind in COPYING_KINDS else P,
                f"{pair.source} has {mine.partitions} partitions, its copy {pair.target} {copy.partitions}",
                f"add partitions to {pair.target}; BridgeMirrorSourceConnector does it by itself",
            )
        elif mine.partitions < copy.partitions:
            yield (
                W,
                f"{pair.source} has {mine.partitions} partitions, its copy {pair.target} {copy.partitions}",
                "others may write to the copy; records with keys are in other partitions than on the source",
            )


def policies(facts: Facts) -> CheckResults:
    if isinstance(facts.others, Unknown):
        yield unknown("replication policies of the other connectors", facts.others)
        return
    for other in facts.others:
        for key, theirs, ours in (
            ("replication.policy.class", other.policy, facts.policy),
            ("replication.policy.separator", other.separator, facts.separator),
            (ALIASES, other.aliases, facts.aliases),
            (TOPIC_MAP, other.topic_map, facts.topic_map),
            (TOPIC_MAP_FILE, other.topic_map_file, facts.topic_map_file),
        ):
            if theirs.removeprefix(STOCK) != ours.removeprefix(STOCK):
                yield (
                    P,
                    f"{key} is {ours!r}, and {theirs!r} in connector {other.name} of this flow",
                    f"set one {key}",
                )


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


class Check(NamedTuple):
    """A check. `finds` and `remedy` are for the documentation."""

    name: str
    finds: str
    remedy: str
    run: Callable[[Facts], CheckResults]
    fine: str = "nothing found"
    """What is said where it finds nothing."""


def examine(facts: Facts) -> list[Finding]:
    """The findings of all checks. Each has one at least, so that no check is left out in silence."""
    findings = []
    for check in CHECKS:
        results = [Finding(check.name, *row) for row in check.run(facts)]
        findings += results or [Finding(check.name, Severity.OK, check.fine)]
    return findings


CHECKS = (
    Check(
        "configuration",
        "a key is wrong, misspelt, missing, or names a key store that can't be read",
        "correct the key that is named",
        configuration,
    ),
    Check("ignored", "a setting does nothing", "remove it, or use what the reason names", ignored),
    Check("reachability", "a cluster does not answer, with the cause", "by cause, as above", reachability),
    Check(
        "versions", "brokers are too old", "brokers from 3.0 on for groups, from 2.5 on for copying", versions
    ),
    Check(
        "rights",
        "the user may not do what this kind of connector does, by operation and resource",
        "grant the operation on the resource",
        rights,
        "all there",
    ),
    Check(
        "replication",
        "a replication factor is above the number of brokers",
        "set the key that is named",
        replication,
    ),
    Check(
        "worker",
        "the worker of a checkpoint or heartbeat connector writes to another cluster than the target",
        "deploy it on a worker of the target",
        worker,
    ),
    Check(
        "second mirror",
        "another connector has claimed a copy, or commits the same groups; a stock mirror has written offset syncs, or "
        "copies beside this one",
        "exclude its topics, stop it, or take over; other groups for one of the two",
        second_mirror,
    ),
    Check("timestamps", "a copy has `message.timestamp.type=LogAppendTime`", "set `CreateTime`", timestamps),
    Check(
        "partitions",
        "a topic and its copy have other numbers of partitions",
        "add partitions to the copy",
        partitions,
    ),
    Check(
        "policies",
        "connectors of one flow name copies differently",
        "set one policy, one separator, one list of aliases and one map",
        policies,
    ),
    Check(
        "clocks", "records are from the future, or the service's clock differs", "set clocks by NTP", clocks
    ),
    Check(
        "machine",
        "no Java, a Java that is too old, or no pyspark",
        "install a JDK 17, set JAVA_HOME",
        machine,
    ),
)

"""Checks of clusters: reachability, versions, replication factors, the worker's cluster, clocks. Pure."""

from __future__ import annotations

from bridge.doctor.facts import ClusterFacts, Facts, Unknown
from bridge.doctor.findings import CheckResults, Severity, named, unknown
from bridge.model.values import Side
from connectors.base import COPYING_KINDS

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


def reachability(facts: Facts) -> CheckResults:
    for side, cluster in facts.clusters.items():
        if isinstance(cluster, Unknown) and facts.planned is not None:
            yield unknown(f"the {side} cluster", cluster)
        elif isinstance(cluster, Unknown):
            remedy = "remove the cause: nothing works without the cluster"
            yield P, f"the {side} cluster can't be reached: {cluster.why}", remedy
        else:
            yield OK, f"the {side} cluster {cluster.cluster_id} answers, {len(cluster.brokers)} broker(s)", ""
    ids = [each.cluster_id for each in facts.clusters.values() if isinstance(each, ClusterFacts)]
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
    for each in facts.replications:
        cluster = facts.clusters.get(each.side)
        if cluster is None or isinstance(cluster, Unknown):
            yield unknown(each.key, Unknown(f"the {each.side} cluster did not answer"))
        elif each.factor > len(cluster.brokers):
            what = f"{each.key} is {each.factor}, and the {each.side} cluster has {len(cluster.brokers)} broker(s)"
            yield P, what, f"set {each.key}={len(cluster.brokers)}, or -1 for the brokers' default"


_WORKERS = {
    "checkpoint": (Side.TARGET, "writes records to"),
    "heartbeat": (Side.TARGET, "writes records to"),
    "sink": (Side.SOURCE, "commits the group's offsets on"),
}
"""The side at which a worker of these kinds has to stand, and what it does there."""


def worker(facts: Facts) -> CheckResults:
    if facts.kind not in _WORKERS:
        return
    side, does = _WORKERS[facts.kind]
    cluster, there = facts.clusters.get(side), facts.worker_cluster_id
    if isinstance(there, Unknown):
        yield unknown("the worker's cluster", there)
    elif cluster is None or isinstance(cluster, Unknown):
        yield unknown("the worker's cluster", Unknown(_why_not_asked(facts, side)))
    elif there != cluster.cluster_id:
        what = f"the worker {does} cluster {there}, and the {side} is {cluster.cluster_id}"
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

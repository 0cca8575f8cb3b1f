"""Reads from names of topics which clusters are upstream (MirrorClient, stock §1.9). `topics`: all names on one
cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bridge.mm2.replication_policy import ReplicationPolicy

UNREACHABLE = -1
"""Hops to a cluster that nothing comes from."""


def sources(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """Yields the aliases of the clusters that the topic came through, the nearest first. Ends where one comes again:
    names that a policy leaves unchanged have the same source for ever."""
    seen: set[str] = set()
    name: str | None = topic
    while name is not None:
        source = policy.topic_source(name)
        if source is None or source in seen:
            return
        yield source
        seen.add(source)
        name = policy.upstream_topic(name)


def count_hops(policy: ReplicationPolicy, topic: str, alias: str) -> int:
    """Hops from the cluster to where the topic is; UNREACHABLE when it did not come from there."""
    return next((at for at, source in enumerate(sources(policy, topic), 1) if source == alias), UNREACHABLE)


def heartbeat_topics(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    return {topic for topic in topics if policy.is_heartbeats_topic(topic)}


def checkpoint_topics(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    return {topic for topic in topics if policy.is_checkpoints_topic(topic)}


def upstream_clusters(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    """Returns every cluster whose heartbeats arrive, however many hops away."""
    return {source for topic in heartbeat_topics(policy, topics) for source in sources(policy, topic)}


def replication_hops(policy: ReplicationPolicy, topics: Iterable[str], alias: str) -> int:
    """Returns the fewest hops that heartbeats of the cluster take; UNREACHABLE when none arrive."""
    hops = (count_hops(policy, topic, alias) for topic in heartbeat_topics(policy, topics))
    return min((count for count in hops if count != UNREACHABLE), default=UNREACHABLE)


def remote_topics(policy: ReplicationPolicy, topics: Iterable[str], source: str | None = None) -> set[str]:
    """Returns mirrored topics, internal ones left out; only those mirrored directly from `source` if that is given."""
    sources = {topic: policy.topic_source(topic) for topic in topics if not policy.is_internal_topic(topic)}
    return {topic for topic, its in sources.items() if its is not None and source in (None, its)}

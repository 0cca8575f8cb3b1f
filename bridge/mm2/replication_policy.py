"""Names remote topics: replication policies map a topic of the source to its name on the target, and back (Kafka
4.3.1).

Default: `A.orders`, `B.A.orders`, ... Identity: names stay, but for those that end with `heartbeats`.
Java's `split` drops trailing empty parts, so `a.` has no source; one in front stays: `.b` has the source "".

Reads from names of topics which clusters are upstream (MirrorClient, stock §1.9). `topics`: all names on one
cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bridge.model.java_values import boolean, split_list

SEPARATOR = "replication.policy.separator"
INTERNAL_SEPARATOR_ENABLED = "replication.policy.internal.topic.separator.enabled"
ALIASES = "replication.policy.aliases"
TOPIC_MAP, TOPIC_MAP_FILE = "replication.policy.topic.map", "replication.policy.topic.map.file"
"""Of bridge.policies.TopicMap."""
SOURCE_ALIAS = "source.cluster.alias"
HEARTBEATS = "heartbeats"
UNREACHABLE = -1
"""Hops to a cluster that nothing comes from."""


class ReplicationPolicy(ABC):
    """Base of all policies; a user's own needs the three abstract methods, the rest follows from them."""

    @abstractmethod
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Returns the name on the target of the source's topic."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Returns the alias of the cluster that the topic was mirrored from; None for a topic that was not mirrored."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Returns the name on the cluster that the topic was mirrored from; None for a topic that was not mirrored."""

    def original_topic(self, topic: str) -> str:
        """Returns the name on the cluster where the records were first written."""
        seen = {topic}
        while (upstream := self.upstream_topic(topic)) is not None and upstream not in seen:
            seen.add(upstream)
            topic = upstream
        return topic

    def heartbeats_topic(self) -> str:
        return HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        return f"mm2-offset-syncs.{alias}.internal"

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}.checkpoints.internal"

    # Those below are ours. `mm2…internal` is what stock takes for internal, so that no mirror copies them.

    def offset_runs_topic(self, source_alias: str) -> str:
        return f"mm2-offset-runs.{source_alias}.internal"

    def layout_topic(self, source_alias: str) -> str:
        return f"mm2-layout.{source_alias}.internal"

    def gaps_topic(self, source_alias: str) -> str:
        return f"mm2-gaps.{source_alias}.internal"

    def readiness_topic(self, source_alias: str) -> str:
        return f"mm2-group-readiness.{source_alias}.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(".checkpoints.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        return (topic.startswith("mm2") and topic.endswith(".internal")) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        return self.is_mm2_internal_topic(topic) or topic.startswith(("__", "."))


class DefaultReplicationPolicy(ReplicationPolicy):
    """Names remote topics `<alias><separator><topic>`. A name is read up to its first separator, or, where it begins
    with one of the aliases that are said to contain separators, up to the end of the longest of them."""

    def __init__(self) -> None:
        self.separator = "."
        self.internal_separator_enabled = True
        self.aliases: Sequence[str] = ()
        """The longest first."""

    def configure(self, props: Mapping[str, str | None]) -> None:
        aliases = split_list(props.get(ALIASES) or "")
        self.aliases = sorted(filter(None, aliases), key=len, reverse=True)
        # Stock reads the second key only when the first one is given.
        separator = props.get(SEPARATOR)
        if separator is None:
            return
        self.separator = separator
        enabled = props.get(INTERNAL_SEPARATOR_ENABLED)
        if enabled is not None:
            self.internal_separator_enabled = boolean(enabled) is True

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.internal_separator_enabled else "."

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        for alias in self.aliases:
            if topic.startswith(prefix := alias + self.separator) and topic != prefix:
                return alias
        parts = java_split(topic, self.separator)
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        # Not self.topic_source: Identity overrides that one, and calls this one for heartbeats only.
        source = DefaultReplicationPolicy.topic_source(self, topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def offset_syncs_topic(self, alias: str) -> str:
        return self._internal("mm2-offset-syncs", alias)

    def offset_runs_topic(self, source_alias: str) -> str:
        return self._internal("mm2-offset-runs", source_alias)

    def layout_topic(self, source_alias: str) -> str:
        return self._internal("mm2-layout", source_alias)

    def gaps_topic(self, source_alias: str) -> str:
        return self._internal("mm2-gaps", source_alias)

    def readiness_topic(self, source_alias: str) -> str:
        return self._internal("mm2-group-readiness", source_alias)

    def _internal(self, name: str, alias: str) -> str:
        return self._internal_separator.join((name, alias, "internal"))

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self._checkpoints_suffix}"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self._internal_separator}checkpoints{self._internal_separator}internal"

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self._checkpoints_suffix)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        internal = topic.startswith("mm2") and topic.endswith(f"{self._internal_separator}internal")
        return internal or self.is_checkpoints_topic(topic)

    def _heartbeat(self, topic: str) -> bool:
        """Whether these rules read it as `heartbeats` or a copy of it, whatever those of a subclass are."""
        while (upstream := DefaultReplicationPolicy.upstream_topic(self, topic)) is not None:
            topic = upstream
        return topic == self.heartbeats_topic()


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Names unchanged, but for `heartbeats` and copies of it, which follow the default rules: a heartbeat that kept its
    name would be mirrored round and round. Stock renames whatever ends with `heartbeats`, so that a topic
    `myheartbeats` is not found under its name (B29)."""

    def __init__(self) -> None:
        super().__init__()
        self.source_alias: str | None = None

    def configure(self, props: Mapping[str, str | None]) -> None:
        super().configure(props)
        self.source_alias = props.get(SOURCE_ALIAS)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return super().format_remote_topic(source_alias, topic) if self._heartbeat(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if self._heartbeat(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if self._heartbeat(topic) else topic


class LegacyReplicationPolicy(IdentityReplicationPolicy):
    """Names unchanged, as MirrorMaker 1 leaves them (KIP-382); a topic called `heartbeats` is one like any other. No
    name tells of a cycle: the driver refuses to copy in both directions instead."""

    def is_heartbeats_topic(self, topic: str) -> bool:
        return False

    def _heartbeat(self, topic: str) -> bool:
        return False


def is_cycle(policy: ReplicationPolicy, topic: str, target_alias: str) -> bool:
    """Whether a topic of the source came from the target in the first place, however many hops ago."""
    seen = set[str]()
    name: str | None = topic
    # A name that comes again is one that the policy leaves as it is, or maps round and round.
    while name is not None and name not in seen:
        source = policy.topic_source(name)
        if source is None or source == target_alias:
            return source is not None
        seen.add(name)
        name = policy.upstream_topic(name)
    return False


def misread(policy: ReplicationPolicy, source_alias: str, topic: str) -> tuple[str, str] | None:
    """Returns the alias and the topic that the name of a topic's copy is read as, where aliases that contain the
    separator make them others: `us.west.t` is `west.t` of `us`, or `t` of `us.west`."""
    if not isinstance(policy, DefaultReplicationPolicy) or not policy.aliases:
        return None
    remote = policy.format_remote_topic(source_alias, topic)
    source, upstream = policy.topic_source(remote), policy.upstream_topic(remote)
    if source is None or upstream is None or (source, upstream) == (source_alias, topic):
        return None
    return source, upstream


def counterpart(
    policy: ReplicationPolicy, topic: str, source_alias: str, target_alias: str, *, reverse: bool
) -> str | None:
    """Returns the topic of the target that has the records of a source's topic: its copy. None for what came from the
    target; with `reverse` (failback, KIP-1098) a copy of a topic of the target itself has that topic as its
    counterpart.

    One hop only, `upstream_topic` and not stock's `original_topic`: on A, `B.C.t` is a copy of B's `C.t`, not of a `t`.
    """
    if not is_cycle(policy, topic, target_alias):
        return policy.format_remote_topic(source_alias, topic)
    own = reverse and policy.topic_source(topic) == target_alias
    return policy.upstream_topic(topic) if own else None


def java_split(text: str, separator: str) -> list[str]:
    """Splits as `Pattern.compile(Pattern.quote(separator)).split(text)` does: trailing empty parts are dropped."""
    parts = text.split(separator) if separator else list(text) or [""]
    if len(parts) == 1:
        return parts
    while parts and not parts[-1]:
        parts.pop()
    return parts


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
    return next(
        (index for index, source in enumerate(sources(policy, topic), 1) if source == alias), UNREACHABLE
    )


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

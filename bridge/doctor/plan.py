"""What a configuration without errors is about: its topics, rights, internal topics and replication factors. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.doctor.facts import Need, Pair, Replication
from bridge.doctor.rights import needs_of_groups, needs_of_source
from bridge.translation.filters import GroupFilter, TopicFilter, should_replicate_topic
from bridge.translation.model import Side
from bridge.translation.naming import ReplicationPolicy
from connectors.base import Kind
from connectors.configdef import ValidatedConfig
from connectors.groups.keys import EMIT_READINESS, READINESS_REPLICATION_FACTOR, REVERSE
from connectors.mirror_options import SOURCE_ALIAS, SYNCS_LOCATION, TARGET_ALIAS
from connectors.plugins import GROUP_FILTER, REPLICATION_POLICY, TOPIC_FILTER, Plugins, sound

REPLICATION_FACTOR = "replication.factor"
_SYNCS_FACTOR = "offset-syncs.topic.replication.factor"
_HEARTBEATS = "heartbeats.replication.enabled"
_MADE_WITH = {
    _SYNCS_FACTOR: "emit.offset-syncs.enabled",
    "checkpoints.topic.replication.factor": "emit.checkpoints.enabled",
    "heartbeats.topic.replication.factor": "emit.heartbeats.enabled",
    READINESS_REPLICATION_FACTOR: EMIT_READINESS,
}
"""Keys by the flag without which nothing is made with them."""


def servers_key(side: Side) -> str:
    return f"{side}.cluster.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Plan:
    kind: str
    definition: frozenset[str]
    config: ValidatedConfig
    policy: ReplicationPolicy
    topic_filter: TopicFilter | None
    group_filter: GroupFilter | None

    @staticmethod
    def of(kind: Kind, props: Mapping[str, str]) -> Plan:
        config = kind.definition.validate(props)
        plugins, defined = Plugins(props, config), frozenset(kind.definition.keys)
        return Plan(
            kind.kind,
            defined,
            config,
            sound(plugins.load(REPLICATION_POLICY)),
            sound(plugins.load(TOPIC_FILTER)) if TOPIC_FILTER.key in defined else None,
            sound(plugins.load(GROUP_FILTER)) if GROUP_FILTER.key in defined else None,
        )

    @property
    def sides(self) -> list[Side]:
        """Of the clusters that the connector connects to."""
        return [side for side in Side if servers_key(side) in self.definition]

    @property
    def aliases(self) -> tuple[str, str]:
        return self.config.text(SOURCE_ALIAS), self.config.text(TARGET_ALIAS)

    def pairs(self, source_topics: Sequence[str]) -> list[Pair]:
        """Topics of the source with their copies on the target; those that exist already, or will."""
        if self.topic_filter is None:
            return []
        source, target = self.aliases
        beats = _HEARTBEATS not in self.definition or self._flag(_HEARTBEATS)
        chosen = (
            topic
            for topic in sorted(source_topics)
            if should_replicate_topic(
                topic, target, self.topic_filter, self.policy, heartbeats_replication=beats
            )
        )
        return [Pair(topic, self.policy.format_remote_topic(source, topic)) for topic in chosen]

    def groups(self, groups: Sequence[str]) -> list[str]:
        if self.group_filter is None:
            return []
        return [group for group in sorted(groups) if self.group_filter.should_replicate_group(group)]

    @property
    def layout_topic(self) -> str:
        return self.policy.layout_topic(self.aliases[0])

    @property
    def syncs(self) -> tuple[Side, str] | None:
        """Where offset syncs are, None for a kind without."""
        if SYNCS_LOCATION not in self.definition:
            return None
        on_target = self.config.text(SYNCS_LOCATION) == "target"
        alias = self.aliases[0] if on_target else self.aliases[1]
        return Side.TARGET if on_target else Side.SOURCE, self.policy.offset_syncs_topic(alias)

    @property
    def state_topics(self) -> list[str]:
        alias = self.aliases[0]
        return [self.policy.offset_runs_topic(alias), self.layout_topic, self.policy.gaps_topic(alias)]

    def needs(self, pairs: Sequence[Pair], groups: Sequence[str], present: frozenset[str]) -> list[Need]:
        """`present`: internal topics of either cluster that exist."""
        if self.kind == "source":
            syncs = self.syncs if self._flag("emit.offset-syncs.enabled") else None
            flags = {
                "acls": self._flag("sync.topic.acls.enabled"),
                "configs": self._flag("sync.topic.configs.enabled"),
            }
            return list(needs_of_source(pairs, self.state_topics, syncs, **flags))
        if self.kind == "heartbeat":
            return []
        runs = self.policy.offset_runs_topic(self.aliases[0])
        read = [(Side.TARGET, runs)] if runs in present else []
        if self.syncs is not None and self.syncs[1] in present:
            read.append(self.syncs)
        if self._flag(REVERSE):
            other = self.aliases[1]
            names = self.policy.checkpoints_topic(other), self.policy.readiness_topic(other)
            read += [(Side.SOURCE, name) for name in names if name in present]
        commits = not self._flag("dry.run") and (
            self.kind == "group_offset" or self._flag("sync.group.offsets.enabled")
        )
        readiness = self.policy.readiness_topic(self.aliases[0]) if self._flag(EMIT_READINESS) else None
        return list(needs_of_groups(pairs, groups, read, readiness, commits=commits))

    def replications(self) -> list[Replication]:
        """Of keys whose topics are made; -1 is the brokers' own."""
        found = []
        for key in sorted(self.definition):
            if key != REPLICATION_FACTOR and not key.endswith(f".{REPLICATION_FACTOR}"):
                continue
            if (flag := _MADE_WITH.get(key)) is not None and not self._flag(flag):
                continue
            on_source = key == _SYNCS_FACTOR and self.syncs is not None and self.syncs[0] is Side.SOURCE
            found.append(Replication(key, self.config.number(key), Side.SOURCE if on_source else Side.TARGET))
        return found

    def _flag(self, key: str) -> bool:
        return key in self.definition and self.config.flag(key)

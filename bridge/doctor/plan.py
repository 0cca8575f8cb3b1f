"""What a valid configuration needs of its clusters: topics, internal topics, rights, replication factors. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bridge.doctor.facts import Need, Pair, Replication
from bridge.doctor.needs import On, needs
from bridge.mm2.filters import GroupFilter, TopicFilter, should_replicate_topic
from bridge.mm2.replication_policy import DefaultReplicationPolicy, ReplicationPolicy, counterpart
from bridge.model.copying import TAKE_OVER_FROM
from bridge.model.values import Side
from bridge.pipeline.layouts.slots import connector_id
from connectors.base import COPYING_KINDS, Kind
from connectors.config.configdef import ValidatedConfig
from connectors.config.mirror_options import SOURCE_ALIAS, SYNCS_LOCATION, TARGET_ALIAS
from connectors.config.plugins import (
    GROUP_FILTER,
    REPLICATION_POLICY,
    TOPIC_FILTER,
    Plugins,
    sound,
)
from connectors.group_translation.options import EMIT_READINESS, READINESS_REPLICATION_FACTOR, REVERSE

REPLICATION_FACTOR = "replication.factor"
_SYNCS_FACTOR = "offset-syncs.topic.replication.factor"
_HEARTBEATS = "heartbeats.replication.enabled"
_MADE_WITH = {
    _SYNCS_FACTOR: "emit.offset-syncs.enabled",
    "checkpoints.topic.replication.factor": "emit.checkpoints.enabled",
    "heartbeats.topic.replication.factor": "emit.heartbeats.enabled",
    READINESS_REPLICATION_FACTOR: EMIT_READINESS,
}
"""Keys of replication factors, with the flag without which no topic is made with them."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""An item of a list that is a name. One with a dot is a pattern too, which matches its own name."""


def servers_key(side: Side) -> str:
    return f"{side}.cluster.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Plan:
    """A valid configuration, parsed, and what follows from it for the clusters."""

    kind: str
    props: Mapping[str, str]
    definition: frozenset[str]
    config: ValidatedConfig
    policy: ReplicationPolicy
    topic_filter: TopicFilter | None
    group_filter: GroupFilter | None

    @staticmethod
    def make(kind: Kind, props: Mapping[str, str]) -> Plan:
        config = kind.definition.validate(props)
        plugins, defined = Plugins(props, config), frozenset(kind.definition.keys)
        return Plan(
            kind.kind,
            props,
            defined,
            config,
            sound(plugins.load(REPLICATION_POLICY)),
            sound(plugins.load(TOPIC_FILTER)) if TOPIC_FILTER.key in defined else None,
            sound(plugins.load(GROUP_FILTER)) if GROUP_FILTER.key in defined else None,
        )

    @property
    def sides(self) -> list[Side]:
        """The clusters that the connector connects to."""
        return [side for side in Side if servers_key(side) in self.definition]

    @property
    def aliases(self) -> tuple[str, str]:
        return self.config.text(SOURCE_ALIAS), self.config.text(TARGET_ALIAS)

    def pairs(self, source_topics: Sequence[str]) -> list[Pair]:
        """The topics that are replicated, with their copies, which exist already or will."""
        if self.topic_filter is None:
            return []
        target_of = self._copied_to if self.group_filter is None else self._read_there
        named = ((topic, target_of(topic)) for topic in sorted(source_topics))
        return [Pair(topic, target) for topic, target in named if target is not None]

    def _copied_to(self, topic: str) -> str | None:
        """The copy that the source connector makes of a topic, None for one that it does not copy."""
        source, target = self.aliases
        chosen, policy = sound(self.topic_filter), self.policy
        replicated = should_replicate_topic(
            topic, target, chosen, policy, heartbeats_replication=self._flag(_HEARTBEATS)
        )
        return policy.format_remote_topic(source, topic) if replicated else None

    def _read_there(self, topic: str) -> str | None:
        """The topic of the target in which groups of a topic are translated, as `PartitionPairs` has it: on the way
        home (`reverse.checkpointing.enabled`) the one that it is a copy of."""
        if self.policy.is_internal_topic(topic) or not sound(self.topic_filter).should_replicate_topic(topic):
            return None
        return counterpart(self.policy, topic, *self.aliases, reverse=self._flag(REVERSE))

    def groups(self, groups: Collection[str]) -> list[str]:
        if self.group_filter is None:
            return []
        return [group for group in sorted(groups) if self.group_filter.should_replicate_group(group)]

    def named(self, *keys: str) -> list[str]:
        """The plain names in lists of names and patterns. They count even where a cluster does not list them."""
        lists = [self.config.items(key) or () for key in keys if key in self.definition]
        return [item for items in lists for item in items if _NAME.fullmatch(item)]

    @property
    def asked_by_name(self) -> Mapping[Side, Sequence[str]]:
        """Topics that are needed if they exist, and which a cluster may hide from us."""
        source, target = self.aliases
        opposite = [self.policy.checkpoints_topic(target), self.policy.readiness_topic(target)]
        internal = {
            Side.SOURCE: opposite if self._flag(REVERSE) else [],
            Side.TARGET: [self.policy.offset_runs_topic(source)] if self.group_filter is not None else [],
        }
        if self.group_filter is not None and not self._keeps_readiness:
            internal[Side.TARGET].append(self.policy.readiness_topic(source))
        if self.syncs is not None and self.group_filter is not None:
            internal[self.syncs[0]].append(self.syncs[1])
        if self.kind in COPYING_KINDS and type(self.policy) is not DefaultReplicationPolicy:
            internal[Side.SOURCE].append(self.policy.layout_topic(target))
        return {**internal, Side.SOURCE: [*internal[Side.SOURCE], *self.named("topics")]}

    @property
    def runs_topic(self) -> str:
        return self.policy.offset_runs_topic(self.aliases[0])

    @property
    def layout_topic(self) -> str:
        return self.policy.layout_topic(self.aliases[0])

    @property
    def syncs(self) -> tuple[Side, str] | None:
        """Cluster and topic of the offset syncs; None for a kind of connector without."""
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
        """The rights that the connector needs. `present`: topics of either cluster that exist."""
        syncs, policy, (alias, opposite) = self.syncs, self.policy, self.aliases
        names: dict[On, Sequence[str]] = {
            On.CLUSTER: [""],
            On.TOPICS: [pair.source for pair in pairs],
            On.COPIES: [pair.target for pair in pairs],
            On.GROUPS: groups,
            On.IDS: self._ids(self.props.get("name", "")),
            On.OTHERS_IDS: [text for owner in self._others for text in self._ids(owner)],
            On.STATE: self.state_topics,
            On.READINESS: [policy.readiness_topic(alias)],
            On.SYNCS: [] if syncs is None else [syncs[1]],
            On.RUNS: [policy.offset_runs_topic(alias)],
            On.CHECKPOINTS: [policy.checkpoints_topic(alias)],
            On.OPPOSITE: [policy.checkpoints_topic(opposite), policy.readiness_topic(opposite)],
            On.OPPOSITE_LAYOUT: [policy.layout_topic(opposite)],
            On.HEARTBEATS: [policy.heartbeats_topic()],
        }
        # This connector does not create these, and they may be missing: beside a stock mirror there are no runs.
        others = On.RUNS, On.OPPOSITE, On.OPPOSITE_LAYOUT, *(() if self._keeps_readiness else (On.READINESS,))
        for on in (*others, *((On.SYNCS,) if self.kind not in COPYING_KINDS else ())):
            names[on] = [name for name in names[on] if name in present]
        return list(needs(self.kind, self._setting, None if syncs is None else syncs[0], names))

    @property
    def _others(self) -> Sequence[str]:
        return self.config.items(TAKE_OVER_FROM) or () if TAKE_OVER_FROM in self.definition else ()

    def _ids(self, name: str) -> list[str]:
        """Transactional ids that copying always uses; none while the connector has no name."""
        return [connector_id(self.aliases[0], name, who) for who in ("driver", 0)] if name else []

    def _setting(self, key: str) -> str | None:
        if key not in self.definition:
            return None
        value = self.config.value(key)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def replications(self) -> list[Replication]:
        """The replication factors with which topics will be made; -1 is the brokers' default."""
        factors = []
        for key in sorted(self.definition):
            if key != REPLICATION_FACTOR and not key.endswith(f".{REPLICATION_FACTOR}"):
                continue
            if (flag := _MADE_WITH.get(key)) is not None and not self._flag(flag):
                continue
            on_source = key == _SYNCS_FACTOR and self.syncs is not None and self.syncs[0] is Side.SOURCE
            side = Side.SOURCE if on_source else Side.TARGET
            factors.append(Replication(key, self.config.number(key), side))
        return factors

    @property
    def _keeps_readiness(self) -> bool:
        return self._flag(EMIT_READINESS) and not self._flag("dry.run")

    def _flag(self, key: str) -> bool:
        return key in self.definition and self.config.flag(key)

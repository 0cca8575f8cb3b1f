"""The topics of a cluster in memory behind connectors.ports.TopicAdmin: trouble on demand, and what was altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.topics import ConfigEntry, ConfigSource, NewTopic, TopicAcl

if TYPE_CHECKING:
    from tests.unit.connectors.fake_clusters import FakeCluster

DEFAULTS = {
    "cleanup.policy": ConfigEntry("delete", ConfigSource.DEFAULT),
    "retention.ms": ConfigEntry("604800000", ConfigSource.DEFAULT),
    "min.insync.replicas": ConfigEntry("1", ConfigSource.DEFAULT),
}


class FakeTopicAdmin:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.overrides: dict[str, dict[str, str]] = {}
        self.rules: set[TopicAcl] | None = set()
        self.trouble: dict[str, KafkaFailure] = {}
        """By topic, of every call about it."""
        self.slow: set[str] = set()
        """Topics that are made, and not seen yet."""
        self.created: list[NewTopic] = []
        self.grown: list[dict[str, int]] = []
        self.altered: list[dict[str, dict[str, str | None]]] = []
        self.rules_created: list[TopicAcl] = []
        self.rules_deleted: list[TopicAcl] = []

    def appear(self) -> None:
        for topic in self.created:
            if topic.name in self.slow:
                self._cluster.grow(topic.name, topic.partitions)
        self.slow.clear()

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaFailure | None]:
        self._cluster.called("create_topics")
        for topic in topics:
            self.created.append(topic)
            if topic.name not in self.trouble:
                self.overrides[topic.name] = dict(topic.configs)
                if topic.name not in self.slow:
                    self._cluster.grow(topic.name, topic.partitions)
        return {topic.name: self.trouble.get(topic.name) for topic in topics}

    async def create_partitions(self, totals: Mapping[str, int]) -> dict[str, KafkaFailure | None]:
        self._cluster.called("create_partitions")
        self.grown.append(dict(totals))
        for name, total in totals.items():
            if name not in self.trouble:
                self._cluster.grow(name, total)
        return {name: self.trouble.get(name) for name in totals}

    async def configs(self, topics: Sequence[str]) -> dict[str, Mapping[str, ConfigEntry] | KafkaFailure]:
        self._cluster.called("configs")
        return {topic: self.trouble.get(topic) or self._configs(topic) for topic in topics}

    def _configs(self, topic: str) -> Mapping[str, ConfigEntry] | KafkaFailure:
        if topic not in self._cluster.ids:
            return KafkaFailure(KafkaFault.UNKNOWN_TOPIC, f"no topic {topic}")
        overrides = self.overrides.get(topic, {})
        set_here = {key: ConfigEntry(value, ConfigSource.DYNAMIC_TOPIC) for key, value in overrides.items()}
        return DEFAULTS | set_here

    async def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> dict[str, KafkaFailure | None]:
        self._cluster.called("alter_configs")
        self.altered.append({topic: dict(configs) for topic, configs in changes.items()})
        for topic, configs in changes.items():
            kept = {**self.overrides.get(topic, {}), **configs}
            self.overrides[topic] = {key: value for key, value in kept.items() if value is not None}
        return {topic: self.trouble.get(topic) for topic in changes}

    async def acls(self) -> set[TopicAcl] | None:
        self._cluster.called("acls")
        return None if self.rules is None else set(self.rules)

    async def create_acls(self, acls: Sequence[TopicAcl]) -> dict[TopicAcl, KafkaFailure | None]:
        self._cluster.called("create_acls")
        assert self.rules is not None
        self.rules_created += acls
        self.rules |= set(acls)
        return dict.fromkeys(acls)

    async def delete_acls(self, acls: Sequence[TopicAcl]) -> dict[TopicAcl, KafkaFailure | None]:
        self._cluster.called("delete_acls")
        assert self.rules is not None
        self.rules_deleted += acls
        self.rules -= set(acls)
        return dict.fromkeys(acls)

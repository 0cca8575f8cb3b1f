"""BridgeMirrorSourceConnector's configuration, typed (stock §1.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.mm2.filters import (
    TOPICS,
    TOPICS_REGEX,
    ConfigPropertyFilter,
    TopicFilter,
    should_replicate_topic,
)
from bridge.mm2.replication_policy import DefaultReplicationPolicy, ReplicationPolicy
from bridge.model.copying import MERGE_WITH, TAKE_OVER_FROM, PipelineSpec
from connectors.config.cluster_options import allows_same_cluster
from connectors.config.configdef import ConfigDef, ValidatedConfig, given
from connectors.config.mirror_options import SOURCE_ALIAS, SYNCS_LOCATION, TARGET_ALIAS
from connectors.config.plugins import sound
from connectors.ports import ClientCheck
from connectors.source import definition as keys
from connectors.source.checks import (
    COMMITTED,
    ChosenTransform,
    check,
    client_property,
    compression_level,
    isolation,
    written_with,
)

Props = Mapping[str, str | None]

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_BATCH_SIZE = "16384"
"""What a Java producer has by default."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Intervals in seconds, sizes in bytes; a replication factor of -1 is the brokers' default."""

    enabled: bool
    stock_positions: bool
    """Whether Connect may have stored source offsets of a stock mirror under the connector's name."""
    source_alias: str
    target_alias: str
    topic_filter: TopicFilter
    named_topics: tuple[str, ...]
    """Items of `topics` that are names: they are there, or are to be, whether or not the source lists them for us."""
    config_filter: ConfigPropertyFilter
    policy: ReplicationPolicy
    heartbeats_replication: bool
    refresh_enabled: bool
    refresh_interval: float
    sync_configs_enabled: bool
    sync_configs_interval: float
    sync_acls_enabled: bool
    sync_acls_interval: float
    revoke_acls: bool
    replication_factor: int
    internal_replication_factor: int
    emit_syncs: bool
    syncs_on_target: bool
    offset_lag_max: int
    from_latest: bool
    committed_only: bool
    fail_on_gap: bool
    fail_on_refused_record: bool
    recopy: bool
    same_cluster: bool
    """Whether source and target may be one cluster."""
    transaction_interval: float
    batch_size: int
    max_rate: int
    take_over_from: tuple[str, ...]
    merge_with: tuple[str, ...]
    compression: str
    compression_level: int | None
    admin_timeout_ms: int
    lease_ms: int
    transforms: Sequence[ChosenTransform]
    transform_timeout: float
    transform_memory: int

    @staticmethod
    def from_props(
        props: Props, clients: ClientCheck, definition: ConfigDef = keys.DEFINITION
    ) -> SourceOptions:
        """Raises ConfigRejected with every error at once. `definition` as in check()."""
        config, plugins = check(props, clients, definition)
        config.raise_if_invalid()
        given_props = given(props)
        return SourceOptions(
            enabled=config.flag("enabled"),
            stock_positions=TOPICS_REGEX not in definition.keys,
            source_alias=config.text(SOURCE_ALIAS),
            target_alias=config.text(TARGET_ALIAS),
            topic_filter=sound(plugins.topic_filter),
            named_topics=tuple(filter(_NAME.fullmatch, config.items(TOPICS) or ())),
            config_filter=sound(plugins.config_filter),
            policy=sound(plugins.policy),
            heartbeats_replication=config.flag(keys.HEARTBEATS),
            refresh_enabled=config.flag(keys.REFRESH),
            refresh_interval=float(config.number(keys.REFRESH_INTERVAL)),
            sync_configs_enabled=config.flag(keys.SYNC_CONFIGS),
            sync_configs_interval=float(config.number(keys.SYNC_CONFIGS_INTERVAL)),
            sync_acls_enabled=config.flag(keys.SYNC_ACLS),
            sync_acls_interval=float(config.number(keys.SYNC_ACLS_INTERVAL)),
            revoke_acls=config.flag(keys.REVOKE_ACLS),
            replication_factor=config.number(keys.REPLICATION_FACTOR),
            internal_replication_factor=config.number(_internal_replication(config)),
            emit_syncs=config.flag(keys.EMIT_SYNCS),
            syncs_on_target=config.text(SYNCS_LOCATION) == "target",
            offset_lag_max=config.number(keys.OFFSET_LAG_MAX),
            from_latest=client_property(given_props, "auto.offset.reset", "consumer.", "source.consumer.")[1]
            == "latest",
            committed_only=isolation(given_props) == COMMITTED,
            fail_on_gap=config.text(keys.GAP_POLICY) == "fail",
            fail_on_refused_record=config.text(keys.RECORD_POLICY) == "fail",
            recopy=config.text(keys.TARGET_RECREATED) == "recopy",
            same_cluster=allows_same_cluster(given_props),
            transaction_interval=config.number(keys.TRANSACTION_INTERVAL) / 1000,
            take_over_from=tuple(config.items(TAKE_OVER_FROM) or ()),
            merge_with=tuple(config.items(MERGE_WITH) or ()),
            batch_size=int(written_with(given_props, "batch.size")[1] or _BATCH_SIZE),
            max_rate=config.number(keys.MAX_RATE),
            compression=written_with(given_props, "compression.type")[1],
            compression_level=compression_level(given_props),
            admin_timeout_ms=config.number("admin.timeout.ms"),
            lease_ms=config.number("bridge.task.lease.ms"),
            transforms=tuple(plugins.transforms),
            transform_timeout=config.number(keys.TRANSFORM_TIMEOUT) / 1000,
            transform_memory=config.number(keys.TRANSFORM_MEMORY),
        )

    @property
    def may_go_round(self) -> bool:
        """Whether a copy may be copied back to its original, which names tell with the default policy alone: with
        others nothing but claims does."""
        return type(self.policy) is not DefaultReplicationPolicy

    def replicates(self, topic: str) -> bool:
        """Whether a topic of the source is copied."""
        return should_replicate_topic(
            topic,
            self.target_alias,
            self.topic_filter,
            self.policy,
            heartbeats_replication=self.heartbeats_replication,
        )

    def remote(self, topic: str) -> str:
        return self.policy.format_remote_topic(self.source_alias, topic)

    def remote_of(self, topic: str) -> str | None:
        """Returns the topic on the target that a topic of the source is copied to; None where it is not copied."""
        return self.remote(topic) if self.replicates(topic) else None

    def transforms_of(self, topic: str) -> tuple[int, ...]:
        """Returns the transforms that the topic's records go through, by their numbers. Heartbeats are MirrorMaker's
        own."""
        if self.policy.is_heartbeats_topic(topic):
            return ()
        return tuple(
            number for number, transform in enumerate(self.transforms) if transform.topics.matches(topic)
        )

    def also(self, topic: str) -> tuple[str, ...]:
        """Returns the other topics of the target that transforms may send the topic's records to."""
        named = (to for number in self.transforms_of(topic) for to in self.transforms[number].transform.to)
        return tuple(to for to in dict.fromkeys(named) if to != self.remote(topic))

    def spec(self, name: str, props: Mapping[str, str]) -> PipelineSpec:
        """Returns the spec of the pipeline of connector `name`, whose whole configuration is `props`."""
        policy, alias = self.policy, self.source_alias
        syncs_alias = alias if self.syncs_on_target else self.target_alias
        return PipelineSpec(
            name=name,
            props=props,
            source_alias=alias,
            runs_topic=policy.offset_runs_topic(alias),
            layout_topic=policy.layout_topic(alias),
            gaps_topic=policy.gaps_topic(alias),
            syncs_topic=policy.offset_syncs_topic(syncs_alias) if self.emit_syncs else "",
            syncs_on_target=self.syncs_on_target,
            offset_lag_max=self.offset_lag_max,
            from_latest=self.from_latest,
            committed_only=self.committed_only,
            fail_on_gap=self.fail_on_gap,
            fail_on_refused_record=self.fail_on_refused_record,
            transaction_interval=self.transaction_interval,
            batch_size=self.batch_size,
            max_rate=self.max_rate,
            transforms=tuple(transform.transform for transform in self.transforms),
            transform_timeout=self.transform_timeout,
            transform_memory=self.transform_memory,
            recopy=self.recopy,
            take_over_from=self.take_over_from,
            merge_with=self.merge_with,
            opposite_layouts=policy.layout_topic(self.target_alias) if self.may_go_round else "",
            compression=self.compression,
            compression_level=self.compression_level,
        )


def _internal_replication(config: ValidatedConfig) -> str:
    """Returns the key that counts for internal topics: without offset syncs stock allows none of the keys of their
    topic."""
    return keys.SYNCS_REPLICATION_FACTOR if config.flag(keys.EMIT_SYNCS) else keys.REPLICATION_FACTOR

"""Checks configurations of connectors that translate groups, all errors at once, and converts them to options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.errors import ConfigError
from bridge.mm2.filters import GroupFilter, PatternList, TopicFilter
from bridge.mm2.replication_policy import ReplicationPolicy
from connectors.config.configdef import ConfigDef, ValidatedConfig, given
from connectors.config.mirror_options import SOURCE_ALIAS, TARGET_ALIAS, mirror_errors
from connectors.config.plugins import (
    GROUP_FILTER,
    REPLICATION_POLICY,
    TOPIC_FILTER,
    Plugins,
    sound,
)
from connectors.config.token_functions import token_function_errors
from connectors.group_translation.keys import (
    EMIT_READINESS,
    LEFT_BEHIND,
    NOT_COPIED,
    READINESS_REPLICATION_FACTOR,
    REWIND,
)
from connectors.group_translation.options import Rewind
from connectors.ports import ClientCheck

Props = Mapping[str, str | None]
Rules = Callable[[Mapping[str, str], ValidatedConfig], Iterable[ConfigError]]
"""Errors of rules across keys, from what was given and what it was parsed to."""


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """The options that these connectors have in common. Intervals in seconds where not named otherwise."""

    enabled: bool
    source_alias: str
    target_alias: str
    group_filter: GroupFilter
    topic_filter: TopicFilter
    policy: ReplicationPolicy
    refresh_groups_enabled: bool
    refresh_groups_interval: float
    sync_interval: float
    admin_timeout_ms: int
    assigned_groups: tuple[str, ...] | None
    rewind: Rewind
    dry_run: bool
    needs_all_topics: bool
    """Whether a group with offsets in a topic that is not copied is not ready."""
    left_behind: PatternList
    """Topics that were copied, and that groups may leave behind."""
    lease_ms: int
    readiness_enabled: bool
    """Whether the state of groups is written to the readiness topic."""
    readiness_replication_factor: int
    """-1: the brokers' default."""
    source_committed_only: bool
    """The mirror reads committed data only, so aborted records of the source have no copy."""


@dataclass(frozen=True, slots=True)
class Checked:
    config: ValidatedConfig
    given: Mapping[str, str]
    group_filter: GroupFilter | None
    topic_filter: TopicFilter | None
    policy: ReplicationPolicy | None

    def common(self) -> dict[str, Any]:
        """Returns the fields of GroupOptions. Raises ConfigRejected with every error at once."""
        config = self.config
        config.raise_if_invalid()
        return {
            "enabled": config.flag("enabled"),
            "source_alias": config.text(SOURCE_ALIAS),
            "target_alias": config.text(TARGET_ALIAS),
            "group_filter": sound(self.group_filter),
            "topic_filter": sound(self.topic_filter),
            "policy": sound(self.policy),
            "refresh_groups_enabled": config.flag("refresh.groups.enabled"),
            "refresh_groups_interval": float(config.number("refresh.groups.interval.seconds")),
            "sync_interval": float(config.number("sync.group.offsets.interval.seconds")),
            "admin_timeout_ms": config.number("admin.timeout.ms"),
            "assigned_groups": config.items("task.assigned.groups"),
            "rewind": Rewind(config.text(REWIND)),
            "dry_run": config.flag("dry.run"),
            "needs_all_topics": config.text(NOT_COPIED) == "not_ready",
            "left_behind": PatternList(config.items(LEFT_BEHIND) or (), LEFT_BEHIND),
            "lease_ms": config.number("bridge.task.lease.ms"),
            "readiness_enabled": config.flag(EMIT_READINESS) and not config.flag("dry.run"),
            "readiness_replication_factor": config.number(READINESS_REPLICATION_FACTOR),
            "source_committed_only": _mirror_isolation(self.given) == "read_committed",
        }


def check(definition: ConfigDef, props: Props, clients: ClientCheck, rules: Rules | None = None) -> Checked:
    """Checks a configuration: every key with its value and errors; rules across keys, plugins and client properties
    included."""
    there = given(props)
    config = definition.validate(props).with_errors(clients.refused(there))
    plugins = Plugins(there, config)
    group_filter, topic_filter = plugins.load(GROUP_FILTER), plugins.load(TOPIC_FILTER)
    policy = plugins.load(REPLICATION_POLICY)
    own = rules(there, config) if rules else ()
    errors = [
        *mirror_errors(there, config),
        *own,
        *clients.check(there),
        *token_function_errors(there, config),
        *plugins.errors,
    ]
    return Checked(config.with_errors(errors), there, group_filter, topic_filter, policy)


def _mirror_isolation(props: Mapping[str, str]) -> str | None:
    """Returns the source consumer's isolation level as stock resolves it; compared to the letter, as stock does."""
    own = props.get("source.consumer.isolation.level")
    return props.get("consumer.isolation.level") if own is None else own

"""Keys and options of the connectors that translate consumer groups; in stock's words where stock has the key
(stock §1.3).

Checks configurations of connectors that translate groups, all errors at once, and converts them to options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from bridge.errors import ConfigError
from bridge.mm2.filters import (
    GROUPS_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    GroupFilter,
    PatternList,
    TopicFilter,
)
from bridge.mm2.replication_policy import ReplicationPolicy
from bridge.model.key_rules import ignored
from connectors.config.configdef import (
    ConfigDef,
    Importance,
    In,
    Key,
    ListOf,
    Patterns,
    ReplicationFactor,
    Type,
    ValidatedConfig,
    Width,
    flag,
    given,
    interval,
)
from connectors.config.mirror_options import PYTHON_CLASS, SOURCE_ALIAS, STOCK, TARGET_ALIAS, mirror_errors
from connectors.config.plugins import (
    GROUP_FILTER,
    REPLICATION_POLICY,
    TOPIC_FILTER,
    Plugins,
    sound,
    token_function_errors,
)
from connectors.ports import ClientCheck

REVERSE = "reverse.checkpointing.enabled"
REWIND = "sync.group.offsets.rewind"
EMIT_READINESS = "emit.group-readiness.enabled"
READINESS_REPLICATION_FACTOR = "group-readiness.topic.replication.factor"
SELECTION = "Groups and topics"
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
POLL_TIMEOUT = replace(
    interval(
        "consumer.poll.timeout.ms",
        "1000",
        "Timeout when polling source cluster. Without effect: a read ends by request.timeout.ms.",
        SELECTION,
    ),
    rule=ignored("a read ends by request.timeout.ms"),
)
REFRESH = (
    flag(
        "refresh.groups.enabled",
        "true",
        "Whether to periodically check for new consumer groups.",
        SELECTION,
    ),
    interval("refresh.groups.interval.seconds", "600", "Frequency of group refresh.", SELECTION),
)
NOT_COPIED = "bridge.topics.not.copied"
LEFT_BEHIND = "bridge.topics.left.behind"
ASSIGNED_GROUPS = Key(
    "task.assigned.groups",
    Type.LIST,
    None,
    _LOW,
    "When given, only these group IDs are replicated, whatever the filters let through besides. Groups are spread "
    "over the tasks by the service.",
    SELECTION,
    width=Width.LONG,
    validator=ListOf(),
)
Props = Mapping[str, str | None]
Rules = Callable[[Mapping[str, str], ValidatedConfig], Iterable[ConfigError]]
"""Errors of rules across keys, from what was given and what it was parsed to."""


class Rewind(StrEnum):
    """Whether an offset on the target may ever be moved back (R3)."""

    NEVER = "never"
    EMPTY_GROUPS = "empty-groups"


def patterns(name: str, default: str | None, doc: str) -> Key:
    return Key(name, Type.LIST, default, _HIGH, doc, SELECTION, width=Width.LONG, validator=Patterns())


def _filter(name: str, default: str, doc: str) -> Key:
    return Key(name, Type.STRING, STOCK + default, _LOW, doc + PYTHON_CLASS, SELECTION, width=Width.LONG)


GROUPS = patterns(
    "groups",
    GROUPS_DEFAULT,
    "Consumer groups to replicate. Supports comma-separated group IDs and regexes.",
)


GROUPS_EXCLUDE = patterns(
    "groups.exclude",
    GROUPS_EXCLUDE_DEFAULT,
    "Exclude groups. Supports comma-separated group IDs and regexes. Excludes take precedence over includes.",
)


GROUP_FILTER_CLASS = _filter(
    "group.filter.class", "DefaultGroupFilter", "GroupFilter to use. Selects consumer groups to replicate."
)


TOPIC_FILTER_CLASS = _filter(
    "topic.filter.class",
    "DefaultTopicFilter",
    "TopicFilter to use. Selects the topics whose offsets are replicated.",
)


TOPICS = (
    patterns(
        "topics", TOPICS_DEFAULT, "Topics of the source whose offsets are replicated: names and regexes."
    ),
    patterns(
        "topics.exclude",
        TOPICS_EXCLUDE_DEFAULT,
        "Excluded topics. Supports comma-separated topic names and regexes. Excludes take precedence over includes.",
    ),
)


LEFT_OUT = (
    Key(
        NOT_COPIED,
        Type.STRING,
        "report",
        _LOW,
        "What follows for a group from committed offsets in topics that the flow does not copy. report: they are named "
        "with the group. not_ready: the group is not ready to fail over either.",
        SELECTION,
        validator=In(("report", "not_ready")),
        recommended=("report", "not_ready"),
    ),
    patterns(
        LEFT_BEHIND,
        "",
        "Topics that were copied and are left out of topics now, and that groups may leave behind when they fail over. "
        "A group with offsets in another such topic is not ready until all of it is on the target, or the copy is "
        "deleted. Supports comma-separated topic names and regexes.",
    ),
)


def sync_interval(group: str) -> Key:
    doc = "Frequency of consumer group offset sync."
    return interval("sync.group.offsets.interval.seconds", "60", doc, group)


def reverse(group: str) -> Key:
    return flag(
        REVERSE,
        "false",
        "Failback: whether a group that moved on the source in a copy of a topic of the target has its offset "
        "translated back to that topic. For topics that the topic filter lets through under their remote name.",
        group,
    )


def writing_keys(group: str) -> tuple[Key, ...]:
    """Returns the keys for committing on the target; ours."""
    return (
        Key(
            REWIND,
            Type.STRING,
            "never",
            _MEDIUM,
            "Whether an offset on the target may ever be moved back. empty-groups: where the offset there is still "
            "the one that we wrote and the group is empty.",
            group,
            validator=In(("never", "empty-groups")),
            recommended=("never", "empty-groups"),
        ),
        flag(
            "dry.run",
            "false",
            "true: everything is looked up and reported, nothing is written.",
            group,
            _MEDIUM,
        ),
    )


def readiness_keys(group: str) -> tuple[Key, ...]:
    """Returns the keys for the readiness topic; ours."""
    return (
        flag(
            EMIT_READINESS,
            "true",
            "Whether to keep what is known of groups in the topic mm2-group-readiness.<source alias>.internal on the "
            "target: with it a service that is started while the source is away answers as the one before, and "
            "several services answer as one. Nothing is kept with dry.run=true.",
            group,
        ),
        Key(
            READINESS_REPLICATION_FACTOR,
            Type.SHORT,
            "-1",
            _LOW,
            "Replication factor for the readiness topic; -1: the brokers' default.",
            group,
            validator=ReplicationFactor(),
        ),
    )


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
    stated = given(props)
    config = definition.validate(props).with_errors(clients.refused(stated))
    plugins = Plugins(stated, config)
    group_filter, topic_filter = plugins.load(GROUP_FILTER), plugins.load(TOPIC_FILTER)
    policy = plugins.load(REPLICATION_POLICY)
    own = rules(stated, config) if rules else ()
    errors = [
        *mirror_errors(stated, config),
        *own,
        *clients.check(stated),
        *token_function_errors(stated, config),
        *plugins.errors,
    ]
    return Checked(config.with_errors(errors), stated, group_filter, topic_filter, policy)


def _mirror_isolation(props: Mapping[str, str]) -> str | None:
    """Returns the source consumer's isolation level as stock resolves it; compared to the letter, as stock does."""
    own = props.get("source.consumer.isolation.level")
    return props.get("consumer.isolation.level") if own is None else own

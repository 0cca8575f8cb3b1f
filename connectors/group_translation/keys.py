"""Defines the keys of the connectors that translate consumer groups; in stock's words where stock has the key
(stock §1.3)."""

from __future__ import annotations

from dataclasses import replace

from bridge.mm2.filters import (
    GROUPS_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
)
from bridge.model.key_rules import ignored
from connectors.config.configdef import Importance, Key, Type, Width
from connectors.config.keys import flag, interval
from connectors.config.mirror_options import PYTHON_CLASS, STOCK
from connectors.config.validators import In, ListOf, Patterns, ReplicationFactor

REVERSE = "reverse.checkpointing.enabled"
REWIND = "sync.group.offsets.rewind"
EMIT_READINESS = "emit.group-readiness.enabled"
READINESS_REPLICATION_FACTOR = "group-readiness.topic.replication.factor"
SELECTION = "Groups and topics"

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def patterns(name: str, default: str | None, doc: str) -> Key:
    return Key(name, Type.LIST, default, _HIGH, doc, SELECTION, width=Width.LONG, validator=Patterns())


def _filter(name: str, default: str, doc: str) -> Key:
    return Key(name, Type.STRING, STOCK + default, _LOW, doc + PYTHON_CLASS, SELECTION, width=Width.LONG)


POLL_TIMEOUT = replace(
    interval(
        "consumer.poll.timeout.ms",
        "1000",
        "Timeout when polling source cluster. Without effect: a read ends by request.timeout.ms.",
        SELECTION,
    ),
    rule=ignored("a read ends by request.timeout.ms"),
)
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
REFRESH = (
    flag(
        "refresh.groups.enabled",
        "true",
        "Whether to periodically check for new consumer groups.",
        SELECTION,
    ),
    interval("refresh.groups.interval.seconds", "600", "Frequency of group refresh.", SELECTION),
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
NOT_COPIED = "bridge.topics.not.copied"
LEFT_BEHIND = "bridge.topics.left.behind"
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

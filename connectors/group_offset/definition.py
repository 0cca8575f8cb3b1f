"""The one definition of MirrorGroupOffsetConnector's keys; connectors/export.py gives it to the Java shim."""

from __future__ import annotations

from dataclasses import replace

from bridge.translation.filters import (
    GROUPS_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
)
from connectors.cluster_options import bridge_keys, cluster_keys
from connectors.configdef import ConfigDef, Importance, Key, Type, Width
from connectors.mirror_options import PYTHON_CLASS, STOCK, mirror_keys
from connectors.validators import In, ListOf, Patterns, Range

REWIND = "sync.group.offsets.rewind"

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _patterns(name: str, default: str | None, doc: str) -> Key:
    return Key(name, Type.LIST, default, _HIGH, doc, "", width=Width.LONG, validator=Patterns())


def _interval(name: str, default: str, doc: str) -> Key:
    return Key(name, Type.LONG, default, _LOW, doc, "", validator=Range(1))


def _flag(name: str, default: str, doc: str, importance: Importance = _LOW) -> Key:
    return Key(name, Type.BOOLEAN, default, importance, doc, "")


def _filter(name: str, default: str, doc: str) -> Key:
    return Key(name, Type.STRING, STOCK + default, _LOW, doc + PYTHON_CLASS, "", width=Width.LONG)


_SELECTION = (
    _patterns(
        "groups", GROUPS_DEFAULT, "Consumer groups to sync. Supports comma-separated group IDs and regexes."
    ),
    _patterns("group", None, "Another name for groups (as in KIP-1292); only one of the two may be given."),
    _patterns(
        "groups.exclude",
        GROUPS_EXCLUDE_DEFAULT,
        "Exclude groups. Supports comma-separated group IDs and regexes. Excludes take precedence over "
        "includes.",
    ),
    _filter(
        "group.filter.class", "DefaultGroupFilter", "GroupFilter to use. Selects consumer groups to sync."
    ),
    _patterns("topics", TOPICS_DEFAULT, "Topics of the source whose offsets are synced: names and regexes."),
    _patterns(
        "topics.exclude",
        TOPICS_EXCLUDE_DEFAULT,
        "Excluded topics. Supports comma-separated topic names and regexes. Excludes take precedence over "
        "includes.",
    ),
    _filter(
        "topic.filter.class",
        "DefaultTopicFilter",
        "TopicFilter to use. Selects topics whose offsets are synced.",
    ),
    Key(
        "task.assigned.groups",
        Type.LIST,
        None,
        _LOW,
        "When given, only these group IDs are synced, whatever the filters let through besides. Groups are "
        "spread over the tasks by the service.",
        "",
        width=Width.LONG,
        validator=ListOf(),
    ),
)
_SYNC = (
    _flag("refresh.groups.enabled", "true", "Whether to periodically check for new consumer groups."),
    _interval("refresh.groups.interval.seconds", "600", "Frequency of group refresh."),
    _interval("sync.group.offsets.interval.seconds", "60", "Frequency of consumer group offset sync."),
    _interval("consumer.poll.timeout.ms", "1000", "Timeout when reading records of the clusters."),
    replace(
        _flag("translation.verify", "true", ""),
        importance=_MEDIUM,
        documentation="true: an offset is written only after the neighbouring records were found on both "
        "clusters. false: the plain timestamp answer of KIP-1292, which may re-read any number of records.",
    ),
    Key(
        REWIND,
        Type.STRING,
        "never",
        _MEDIUM,
        "Whether an offset on the target may ever be moved back. empty-groups: where the offset there is "
        "still the one that we wrote and the group is empty.",
        "",
        validator=In(("never", "empty-groups")),
        recommended=("never", "empty-groups"),
    ),
    _flag("dry.run", "false", "true: everything is looked up and reported, nothing is written.", _MEDIUM),
)

_MIRROR, _SELECT, _OFFSETS = "Mirror", "Groups and topics", "Offset sync"

OPTIONS: tuple[Key, ...] = (
    *mirror_keys(_MIRROR),
    *(replace(key, group=_SELECT, order=order) for order, key in enumerate(_SELECTION, 1)),
    *(replace(key, group=_OFFSETS, order=order) for order, key in enumerate(_SYNC, 1)),
    *bridge_keys("Bridge"),
    *cluster_keys("source", "Source cluster"),
    *cluster_keys("target", "Target cluster"),
)

DEFINITION = ConfigDef(OPTIONS)

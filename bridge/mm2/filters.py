"""Selects which topics, groups and topic configs are mirrored: lists of names and Java regexes to include and to
exclude, as in stock.

The elements of a list are joined with `|` and must match the whole name; an empty list matches nothing, and
so does a filter of topics or groups that was never configured. Excludes win (stock §1.6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from bridge.mm2.java_regex import PatternProblem, compile_java
from bridge.mm2.replication_policy import ReplicationPolicy, is_cycle
from bridge.model.java_values import split_list, trimmed

TOPICS, TOPICS_EXCLUDE = "topics", "topics.exclude"
TOPICS_REGEX = "topics.regex"
"""Of sink connectors, whose `topics` are names."""
TOPICS_DEFAULT = ".*"
TOPICS_EXCLUDE_DEFAULT = r"mm2.*\.internal,.*\.replica,__.*"
GROUPS, GROUPS_EXCLUDE = "groups", "groups.exclude"
GROUPS_DEFAULT = ".*"
GROUPS_EXCLUDE_DEFAULT = "console-consumer-.*,connect-.*,__.*"
CONFIG_PROPERTIES_EXCLUDE, USE_DEFAULTS_FROM = "config.properties.exclude", "use.defaults.from"
CONFIG_PROPERTIES_EXCLUDE_DEFAULT = ",".join(
    (
        *("follower.replication.throttled.replicas", "leader.replication.throttled.replicas"),
        *("message.timestamp.difference.max.ms", "log.message.timestamp.before.max.ms"),
        *("log.message.timestamp.after.max.ms", "message.timestamp.type", "unclean.leader.election.enable"),
        "min.insync.replicas",
    )
)
"""4.3.1's; the two with `log.` are names of broker configs, so that the topic's own are mirrored (B23)."""
USE_DEFAULTS_FROM_DEFAULT = "target"


class TopicFilter(Protocol):
    def should_replicate_topic(self, topic: str) -> bool: ...


class GroupFilter(Protocol):
    def should_replicate_group(self, group: str) -> bool: ...


class ConfigPropertyFilter(Protocol):
    def should_replicate_config_property(self, name: str) -> bool: ...

    def should_replicate_source_default(self, name: str) -> bool:
        """Whether the remote topic gets the value that the source has by default, instead of the target's default."""


TOPIC_FILTER_CLASS = "topic.filter.class"
MOST_CHARACTERS = 10_000
"""Of a name or regular expression in a list. Compiling takes 3 µs for each of them; names of topics have 249."""
_SHOWN = 80
_CONNECTS = re.compile(
    r"(.*[-_.])?connect([-_.].*)?[-_.](configs?|offsets?|status(es)?)([-_.](storage|topic))*", re.IGNORECASE
)
"""Names that workers are given for config.storage.topic and its like: connect-configs, connect-cluster-status,
my_connect_offsets."""


class PatternList:
    """A list of names and regexes; raises PatternProblem when the joined regex does not compile. `key` is the setting
    that errors name."""

    def __init__(self, patterns: Sequence[str] = (), key: str = "") -> None:
        self.patterns, self.key = tuple(patterns), key
        self._regex = compile_java("|".join(self.patterns), key) if self.patterns else None

    def matches(self, name: str) -> bool:
        """Raises PatternTooSlow."""
        return self._regex is not None and self._regex.fullmatch(name)


class DefaultTopicFilter:
    """Chooses what `topics` names, or `topics.regex` where it is given, and not `topics.exclude`."""

    def __init__(self) -> None:
        self._include = self._exclude = PatternList()

    def configure(self, props: Mapping[str, str | None]) -> None:
        regex = props.get(TOPICS_REGEX)
        include = PatternList((regex,), TOPICS_REGEX) if regex else None
        self._include = include or _patterns(props, TOPICS, TOPICS_DEFAULT)
        self._exclude = _patterns(props, TOPICS_EXCLUDE, TOPICS_EXCLUDE_DEFAULT)

    def should_replicate_topic(self, topic: str) -> bool:
        return self._include.matches(topic) and not self._exclude.matches(topic)

    def names(self, topic: str) -> bool:
        """Whether `topics` has the very name."""
        return topic in self._include.patterns

    def key_against(self, topic: str) -> str:
        """Returns the key that leaves a topic out."""
        return self._exclude.key if self._include.matches(topic) else self._include.key


class DefaultGroupFilter:
    """Chooses what `groups` names, and not `groups.exclude`."""

    def __init__(self) -> None:
        self._include = self._exclude = PatternList()

    def configure(self, props: Mapping[str, str | None]) -> None:
        self._include = _patterns(props, GROUPS, GROUPS_DEFAULT)
        self._exclude = _patterns(props, GROUPS_EXCLUDE, GROUPS_EXCLUDE_DEFAULT)

    def should_replicate_group(self, group: str) -> bool:
        return self._include.matches(group) and not self._exclude.matches(group)


class DefaultConfigPropertyFilter:
    """Not `config.properties.exclude`; its default holds before `configure` too. Of `use.defaults.from` only the text
    `source` means anything: whatever else is the target."""

    def __init__(self) -> None:
        self.configure({})

    def configure(self, props: Mapping[str, str | None]) -> None:
        self._exclude = _patterns(props, CONFIG_PROPERTIES_EXCLUDE, CONFIG_PROPERTIES_EXCLUDE_DEFAULT)
        defaults_from = props.get(USE_DEFAULTS_FROM) or USE_DEFAULTS_FROM_DEFAULT
        self._source_defaults = trimmed(defaults_from) == "source"

    def should_replicate_config_property(self, name: str) -> bool:
        return not self._exclude.matches(name)

    def should_replicate_source_default(self, name: str) -> bool:
        return self._source_defaults


def key_against(topic_filter: TopicFilter, topic: str) -> str:
    """Returns the key whose value leaves a topic out."""
    if isinstance(topic_filter, DefaultTopicFilter):
        return topic_filter.key_against(topic)
    return TOPIC_FILTER_CLASS


def should_replicate_topic(
    topic: str,
    target_alias: str,
    topic_filter: TopicFilter,
    policy: ReplicationPolicy,
    *,
    heartbeats_replication: bool = True,
) -> bool:
    """Whether a topic of the source is copied (stock §3.6). Internal topics and what came from the target never are;
    with `heartbeats.replication.enabled` heartbeats topics are, whatever the filter says. Those of Connect are copied
    where they are named: its config topic holds the passwords of connectors as they are."""
    chosen = topic_filter.should_replicate_topic(topic) or (
        heartbeats_replication and policy.is_heartbeats_topic(topic)
    )
    if not chosen or policy.is_internal_topic(topic) or is_cycle(policy, topic, target_alias):
        return False
    return not is_left_to_be_named(topic, topic_filter)


def is_left_to_be_named(topic: str, topic_filter: TopicFilter) -> bool:
    """Whether a topic has the name of an internal one of Connect, and is not named in `topics`. A filter of a user's
    own has the last word."""
    # The names last: a list of thousands is searched for few topics so, and not for each of the cluster.
    if _CONNECTS.fullmatch(topic) is None or not isinstance(topic_filter, DefaultTopicFilter):
        return False
    return not topic_filter.names(topic)


def pattern_list_problem(patterns: Sequence[str]) -> str | None:
    """Checks a list of patterns: returns the error as a sentence without its end; None when it compiles.

    The error names the pattern that does not compile, if one by itself does not. It is searched for by halves:
    compiling 5,000 names one by one takes two seconds, and joined 30 ms.
    """
    for pattern in patterns:
        if len(pattern) > MOST_CHARACTERS:
            begin = f"{pattern[:_SHOWN]}… has {len(pattern)} characters"
            return f"{begin}; a name or a regular expression has {MOST_CHARACTERS} at most"
    problem = _problem(patterns)
    while problem is not None and len(patterns) > 1:
        middle = len(patterns) // 2
        for half in (patterns[:middle], patterns[middle:]):
            if (of_half := _problem(half)) is not None:
                patterns, problem = half, of_half
                break
        else:  # a regex with a comma in it is torn apart by the list, and whole again when joined
            break
    return problem


def _problem(patterns: Sequence[str]) -> str | None:
    try:
        PatternList(patterns)
    except PatternProblem as problem:
        return str(problem)
    return None


def _patterns(props: Mapping[str, str | None], key: str, default: str) -> PatternList:
    value = props.get(key)
    return PatternList(split_list(default if value is None else value), key)

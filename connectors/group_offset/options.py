"""MirrorGroupOffsetConnector's configuration: checked as a whole, every error at once, then typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bridge.errors import ConfigError
from bridge.translation.filters import JAVA_WHITESPACE, GroupFilter, TopicFilter
from bridge.translation.naming import ReplicationPolicy
from connectors.configdef import ValidatedConfig
from connectors.group_offset.definition import DEFINITION, OPTIONS, REWIND
from connectors.mirror_options import SEPARATOR, SOURCE_ALIAS, TARGET_ALIAS, alias_errors
from connectors.plugins import GROUP_FILTER, REPLICATION_POLICY, TOPIC_FILTER, Slot, T, load
from connectors.ports import ClientCheck
from connectors.validators import invalid

__all__ = ["DEFINITION", "OPTIONS", "GroupOffsetOptions", "Rewind", "validate"]

Props = Mapping[str, str | None]


class Rewind(StrEnum):
    """Whether an offset on the target may ever be moved back (design 5.5)."""

    NEVER = "never"
    EMPTY_GROUPS = "empty-groups"


@dataclass(frozen=True, slots=True)
class GroupOffsetOptions:
    """Intervals in seconds where not named otherwise."""

    enabled: bool
    source_alias: str
    target_alias: str
    group_filter: GroupFilter
    topic_filter: TopicFilter
    policy: ReplicationPolicy
    refresh_groups_enabled: bool
    refresh_groups_interval: float
    sync_interval: float
    poll_timeout_ms: int
    admin_timeout_ms: int
    assigned_groups: tuple[str, ...] | None
    verify: bool
    rewind: Rewind
    dry_run: bool
    lease_ms: int
    source_committed_only: bool
    """The mirror reads committed data only, so aborted records of the source have no copy."""

    @staticmethod
    def from_props(props: Props, clients: ClientCheck) -> GroupOffsetOptions:
        """Raises ConfigRejected with every error at once."""
        checked = _check(props, clients)
        config = checked.config
        config.raise_if_invalid()
        return GroupOffsetOptions(
            enabled=config.flag("enabled"),
            source_alias=config.text(SOURCE_ALIAS),
            target_alias=config.text(TARGET_ALIAS),
            group_filter=_sound(checked.group_filter),
            topic_filter=_sound(checked.topic_filter),
            policy=_sound(checked.policy),
            refresh_groups_enabled=config.flag("refresh.groups.enabled"),
            refresh_groups_interval=float(config.number("refresh.groups.interval.seconds")),
            sync_interval=float(config.number("sync.group.offsets.interval.seconds")),
            poll_timeout_ms=config.number("consumer.poll.timeout.ms"),
            admin_timeout_ms=config.number("admin.timeout.ms"),
            assigned_groups=config.items("task.assigned.groups"),
            verify=config.flag("translation.verify"),
            rewind=Rewind(config.text(REWIND)),
            dry_run=config.flag("dry.run"),
            lease_ms=config.number("bridge.task.lease.ms"),
            source_committed_only=_mirror_isolation(props) == "read_committed",
        )


def validate(props: Props, clients: ClientCheck) -> ValidatedConfig:
    """Every key with its value and errors; rules across keys, plugins and client properties included."""
    return _check(props, clients).config


@dataclass(frozen=True, slots=True)
class _Checked:
    config: ValidatedConfig
    group_filter: GroupFilter | None
    topic_filter: TopicFilter | None
    policy: ReplicationPolicy | None


def _check(props: Props, clients: ClientCheck) -> _Checked:
    given = {key: value for key, value in props.items() if value is not None}
    config = DEFINITION.validate(props)
    errors = [*alias_errors(config), *_selection_errors(given, config), *clients.check(given)]
    seen = _as_plugins_see_it(given)
    group_filter = _plugin(GROUP_FILTER, config, seen, errors, ("groups", "group", "groups.exclude"))
    topic_filter = _plugin(TOPIC_FILTER, config, seen, errors, ("topics", "topics.exclude"))
    policy = _plugin(REPLICATION_POLICY, config, seen, errors, (SEPARATOR,))
    return _Checked(config.with_errors(errors), group_filter, topic_filter, policy)


def _selection_errors(given: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    if "group" in given and "groups" in given:
        why = "groups is given too, and both mean the same; give only one of the two"
        yield ConfigError("group", invalid("group", given["group"], why))
    for key, everything in (("group", "groups"), ("groups", "groups"), ("topics", "topics")):
        if config.items(key) == ():
            why = f"an empty list selects no {everything}; give names or patterns, or .* for all"
            yield ConfigError(key, invalid(key, given.get(key, ""), why))


def _as_plugins_see_it(given: Mapping[str, str]) -> dict[str, str | None]:
    """Filters and policies know `groups` only, and values as ConfigDef reads them."""
    seen: dict[str, str | None] = {key: value.strip(JAVA_WHITESPACE) for key, value in given.items()}
    if "group" in seen:
        seen["groups"] = seen["group"]
    return seen


def _plugin(
    slot: Slot[T],
    config: ValidatedConfig,
    props: Props,
    errors: list[ConfigError],
    reads: tuple[str, ...],
) -> T | None:
    """Not configured where a key that the plugin reads has an error of its own: one cause, one error."""
    wrong = {error.key for error in config.errors}
    plugin = load(slot, config.text(slot.key), props if wrong.isdisjoint(reads) else None)
    if isinstance(plugin, ConfigError):
        errors.append(plugin)
        return None
    return plugin


def _mirror_isolation(props: Props) -> str | None:
    """The source consumer's isolation level as stock resolves it; compared to the letter, as stock does."""
    own = props.get("source.consumer.isolation.level")
    return props.get("consumer.isolation.level") if own is None else own


def _sound(plugin: T | None) -> T:
    if plugin is None:
        raise AssertionError("a plugin is missing only together with an error")
    return plugin

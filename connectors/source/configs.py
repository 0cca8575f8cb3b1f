"""Plans configs of remote topics: those of a new one, and the changes to one that exists (stock §3.6).

Stock writes every config of every topic at each interval. Here only what differs is written, and three things are
mended: B23, the timestamp limits are excluded by the names that brokers have for them, which no topic has; B24, what
the source's brokers have been given as a default is pinned on the remote topic; B25, see `excluded_timestamp_type`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bridge.mm2.filters import ConfigPropertyFilter
from bridge.model.topics import ConfigEntry, ConfigSource

TIMESTAMP_TYPE = "message.timestamp.type"

_BROKERS_NAMES = {
    name: f"log.{name}" for name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
}

Configs = Mapping[str, ConfigEntry]


def new_topic_configs(source: Configs, chosen: ConfigPropertyFilter) -> dict[str, str]:
    """Returns the configs of a new remote topic."""
    return {name: value for name, value in _replicated(source, chosen) if value is not None}


def config_changes(source: Configs, target: Configs, chosen: ConfigPropertyFilter) -> dict[str, str | None]:
    """Returns the changes to a remote topic that exists: overrides to be set, or removed (None).

    What the target's brokers don't know is left out: with one such config they would refuse all of the topic's.
    """
    changes: dict[str, str | None] = {}
    for name, value in _replicated(source, chosen):
        there = target.get(name)
        if there is None:
            continue
        override = there.value if there.source is ConfigSource.DYNAMIC_TOPIC else None
        if override != value:
            changes[name] = value
    return changes


def _replicated(source: Configs, chosen: ConfigPropertyFilter) -> Iterator[tuple[str, str | None]]:
    """Configs that follow the source's, with the override that the remote topic is to have (None: none)."""
    for name, entry in source.items():
        # As stock: what the source's brokers have in their files is neither set nor taken away.
        if entry.read_only or entry.sensitive or entry.source is ConfigSource.STATIC_BROKER:
            continue
        if not _follows(name, chosen):
            continue
        pinned = entry.source is ConfigSource.DYNAMIC_TOPIC or chosen.should_replicate_source_default(name)
        yield name, entry.value if pinned else None


def _follows(name: str, chosen: ConfigPropertyFilter) -> bool:
    names = (name, _BROKERS_NAMES.get(name, name))
    return all(map(chosen.should_replicate_config_property, names))


def excluded_timestamp_type(chosen: ConfigPropertyFilter) -> bool:
    """Whether remote topics keep their own timestamp type, as they have to (B25): a broker told LogAppendTime drops
    the timestamps of copies, by which offsets are translated."""
    return not chosen.should_replicate_config_property(TIMESTAMP_TYPE)

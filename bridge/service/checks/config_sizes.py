"""Limits the size of configurations: all of them go to the rounds process in one frame, and a frame over its limit
would end that process again and again."""

from __future__ import annotations

from bridge.errors import ConfigError, ConfigRejected, Overloaded
from bridge.service.ipc.desired_state import Config, characters
from bridge.service.state.task_table import TaskTable

MOST_CHARACTERS = 8 << 20
"""Limit for all names and configurations; see ipc.desired_state."""
MOST_OF_ONE = 1 << 20
MOST_SETTINGS = 2_000
MOST_TASKS = 20_000
_SHOWN = 80
"""Characters of a name that an error shows."""


def too_large(config: Config) -> ConfigError | None:
    """The error of a configuration that is too large by itself, of its largest key."""
    if len(config) > MOST_SETTINGS:
        why = (
            f"the configuration has {len(config)} settings; the limit of one configuration is {MOST_SETTINGS}"
        )
        return ConfigError(_largest(config)[0], why)
    size = characters(config)
    if size <= MOST_OF_ONE:
        return None
    key, length = _largest(config)
    why = (
        f"the configuration has {size} characters, {length} of them in {key[:_SHOWN]}; the limit of one configuration "
        f"is {MOST_OF_ONE}: name topics and groups by patterns, or spread them over several connectors"
    )
    return ConfigError(key, why)


def no_room(table: TaskTable, name: str, config: Config) -> str | None:
    """Why the service has no room for the configuration of a connector beside those of all others."""
    others = sum(len(each.name) + each.size for each in table if each.name != name)
    size = len(name) + characters(config)
    total = size + others
    if total <= MOST_CHARACTERS:
        return None
    return (
        f"the configuration of {name[:_SHOWN]} has {size} characters, and those of all connectors would have {total}; "
        f"the limit of one service is {MOST_CHARACTERS}: delete connectors, or run another service"
    )


def size_errors(table: TaskTable, config: Config) -> list[ConfigError]:
    """The errors of a configuration that would be refused for its size; its connector is the one that it names."""
    if (error := too_large(config)) is not None:
        return [error]
    why = no_room(table, config.get("name") or "", config)
    return [] if why is None else [ConfigError(_largest(config)[0], why)]


def check_room(table: TaskTable, name: str, config: Config) -> None:
    """Raises ConfigRejected for a configuration that is too large, and Overloaded when all together would be."""
    if (error := too_large(config)) is not None:
        raise ConfigRejected([error])
    if (why := no_room(table, name, config)) is not None:
        raise Overloaded(why, retry_after=60)


def check_tasks(table: TaskTable, name: str, index: int) -> None:
    """Raises Overloaded for a task that is new where the service has its most tasks."""
    connector = table.get(name)
    if connector is not None and index in connector.tasks:
        return
    tasks = sum(len(each.tasks) for each in table)
    if tasks >= MOST_TASKS:
        raise Overloaded(f"this service has {tasks} tasks, and its limit is {MOST_TASKS}", retry_after=60)


def _largest(config: Config) -> tuple[str, int]:
    """The largest key, and how many characters its value has."""
    key = max(config, key=lambda each: len(config[each] or ""), default="name")
    return key, len(config.get(key) or "")

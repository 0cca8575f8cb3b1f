"""Limits the size of configurations: all of them go to the rounds process in one frame, and a frame over its limit
would end that process again and again."""

from __future__ import annotations

from bridge.errors import ConfigError, ConfigRejected, Overloaded
from bridge.service.ipc.desired_state import Config
from bridge.service.state.task_table import TaskTable

MOST_CHARACTERS = 8 << 20
"""Limit for all names and configurations; JSON takes at most six bytes for a character."""
MOST_OF_ONE = 1 << 20
MOST_TASKS = 20_000


def check_size(config: Config) -> None:
    """Raises ConfigRejected for a configuration that is too large by itself."""
    size = _size(config)
    if size > MOST_OF_ONE:
        key = max(config, key=lambda each: len(config[each] or ""))
        why = f"the configuration has {size} characters, most of them in {key}; the limit is {MOST_OF_ONE}"
        raise ConfigRejected([ConfigError(key, why)])


def check_room(table: TaskTable, name: str, config: Config) -> None:
    """Raises ConfigRejected for a configuration that is too large, and Overloaded when all together would be."""
    check_size(config)
    others = [each for each in table if each.name != name]
    size = len(name) + _size(config)
    total = size + sum(len(each.name) + _size(each.config) for each in others)
    if total > MOST_CHARACTERS:
        raise Overloaded(
            f"the configuration of {name[:80]} has {size} characters, and those of all connectors would have {total}; "
            f"the limit of one service is {MOST_CHARACTERS}",
            retry_after=60,
        )
    tasks = sum(len(each.tasks) for each in others)
    if tasks >= MOST_TASKS:
        raise Overloaded(f"this service has {tasks} tasks, and its limit is {MOST_TASKS}", retry_after=60)


def _size(config: Config) -> int:
    return sum(len(key) + len(value or "") for key, value in config.items())

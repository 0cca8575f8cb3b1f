"""How much connectors may take in all: what crosses to the rounds process at once has to fit into a frame, or that
process would be started again and again."""

from __future__ import annotations

from bridge.errors import ConfigError, ConfigRejected, Overloaded
from bridge.service.ipc.desired_state import Config
from bridge.service.state.task_table import TaskTable

MOST_CHARACTERS = 8 << 20
"""Of all names and configurations; JSON takes six bytes for a character at most."""
MOST_OF_ONE = 1 << 20
MOST_TASKS = 20_000


def check_size(config: Config) -> None:
    """Raises ConfigRejected for a configuration that is too large, whatever else there is."""
    size = _size(config)
    if size > MOST_OF_ONE:
        key = max(config, key=lambda each: len(config[each] or ""))
        why = f"the configuration has {size} characters, most of them in {key}; {MOST_OF_ONE} are the most"
        raise ConfigRejected([ConfigError(key, why)])


def check_room(table: TaskTable, name: str, config: Config) -> None:
    """Raises ConfigRejected for a configuration that is too large, and Overloaded when all would be together."""
    check_size(config)
    known = [each for each in table if each.name != name]
    size = len(name) + _size(config)
    total = size + sum(len(each.name) + _size(each.config) for each in known)
    if total > MOST_CHARACTERS:
        raise Overloaded(
            f"the configuration of {name[:80]} has {size} characters, and those of all connectors would have {total}; "
            f"{MOST_CHARACTERS} are the most that one service takes",
            retry_after=60,
        )
    tasks = sum(len(each.tasks) for each in known)
    if tasks >= MOST_TASKS:
        raise Overloaded(f"this service has {tasks} tasks already", retry_after=60)


def _size(config: Config) -> int:
    return sum(len(key) + len(value or "") for key, value in config.items())

"""When the rounds were that stored answers about groups have held in. Pure.

A group's record is written when its meaning changes, its task's after each round: what a record says held until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bridge.model.assignment import task_of
from bridge.model.state_records.fields import SchemaError
from bridge.model.state_records.readiness_records import TaskRecord, decode

Rounds = Mapping[tuple[str, str], Sequence[tuple[int, int, int]]]
"""By readiness topic and connector: task, number of tasks, and when the task's last round began (ms)."""


def task_rounds(records: Iterable[tuple[bytes | None, bytes | None, str]]) -> Rounds:
    """Returns the rounds that records tell of: keys, values and topics."""
    rounds: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for key, value, topic in records:
        try:
            record_key, record = decode(key, value)
        except SchemaError:
            continue  # it has a row of its own that says so
        if isinstance(record, TaskRecord):
            each = int(record_key.name), record.task_count, record.as_of_ms
            rounds.setdefault((topic, record_key.connector), []).append(each)
    return rounds


def last_round(rounds: Rounds, topic: str, connector: str, group: str) -> int:
    """Returns when the last round of the group's task began, -1 for not known."""
    of_connector = rounds.get((topic, connector), ())
    return max((at for task, count, at in of_connector if task_of(group, count) == task), default=-1)

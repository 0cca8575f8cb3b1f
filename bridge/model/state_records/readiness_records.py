"""Defines the records of the readiness topic: the last state of groups, tasks and source topics, by connector. Pure.

    key (fields in this order)                         value
    {"connector", "kind": "group", "name": GROUP}      GroupRecord: committed offsets, and what each translates to
    {"connector", "kind": "task", "name": INDEX}       TaskRecord: when the task's groups were looked at last
    {"connector", "kind": "missing", "name": TOPIC}    MissingRecord: records of a source topic not on the target
    {"connector", "kind": "move", "name": GROUP}       MoveRecord: that the group was failed over
    {"connector", "kind": "furthest", "name": GROUP}   FurthestRecord: the furthest offsets of the mirror

A new kind is a class like those below, named in VALUES. All connectors of one source alias share the topic. Whoever may
write to it may write anything: `decode` raises nothing but SchemaError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from bridge.model.state_records.fields import (
    LAST_MS,
    MOST_TASKS,
    VERSION,
    SchemaError,
    Value,
    number,
    numbers,
    read_object,
    text,
)
from bridge.model.state_records.group_record import FurthestRecord, GroupRecord
from bridge.model.state_records.move_record import MoveRecord
from bridge.model.values import LAST_PARTITION

_MOST_MS = 1 << 53
_MOST_COUNT = (1 << 63) - 1


class RecordKey(NamedTuple):
    connector: str
    kind: str
    name: str

    def encode(self) -> bytes:
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class TaskRecord(Value):
    """A task's record; written after each round that both clusters have answered, behind the records of its groups."""

    kind: ClassVar[str] = "task"
    as_of_ms: int
    """When the round began."""
    task_count: int
    interval_ms: int
    """Time to the next record, as long as rounds succeed."""
    writer: str
    """The instance of the connector that runs the task."""
    groups: bool = False
    """Whether the task looks at groups, and has written a record of each before this one."""

    @property
    def meaning(self) -> int:
        return hash(self)

    def fields(self) -> dict[str, Any]:
        return {
            "asOfMs": self.as_of_ms,
            "taskCount": self.task_count,
            "intervalMs": self.interval_ms,
            "writer": self.writer,
            **({"groups": True} if self.groups else {}),
        }

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> TaskRecord:
        return cls(
            number(obj, "asOfMs", 0, LAST_MS),
            number(obj, "taskCount", 1, MOST_TASKS),
            number(obj, "intervalMs", 1, _MOST_MS),
            text(obj, "writer", 1),
            obj.get("groups") is True,
        )


def tell_all(tasks: Mapping[str, TaskRecord]) -> bool:
    """Whether each task of a group connector has told of all its groups. `tasks`: its records, by index."""
    newest = max(tasks.values(), key=lambda each: each.as_of_ms, default=None)
    if newest is None:
        return False
    count = newest.task_count
    known = (tasks.get(str(task)) for task in range(count))
    return all(record is not None and record.groups and record.task_count == count for record in known)


@dataclass(frozen=True, slots=True)
class MissingRecord(Value):
    """The missing records of a source topic: by partition, at most so many are not on the target, none of them appended
    before a time (ms); -1 for not known."""

    kind: ClassVar[str] = "missing"
    as_of_ms: int
    rows: tuple[tuple[int, int, int], ...]
    """Partition, records, time."""

    @property
    def meaning(self) -> int:
        return hash(self.rows)

    def fields(self) -> dict[str, Any]:
        return {"asOfMs": self.as_of_ms, "partitions": [list(row) for row in self.rows]}

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> MissingRecord:
        ranges = ((0, LAST_PARTITION), (-1, _MOST_COUNT), (-1, LAST_MS))
        rows = [(row[0], row[1], row[2]) for row in numbers(obj, "partitions", ranges)]
        return cls(number(obj, "asOfMs", 0, LAST_MS), tuple(rows))


VALUES: Final[Mapping[str, type[Value]]] = {
    each.kind: each for each in (GroupRecord, TaskRecord, MissingRecord, MoveRecord, FurthestRecord)
}
"""The classes of values, by kind."""


def encode(value: Value) -> bytes:
    return json.dumps({"version": VERSION, **value.fields()}, separators=(",", ":")).encode()


def decode(key: bytes | None, value: bytes | None) -> tuple[RecordKey, Value | None]:
    """Decodes a record; a null value deletes the one of its key. Raises SchemaError."""
    obj = decode_key(key)
    return obj, None if value is None else decode_value(obj, value)


def decode_key(key: bytes | None) -> RecordKey:
    """Raises SchemaError."""
    obj = read_object(key, "key")
    if list(obj) != list(RecordKey._fields):
        fields = ", ".join(RecordKey._fields)
        raise SchemaError(f"its key has other fields than {fields}, in this order")
    made = RecordKey(text(obj, "connector", 1), text(obj, "kind", 1), text(obj, "name"))
    if made.kind not in VALUES:
        raise SchemaError(f"kind is {made.kind[:60]!a}: {', '.join(VALUES)} are known")
    if made.kind == TaskRecord.kind and made.name not in _TASKS:
        raise SchemaError(f"name is {made.name[:60]!a}: the index of a task below {MOST_TASKS} is needed")
    if made.encode() != key:
        raise SchemaError("its key is written in another way than ours, so that it would not replace any")
    return made


def decode_value(key: RecordKey, value: bytes) -> Value:
    """Raises SchemaError."""
    obj = read_object(value, "value")
    number(obj, "version", VERSION, VERSION)
    return VALUES[key.kind].read(obj)


_TASKS = frozenset(map(str, range(MOST_TASKS)))

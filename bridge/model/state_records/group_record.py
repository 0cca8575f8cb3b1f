"""Defines the record of a group: its committed offsets on the source, and the verdict on each. Pure.

Defines the record of the furthest offsets that the mirror has committed for a group on the target. Pure.

An offset of the group that is not above them may be a commit of the mirror and not of a consumer: the reverse flow
leaves such a group where it is. Where other sources are copied to the same partition, the record has besides what this
flow alone translates: the others commit nothing beyond that. A value of the readiness topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from bridge.model.state_records.fields import (
    LAST_MS,
    LAST_OFFSET,
    MOST_TASKS,
    SchemaError,
    Value,
    number,
    number_or_none,
    numbers,
    objects,
    simple_values,
    text,
    text_or_none,
    texts,
)
from bridge.model.values import LAST_PARTITION, TopicPartition

_MOST_COUNT = (1 << 63) - 1
_JUDGEMENTS = ("exact", "bounded", "pending")

Detail = Mapping[str, str | int | None]
_NONE: Detail = {}
_OFFSETS = 0, LAST_OFFSET + 1
_ROW = (0, LAST_PARTITION), _OFFSETS, _OFFSETS, _OFFSETS
_ALONE = (0, LAST_PARTITION), _OFFSETS, _OFFSETS, (-1, (1 << 63) - 1)


class GroupRow(NamedTuple):
    """A committed offset, the verdict on it, and what the group has committed on the target."""

    topic: str
    partition: int
    offset: int
    metadata: str
    target_topic: str
    target_offset: int | None
    """None when pending."""
    verdict: str
    bound: int | None = None
    """Records that would be read again; None for not known."""
    evidence: str | None = None
    reason: str | None = None
    standing: int | None = None
    """The committed offset on the target."""
    flags: tuple[str, ...] = ()
    detail: Detail = _NONE

    def fields(self) -> dict[str, Any]:
        """Returns the row as JSON; what is empty or not known is left out."""
        obj = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "metadata": self.metadata or None,
            "targetTopic": self.target_topic,
            "targetOffset": self.target_offset,
            "verdict": self.verdict,
            "bound": self.bound,
            "evidence": self.evidence,
            "reason": self.reason,
            "committed": self.standing,
            "flags": list(self.flags) or None,
            "detail": dict(self.detail) or None,
        }
        return {name: value for name, value in obj.items() if value is not None}

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> GroupRow:
        verdict, target_offset = (
            text(obj, "verdict"),
            number_or_none(obj, "targetOffset", 0, LAST_OFFSET + 1),
        )
        if verdict not in _JUDGEMENTS:
            raise SchemaError(f"verdict is {verdict[:60]!a}: one of {', '.join(_JUDGEMENTS)} is needed")
        if verdict != "pending" and target_offset is None:
            raise SchemaError(f"targetOffset is missing: verdict {verdict} has one")
        return cls(
            topic=text(obj, "topic", 1),
            partition=number(obj, "partition", 0, LAST_PARTITION),
            offset=number(obj, "offset", 0, LAST_OFFSET + 1),
            metadata=text_or_none(obj, "metadata") or "",
            target_topic=text(obj, "targetTopic", 1),
            target_offset=target_offset,
            verdict=verdict,
            bound=number_or_none(obj, "bound", 0, _MOST_COUNT),
            evidence=text_or_none(obj, "evidence"),
            reason=text_or_none(obj, "reason"),
            standing=number_or_none(obj, "committed", 0, LAST_OFFSET + 1),
            flags=tuple(texts(obj, "flags")),
            detail=simple_values(obj, "detail"),
        )

    @classmethod
    def trusted(cls, obj: Mapping[str, Any]) -> GroupRow:
        """Reads fields that were checked before."""
        get = obj.get
        return cls(
            obj["topic"],
            obj["partition"],
            obj["offset"],
            get("metadata") or "",
            obj["targetTopic"],
            get("targetOffset"),
            obj["verdict"],
            get("bound"),
            get("evidence"),
            get("reason"),
            get("committed"),
            tuple(get("flags") or ()),
            get("detail") or _NONE,
        )

    @property
    def meaning(self) -> tuple[object, ...]:
        """The fields that decide whether a record has changed: `detail` and `evidence` say why, and not what;
        `metadata` is committed with the offset."""
        return self[:8] + self[9:12]


class NotBegunRow(NamedTuple):
    """A partition of the source in which the group has committed nothing."""

    topic: str
    partition: int
    not_on_target: int | None
    """At most so many records that the copy is past are not on the target; None for not known."""
    target_start: int | None = None
    """The target's log start then; None for not known."""

    def fields(self) -> dict[str, Any]:
        more = {"notOnTarget": self.not_on_target, "targetStart": self.target_start}
        known = {name: number for name, number in more.items() if number is not None}
        return {"topic": self.topic, "partition": self.partition, **known}

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> NotBegunRow:
        return cls(
            text(obj, "topic", 1),
            number(obj, "partition", 0, LAST_PARTITION),
            number_or_none(obj, "notOnTarget", 0, _MOST_COUNT),
            number_or_none(obj, "targetStart", 0, LAST_OFFSET + 1),
        )

    @classmethod
    def trusted(cls, obj: Mapping[str, Any]) -> NotBegunRow:
        """Reads fields that were checked before."""
        return cls(obj["topic"], obj["partition"], obj.get("notOnTarget"), obj.get("targetStart"))


@dataclass(frozen=True, slots=True)
class GroupRecord(Value):
    """A group's record; written when its meaning changes."""

    kind: ClassVar[str] = "group"

    as_of_ms: int
    """When the round began that read the group."""
    task: int
    task_count: int
    state: str
    """On the target."""
    reason: str | None
    """Why the group as a whole is not synced."""
    rows: tuple[GroupRow, ...]
    not_copied: tuple[tuple[str, str], ...] = ()
    """Topics that the group reads and the flow does not copy, and the keys of the configuration that leave them out."""
    not_begun: tuple[NotBegunRow, ...] = ()

    @property
    def meaning(self) -> int:
        return hash(
            (
                *(self.task, self.task_count, self.state, self.reason, self.not_copied, self.not_begun),
                *(row.meaning for row in self.rows),
            )
        )

    def fields(self) -> dict[str, Any]:
        reason = {} if self.reason is None else {"reason": self.reason}
        return {
            "asOfMs": self.as_of_ms,
            "task": self.task,
            "taskCount": self.task_count,
            "state": self.state,
            **reason,
            "partitions": [row.fields() for row in self.rows],
            **({"notCopied": dict(self.not_copied)} if self.not_copied else {}),
            **({"notBegun": [row.fields() for row in self.not_begun]} if self.not_begun else {}),
        }

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> GroupRecord:
        task_count = number(obj, "taskCount", 1, MOST_TASKS)
        return cls(
            as_of_ms=number(obj, "asOfMs", 0, LAST_MS),
            task=number(obj, "task", 0, task_count - 1),
            task_count=task_count,
            state=text(obj, "state"),
            reason=text_or_none(obj, "reason"),
            rows=tuple(GroupRow.read(item) for item in objects(obj, "partitions")),
            not_copied=tuple((topic, str(key)) for topic, key in simple_values(obj, "notCopied").items()),
            # Versions before this field left what the copies are past out of these partitions.
            not_begun=tuple(map(NotBegunRow.read, objects(obj, "notBegun") if "notBegun" in obj else ())),
        )

    @classmethod
    def trusted(cls, obj: Mapping[str, Any]) -> GroupRecord:
        return cls(
            obj["asOfMs"],
            obj["task"],
            obj["taskCount"],
            obj["state"],
            obj.get("reason"),
            tuple(map(GroupRow.trusted, obj["partitions"])),
            tuple((obj.get("notCopied") or {}).items()),
            tuple(map(NotBegunRow.trusted, obj.get("notBegun") or ())),
        )


class Furthest(NamedTuple):
    """The last translation of a committed offset, and the furthest so far."""

    upstream: int
    downstream: int
    furthest: int

    @staticmethod
    def after(last: Furthest | None, upstream: int, downstream: int) -> Furthest:
        """Returns the furthest offset after a translation of `upstream` to `downstream`."""
        # A lower one for an offset that is not lower: the target's topic was truncated or created again.
        cut_back = last is not None and downstream < last.downstream and upstream >= last.upstream
        furthest = downstream if last is None or cut_back else max(downstream, last.furthest)
        return Furthest(upstream, downstream, furthest)


class Alone(NamedTuple):
    """What one flow translates an offset to by itself, and how many records are read twice from there; -1 for not
    known."""

    upstream: int
    offset: int
    bound: int


@dataclass(frozen=True, slots=True)
class FurthestRecord(Value):
    """The furthest offsets of a group, by target partition; written before the offsets are committed."""

    kind: ClassVar[str] = "furthest"

    as_of_ms: int
    rows: Mapping[TopicPartition, Furthest]
    alone: Mapping[TopicPartition, Alone] = field(default_factory=dict)

    @property
    def meaning(self) -> int:
        return hash((frozenset(self.rows.items()), frozenset(self.alone.items())))

    def fields(self) -> dict[str, Any]:
        rows, alone = _by_topic(self.rows), _by_topic(self.alone)
        return {
            "asOfMs": self.as_of_ms,
            "topics": [
                {"targetTopic": topic, "partitions": rows.get(topic, [])}
                | ({"alone": alone[topic]} if topic in alone else {})
                for topic in {**rows, **alone}
            ],
        }

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> FurthestRecord:
        rows = {
            TopicPartition(text(each, "targetTopic", 1), row[0]): Furthest(row[1], row[2], row[3])
            for each in objects(obj, "topics")
            for row in numbers(each, "partitions", _ROW)
        }
        alone = {
            TopicPartition(text(each, "targetTopic", 1), row[0]): Alone(row[1], row[2], row[3])
            for each in objects(obj, "topics")
            if "alone" in each
            for row in numbers(each, "alone", _ALONE)
        }
        return cls(number(obj, "asOfMs", 0, LAST_MS), rows, alone)

    @classmethod
    def trusted(cls, obj: Mapping[str, Any]) -> FurthestRecord:
        """Reads fields that were checked before."""
        return cls(
            obj["asOfMs"],
            {
                TopicPartition(each["targetTopic"], row[0]): Furthest(*row[1:])
                for each in obj["topics"]
                for row in each["partitions"]
            },
            {
                TopicPartition(each["targetTopic"], row[0]): Alone(*row[1:])
                for each in obj["topics"]
                for row in each.get("alone", ())
            },
        )


def _by_topic(rows: Mapping[TopicPartition, tuple[int, ...]]) -> dict[str, list[list[int]]]:
    topics: dict[str, list[list[int]]] = {}
    for tp, row in rows.items():
        topics.setdefault(tp.topic, []).append([tp.partition, *row])
    return topics

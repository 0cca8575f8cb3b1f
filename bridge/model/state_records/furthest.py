"""Defines the record of the furthest offsets that the mirror has committed for a group on the target. Pure.

An offset of the group that is not above them may be a commit of the mirror and not of a consumer: the reverse flow
leaves such a group where it is. Where other sources are copied to the same partition, the record has besides what this
flow alone translates: the others commit nothing beyond that. A value of the readiness topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from bridge.model.state_records.fields import LAST_OFFSET
from bridge.model.state_records.json_records import LAST_MS, number, numbers, objects, text
from bridge.model.state_records.state_value import Value
from bridge.model.values import LAST_PARTITION, TopicPartition

_OFFSETS = 0, LAST_OFFSET + 1
_ROW = (0, LAST_PARTITION), _OFFSETS, _OFFSETS, _OFFSETS
_ALONE = (0, LAST_PARTITION), _OFFSETS, _OFFSETS, (-1, (1 << 63) - 1)


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

"""Defines the record that a group was failed over, with all that later steps need: a value of the readiness topic.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from bridge.model.state_records.fields import (
    LAST_MS,
    LAST_OFFSET,
    SchemaError,
    Value,
    flag,
    number,
    number_or_none,
    objects,
    text,
    text_or_none,
)
from bridge.model.values import LAST_PARTITION

MOVED, RETURNED = "moved", "returned"
_STATES = (MOVED, RETURNED)
_VERDICTS = ("exact", "bounded")
_MOST_COUNT = (1 << 63) - 1


class MoveRow(NamedTuple):
    """A committed offset on the source, and the one on the target at which a consumer resumes."""

    topic: str
    partition: int
    offset: int
    target_topic: str
    target_offset: int
    verdict: str = "exact"
    bound: int | None = None
    missing: int | None = None
    """At most so many records of the source's partition were not on the target; None for not known."""

    def fields(self) -> dict[str, Any]:
        obj = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "targetTopic": self.target_topic,
            "targetOffset": self.target_offset,
            "verdict": self.verdict,
            "bound": self.bound,
            "missing": self.missing,
        }
        return {name: value for name, value in obj.items() if value is not None}

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> MoveRow:
        verdict = text(obj, "verdict")
        if verdict not in _VERDICTS:
            raise SchemaError(f"verdict is {verdict[:60]!a}: one of {', '.join(_VERDICTS)} is needed")
        return cls(
            text(obj, "topic", 1),
            number(obj, "partition", 0, LAST_PARTITION),
            number(obj, "offset", 0, LAST_OFFSET + 1),
            text(obj, "targetTopic", 1),
            number(obj, "targetOffset", 0, LAST_OFFSET + 1),
            verdict,
            number_or_none(obj, "bound", 0, _MOST_COUNT),
            number_or_none(obj, "missing", 0, _MOST_COUNT),
        )


class Standing(NamedTuple):
    """A committed offset of the group on the target, of any topic."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""
    leader_epoch: int = -1

    def fields(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "metadata": self.metadata,
            "leaderEpoch": self.leader_epoch,
        }

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> Standing:
        return cls(
            text(obj, "topic", 1),
            number(obj, "partition", 0, LAST_PARTITION),
            number(obj, "offset", 0, LAST_OFFSET + 1),
            text_or_none(obj, "metadata") or "",
            number(obj, "leaderEpoch", -1, LAST_PARTITION),
        )


class NotBegunMoved(NamedTuple):
    """A partition of the source in which the group had committed nothing, and of which the target lacked records. None
    for not known."""

    topic: str
    partition: int
    not_on_target: int | None
    """At most so many that the copy was past."""
    missing: int | None
    """With those that were yet to be copied."""

    def fields(self) -> dict[str, Any]:
        obj = {
            "topic": self.topic,
            "partition": self.partition,
            "notOnTarget": self.not_on_target,
            "missing": self.missing,
        }
        return {name: value for name, value in obj.items() if value is not None}

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> NotBegunMoved:
        return cls(
            text(obj, "topic", 1),
            number(obj, "partition", 0, LAST_PARTITION),
            number_or_none(obj, "notOnTarget", 0, _MOST_COUNT),
            number_or_none(obj, "missing", 0, _MOST_COUNT),
        )


@dataclass(frozen=True, slots=True)
class MoveRecord(Value):
    """State `moved`: the connector commits the group no more. `returned`: it does again, and the offsets in `rows` are
    equivalent pairs: those on the target are what its consumers have committed last."""

    kind: ClassVar[str] = "move"
    state: str
    at_ms: int
    as_of_ms: int
    """When both clusters were last queried for `rows`."""
    source_away: bool
    """The source did not answer then: `as_of_ms` is older than `at_ms`."""
    missing_since_ms: int | None
    rows: tuple[MoveRow, ...]
    snapshot: tuple[Standing, ...] = ()
    """What the group had committed on the target when it was moved."""
    not_begun: tuple[NotBegunMoved, ...] = ()

    @property
    def meaning(self) -> int:
        return hash(self)

    def fields(self) -> dict[str, Any]:
        since = {} if self.missing_since_ms is None else {"missingSinceMs": self.missing_since_ms}
        return {
            "state": self.state,
            "atMs": self.at_ms,
            "asOfMs": self.as_of_ms,
            "sourceAway": self.source_away,
            **since,
            "partitions": [row.fields() for row in self.rows],
            "snapshot": [standing.fields() for standing in self.snapshot],
            **({"notBegun": [moved.fields() for moved in self.not_begun]} if self.not_begun else {}),
        }

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> MoveRecord:
        state = text(obj, "state")
        if state not in _STATES:
            raise SchemaError(f"state is {state[:60]!a}: one of {', '.join(_STATES)} is needed")
        return cls(
            state=state,
            at_ms=number(obj, "atMs", 0, LAST_MS),
            as_of_ms=number(obj, "asOfMs", 0, LAST_MS),
            source_away=flag(obj, "sourceAway"),
            missing_since_ms=number_or_none(obj, "missingSinceMs", 0, LAST_MS),
            rows=tuple(MoveRow.read(item) for item in objects(obj, "partitions")),
            snapshot=tuple(Standing.read(item) for item in objects(obj, "snapshot")),
            not_begun=tuple(map(NotBegunMoved.read, objects(obj, "notBegun") if "notBegun" in obj else ())),
        )

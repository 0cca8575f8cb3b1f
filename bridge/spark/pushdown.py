"""Filters that Spark pushes down, as limits of what is read. Pure.

Topics, partitions and offsets are exact: Spark need not look at them again. Of timestamps only the lower limit counts,
because a record may be older than one before it; Spark looks at those again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql.datasource import (
    ColumnPath,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from bridge.model.values import TopicPartition
from bridge.spark.offsets import OffsetRange
from bridge.spark.schema import NEVER_NULL, column_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from `low` to `high`, both included; of these only `among`, unless that is None."""

    low: int = 0
    high: int = _LAST
    among: frozenset[int] | None = None

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high and (self.among is None or number in self.among)

    def narrowed(self, low: int = 0, high: int = _LAST, among: Iterable[int] | None = None) -> Span:
        both = self.among
        if among is not None:
            both = frozenset(among) if both is None else both & frozenset(among)
        return Span(max(self.low, low), min(self.high, high), both)

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest number that it may hold; the highest is below the lowest when it holds none."""
        if self.among is None:
            return self.low, self.high
        inside = [number for number in self.among if self.low <= number <= self.high]
        return (min(inside), max(inside)) if inside else (0, -1)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that pushed filters set. `texts`: filters of topic names. `since`: the earliest timestamp in ms."""

    partitions: Span = Span()
    offsets: Span = Span()
    texts: tuple[Filter, ...] = ()
    since: int | None = None

    def read(self, tp: TopicPartition) -> bool:
        """Whether anything of the partition is left."""
        return tp.partition in self.partitions and all(_matches(text, tp.topic) for text in self.texts)

    def clipped(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Returns what is left of the ranges."""
        low, high = self.offsets.bounds
        clipped = (
            offset_range._replace(start=max(offset_range.start, low), end=min(offset_range.end, high + 1))
            for offset_range in ranges
            if self.read(offset_range.tp)
        )
        return [offset_range for offset_range in clipped if offset_range.start < offset_range.end]


def pushed(filters: Sequence[Filter]) -> tuple[Limits, list[Filter]]:
    """The limits that the filters make together, and the filters that Spark has to look at again."""
    limits, rest = Limits(), list[Filter]()
    for pushed in filters:
        narrower = _narrowed(limits, pushed)
        if narrower is None:
            rest.append(pushed)
        else:
            limits = narrower
            if _column(pushed) == "timestamp":
                rest.append(pushed)
    return limits, rest


def _narrowed(limits: Limits, pushed: Filter) -> Limits | None:
    """Returns the limits with a filter added; None for a filter that limits nothing."""
    name = _column(pushed)
    if isinstance(pushed, IsNotNull):
        return limits if name in NEVER_NULL else None
    if name == "topic":
        return None if _matches(pushed, "") is None else replace(limits, texts=(*limits.texts, pushed))
    if name == "partition":
        span = _span(limits.partitions, pushed)
        return None if span is None else replace(limits, partitions=span)
    if name == "offset":
        span = _span(limits.offsets, pushed)
        # A row is left out within a range only by its ends.
        if span is None or (isinstance(pushed, In) and len(pushed.value) > 1):
            return None
        return replace(limits, offsets=span)
    if name == "timestamp":
        since = _since(pushed)
        return None if since is None else replace(limits, since=max(since, limits.since or 0))
    return None


def _column(pushed: Filter) -> str | None:
    """Returns the column that a filter is of; None where it is of a part of one, or of several."""
    path: ColumnPath = getattr(pushed, "attribute", ())
    return column_of(".".join(path))


def _span(span: Span, pushed: Filter) -> Span | None:
    if isinstance(pushed, In):
        whole = all(type(value) is int for value in pushed.value)
        return span.narrowed(among=pushed.value) if whole else None
    number = getattr(pushed, "value", None)
    if type(number) is not int:
        return None
    if isinstance(pushed, EqualTo | EqualNullSafe):
        return span.narrowed(number, number)
    if isinstance(pushed, GreaterThan):
        return span.narrowed(number + 1)
    if isinstance(pushed, GreaterThanOrEqual):
        return span.narrowed(number)
    if isinstance(pushed, LessThan):
        return span.narrowed(high=number - 1)
    return span.narrowed(high=number) if isinstance(pushed, LessThanOrEqual) else None


def _matches(pushed: Filter, text: str) -> bool | None:
    """Whether a text passes the filter; None for a filter that is not understood."""
    if isinstance(pushed, EqualTo | EqualNullSafe):
        return bool(pushed.value == text)
    if isinstance(pushed, In):
        return text in pushed.value
    if isinstance(pushed, StringStartsWith):
        return text.startswith(pushed.value)
    if isinstance(pushed, StringEndsWith):
        return text.endswith(pushed.value)
    return pushed.value in text if isinstance(pushed, StringContains) else None


def _since(pushed: Filter) -> int | None:
    """The earliest timestamp in ms that passes the filter; None where it has none."""
    if not isinstance(pushed, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
        return None
    if not isinstance(pushed.value, datetime):
        return None
    time = pushed.value if pushed.value.tzinfo is not None else pushed.value.replace(tzinfo=UTC)
    return max(0, (time - _EPOCH) // _MILLISECOND)


_MILLISECOND = datetime.resolution * 1000

"""Divides offsets among Spark partitions, by their bytes. Pure.

A large range is cut into pieces of about equal size; small ones go together, because a Spark task costs more than a
small range does. A piece of a cut range has a Spark partition of its own, so that none has two pieces of one log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from bridge.model.values import TopicPartition
from bridge.spark.offsets import OffsetRange

_GUESS = 1024.0
"""Bytes of an offset, where those of no partition are known."""
_STEP, _STEPS = 0.8, 40


def split(
    ranges: Sequence[OffsetRange],
    bytes_each: Mapping[TopicPartition, float],
    *,
    max_bytes: int,
    min_partitions: int = 1,
    max_offsets: int | None = None,
) -> list[tuple[OffsetRange, ...]]:
    """Splits ranges into what each Spark partition reads. `bytes_each`: bytes of an offset, for the partitions where
    that is known; for the others the mean of these is taken. `max_offsets`: of a Spark partition."""
    usual = sum(bytes_each.values()) / len(bytes_each) if bytes_each else _GUESS
    sizes = [(each, bytes_each.get(each.tp, usual)) for each in ranges]
    total = sum((each.end - each.start) * size for each, size in sizes)
    target = min(float(max_bytes), max(1.0, total / min_partitions))
    offsets = sum(each.end - each.start for each in ranges)
    parts = _packed(sizes, target, max_offsets)
    for _ in range(_STEPS):
        if len(parts) >= min(min_partitions, offsets):
            break
        target *= _STEP
        parts = _packed(sizes, target, max_offsets)
    return parts


def _packed(
    sizes: Sequence[tuple[OffsetRange, float]], target: float, max_offsets: int | None
) -> list[tuple[OffsetRange, ...]]:
    parts: list[tuple[OffsetRange, ...]] = []
    together: list[OffsetRange] = []
    held, offsets = 0.0, 0
    for each, size in sizes:
        count = each.end - each.start
        size *= count
        most = max_offsets or count
        pieces = min(count, max(1, math.ceil(size / target), math.ceil(count / most)))
        if pieces > 1:
            parts += ((piece,) for piece in _cut(each, pieces))
            continue
        if together and (held + size > target or offsets + count > (max_offsets or math.inf)):
            parts.append(tuple(together))
            together, held, offsets = [], 0.0, 0
        together.append(each)
        held, offsets = held + size, offsets + count
    return [*parts, tuple(together)] if together else parts


def _cut(each: OffsetRange, pieces: int) -> list[OffsetRange]:
    count = each.end - each.start
    edges = [each.start + count * number // pieces for number in range(pieces + 1)]
    return [each._replace(start=start, end=end) for start, end in pairwise(edges) if start < end]

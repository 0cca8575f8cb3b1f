"""The offsets at which groups have to resume, by brute force from both logs read whole. Pure, and simple on purpose."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.demo.logs import Entry, PartitionLog


@dataclass(frozen=True, slots=True)
class Alignment:
    """Records of the source and their copies on the target, both in order."""

    upstream: tuple[int, ...]
    """Source offsets of the matched records, ascending."""
    downstream: tuple[int, ...]
    """Target offsets of their copies, ascending."""
    missing: int
    """Records of the source without a copy."""
    foreign: int
    """Records of the target that are not copies."""


def align(source: Sequence[Entry], target: Sequence[Entry]) -> Alignment:
    """Matches records in order: each of the target with the first of the source that is equal to it and comes after the
    last match."""
    pairs: list[tuple[int, int]] = []
    positions: Mapping[bytes, Sequence[int]] | None = None
    at = 0
    for entry in target:
        if at < len(source) and source[at].digest == entry.digest:
            match = at
        else:
            positions = positions if positions is not None else _positions(source)
            candidates = positions.get(entry.digest, ())
            candidate = bisect_left(candidates, at)
            if candidate == len(candidates):
                continue
            match = candidates[candidate]
        pairs.append((source[match].offset, entry.offset))
        at = match + 1
    return Alignment(
        tuple(up for up, _ in pairs),
        tuple(down for _, down in pairs),
        len(source) - len(pairs),
        len(target) - len(pairs),
    )


def exact_offset(committed: int, alignment: Alignment, target_end: int) -> int:
    """The target offset of the first record at or after `committed` that has a copy; the target's log end if none
    has."""
    first = bisect_left(alignment.upstream, committed)
    return alignment.downstream[first] if first < len(alignment.downstream) else target_end


def reread(offset: int | None, exact: int, target: PartitionLog) -> int | None:
    """How many records a consumer that starts at `offset` re-reads; negative: how many it skips. None without an
    offset."""
    if offset is None:
        return None
    offsets = target.offsets
    return bisect_left(offsets, exact) - bisect_left(offsets, offset)


def _positions(source: Sequence[Entry]) -> dict[bytes, list[int]]:
    positions: dict[bytes, list[int]] = {}
    for position, entry in enumerate(source):
        positions.setdefault(entry.digest, []).append(position)
    return positions

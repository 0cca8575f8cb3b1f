"""Brute force: where a group has to resume, from both logs read whole. Pure, and on purpose without a clever idea."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.demo.logs import Entry, PartitionLog


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which record of the target is the copy of which record of the source, both in order."""

    upstream: tuple[int, ...]
    """Source offsets of the matched records, ascending."""
    downstream: tuple[int, ...]
    """Target offsets of their copies, ascending."""
    missing: int
    """Records of the source without a copy."""
    foreign: int
    """Records of the target that are no copy."""


def align(source: Sequence[Entry], target: Sequence[Entry]) -> Alignment:
    """Matches in order: each record of the target with the first record of the source that is equal to it and
    comes after the one matched last."""
    pairs: list[tuple[int, int]] = []
    positions: Mapping[bytes, Sequence[int]] | None = None
    at = 0
    for entry in target:
        if at < len(source) and source[at].digest == entry.digest:
            found = at
        else:
            positions = positions if positions is not None else _positions(source)
            candidates = positions.get(entry.digest, ())
            place = bisect_left(candidates, at)
            if place == len(candidates):
                continue
            found = candidates[place]
        pairs.append((source[found].offset, entry.offset))
        at = found + 1
    return Alignment(
        tuple(up for up, _ in pairs),
        tuple(down for _, down in pairs),
        len(source) - len(pairs),
        len(target) - len(pairs),
    )


def exact_offset(committed: int, alignment: Alignment, target_end: int) -> int:
    """The place of the first record at or after `committed` that the target holds; its end when it holds none."""
    first = bisect_left(alignment.upstream, committed)
    return alignment.downstream[first] if first < len(alignment.downstream) else target_end


def reread(offset: int | None, exact: int, target: PartitionLog) -> int | None:
    """How many records a consumer that starts at `offset` reads again; below 0: how many it never reads.

    None where there is no offset to start at.
    """
    if offset is None:
        return None
    offsets = target.offsets
    return bisect_left(offsets, exact) - bisect_left(offsets, offset)


def _positions(source: Sequence[Entry]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for position, entry in enumerate(source):
        found.setdefault(entry.digest, []).append(position)
    return found

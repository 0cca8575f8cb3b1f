"""Finds which records of two sequences belong together by content, in order: a longest common subsequence, exact where
what repeats is short, else by what stands once on both sides.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from bridge.audit.sequences import Numbers

_TABLE = 1 << 22
"""Cells of the table by which a stretch without anything unique is aligned; a larger one is aligned by counting."""
Pairs = tuple[Numbers, Numbers]
"""Indexes on both sides, both rising."""
_NONE = np.empty(0, np.int64)


def aligned(left: Numbers, right: Numbers) -> Pairs:
    """The pairs of equal values of two sequences, in order on both sides."""
    matches: list[Pairs] = []
    todo = [(0, len(left), 0, len(right))]
    while todo:
        a, b, c, d = todo.pop()
        before = _common(left[a:b], right[c:d])
        matches.append(_steps(a, c, before))
        a, c = a + before, c + before
        behind = _common(left[a:b][::-1], right[c:d][::-1])
        b, d = b - behind, d - behind
        matches.append(_steps(b, d, behind))
        if a == b or c == d:
            continue
        one, other = _once(left[a:b], right[c:d])
        if not len(one):
            one, other = _without_unique(left[a:b], right[c:d])
            matches.append((one + a, other + c))
            continue
        one, other = one + a, other + c
        matches.append((one, other))
        edges = np.concatenate(([a - 1], one, [b])), np.concatenate(([c - 1], other, [d]))
        for gap in np.flatnonzero((np.diff(edges[0]) > 1) & (np.diff(edges[1]) > 1)).tolist():
            todo.append(
                (
                    int(edges[0][gap]) + 1,
                    int(edges[0][gap + 1]),
                    int(edges[1][gap]) + 1,
                    int(edges[1][gap + 1]),
                )
            )
    ones, others = (
        np.concatenate([each[0] for each in matches]),
        np.concatenate([each[1] for each in matches]),
    )
    order = np.argsort(ones)
    return ones[order], others[order]


def longest_rising(numbers: Numbers) -> Numbers:
    """Indexes of a longest strictly rising subsequence."""
    tails: list[int] = []
    at: list[int] = []
    before = np.empty(len(numbers), np.int64)
    for index, number in enumerate(numbers.tolist()):
        where = bisect_left(tails, number)
        before[index] = at[where - 1] if where else -1
        if where == len(tails):
            tails.append(number)
            at.append(index)
        else:
            tails[where], at[where] = number, index
    chosen: list[int] = []
    index = at[-1] if at else -1
    while index >= 0:
        chosen.append(index)
        index = int(before[index])
    return np.array(chosen[::-1], np.int64)


def by_count(left: Numbers, right: Numbers) -> Pairs:
    """The first of a value with the first on the other side, the second with the second, in the order of the left; not
    in order on the right."""
    one, other = _numbered(left), _numbered(right)
    _, ones, others = np.intersect1d(one, other, return_indices=True)
    order = np.argsort(ones)
    return ones[order], others[order]


def _numbered(values: Numbers) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Each value with how many of it stand before."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(values) else _NONE
    counts = np.arange(len(values)) - np.repeat(starts, np.diff(np.append(starts, len(values))))
    both = np.empty(len(values), np.dtype([("value", np.int64), ("count", np.int64)]))
    both["value"] = values
    both["count"][order] = counts
    return both


def _common(left: Numbers, right: Numbers) -> int:
    """How many values are the same from the beginning on."""
    size = min(len(left), len(right))
    differ = left[:size] != right[:size]
    return int(differ.argmax()) if differ.any() else size


def _steps(left: int, right: int, count: int) -> Pairs:
    steps = np.arange(count, dtype=np.int64)
    return steps + left, steps + right


def _once(left: Numbers, right: Numbers) -> Pairs:
    """The pairs of what stands once on both sides, as far as they are in the same order."""
    values, index, counts = np.unique(left, return_index=True, return_counts=True)
    others, other_index, other_counts = np.unique(right, return_index=True, return_counts=True)
    _, ones, twos = np.intersect1d(
        values[counts == 1], others[other_counts == 1], assume_unique=True, return_indices=True
    )
    one, other = index[counts == 1][ones], other_index[other_counts == 1][twos]
    order = np.argsort(one)
    one, other = one[order], other[order]
    rising = longest_rising(other)
    return one[rising].astype(np.int64), other[rising].astype(np.int64)


def _without_unique(left: Numbers, right: Numbers) -> Pairs:
    if len(left) * len(right) > _TABLE:
        one, other = by_count(left, right)
        rising = longest_rising(other)
        return one[rising], other[rising]
    lengths = np.zeros((len(left) + 1, len(right) + 1), np.int32)
    for row in range(len(left) - 1, -1, -1):
        matched = np.where(right == left[row], lengths[row + 1, 1:] + 1, lengths[row + 1, :-1])
        lengths[row, :-1] = np.maximum.accumulate(matched[::-1])[::-1]
    ones, others = list[int](), list[int]()
    a = b = 0
    while a < len(left) and b < len(right):
        if left[a] == right[b] and lengths[a, b] == lengths[a + 1, b + 1] + 1:
            ones.append(a)
            others.append(b)
            a, b = a + 1, b + 1
        elif lengths[a + 1, b] >= lengths[a, b + 1]:
            a += 1
        else:
            b += 1
    return np.array(ones, np.int64), np.array(others, np.int64)

"""Compares the records of a stretch: pairs them by what runs claim, by content where nothing is claimed or a claim does
not hold, and says what is left.

Finds which records of two sequences belong together by content, in order: a longest common subsequence, exact where
what repeats is short, else by what stands once on both sides.

Finds what compaction may have taken: records whose key has a later record.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from bridge.audit.report import DIGEST_BITS, NO_WINDOW, Difference, DifferenceKind, Findings, NotCompared
from bridge.audit.stretches import (
    DIGEST,
    KEY,
    OFFSET,
    TIMESTAMP,
    TOMBSTONE,
    Numbers,
    Rules,
    Stretch,
    between,
    claimed,
    run_of,
)

_TABLE = 1 << 22
"""Cells of the table by which a stretch without anything unique is aligned; a larger one is aligned by counting."""
Pairs = tuple[Numbers, Numbers]
"""Indexes on both sides, both rising."""
_NONE = np.empty(0, np.int64)
Flags = NDArray[np.bool_]


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
        np.concatenate([match[0] for match in matches]),
        np.concatenate([match[1] for match in matches]),
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


class Newest:
    """The newest record of each key on both sides of a stretch, which has the whole partition where compaction
    counts."""

    def __init__(self, source: Numbers, target: Numbers, rules: Rules, *, behind: bool) -> None:
        self._behind = behind
        self._source, self._target, self._rules = source, target, rules
        compacted = rules.source_compacted or rules.target_compacted
        self._of_source = _last(source) if compacted else {}
        self._of_target = _last(target) if compacted else {}

    def took_copy(self, index: int) -> bool:
        """Whether the target's compaction may have taken the copy of a record of the source: a later one of its key is
        there, or it says that its key is deleted, and nothing of the key is left: the cleaner takes a tombstone
        last."""
        key = int(self._source[KEY, index])
        if not self._rules.target_compacted or not key:
            return False
        if self._of_source[key] > index:
            return True
        return bool(self._source[TOMBSTONE, index]) and key not in self._of_target

    def took_original(self, index: int) -> bool:
        """Whether the source's compaction may have taken the original of a record of the target: the target has a later
        one of its key, or the source may (`behind`: it has records that are not compared), or it says that its key is
        deleted, and the source has nothing of the key."""
        key = int(self._target[KEY, index])
        if not self._rules.source_compacted or not key:
            return False
        if self._behind or self._of_target[key] > index:
            return True
        return bool(self._target[TOMBSTONE, index]) and key not in self._of_source


def _last(side: Numbers) -> dict[int, int]:
    """The index of the last record of each key."""
    keys, back = np.unique(side[KEY][::-1], return_index=True)
    return dict(zip(keys.tolist(), (len(side[OFFSET]) - 1 - back).tolist(), strict=True))


def compared(stretch: Stretch, source: Numbers, target: Numbers, rules: Rules) -> Findings:
    """Compares sequences of both sides (see stretches), which have all records of the stretch."""
    return _Comparison(stretch, source, target, rules).findings()


class _Comparison:
    """The pairs found so far in one stretch. `mate`: for each source record the index of its copy, -1 for none;
    `original`: the other way round."""

    def __init__(self, stretch: Stretch, source: Numbers, target: Numbers, rules: Rules) -> None:
        self._stretch, self._rules = stretch, rules
        self._source, self._target = source, target
        self._claims = claimed(stretch.spans, source[OFFSET])
        self._mate = np.full(source.shape[1], -1, np.int64)
        self._original = np.full(target.shape[1], -1, np.int64)
        self._left_source = np.zeros(source.shape[1], bool)
        """Which records are not compared; `_left_target`: those of the target."""
        self._left_target = np.zeros(target.shape[1], bool)
        self._found = Findings()
        self._differences: list[Difference] = []

    def findings(self) -> Findings:
        self._pair_by_claims()
        for free in self._stretch.free:
            part, other = between(self._source, *free.source), between(self._target, *free.target)
            self._pair_by_content(part, other)
        paired = self._mate.copy()
        if (self._mate < 0).any() and (self._original < 0).any():
            self._pair_elsewhere()
        self._leave_edges(paired)
        self._pair_changed()
        self._name_rest()
        self._count()
        kept = self._differences[: self._rules.listed]
        self._found.differences, self._found.left_out = kept, len(self._differences) - len(kept)
        return self._found

    def _pair_by_claims(self) -> None:
        """Pairs records with the copies that stand where a run claims."""
        claims, offsets = self._claims, self._target[OFFSET]
        if not len(offsets):
            return
        at = np.minimum(np.searchsorted(offsets, claims), len(offsets) - 1)
        holds = (claims >= 0) & (offsets[at] == claims) & (self._target[DIGEST, at] == self._source[DIGEST])
        self._mate[holds] = at[holds]
        self._original[at[holds]] = np.flatnonzero(holds)

    def _pair_by_content(self, part: slice, other: slice) -> None:
        ones = np.arange(part.start, part.stop)[self._mate[part] < 0]
        others = np.arange(other.start, other.stop)[self._original[other] < 0]
        one, two = aligned(self._source[DIGEST, ones], self._target[DIGEST, others])
        self._mate[ones[one]] = others[two]
        self._original[others[two]] = ones[one]

    def _pair_elsewhere(self) -> None:
        """Pairs what is left by content, and reports copies that are out of order or not where a run claims."""
        ones, others = np.flatnonzero(self._mate < 0), np.flatnonzero(self._original < 0)
        one, two = by_count(self._source[DIGEST, ones], self._target[DIGEST, others])
        moved, places = ones[one], others[two]
        if not len(moved):
            return
        in_order = self._in_order(moved, places)
        self._mate[moved], self._original[places] = places, moved
        for here, there in zip(moved[~in_order].tolist(), places[~in_order].tolist(), strict=True):
            self._differ(DifferenceKind.OUT_OF_ORDER, here, there, claimed_offset=self._claim(here))
        self._wrong_runs(moved[in_order])

    def _in_order(self, moved: Numbers, places: Numbers) -> Flags:
        """Tells which pairs are in the order of the source with all others, and have not exchanged places."""
        before = np.cumsum(self._mate >= 0)[moved]
        behind = np.cumsum(self._original >= 0)[places]
        fits = (before == behind) & ~self._exchanged(moved, places)
        candidates = np.flatnonzero(fits)
        result = np.zeros(len(moved), bool)
        result[candidates[longest_rising(places[candidates])]] = True
        return result

    def _exchanged(self, moved: Numbers, places: Numbers) -> Flags:
        """Tells which copies have exchanged places, in a ring: each stands where another one of it is claimed to be."""
        holder = dict(zip(self._target[OFFSET, places].tolist(), range(len(moved)), strict=True))
        following = [holder.get(claim, -1) for claim in self._claims[moved].tolist()]
        state = [0] * len(moved)
        """0: not looked at; 1: no ring; 2: in one."""
        for first in range(len(moved)):
            path: list[int] = []
            seen: dict[int, int] = {}
            position = first
            while position >= 0 and not state[position] and position not in seen:
                seen[position] = len(path)
                path.append(position)
                position = following[position]
            ring = seen.get(position, len(path)) if position >= 0 else len(path)
            for number, step in enumerate(path):
                state[step] = 2 if number >= ring else 1
        return np.array([number == 2 for number in state], np.bool_)

    def _wrong_runs(self, moved: Numbers) -> None:
        """Reports copies that are in order but not where their run says, one difference for each run."""
        by_run: dict[int, list[int]] = {}
        for index in moved.tolist():
            run = self._run(index)
            if run is not None:
                by_run.setdefault(run, []).append(index)
        for run, indexes in by_run.items():
            self._differ(
                DifferenceKind.WRONG_RUN,
                indexes[0],
                int(self._mate[indexes[0]]),
                claimed_offset=self._claim(indexes[0]),
                run=run,
                records=len(indexes),
            )

    def _leave_edges(self, paired: Numbers) -> None:
        """Leaves out what one side has lost to retention, and what is not copied yet. `paired`: the mates of records
        that are in their places."""
        stretch, matched = self._stretch, np.flatnonzero(paired >= 0)
        free = stretch.free[0] if stretch.free else None
        if not len(matched):
            if stretch.ends and not self._target.shape[1]:
                self._leave(self._left_source, self._mate, slice(None), NotCompared.NOT_COPIED_YET)
            if stretch.source_cut and free is not None and not self._source.shape[1]:
                other = between(self._target, *free.target)
                self._leave(self._left_target, self._original, other, NotCompared.BELOW_SOURCE_START)
            return
        first, last = int(matched[0]), int(matched[-1])
        if free is not None and stretch.source_cut:
            self._leave(
                self._left_target,
                self._original,
                slice(0, int(paired[first])),
                NotCompared.BELOW_SOURCE_START,
            )
        if free is not None and stretch.target_cut:
            self._leave(self._left_source, self._mate, slice(0, first), NotCompared.BELOW_TARGET_START)
        if stretch.ends:
            behind = int((self._original[int(paired[last]) + 1 :] < 0).sum())
            rest = np.flatnonzero(self._mate[last + 1 :] < 0)[behind:] + last + 1
            self._left_source[rest] = True
            self._found.leave(NotCompared.NOT_COPIED_YET, len(rest))

    def _leave(self, left: Flags, mates: Numbers, part: slice, why: NotCompared) -> None:
        alone = mates[part] < 0
        left[part] |= alone
        self._found.leave(why, int(alone.sum()))

    def _pair_changed(self) -> None:
        """Pairs records with copies that have other contents, and reports them as changed: by what is claimed, else by
        key, else by their number between two pairs."""
        ones = np.flatnonzero((self._mate < 0) & ~self._left_source)
        others = np.flatnonzero((self._original < 0) & ~self._left_target)
        if not len(ones) or not len(others):
            return
        offsets = self._target[OFFSET, others].tolist()
        at = dict(zip(offsets, others.tolist(), strict=True))
        rest = list[int]()
        for index in ones.tolist():
            there = at.pop(int(self._claims[index]), None)
            if there is None:
                rest.append(index)
            else:
                self._changed(index, there)
        if self._stretch.free and rest and at:
            self._pair_changed_freely(np.array(rest), np.array(sorted(at.values())))

    def _pair_changed_freely(self, ones: Numbers, others: Numbers) -> None:
        twice = np.isin(self._target[DIGEST, others], self._source[DIGEST])
        others = others[~twice]
        gaps = np.cumsum(self._mate >= 0)[ones], np.cumsum(self._original >= 0)[others]
        for gap in np.intersect1d(*gaps).tolist():
            some, same = ones[gaps[0] == gap], others[gaps[1] == gap]
            keys, other_keys = self._source[KEY, some], self._target[KEY, same]
            one, two = aligned(keys, other_keys)
            for here, there in zip(some[one].tolist(), same[two].tolist(), strict=True):
                if self._source[KEY, here] or len(some) == len(same) or self._is_last(gap):
                    self._changed(here, there)

    def _is_last(self, gap: int) -> bool:
        return self._stretch.ends and gap == int((self._mate >= 0).sum())

    def _changed(self, here: int, there: int) -> None:
        self._differ(DifferenceKind.CHANGED, here, there, claimed_offset=self._claim(here))
        self._mate[here], self._original[there] = there, here

    def _name_rest(self) -> None:
        ones = np.flatnonzero((self._mate < 0) & ~self._left_source)
        others = np.flatnonzero((self._original < 0) & ~self._left_target)
        if not len(ones) and not len(others):
            return
        newest = Newest(self._source, self._target, self._rules, behind=self._stretch.behind)
        for index in ones.tolist():
            if newest.took_copy(index):
                self._unknown(self._source, index)
            else:
                self._differ(DifferenceKind.MISSING, index, None, claimed_offset=self._claim(index))
        first = self._first_with_digest(others)
        for index in others.tolist():
            if (here := first.get(int(self._target[DIGEST, index]))) is not None:
                mate = int(self._mate[here])
                copy = int(self._target[OFFSET, mate]) if mate >= 0 else None
                self._differ(DifferenceKind.TWICE, here, index, copy_offset=copy)
            elif newest.took_original(index):
                self._unknown(self._target, index)
            else:
                self._differ(DifferenceKind.EXTRA, None, index)

    def _first_with_digest(self, others: Numbers) -> dict[int, int]:
        """Returns by digest the first record of the source that has it."""
        wanted = np.flatnonzero(np.isin(self._source[DIGEST], self._target[DIGEST, others]))[::-1]
        return dict(zip(self._source[DIGEST, wanted].tolist(), wanted.tolist(), strict=True))

    def _unknown(self, side: Numbers, index: int) -> None:
        self._found.window(self._window(int(side[TIMESTAMP, index]))).unknown += 1

    def _differ(
        self,
        kind: DifferenceKind,
        here: int | None,
        there: int | None,
        *,
        claimed_offset: int | None = None,
        copy_offset: int | None = None,
        run: int | None = None,
        records: int = 1,
    ) -> None:
        side, index = (self._source, here) if here is not None else (self._target, there)
        assert index is not None
        timestamp = int(side[TIMESTAMP, index])
        self._found.window(self._window(timestamp)).count(kind)
        self._differences.append(
            Difference(
                kind,
                None if here is None else int(self._source[OFFSET, here]),
                None if there is None else int(self._target[OFFSET, there]),
                timestamp,
                claimed_offset,
                copy_offset,
                run,
                records,
                int(side[DIGEST, index]),
            )
        )

    def _claim(self, index: int) -> int | None:
        claim = int(self._claims[index])
        return claim if claim >= 0 else None

    def _run(self, index: int) -> int | None:
        """Returns the run that says where the record's copy stands, or that it has none; None where no run does."""
        offset = int(self._source[OFFSET, index])
        if any(free.source.start <= offset < free.source.end for free in self._stretch.free):
            return run_of(self._stretch.spans, offset) if self._claims[index] >= 0 else None
        return run_of(self._stretch.spans, offset)

    def _window(self, timestamp: int) -> int:
        return timestamp // self._rules.window_ms if timestamp >= 0 else NO_WINDOW

    def _count(self) -> None:
        """Counts and digests by window: a copy counts in the window of its own timestamp."""
        for target, side, left in (
            (False, self._source, self._left_source),
            (True, self._target, self._left_target),
        ):
            kept = side[:, ~left] if left.any() else side
            for number, part in self._by_window(kept):
                window = self._found.window(number)
                digest = int(np.add.reduce(part[DIGEST].view(np.uint64), dtype=np.uint64)) & DIGEST_BITS
                if target:
                    window.target_records += part.shape[1]
                    window.target_digest = (window.target_digest + digest) & DIGEST_BITS
                else:
                    window.source_records += part.shape[1]
                    window.source_digest = (window.source_digest + digest) & DIGEST_BITS
        paired = np.flatnonzero(self._mate >= 0)
        same = self._source[:, paired]
        same = same[:, same[DIGEST] == self._target[DIGEST, self._mate[paired]]]
        for number, part in self._by_window(same):
            self._found.window(number).same += part.shape[1]

    def _by_window(self, side: Numbers) -> list[tuple[int, Numbers]]:
        if not side.shape[1]:
            return []
        times = side[TIMESTAMP]
        numbers = np.where(times >= 0, times // self._rules.window_ms, NO_WINDOW)
        if (first := int(numbers[0])) == int(numbers.min()) == int(numbers.max()):
            return [(first, side)]
        return [(int(number), side[:, numbers == number]) for number in np.unique(numbers)]

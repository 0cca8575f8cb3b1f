"""Finds what compaction may have taken: records whose key has a later record."""

from __future__ import annotations

import numpy as np

from bridge.audit.sequences import KEY, OFFSET, TOMBSTONE, Numbers
from bridge.audit.stretches import Rules


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

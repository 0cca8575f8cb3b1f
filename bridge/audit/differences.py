"""What an audit finds: differences by record, and counts by time window."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class DifferenceKind(StrEnum):
    """How a record of the source and the target's copy differ."""

    MISSING = "missing"
    """The source has a record, and the target no copy of it."""
    EXTRA = "extra"
    """The target has a record that is no copy."""
    CHANGED = "changed"
    """Key, value, headers or timestamp of the copy are others."""
    TWICE = "twice"
    """The target has one more copy of a record; the other one is `copy_offset`, where that is known."""
    OUT_OF_ORDER = "out_of_order"
    """The copy is there, and not where its order has its place."""
    WRONG_RUN = "wrong_run"
    """An offset run says that the copy is at `claimed_offset`, and it is not: one line for each run."""


class Difference(NamedTuple):
    """Offsets are None where there is none on that side. `records`: how many a run is wrong about, else 1. `run`: where
    on the source the run starts. `digest` and `claimed` serve to put together what several stretches have found."""

    kind: DifferenceKind
    source_offset: int | None
    target_offset: int | None
    timestamp: int = -1
    claimed_offset: int | None = None
    copy_offset: int | None = None
    run: int | None = None
    records: int = 1
    digest: int = 0


class NotCompared(StrEnum):
    """Why records are outside of the comparison."""

    BELOW_SOURCE_START = "below the source's log start"
    BELOW_TARGET_START = "below the target's log start"
    NOT_COPIED_YET = "not copied yet"
    BEFORE_THE_COPY = "before copying began"
    TRANSFORMED = "changed by transforms"


NOT_OFFSETS = frozenset({NotCompared.BELOW_SOURCE_START, NotCompared.BELOW_TARGET_START})


@dataclass(slots=True)
class AuditWindow:
    """Counts of a partition's time window: of the records that were compared. `digest`s are sums of the records'
    digests, so that they do not depend on order or batches."""

    source_records: int = 0
    target_records: int = 0
    source_digest: int = 0
    target_digest: int = 0
    same: int = 0
    unknown: int = 0
    found: dict[str, int] = field(default_factory=dict)

    def add(self, other: AuditWindow) -> None:
        self.source_records += other.source_records
        self.target_records += other.target_records
        self.source_digest = (self.source_digest + other.source_digest) & DIGEST_BITS
        self.target_digest = (self.target_digest + other.target_digest) & DIGEST_BITS
        self.same += other.same
        self.unknown += other.unknown
        for kind, count in other.found.items():
            self.count(kind, count)

    def count(self, kind: str, count: int = 1) -> None:
        self.found[kind] = self.found.get(kind, 0) + count


DIGEST_BITS = (1 << 64) - 1
NO_WINDOW = -1
"""The window of records without a timestamp."""


@dataclass(slots=True)
class Findings:
    """What the comparison of one stretch, or of several, has found: counts by window, of all differences; the first
    differences themselves; and what was not compared, by why."""

    windows: dict[int, AuditWindow] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    not_compared: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    """Differences that are counted and not listed."""

    def window(self, number: int) -> AuditWindow:
        return self.windows.setdefault(number, AuditWindow())

    def leave(self, why: NotCompared, count: int) -> None:
        if count:
            self.not_compared[why] = self.not_compared.get(why, 0) + count

    @property
    def found(self) -> dict[str, int]:
        """All differences, by kind."""
        total = AuditWindow()
        for each in self.windows.values():
            for kind, count in each.found.items():
                total.count(kind, count)
        return total.found

"""Defines the look-ups of translation as values: it yields a Need and is sent the answer (sans-I/O).

The driver gathers the needs of all translations of a round, so that neighbours in one batch share one fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.model.values import RecordView, Side


@dataclass(frozen=True, slots=True)
class Read:
    """Reads data records from `offset` on, about `max_bytes` of them, at least one batch; answered by a Window."""

    side: Side
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FindTime:
    """Finds the earliest offset whose timestamp is at or after `timestamp` (ListOffsets); None when there is none.
    `timestamp` is never negative: -1 and -2 mean latest and earliest there."""

    side: Side
    timestamp: int


@dataclass(frozen=True, slots=True)
class Scan:
    """Finds the offsets from `offset` on that hold no data, by the headers of about `max_bytes` of batches; answered by
    a Scanned, or by None where nothing can be read now."""

    side: Side
    offset: int
    max_bytes: int


Need = Read | FindTime | Scan


@dataclass(frozen=True, slots=True)
class Window:
    """Every data record in [start, end) of one log: no control records, none of an aborted transaction when the
    side is read committed. `start` may lie below the offset asked for (a batch is indivisible)."""

    start: int
    end: int
    records: Sequence[RecordView]
    epoch: int = -1
    """Leader epoch of every batch in the window, -1 when they differ or there is none."""
    without_data: Sequence[tuple[int, int]] = ()
    """Offsets that never held a data record, as [first, end), in order: those of control batches, and of aborted
    transactions when the side is read committed. At any other offset without a record one may have stood."""
    append_time: bool = False
    """Whether brokers have overwritten timestamps in it (LogAppendTime)."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """The offsets in [start, end) of one log that control batches and batches of aborted transactions take up, as
    [first, end), in order. The others hold data, have held some, or never existed. `size`: bytes that were read."""

    start: int
    end: int
    without_data: Sequence[tuple[int, int]]
    size: int
    epoch: int = -1
    """The largest leader epoch of a batch, -1 where there is none."""


LookupResult = Window | Scanned | int | None
"""Answer to a Need."""

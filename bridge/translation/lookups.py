"""What translation asks of a log, as values: it yields a Need and is sent the answer (sans-I/O).

The driver gathers the needs of all translations of a round, so that neighbours in one batch share one fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.translation.model import RecordView, Side


@dataclass(frozen=True, slots=True)
class Read:
    """Data records from `offset` on, about `max_bytes` of them, at least one batch; answered by a Window."""

    side: Side
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FindTime:
    """The earliest offset whose timestamp is at or after `timestamp` (ListOffsets); None when there is none.
    `timestamp` is never negative: -1 and -2 mean latest and earliest there."""

    side: Side
    timestamp: int


Need = Read | FindTime


@dataclass(frozen=True, slots=True)
class Window:
    """Every data record in [start, end) of one log: no control records, none of an aborted transaction when the
    side is read committed. `start` may lie below the offset asked for (a batch is indivisible)."""

    start: int
    end: int
    records: Sequence[RecordView]
    epoch: int = -1
    """Leader epoch of every batch in the window, -1 when they differ or there is none."""

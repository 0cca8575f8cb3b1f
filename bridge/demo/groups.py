"""Chooses consumer groups with offsets at the head, the tail, the middle and in every kind of hole of the logs.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bridge.demo.data import ORDERS, PARTITIONS, PAYMENTS, PROFILES, TICKS
from bridge.demo.logs import Tp

Groups = dict[str, dict[Tp, int]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The offsets of a source partition."""

    offsets: Sequence[int]
    """Offsets of data records, without aborted ones, which are not copied."""
    end: int
    aborted: Sequence[int] = ()

    def at(self, share: float) -> int:
        """The offset of the record at this share of the log, from 0 to 1."""
        return self.offsets[int(share * (len(self.offsets) - 1))]

    def behind(self, lag: int) -> int:
        """The offset from which `lag` records are unread, or all of a shorter log."""
        return self.end if lag == 0 else self.offsets[-min(lag, len(self.offsets))]

    def holes(self) -> list[tuple[int, int]]:
        """Offsets without a record, as [first, next record), in order; with control records at the very end."""
        bounds = [-1, *self.offsets, self.end]
        return [(low + 1, high) for low, high in pairwise(bounds) if high > low + 1]

    def widest_hole(self) -> tuple[int, int]:
        return max(self.holes(), key=lambda hole: hole[1] - hole[0])


def choose(shapes: Mapping[Tp, Shape], burst: int) -> Groups:
    """The groups' committed offsets. Each group has one in every partition of its topics, so that it can subscribe."""

    def each(topic: str, *offsets: int) -> dict[Tp, int]:
        tps = [tp for tp in PARTITIONS if tp[0] == topic]
        return dict(zip(tps, offsets, strict=True))

    order = [shapes[ORDERS, number] for number in range(4)]
    payment = [shapes[PAYMENTS, number] for number in range(2)]
    profile = [shapes[PROFILES, number] for number in range(2)]
    tick = shapes[TICKS, 0]
    holes = [shape.widest_hole() for shape in profile]
    markers = [shape.holes() for shape in payment]
    return {
        # At the head, and just behind it.
        "analytics": each(
            ORDERS, *(shape.offsets[lead] for shape, lead in zip(order, (0, 1, 25, 500), strict=True))
        ),
        # In the middle, inside bursts of one millisecond.
        "shipping": each(
            ORDERS, *(shape.at(share) for shape, share in zip(order, (0.2, 0.4, 0.6, 0.8), strict=True))
        ),
        # At the tail: caught up, one behind, and a little more.
        "billing": each(
            ORDERS, *(shape.behind(lag) for shape, lag in zip(order, (0, 1, 30, 400), strict=True))
        )
        | each(PAYMENTS, *(shape.behind(0) for shape in payment)),
        # Data records between control records.
        "ledger": each(PAYMENTS, payment[0].at(0.3), payment[1].at(0.7)),
        # On control records: one inside the log, and the last one, behind which there is nothing.
        "settlement": each(PAYMENTS, markers[0][len(markers[0]) // 2][0], markers[1][-1][0]),
        # Inside aborted transactions.
        "audit": each(PAYMENTS, payment[0].aborted[0], payment[1].aborted[len(payment[1].aborted) // 2]),
        # In compaction holes: the middle of the widest one, and the missing start of the log.
        "crm": each(PROFILES, sum(holes[0]) // 2, 0),
        # At the record right after the widest hole, and caught up.
        "search": each(PROFILES, holes[0][1], profile[1].behind(0)),
        # Inside, at the start and at the end of the millisecond with all those ticks, and at the head.
        "charts": each(TICKS, tick.offsets[burst + burst // 2]),
        "candles": each(TICKS, tick.offsets[burst]),
        "alerts": each(TICKS, tick.offsets[2 * burst - 1]),
        "replay": each(TICKS, tick.offsets[0]),
        # All topics at once, lagging by different amounts.
        "warehouse": {tp: shapes[tp].behind(137 * (3 * number + 1)) for number, tp in enumerate(PARTITIONS)},
    }

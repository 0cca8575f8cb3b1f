"""Translation by bracketing: where on the target the first record at or after a committed offset stands.

    source   ... p ........ o ..... v ...      p  a data record before o whose content does not recur at or after o
                  \\                 \\          v  a data record at or after o
    target   ...... copy(p) | L ..... copy(v)  L = copy(p) + 1

A mirror copies a partition in order, so nothing at or after `o` lies below L, whatever was compacted, expired or
stamped: **L is the answer** (R1). When the first data record at or after L is the copy of some v >= o, or there is
none, a reader from L reads nothing twice: `exact`. Otherwise the answer is `bounded` by the data records up to the
first copy of such a v (R2). Copies are found as `bridge.translation.copies` says.

Sans-I/O: `bracket` yields needs and is sent their answers; the verdict is its return value.
"""

from __future__ import annotations

from collections.abc import Generator

from bridge.translation import twins
from bridge.translation.copies import Copies
from bridge.translation.lookups import Need, Window
from bridge.translation.memory import Anchor, PartitionMemory
from bridge.translation.model import Evidence, Flag, Judgement, Reason, RecordView, Side, Verdict
from bridge.translation.stretch import Budget, CapReached, Caps, LogBounds, Stretch, open_at, same


def bracket(
    offset: int, source: LogBounds, target: LogBounds, memory: PartitionMemory, caps: Caps | None = None
) -> Generator[Need, Window | int | None, Verdict]:
    """Translates one committed offset. `source.end` and `target.end` are the ends of what may be read on each side.

    Returns a verdict `exact` or `bounded` with evidence `verified`, or `pending` with offset_beyond_end or
    copy_not_found; never an unverified offset.
    """
    if offset > source.end:
        # Truncated or re-created under the group: "caught up" would be a guess, and a wrong one skips.
        return Verdict.pending(Reason.OFFSET_BEYOND_END, source_end=source.end)
    if target.start >= target.end:
        return _of_empty_target(offset, source, target, memory)
    return (yield from _Bracket(offset, source, target, memory, caps or Caps()).run())


def _of_empty_target(offset: int, source: LogBounds, target: LogBounds, memory: PartitionMemory) -> Verdict:
    """Whatever the target will hold is still to come, at its end or after: nothing can be skipped from there."""
    anchor = memory.below(offset)
    to_come = offset - max(source.start, anchor.upstream + 1 if anchor else 0)
    return _verdict(target.end, max(0, to_come), _flags(offset, source, ahead=to_come > 0))


def _flags(offset: int, source: LogBounds, *, ahead: bool = False) -> tuple[Flag, ...]:
    truncated = (Flag.TRUNCATED,) if offset < source.start else ()
    return (*truncated, Flag.AHEAD_OF_MIRROR) if ahead else truncated


def _verdict(
    answer: int, bound: int, flags: tuple[Flag, ...], epoch: int = -1, detail: dict[str, str | int | None] | None = None
) -> Verdict:
    judgement = Judgement.BOUNDED if bound else Judgement.EXACT
    return Verdict(judgement, answer, bound, Evidence.VERIFIED, None, flags, epoch, detail or {})


class _Bracket:
    """One translation under way: what is known of either side near the offset, and the budget left."""

    def __init__(
        self, offset: int, source: LogBounds, target: LogBounds, memory: PartitionMemory, caps: Caps
    ) -> None:
        self.offset, self.source, self.target, self.memory = offset, source, target, memory
        self.budget = Budget(caps)
        self.copies = Copies(source, target, memory, self.budget)

    def run(self) -> Generator[Need, Window | int | None, Verdict]:
        try:
            near = yield from self._near()
            found = yield from self.copies.of_last_before(self.offset, near)
        except CapReached:
            found = self.memory.below(self.offset)
            if found is None:
                return Verdict.pending(Reason.COPY_NOT_FOUND, capped="search_bytes")
            near = yield from self._near(free=True)
        if found is None and not self._nothing_before(near):
            return Verdict.pending(Reason.COPY_NOT_FOUND)
        answer = max(self.target.start, found.downstream + 1 if found else 0)
        return (yield from self._judge(answer, found, near))

    def _near(self, *, free: bool = False) -> Generator[Need, Window | int | None, Stretch]:
        if free:
            self.budget.left = self.budget.read_bytes
        at = max(self.source.start, min(self.offset - 1, self.source.end - 1))
        near = yield from open_at(Side.SOURCE, at, self.source, self.budget)
        self.memory.observe(near.records)
        return near

    def _nothing_before(self, near: Stretch) -> bool:
        """Whether no record before the offset can stand on the target: the source has none, or the mirror began at
        or after the offset (`latest`, or retention on the target). The answer is then the target's log start."""
        low = self.memory.low
        if low is not None and low.upstream >= self.offset:
            return True
        return near.at_start and near.index(self.offset) == 0

    def _judge(
        self, answer: int, found: Anchor | None, near: Stretch
    ) -> Generator[Need, Window | int | None, Verdict]:
        """The verdict on `answer`: exact when the first data record there is a copy of one at or after the offset."""
        flags = _flags(self.offset, self.source)
        detail: dict[str, str | int | None] = {}
        if found:
            detail |= {"pred_offset": found.upstream, "pred_copy": found.downstream}
        after = found.upstream + 1 if found else self.source.start
        unknown = max(0, self.offset - after)
        try:
            here = yield from self.copies.open_target(answer)
            first = yield from here.first_from(answer)
        except CapReached:
            return _verdict(answer, self.target.end - answer + unknown, flags, detail=detail)
        try:
            if first is None:
                last = yield from near.last_before(self.offset)
                to_come = 0 if last is None or last.offset < after else unknown
                return _verdict(answer, to_come, _flags(self.offset, self.source, ahead=to_come > 0), detail=detail)
            original = yield from self._unprocessed(first, found, near, here)
            if original is not None:
                place = yield from self._lowest_place(original, first, found)
                detail |= {"next_offset": original.offset, "next_copy": place}
                bound = 0 if place >= answer else first.offset - place
                return _verdict(min(answer, place), bound, flags, here.epoch, detail)
            ranked = yield from self._by_rank(found, near, here)
            if ranked is not None:
                return _verdict(ranked, 0, flags, here.epoch, detail | {"by": "rank"})
            upper = yield from self._first_unprocessed(answer, found, near, here)
        except CapReached:
            upper = None
        if upper is None:
            return _verdict(answer, self.target.end - answer + unknown, flags, here.epoch, detail)
        bound = here.index(upper) - here.index(answer)
        return _verdict(answer, bound, flags, here.epoch, detail | {"next_copy": upper})

    def _unprocessed(
        self, copy: RecordView, found: Anchor | None, near: Stretch, here: Stretch
    ) -> Generator[Need, Window | int | None, RecordView | None]:
        """The record at or after the offset that `copy` is of; None where it could be of another: of one before the
        offset, or (a second copy follows) of a twin that the source has compacted away."""
        original = yield from twins.first_at_or_after(near, self.offset, copy, self.memory)
        if original is None or (yield from twins.last_before(near, self.offset, copy, self.memory)) is not None:
            return None
        if (yield from twins.first_at_or_after(here, copy.offset + 1, copy, self.memory)) is not None:
            return None
        if found is None and self.source.start > 0:
            # The source begins here: a twin may have expired. The record after must match the record after.
            follows = yield from near.first_from(original.offset + 1)
            copied = yield from here.first_from(copy.offset + 1)
            if follows is None or copied is None or not same(follows, copied):
                return None
        return original

    def _lowest_place(
        self, original: RecordView, copy: RecordView, found: Anchor | None
    ) -> Generator[Need, Window | int | None, int]:
        """Where the copy of an unprocessed record first stands. In a plain log that is where it was found; elsewhere
        the mirror may have copied twice and the target's cleaner have taken the first copy of p, but not this one."""
        low = self.memory.low
        if found is None or (low is not None and found.delta == low.delta):
            return copy.offset
        lowest = yield from self.copies.lowest(original, copy.offset, by_time_alone=True)
        return lowest.downstream if lowest else copy.offset

    def _by_rank(
        self, found: Anchor | None, near: Stretch, here: Stretch
    ) -> Generator[Need, Window | int | None, int | None]:
        """Identical twins on either side of the offset, told apart by rank: only between two verified neighbours with
        the very same records between them on both sides, so that both stretches are provably whole."""
        if found is None or not near.start <= found.upstream + 1 <= near.end:
            return None
        originals, copies = near.index(found.upstream + 1), here.index(found.downstream + 1)
        rank: int | None = None
        while True:
            if originals >= len(near.records) or copies >= len(here.records):
                short = near if originals >= len(near.records) else here
                if short.at_end:
                    return None
                yield from short.forward()
                continue
            original, copy = near.records[originals], here.records[copies]
            if not same(original, copy):
                return None
            if original.offset >= self.offset:
                rank = copy.offset if rank is None else rank
                if (yield from self._closes(original, copy, near, here)):
                    return rank
            originals += 1
            copies += 1

    def _closes(
        self, original: RecordView, copy: RecordView, near: Stretch, here: Stretch
    ) -> Generator[Need, Window | int | None, bool]:
        """Whether this pair occurs once on either side, so that the stretch ends there for sure."""
        before = yield from twins.last_before(near, original.offset, original, self.memory)
        after = yield from twins.first_at_or_after(near, original.offset + 1, original, self.memory)
        again = yield from twins.first_at_or_after(here, copy.offset + 1, copy, self.memory)
        return before is None and after is None and again is None

    def _first_unprocessed(
        self, answer: int, found: Anchor | None, near: Stretch, here: Stretch
    ) -> Generator[Need, Window | int | None, int | None]:
        """The first place at or after `answer` that is known to hold a copy of a record at or after the offset."""
        checked = here.index(answer)
        while True:
            while checked < len(here.records):
                record = here.records[checked]
                if (yield from self._unprocessed(record, found, near, here)) is not None:
                    return record.offset
                checked += 1
            if here.at_end:
                return None
            yield from here.forward()

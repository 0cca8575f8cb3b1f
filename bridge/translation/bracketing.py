"""Translation by bracketing: where on the target the first record at or after a committed offset stands.

    source   ... p ........ o ..... v ...      p  a data record before o whose content does not recur at or after o
                  \\                 \\          v  a data record at or after o
    target   ...... copy(p) | L ..... copy(v)  L = copy(p) + 1

A mirror copies a partition in order, so nothing at or after `o` stands only below L, whatever was compacted, expired
or stamped: **L is the answer** (R1). When the first data record at or after L is the copy of some v >= o, or there is
none, a reader from L reads nothing twice: `exact`. Otherwise the answer is `bounded` by the data records up to the
first copy of such a v (R2).

Plain logs are compared side by side (`aligned`); elsewhere copies are found as `copies` says, and identical records
are told apart by `twins` and `rank`. docs/decisions/0002 has the assumptions.

Sans-I/O: `bracket` yields needs and is sent their answers; the verdict is its return value.
"""

from __future__ import annotations

from bridge.translation import aligned, rank, twins
from bridge.translation.copies import Copies, Found
from bridge.translation.memory import PartitionMemory
from bridge.translation.model import Evidence, Flag, Judgement, Reason, RecordView, Side, Verdict
from bridge.translation.stretch import Budget, CapReached, Caps, Log, LogBounds, Steps, Stretch, same

_FOLLOWING = 3
"""Records after an unprocessed one that must match, where a twin of it may have expired."""

_CHECKED = 256
"""Target records in which the first unprocessed one is looked for; past them the bound is what the target holds."""


def bracket(
    offset: int, source: LogBounds, target: LogBounds, memory: PartitionMemory, caps: Caps | None = None
) -> Steps[Verdict]:
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
    answer: int,
    bound: int,
    flags: tuple[Flag, ...],
    epoch: int = -1,
    detail: dict[str, str | int | None] | None = None,
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
        self._source = Log(Side.SOURCE, source, self.budget, memory)
        self.copies = Copies(self._source, Log(Side.TARGET, target, self.budget, memory), memory, self.budget)

    def run(self) -> Steps[Verdict]:
        near: Stretch | None = None
        try:
            if not self.memory.low_sought:
                self._source.learns = True
                with self.budget.part():
                    yield from self.copies.seek_low()
                self.memory.low_sought = True
            near = yield from self._near()
            plain = yield from aligned.place_of(self.offset, near, self.copies, self.memory)
            if plain is not None:
                return self._of_plain(*plain)
            self._source.learns = True
            self.memory.observe(near.records)
            found = yield from self.copies.of_last_before(self.offset, near)
        except CapReached:
            found = self.copies.floor(self.offset)
            if found is None:
                return Verdict.pending(Reason.COPY_NOT_FOUND, capped="search_bytes")
            if near is None:
                self.budget.left = self.budget.read_bytes
                near = yield from self._source.open(
                    max(self.source.start, min(self.offset, self.source.end) - 1)
                )
        if found is None and not self._nothing_before(near):
            return Verdict.pending(Reason.COPY_NOT_FOUND)
        answer = max(self.target.start, found.anchor.downstream + 1 if found else 0)
        return (yield from self._judge(answer, found, near))

    def _near(self) -> Steps[Stretch]:
        """The source around the offset: what is needed to compare, and the record before the offset if there is one
        right there."""
        at = max(self.source.start, min(self.offset, self.source.end) - aligned.AROUND)
        near = yield from self._source.open(at)
        while near.end < self.offset and not near.at_end:
            yield from near.forward()
        return near

    def _of_plain(self, place: int, here: Stretch) -> Verdict:
        detail: dict[str, str | int | None] = {"pred_offset": self.offset - 1, "pred_copy": place - 1}
        if place < self.target.end:
            detail |= {"next_offset": self.offset, "next_copy": place}
        return _verdict(place, 0, (), here.epoch, detail)

    def _nothing_before(self, near: Stretch) -> bool:
        """Whether no record before the offset can stand on the target: the source has none, or the mirror began at
        or after the offset (`latest`, or retention on the target). The answer is then the target's log start."""
        low = self.memory.low
        if low is not None and low.upstream >= self.offset:
            return True
        return near.at_start and near.index(self.offset) == 0

    def _judge(self, answer: int, found: Found | None, near: Stretch) -> Steps[Verdict]:
        """The verdict on `answer`: exact when the first data record there is a copy of one at or after the offset."""
        flags = _flags(self.offset, self.source)
        detail: dict[str, str | int | None] = {}
        if found:
            detail |= {"pred_offset": found.anchor.upstream, "pred_copy": found.anchor.downstream}
        after = found.after if found else self.source.start
        unknown = max(0, self.offset - after)
        loose = self.target.end - answer + unknown
        epoch = -1
        try:
            here = yield from self.copies.open_target(answer)
            epoch = here.epoch
            first = yield from here.first_from(answer)
            if first is None:
                last = yield from near.last_before(self.offset)
                to_come = 0 if last is None or last.offset < after else unknown
                return _verdict(
                    answer, to_come, _flags(self.offset, self.source, ahead=to_come > 0), detail=detail
                )
            original = yield from self._unprocessed(first, found, near, here)
            if original is not None:
                detail |= {"next_offset": original.offset, "next_copy": first.offset}
                return _verdict(answer, 0, flags, epoch, detail)
            ranked = yield from rank.place_of(
                self.offset, found.anchor if found else None, near, here, self.memory
            )
            if ranked is not None:
                return _verdict(ranked, 0, flags, epoch, detail | {"by": "rank"})
            upper = yield from self._first_unprocessed(answer, found, near, here)
        except CapReached:
            upper = None
        if upper is None:
            return _verdict(answer, loose, flags, epoch, detail)
        bound = here.index(upper) - here.index(answer)
        return _verdict(answer, bound, flags, epoch, detail | {"next_copy": upper})

    def _unprocessed(
        self, copy: RecordView, found: Found | None, near: Stretch, here: Stretch
    ) -> Steps[RecordView | None]:
        """The record at or after the offset that `copy` is of; None where it could be of another: of one before the
        offset, or (a second copy follows) of a twin that the source has compacted away."""
        original = yield from twins.first_at_or_after(near, self.offset, copy, self.memory)
        if original is None:
            return None
        earlier = yield from twins.earlier(near, self.offset, copy, self.memory)
        if earlier is twins.Earlier.YES:
            return None
        if (yield from twins.first_at_or_after(here, copy.offset + 1, copy, self.memory)) is not None:
            return None
        first = yield from near.first_from(self.offset)
        sure = original is first
        if sure and earlier is twins.Earlier.EXPIRED:
            # A twin of it may have expired; not so when the record before it stands before it on the target too.
            before = yield from near.last_before(self.offset)
            sure = (
                found is not None
                and before is not None
                and before.offset == found.anchor.upstream
                and here.index(found.anchor.downstream + 1) == here.index(copy.offset)
            )
        if not sure:
            count = _FOLLOWING if earlier is twins.Earlier.EXPIRED else 1
            sure = yield from self._followed(original, copy, count, near, here)
        return original if sure else None

    def _followed(
        self, original: RecordView, copy: RecordView, count: int, near: Stretch, here: Stretch
    ) -> Steps[bool]:
        """Whether the records after `copy` are those after `original`: so it is its copy, and not that of a twin that
        has expired or was compacted away before this one was copied."""
        for _ in range(count):
            after = yield from near.first_from(original.offset + 1)
            after_copy = yield from here.first_from(copy.offset + 1)
            if after is None or after_copy is None or not same(after, after_copy):
                return False
            original, copy = after, after_copy
        return True

    def _first_unprocessed(
        self, answer: int, found: Found | None, near: Stretch, here: Stretch
    ) -> Steps[int | None]:
        """The first place at or after `answer` that is known to hold a copy of a record at or after the offset."""
        checked = here.index(answer)
        for _ in range(_CHECKED):
            while checked >= len(here.records):
                if here.at_end:
                    return None
                yield from here.forward()
            record = here.records[checked]
            if (yield from self._unprocessed(record, found, near, here)) is not None:
                return record.offset
            checked += 1
        return None

"""Finds which places of the target hold the copies of which source offsets, where another mirror has copied.

    source   a ............ m ............ b      a, m, b  offsets that bracketing translates exactly (decision 0002)
             |              |              |
    target   A ............ M ............ B      A, M, B  where they are translated to

Between two such offsets stands on the target what was copied of the records between them. Where these are the same one
by one, and the target has lost nothing there, each is the copy of the one beside it. Where they are not (duplicates,
compaction, records of others) the stretch is halved at a third offset, down to single records. What is left then is not
known: no segment covers it. So nothing is paired that bracketing does not vouch for.

Sans-I/O, as bracketing: yields needs, is sent their answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from bridge.model.values import Flag, Judgement, RecordView, Side
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.log_window import (
    Budget,
    Caps,
    LogBounds,
    LogReader,
    LogSection,
    Steps,
    same,
)
from bridge.translation.records.partition_cache import PartitionMemory
from bridge.translation.runs.runs import Segment

RECORD_BYTES = 70
"""What a record takes up beside key and value, about."""
_PLENTY = 1 << 40
_HALVINGS = 512
"""Offsets that are translated within one step at most, to halve stretches that are not the same on both sides."""
_TRIED = (0, 1, -1, 2, -2, 5, -5, 11, -11)
"""Records around the middle of a stretch that are tried, one after the other."""


class Edge(NamedTuple):
    """An offset and its exact translation. `record` and `copy`: the record before it and its copy, -1 for not known."""

    upstream: int
    downstream: int
    record: int = -1
    copy: int = -1


@dataclass(slots=True)
class Paired:
    """The result of a step. `segments`: in the order of both logs. `end`: where the next step begins, None where there
    was nothing to begin with."""

    segments: list[Segment] = field(default_factory=list)
    end: Edge | None = None
    whole: bool = False
    """Whether the step has come as far as it was to: there may be more to pair."""


class Pairing:
    """Pairs one partition, step by step. `begin`: an edge that is known from before."""

    def __init__(
        self,
        source: LogBounds,
        target: LogBounds,
        begin: Edge | None,
        *,
        step_bytes: int = 4 << 20,
        read_bytes: int = 1 << 20,
        caps: Caps | None = None,
    ) -> None:
        self._source, self._target = source, target
        self._at = source.start if begin is None else begin.upstream
        self._verified = begin
        self._step_bytes, self._read_bytes = step_bytes, read_bytes
        self._caps = caps
        self._memory = PartitionMemory()
        self._halvings = 0

    def step(self) -> Steps[Paired]:
        """Pairs the next records of the source, about `step_bytes` of them."""
        budget = Budget(Caps(self._read_bytes, _PLENTY))
        self._halvings = _HALVINGS
        if self._at >= self._source.end:
            return Paired(end=self._verified)
        source = yield from LogReader(Side.SOURCE, self._source, budget, PartitionMemory()).open(self._at)
        yield from self._read(source)
        records = source.records[source.index(self._at) :]
        far = source.end
        if self._verified is None:
            self._verified = yield from self._edge(self._at)
        last = yield from self._farthest(records, far)
        if last is None:
            return Paired(end=self._verified)
        result = Paired(end=last, whole=last.upstream >= far)
        if self._verified is not None and self._verified.downstream <= last.downstream:
            target = yield from LogReader(Side.TARGET, self._target, budget, PartitionMemory()).open(
                self._verified.downstream
            )
            while target.end < last.downstream and not target.at_end:
                yield from target.forward()
            found = _Found(source, target)
            yield from self._pair(found, self._verified, last)
            result.segments = found.segments
        self._at, self._verified = last.upstream, last
        return result

    def _read(self, source: LogSection) -> Steps[None]:
        size = sum(map(size_of, source.records))
        while size < self._step_bytes and not source.at_end:
            count = len(source.records)
            yield from source.forward()
            size += sum(map(size_of, source.records[count:]))

    def _farthest(self, records: Sequence[RecordView], end: int) -> Steps[Edge | None]:
        """The farthest edge: where the mirror is behind it lies before the end."""
        left = len(records)
        position = end
        while True:
            edge = yield from self._edge(position)
            if edge is not None and edge.upstream > self._at:
                return edge
            left = left * 3 // 4
            if not left:
                return None
            position = records[left].offset

    def _edge(self, offset: int) -> Steps[Edge | None]:
        """Translates an offset; None where the answer is not exact."""
        verdict = yield from bracket(offset, self._source, self._target, self._memory, self._caps)
        if verdict.judgement is not Judgement.EXACT or Flag.AHEAD_OF_MIRROR in verdict.flags:
            return None
        assert verdict.offset is not None
        before = verdict.detail.get("pred_offset"), verdict.detail.get("pred_copy")
        known = [number if isinstance(number, int) else -1 for number in before]
        return Edge(offset, verdict.offset, *known)

    def _pair(self, found: _Found, begin: Edge, end: Edge) -> Steps[None]:
        originals, copies = found.between(begin, end)
        if len(originals) == len(copies) and all(map(same, originals, copies)) and not found.lost(begin, end):
            found.add(begin, end, originals, copies)
            return
        if len(originals) <= 1:
            found.add_single(begin, end, originals)
            return
        middle = len(originals) // 2
        for step in _TRIED:
            position = middle + step
            if not 0 < position < len(originals) or self._halvings <= 0:
                continue
            self._halvings -= 1
            edge = yield from self._edge(originals[position].offset)
            if edge is not None and begin.downstream <= edge.downstream <= end.downstream:
                yield from self._pair(found, begin, edge)
                yield from self._pair(found, edge, end)
                return
        found.unknown()


class _Found:
    """Collects segments. `source`, `target`: what was read of both logs."""

    def __init__(self, source: LogSection, target: LogSection) -> None:
        self._source, self._target = source, target
        self.segments: list[Segment] = []
        self._covered: int | None = None
        """From where on everything up to the next segment is known not to be copied."""

    def between(self, begin: Edge, end: Edge) -> tuple[Sequence[RecordView], Sequence[RecordView]]:
        return (
            _slice(self._source, begin.upstream, end.upstream),
            _slice(self._target, begin.downstream, end.downstream),
        )

    def lost(self, begin: Edge, end: Edge) -> bool:
        """Whether the target may have lost records there."""
        position = begin.downstream
        for record in _slice(self._target, begin.downstream, end.downstream):
            if self._target.lost(position, record.offset) is not None:
                return True
            position = record.offset + 1
        return self._target.lost(position, end.downstream) is not None

    def add(
        self, begin: Edge, end: Edge, originals: Sequence[RecordView], copies: Sequence[RecordView]
    ) -> None:
        """Adds what is the same one by one."""
        if self._covered is None:
            self._covered = begin.upstream
        for first, last in _stretches(originals, copies):
            count = last - first
            self._append(
                originals[first].offset,
                copies[first].offset,
                count,
                originals[last - 1].timestamp,
                sum(map(size_of, originals[first:last])),
            )
        self._covered = max(self._covered, end.upstream) if not originals else self._covered

    def add_single(self, begin: Edge, end: Edge, originals: Sequence[RecordView]) -> None:
        """Adds the one record of a stretch, if bracketing has found its copy. One that the target does not hold leaves
        nothing between both edges."""
        if begin.downstream == end.downstream and (self._covered is not None or not self.segments):
            self._covered = begin.upstream if self._covered is None else self._covered
            return
        (record,) = originals or (None,)
        if record is None or end.record != record.offset or end.copy < begin.downstream:
            self.unknown()
            return
        if self._covered is None:
            self._covered = record.offset
        self._append(record.offset, end.copy, 1, record.timestamp, size_of(record))

    def unknown(self) -> None:
        """Marks that what comes next is not known."""
        self._covered = None

    def _append(self, upstream: int, downstream: int, count: int, timestamp: int, size: int) -> None:
        assert self._covered is not None
        before = self.segments[-1] if self.segments else None
        if before is not None and downstream < before.downstream_end:
            self.unknown()
            return
        segment = Segment(self._covered, upstream, downstream, count, -1, timestamp, size)
        if before is not None and (before.upstream_end, before.downstream_end) == (upstream, downstream):
            self.segments[-1] = before.joined(segment)
        else:
            self.segments.append(segment)
        self._covered = upstream + count


def _slice(section: LogSection, start: int, end: int) -> Sequence[RecordView]:
    return section.records[section.index(start) : section.index(end)]


def _stretches(originals: Sequence[RecordView], copies: Sequence[RecordView]) -> Iterator[tuple[int, int]]:
    """Yields parts without a hole on either side."""
    cuts = [
        index
        for index in range(1, len(originals))
        if originals[index].offset != originals[index - 1].offset + 1
        or copies[index].offset != copies[index - 1].offset + 1
    ]
    if originals:
        yield from pairwise([0, *cuts, len(originals)])


def size_of(record: RecordView) -> int:
    """About how many bytes a record takes up."""
    return RECORD_BYTES + len(record.key or b"") + len(record.value or b"")

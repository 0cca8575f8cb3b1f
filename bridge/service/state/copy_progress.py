"""Keeps the copy progress that the rounds process has reported last, and pages through it.

Keeps how far source partitions are copied: a sink connector's task polls for it and has Connect commit it.

Keeps only what a driver that still runs has reported: while none runs, an operator may reset where copying goes on.
Positions wait for a session that has polled for them; an answer is repeated until a poll names its number.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.model.copying import PipelineState, Progress, join
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import TopicPartition
from bridge.protocol.messages import CopyProgress, CopyTotals, GapReport, Gaps, PartitionProgress
from bridge.service.pages import from_cursor, to_cursor
from bridge.service.state.copy_samples import CopySamples, NumberedAnswers, take
from connectors.base import CopyReport

MOST = 2_000
"""Partitions in one answer."""

_Partition = tuple[str, int]
PORTION, SAMPLES = 500, 100
"""Partitions, and samples of partitions, in one frame: the HTTP process handles a frame in about a millisecond."""
PORTION_GONE = 20_000
"""Partitions that are gone, in one frame: of each frame with some, all partitions are gone through."""
YIELD_EVERY = 1_000
_TARGET = Progress._fields.index("target_topic")
ProgressTuple = tuple[Any, ...]
"""A Progress as a plain tuple, for the reason that snapshots.GroupTuple is one."""


@dataclass(slots=True)
class _Reader:
    """A session of the shim, with what it has yet to read."""

    answers: NumberedAnswers
    waiting: dict[_Partition, int]

    def content(self) -> dict[str, object] | None:
        if not self.waiting:
            return None
        rows = [
            {"topic": topic, "partition": number, "position": position}
            for (topic, number), position in take(self.waiting, MOST)
        ]
        return {"partitions": rows}


@dataclass(slots=True)
class CopyPositions:
    """The positions of one connector's copies."""

    known: dict[_Partition, int] = field(default_factory=dict)
    _reader: _Reader | None = None

    # -- reports -----------------------------------------------------------------------------------

    def moved(self, tp: _Partition, position: int) -> None:
        if self.known.get(tp) == position:
            return
        self.known[tp] = position
        if self._reader is not None:
            self._reader.waiting[tp] = position

    def left(self, tp: _Partition) -> None:
        """Forgets a partition that is copied no more."""
        self.known.pop(tp, None)
        if self._reader is not None:
            self._reader.waiting.pop(tp, None)

    def clear(self) -> None:
        """Forgets all positions: no driver runs, or a report of all partitions follows."""
        self.known.clear()
        if self._reader is not None:
            self._reader.waiting.clear()
            self._reader.answers.sent = None

    # -- polls -------------------------------------------------------------------------------------

    def begin(self, session: str) -> None:
        """Begins anew with a session that has read nothing: each partition waits for it."""
        if self._reader is None or self._reader.answers.session != session:
            self._reader = _Reader(NumberedAnswers(session), dict(self.known))

    @property
    def fills_an_answer(self) -> bool:
        """Whether more waits than one answer holds."""
        return self._reader is not None and len(self._reader.waiting) > MOST

    def next(self, seen: int) -> bytes | None:
        """Returns the next answer, Positions as JSON; None for nothing. `seen`: the number of the last answer that was
        read, 0 before the first."""
        reader = self._reader
        return None if reader is None else reader.answers.next(seen, reader.content)


def joined(older: CopyReport, newer: CopyReport) -> CopyReport:
    """Merges two reports, for a reader that is slower than they arrive."""
    gaps = older.gaps if newer.gaps is None else newer.gaps
    states = older.states if newer.states is None else newer.states
    waiting = {sample.source: sample for sample in older.samples}
    join(waiting, newer.samples)
    samples = list(waiting.values())
    if newer.whole:
        return replace(newer, gaps=gaps, samples=samples, states=states)
    gone = set(newer.gone)
    rows = {row.source: row for row in older.changed if row.source not in gone}
    rows |= {row.source: row for row in newer.changed}
    return CopyReport(
        newer.totals,
        list(rows.values()),
        sorted((gone | set(older.gone)) - rows.keys()),
        gaps,
        older.whole,
        samples,
        states,
    )


def portions(report: CopyReport) -> Iterator[CopyReport]:
    """Splits a report into pieces that are handled quickly; each has the totals."""
    yield replace(
        report,
        changed=report.changed[:PORTION],
        samples=report.samples[:SAMPLES],
        gone=report.gone[:PORTION_GONE],
    )
    for start in range(PORTION_GONE, len(report.gone), PORTION_GONE):
        yield CopyReport(report.totals, gone=report.gone[start : start + PORTION_GONE])
    rows, copied = PORTION, SAMPLES
    while rows < len(report.changed) or copied < len(report.samples):
        yield CopyReport(
            report.totals,
            report.changed[rows : rows + PORTION],
            samples=report.samples[copied : copied + SAMPLES],
        )
        rows, copied = rows + PORTION, copied + SAMPLES


@dataclass(slots=True)
class CopySnapshot:
    """The progress of all partitions of one connector. `order`: the keys of `rows`, sorted."""

    totals: CopyTotals | None = None
    rows: dict[tuple[str, int], ProgressTuple] = field(default_factory=dict)
    order: list[tuple[str, int]] = field(default_factory=list)
    gaps: Sequence[GapReport] = ()
    usual: PartitionState = PartitionState.WAITING
    apart: Mapping[TopicPartition, PartitionStatus] = field(default_factory=dict)
    """The partitions that are in another state than the usual one."""
    samples: CopySamples = field(default_factory=CopySamples, compare=False)
    positions: CopyPositions = field(default_factory=CopyPositions, compare=False)

    def update(self, report: CopyReport) -> None:
        self.totals = report.totals
        if report.whole:
            for tp, row in self.rows.items():
                self.samples.left(tp, row[_TARGET])
            self.rows, self.order = {}, []
            self.positions.clear()
        for row in report.changed:
            tp = (row.topic, row.partition)
            if (before := self.rows.get(tp)) is None:
                insort(self.order, tp)
            self.samples.moved(tp, None if before is None else before[_TARGET], row.target_topic)
            self.rows[tp] = tuple(row)
            self.positions.moved(tp, row.position)
        self.samples.add(report.samples)
        if report.gone:
            for tp in report.gone:
                self.positions.left(tp)
                if (gone := self.rows.pop(tp, None)) is not None:
                    self.samples.left(tp, gone[_TARGET])
            self.order = [tp for tp in self.order if tp in self.rows]
        if report.gaps is not None:
            self.gaps = report.gaps
        if report.states is not None:
            self.usual = report.states.usual
            self.apart = {status.source: status for status in report.states.apart}
        if report.totals.state == PipelineState.STOPPED:
            self.positions.clear()

    def begin_measuring(self, session: str) -> None:
        """Has samples wait for this session of the shim from now on."""
        self.samples.begin(session, self.rows, _TARGET)

    def topics(self) -> set[str]:
        """Returns the topics of the source that are copied."""
        return {topic for topic, _ in self.rows}

    def copied_whole(self, partition: tuple[str, int]) -> bool:
        """Whether all is copied of a partition that may be read there: up to the last stable offset."""
        row = self.rows.get(partition)
        return row is not None and Progress._make(row).lag == 0

    def copies(self) -> dict[str, str]:
        """Returns the topics of the target by those of the source that they are copies of."""
        return {topic: row[_TARGET] for (topic, _), row in self.rows.items()}

    def target_topics(self) -> set[str]:
        return {row[_TARGET] for row in self.rows.values()}

    def status(self, source: TopicPartition) -> PartitionStatus:
        """Returns the state of a partition; in the usual one since when and why is that of the connector."""
        return self.apart.get(source) or PartitionStatus(*source, self.usual, -1, "")

    def partitions(self, *, with_unknown: bool = False) -> Iterator[Progress]:
        """Iterates over the partitions in order; may miss those that come or go meanwhile. `with_unknown`: also over
        those of which only a state is known, with a position of -1."""
        order = tuple(self.order)
        if with_unknown and (unknown := self.apart.keys() - self.rows.keys()):
            order = tuple(sorted({*order, *unknown}))
        for tp in order:
            row = self.rows.get(tp)
            if row is not None:
                yield Progress._make(row)
            elif with_unknown and tp in self.apart:
                yield Progress(*tp, "", -1)


@dataclass(frozen=True, slots=True)
class ProgressFilter:
    """Filters partitions: of this topic, with at least so much lag, in this state."""

    topic: str | None = None
    min_lag: int | None = None
    state: PartitionState | None = None

    def matches(self, row: Progress, state: PartitionState) -> bool:
        return (
            (self.topic is None or row.topic == self.topic)
            and (self.min_lag is None or row.lag >= self.min_lag)
            and (self.state is None or state is self.state)
        )


async def page(
    connector: str, known: CopySnapshot, chosen: ProgressFilter, limit: int, cursor: str | None
) -> CopyProgress:
    """A page of partitions. The scan counts all matches, and yields to other requests."""
    start = from_cursor(cursor, (str, int))
    listed: list[PartitionProgress] = []
    total = 0
    following: str | None = None
    for seen, row in enumerate(known.partitions(with_unknown=True), 1):
        if seen % YIELD_EVERY == 0:
            await asyncio.sleep(0)
        status = known.status(row.source)
        if not chosen.matches(row, status.state):
            continue
        total += 1
        if row.source < start:
            continue
        if len(listed) < limit:
            listed.append(partition_progress(row, status))
        elif following is None:
            following = to_cursor(*row.source)
    return CopyProgress(
        connector=connector, totals=known.totals, partitions=listed, total=total, next=following
    )


def gaps(connector: str, known: CopySnapshot, limit: int) -> Gaps:
    kinds = known.totals.gaps if known.totals is not None else {}
    newest = list(reversed(known.gaps))[:limit]
    return Gaps(connector=connector, total=sum(kinds.values()), kinds=kinds, gaps=newest)


def partition_progress(row: Progress, status: PartitionStatus) -> PartitionProgress:
    """The message of the contract, in which null is what -1 is here."""
    fields = status._asdict() | row._asdict() | {"lag": row.lag}
    for name in ("position", "source_end", "lag", "record_age_ms", "replication_latency_ms", "since_ms"):
        if fields[name] < 0:
            fields[name] = None
    return PartitionProgress(**fields)

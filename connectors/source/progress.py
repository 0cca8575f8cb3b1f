"""Reports the progress of a pipeline: rates, sums, and only the rows that have changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bridge.model.copying import Copied, CopySample, Gap, PipelineState, PipelineStatus, Progress
from bridge.model.partition_states import PartitionState, PartitionStates
from bridge.model.values import TopicPartition
from bridge.protocol.messages import CopyTotals, GapReport
from connectors.base import CopyReport

HALF_WINDOW = 15.0
"""Seconds: rates are over one to two of them. A Java client's are over 30 to 60, which hides for a minute that copying
has stopped."""

_KNOWS_ENDS = (PipelineState.COPYING, PipelineState.CAUGHT_UP)
"""Otherwise nobody asks where the source ends now, and a lag would be that of before."""
_At = tuple[float, int, int]
"""Time, and the counters of records and bytes then."""


@dataclass(slots=True)
class _Counters:
    """Counts one partition's records and bytes since it was first seen. `driver`: the driver's counters, which begin at
    0 with another driver."""

    driver: tuple[int, int]
    older: _At
    newer: _At
    records: int = 0
    bytes: int = 0

    def count(self, records: int, bytes_: int) -> None:
        before = self.driver if records >= self.driver[0] and bytes_ >= self.driver[1] else (0, 0)
        self.records += records - before[0]
        self.bytes += bytes_ - before[1]
        self.driver = records, bytes_

    def per_second(self, now: float) -> tuple[float, float]:
        if now - self.newer[0] >= HALF_WINDOW:
            self.older, self.newer = self.newer, (now, self.records, self.bytes)
        since, records, bytes_ = self.older
        seconds = max(1.0, now - since)
        return round((self.records - records) / seconds, 1), round((self.bytes - bytes_) / seconds, 1)


class Reporter:
    """Reports the progress of one instance, over all its pipelines, one after the other."""

    def __init__(self, source_alias: str, target_alias: str) -> None:
        self._source, self._target = source_alias, target_alias
        self._counters: dict[TopicPartition, _Counters] = {}
        self._rows: dict[TopicPartition, Progress] = {}
        self._records = self._bytes = 0
        """Of partitions that are gone: the sums never go back."""
        self._gaps: Sequence[Gap] = ()
        self._gap_counts: dict[str, int] = {}
        self._totals: CopyTotals | None = None
        self._states: PartitionStates | None = None
        self._unconfirmed: set[TopicPartition] = set()
        """Partitions whose row no driver that runs now has reported yet."""

    def begin(self) -> None:
        """Begins with another driver: its first row of each partition is reported, even if it is as the last one."""
        self._unconfirmed = set(self._rows)

    def report(
        self,
        status: PipelineStatus,
        partitions: Sequence[Copied],
        now: float,
        samples: Sequence[CopySample] = (),
    ) -> CopyReport | None:
        """Returns what has changed since the last report, None for nothing. `now`: monotonic seconds; `samples`: what
        was copied since the last report."""
        changed = []
        for copied in partitions:
            progress = status.progress.get(copied.source)
            row = self._row(copied, progress, now)
            if row is not None and status.state not in _KNOWS_ENDS:
                row = row._replace(source_end=-1)
            again = progress is not None and copied.source in self._unconfirmed
            if row is not None and (again or row != self._rows.get(copied.source)):
                self._rows[copied.source] = row
                changed.append(row)
            if again:
                self._unconfirmed.remove(copied.source)
        gone = self._rows.keys() - {copied.source for copied in partitions}
        for tp in gone:
            self._records += self._rows[tp].records
            self._bytes += self._rows[tp].bytes
            del self._rows[tp], self._counters[tp]
        gaps = self._new_gaps(status)
        states = status.partition_states
        new_states, self._states = (None if states == self._states else states), states
        totals = self._sums(status, len(partitions))
        copied_now = [sample for sample in samples if sample.source in self._rows]
        news = changed or gone or copied_now or gaps is not None or new_states is not None
        if not news and totals == self._totals:
            return None
        whole, self._totals = self._totals is None, totals
        return CopyReport(totals, changed, sorted(gone), gaps, whole, copied_now, new_states)

    def _row(self, copied: Copied, progress: Progress | None, now: float) -> Progress | None:
        """Returns a partition's row; where a new driver has no progress yet the last one, with rates of 0 and no end of
        the source, which has moved on since."""
        tp = copied.source
        if progress is None:
            row = self._rows.get(tp)
            return row and row._replace(source_end=-1, record_rate=0.0, byte_rate=0.0)
        began = (now, 0, 0)
        counters = self._counters.setdefault(tp, _Counters((0, 0), began, began))
        counters.count(progress.records, progress.bytes)
        record_rate, byte_rate = counters.per_second(now)
        return progress._replace(
            records=counters.records, bytes=counters.bytes, record_rate=record_rate, byte_rate=byte_rate
        )

    def _new_gaps(self, status: PipelineStatus) -> Sequence[GapReport] | None:
        """Returns the gaps if they have changed, else None. A driver that has made no layout yet may not have read the
        ledger."""
        if status.layout == 0 or (
            status.gap_counts == self._gap_counts and tuple(status.gaps) == tuple(self._gaps)
        ):
            return None
        self._gaps, self._gap_counts = status.gaps, dict(status.gap_counts)
        return [gap_report(gap) for gap in status.gaps]

    def _sums(self, status: PipelineStatus, partitions: int) -> CopyTotals:
        rows = self._rows.values()
        lags = [row.lag for row in rows if row.lag >= 0]
        busy = [row for row in rows if row.record_rate > 0]
        return CopyTotals(
            source=self._source,
            target=self._target,
            state=status.state.value,
            layout=status.layout,
            restarts=status.restarts,
            partitions=partitions,
            lag=sum(lags) if lags else None,
            records=self._records + sum(row.records for row in rows),
            bytes=self._bytes + sum(row.bytes for row in rows),
            record_rate=round(sum(row.record_rate for row in rows), 1),
            byte_rate=round(sum(row.byte_rate for row in rows), 1),
            record_age_ms=_greatest(row.record_age_ms for row in busy),
            replication_latency_ms=_greatest(row.replication_latency_ms for row in busy),
            gaps=dict(self._gap_counts),
            states=_counts(status.partition_states, partitions),
            spark_ui=status.spark_ui or None,
        )


def gap_report(gap: Gap) -> GapReport:
    return GapReport(
        topic=gap.source.topic,
        partition=gap.source.partition,
        kind=gap.kind.value,
        topic_id=gap.topic_id,
        upstream_from=_or_none(gap.upstream_from),
        upstream_to=_or_none(gap.upstream_to),
        seen_at_ms=gap.seen_at_ms,
        detail=gap.detail,
    )


def _counts(states: PartitionStates, partitions: int) -> dict[str, int]:
    """Counts the partitions by state, all states named."""
    counts = dict.fromkeys((state.value for state in PartitionState), 0)
    for status in states.apart:
        counts[status.state.value] += 1
    counts[states.usual.value] += max(0, partitions - len(states.apart))
    return counts


def _or_none(value: int) -> int | None:
    return value if value >= 0 else None


def _greatest(values: Iterable[int]) -> int | None:
    return max((value for value in values if value >= 0), default=None)

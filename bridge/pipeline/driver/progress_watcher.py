"""Reads for the driver, while slices copy, their progress, gaps and reports.

Keeps how far each copy is, by the records of the runs topic, in the log's order. Pure.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from bridge.errors import AWAY, KafkaFailure
from bridge.kafka.consumer.log_bounds import bounds
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.kafka.network.client import NetworkClient
from bridge.logs.changes import Changes
from bridge.model.addresses import cluster_name
from bridge.model.copying import (
    GAPS_SHOWN_MS,
    NO_LATENCIES,
    Copied,
    CopySample,
    Gap,
    Latencies,
    PipelineSpec,
    Progress,
)
from bridge.model.partition_states import PartitionState, PartitionStatus, with_since
from bridge.model.state_records.fields import SchemaError, UnreadableRecords
from bridge.model.values import Bounds, CopyId, LogRecord, Side, TopicPartition
from bridge.pipeline.driver.denied import Rights
from bridge.pipeline.layouts.records import SliceReport, report_key, unreadable
from bridge.pipeline.slices.gaps import read_ledger
from bridge.translation.runs.runs import OffsetRun, commit_times, decode_change, decode_times

log = logging.getLogger(__name__)

GAPS_SHOWN = 100
LOOK = 0.5
"""Seconds between looks at the state topics, as long as something comes."""
QUIET = 1.0
"""Seconds between looks when nothing has come: a driver that waits costs little."""
_AWAY = Changes(log, "does not answer", "answers again")
ENDS_EVERY = 2.0
"""Seconds between questions for the source's log ends."""
HANGS = 3.0
"""Seconds without an answer after which a cluster counts as away: some less than any request takes to time out."""


@dataclass(slots=True)
class _Entry:
    progress: Progress
    position_run_start: int | None
    """The upstream start of the run that `progress.position` is of; None once that run was dropped."""


class ProgressTable:
    """Progress of every copy in the runs topic, of assigned and unassigned ones."""

    def __init__(self, began_ms: int) -> None:
        """`began_ms`: when the pipeline was started; what was committed before adds nothing to the counters."""
        self._began_ms = began_ms
        self._entries: dict[CopyId, _Entry] = {}
        self._samples: dict[CopyId, CopySample] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, copy: CopyId) -> Progress | None:
        entry = self._entries.get(copy)
        return None if entry is None else entry.progress

    def apply(self, record: LogRecord) -> CopyId | None:
        """Applies a record; returns the copy that has moved. Raises SchemaError."""
        key, run = decode_change(record.key, record.value)
        if run is not None:
            self._run(run, record)
            return run.copy
        entry = self._entries.get(CopyId(key.source, key.target_topic))
        if entry is not None and entry.position_run_start == key.upstream_start:
            entry.position_run_start = None
        return None

    def _run(self, run: OffsetRun, record: LogRecord) -> None:
        entry = self._entries.get(run.copy)
        if entry is None:
            self._entries[run.copy] = _Entry(
                Progress(*run.source, run.target_topic, run.position), run.upstream_start
            )
        elif _takes_back(entry, run):
            # What runs said of the offsets from here on is taken back: the log diverged, or was made anew.
            entry.progress, entry.position_run_start = (
                entry.progress._replace(position=run.position),
                run.upstream_start,
            )
        else:
            before = entry.progress
            entry.progress = advanced(before, run, record.timestamp, self._began_ms)
            if entry.progress.records > before.records:
                self._sample(before, entry, record)
            entry.position_run_start = max(entry.position_run_start or 0, run.upstream_start)

    def _sample(self, before: Progress, entry: _Entry, record: LogRecord) -> None:
        now, copy = entry.progress, CopyId(entry.progress.source, entry.progress.target_topic)
        age, latency = _latencies(commit_times(record.value), now)
        sample = CopySample(
            *copy.source,
            copy.target_topic,
            now.records - before.records,
            now.bytes - before.bytes,
            record.timestamp,
            age,
            latency,
        )
        if age.records:
            entry.progress = now._replace(record_age_ms=age.last)
        older = self._samples.get(copy)
        self._samples[copy] = sample if older is None else older.joined(sample)

    def drain_samples(self, copies: Collection[CopyId]) -> list[CopySample]:
        """Returns what was copied of these since the last call, and forgets all others too."""
        samples, self._samples = self._samples, {}
        return [sample for copy, sample in samples.items() if copy in copies]

    def end(self, copy: CopyId, source_end: int) -> Progress | None:
        """Sets the source's log end offset; None for a copy that has no run."""
        entry = self._entries.get(copy)
        if entry is None:
            return None
        if entry.progress.source_end != source_end:  # most are quiet, and it is asked for every 2 s
            entry.progress = entry.progress._replace(source_end=source_end)
        return entry.progress

    def keep(self, copies: Collection[CopyId]) -> None:
        """Forgets all others."""
        self._entries = {copy: entry for copy, entry in self._entries.items() if copy in copies}


def _takes_back(entry: _Entry, run: OffsetRun) -> bool:
    position = entry.progress.position
    if entry.position_run_start is None:
        # A bare position is dropped for the first run too, which may begin behind it.
        return run.upstream_start < position
    return entry.position_run_start == run.upstream_start and run.position < position


def advanced(before: Progress, run: OffsetRun, written_ms: int, began_ms: int) -> Progress:
    """Progress after a run that was committed at `written_ms`. A run that was merged from older ones, or committed
    before the pipeline was started (`began_ms`), adds nothing to the counters."""
    new = run.upstream_end - max(run.upstream_start, before.position)
    if run.upstream_start < before.position or new <= 0 or written_ms < began_ms:
        return before._replace(position=max(before.position, run.position))
    latency = max(0, written_ms - run.last_timestamp) if run.last_timestamp >= 0 else -1
    return before._replace(
        position=run.position,
        records=before.records + new - run.skipped,
        bytes=before.bytes + run.size,
        record_age_ms=latency,
        replication_latency_ms=latency,
    )


def _latencies(times: bytes, now: Progress) -> tuple[Latencies, Latencies]:
    """Ages and latencies of the records of a commit. Where it does not say, all are like the last record's: it is of an
    older version."""
    last = now.replication_latency_ms
    latencies = decode_times(times)
    if last < 0:
        return NO_LATENCIES, NO_LATENCIES
    if latencies is None:
        return Latencies(1, last, last, last, last), Latencies(1, last, last, last, last)
    age, latency = latencies
    in_between = max(0, latency.total - age.total) // latency.records
    return age._replace(last=max(0, last - in_between)), latency._replace(last=last)


class Watcher:
    """Progress, gaps and errors as one driver has last read them; `run` keeps them current."""

    def __init__(self, spec: PipelineSpec, source: NetworkClient, target: NetworkClient) -> None:
        self._spec, self._source, self._target = spec, source, target
        self._runs = TopicTail(target, spec.runs_topic, committed_only=True)
        self._ledger = TopicTail(target, spec.gaps_topic, committed_only=True)
        self._reports = TopicTail(target, spec.layout_topic)
        self._unreadable = UnreadableRecords([spec.runs_topic, spec.gaps_topic, spec.layout_topic])
        self._looking = asyncio.Lock()
        self._news = False
        """Whether the last look has read anything."""
        self._asked = 0.0
        self._layout = 0
        self._partitions: Sequence[Copied] = ()
        self._slots: list[list[TopicPartition]] = []
        """The partitions of each slice."""
        self._ids: Set[CopyId] = frozenset()
        self._slice_reports: dict[int, SliceReport] = {}
        self._earlier_reports: dict[int, SliceReport] = {}
        """Of slices of layouts before."""
        self._own_errors: dict[str, str] = {}
        self._unanswered: set[str] = set()
        """Looks that failed because a cluster as a whole did not answer."""
        self._asking: tuple[Side, float] | None = None
        """The cluster whose answer a look waits for, and since when (monotonic seconds)."""
        self._without_end: dict[TopicPartition, str] = {}
        """Why it is not known where a partition ends, or no end that its position can have: the others answer."""
        self._newest_gaps: dict[TopicPartition, Gap] = {}
        self.partitions: Sequence[PartitionStatus] = ()
        """Those of the layout that are not copied, and those whose records were left out."""
        self.rights = Rights(spec, source)
        self._copies = ProgressTable(int(time.time() * 1000))
        self.progress: dict[TopicPartition, Progress] = {}
        self.gaps: deque[Gap] = deque(maxlen=GAPS_SHOWN)
        self.gap_counts: Counter[str] = Counter()
        """Of the whole ledger, by kind."""

    @property
    def unreadable(self) -> Mapping[str, int]:
        """Records that were left out, by state topic."""
        return self._unreadable.counts

    def new_layout(self, layout: int, slices: Sequence[Sequence[Copied]], others: Set[CopyId]) -> None:
        """Follows a new layout. `slices`: the partitions of each; `others`: what else the runs topic tells of."""
        partitions = [copied for share in slices for copied in share]
        self._earlier_reports |= self._slice_reports
        self._layout, self._partitions, self._slice_reports = layout, partitions, {}
        self._slots = [[copied.source for copied in share] for share in slices]
        self._ids = {partition.id for partition in partitions}
        self._copies.keep(self._ids | others)
        self.progress = {
            partition.source: known for partition in partitions if (known := self._copies.get(partition.id))
        }

    def join(self, shares: Sequence[Sequence[Copied]]) -> None:
        """Follows these too, which have joined the slices of the layout."""
        for slot, share in zip(self._slots, shares, strict=True):
            slot += [copied.source for copied in share]
        partitions = [copied for share in shares for copied in share]
        self._partitions = [*self._partitions, *partitions]
        self._ids |= {partition.id for partition in partitions}
        self.progress |= {
            partition.source: known for partition in partitions if (known := self._copies.get(partition.id))
        }

    def weights(self) -> Mapping[TopicPartition, float]:
        """Returns the cost of each partition so far, for the balance of the next layout."""
        return {tp: float(progress.bytes) for tp, progress in self.progress.items()}

    def drain_samples(self) -> list[CopySample]:
        """Returns and clears the samples of these partitions since the last call."""
        return self._copies.drain_samples(self._ids)

    @property
    def errors(self) -> list[str]:
        slices = [report.error for _, report in sorted(self._slice_reports.items()) if report.error]
        return list(dict.fromkeys([*slices, *self._own_errors.values()]))

    @property
    def blind(self) -> bool:
        """Whether it is not known how far the copy is; one partition that can't be asked is no reason."""
        return bool(self._own_errors)

    @property
    def away(self) -> list[Side]:
        """Returns the clusters that do not answer as a whole. Each state topic may have a leader of its own, so the
        target is away where none of them can be read. One that keeps its connections and answers nothing is away before
        the request times out: until then nobody would know."""
        looks = {Side.SOURCE: {"ends"}, Side.TARGET: {"runs", "gaps", "reports"}}
        hangs = self._asking is not None and time.monotonic() - self._asking[1] > HANGS
        hanging = {self._asking[0]} if hangs and self._asking is not None else set()
        return [side for side, names in looks.items() if names <= self._unanswered or side in hanging]

    @property
    def failure(self) -> str:
        return next((report.failure for report in self._slice_reports.values() if report.failure), "")

    @property
    def moved(self) -> bool:
        return any(report.moved for report in self._slice_reports.values())

    @property
    def ended(self) -> str:
        """Why a slice has ended unasked, "" where none has."""
        return next(
            (report.ended for report in self._slice_reports.values() if report.ended and not report.left), ""
        )

    @property
    def left_id(self) -> str:
        """Why a slice has ended by leaving its transactional id, which is no fault of the others; "" where none has."""
        return next((report.ended for report in self._slice_reports.values() if report.left), "")

    async def with_current_ids(self, partitions: Sequence[Copied]) -> list[Copied]:
        """The partitions with the ids that their topics have now; without the topics that are gone: the connector looks
        for topics itself, and assigns them again when they are back. Raises KafkaFailure."""
        here = await self._source.metadata(sorted({partition.source.topic for partition in partitions}))
        described = await self._target.metadata(
            sorted({copy.target_topic for partition in partitions for copy in partition.copies})
        )
        return [
            replace(
                partition,
                source_topic_id=one.topic_id,
                target_topic_id=described[partition.target_topic].topic_id,
                also=tuple((topic, described[topic].topic_id) for topic, _ in partition.also),
            )
            for partition in partitions
            if not (one := here[partition.source.topic]).error
            and partition.source.partition in one.partitions
            and all(
                not (other := described[copy.target_topic]).error
                and partition.source.partition in other.partitions
                for copy in partition.copies
            )
        ]

    async def close(self) -> None:
        await self.rights.close()

    async def run(self) -> None:
        """Reads until cancelled. What no look expects is an error as long as it lasts: without this task the driver
        would show a copy that stands still and knows no error."""
        while True:
            try:
                await self.look()
            except Exception as error:
                log.exception("progress can't be read")
                self._own_errors["look"] = f"progress can't be read: {type(error).__name__}: {error}"
            else:
                self._own_errors.pop("look", None)
            await asyncio.sleep(LOOK if self._news else QUIET)

    async def look(self, *, ends: bool = False) -> None:
        """Reads what is new. What can't be read is an error for the time being. `ends`: the source's log ends too, how
        long ago they were asked for or not."""
        async with self._looking:
            self._news = False
            await self._try("runs", Side.TARGET, self.read_runs())
            await self._try("gaps", Side.TARGET, self._read_gaps())
            await self._try("reports", Side.TARGET, self._read_reports())
            if ends or time.monotonic() - self._asked > ENDS_EVERY:
                self._asked = time.monotonic()
                await self._try("ends", Side.SOURCE, self._ask_ends())
            self._find_partitions()
            not_copied = any(partition.state is not PartitionState.GAP for partition in self.partitions)
            await self.rights.check(after_errors=bool(self.errors) or not_copied)
            for line in self._unreadable.drain_lines():
                log.warning("%s", line)

    async def _try(self, what: str, side: Side, doing: Coroutine[None, None, None]) -> None:
        cluster = cluster_name(side, self._spec.props)
        self._asking = side, time.monotonic()
        try:
            await doing
        except KafkaFailure as error:
            self._own_errors[what] = str(error)
            if error.fault in AWAY:
                self._unanswered.add(what)
                _AWAY.failed(cluster, str(error), what)
            else:
                self._unanswered.discard(what)
            return
        finally:
            self._asking = None
        self._own_errors.pop(what, None)
        self._unanswered.discard(what)
        _AWAY.succeeded(cluster, what)

    async def read_runs(self) -> None:
        await self._read(self._runs, self._run)

    def _run(self, record: LogRecord) -> None:
        copy = self._copies.apply(record)
        if copy is not None and copy in self._ids and (now := self._copies.get(copy)) is not None:
            self.progress[copy.source] = now

    async def _read_gaps(self) -> None:
        await self._read(self._ledger, self._gap, self._no_gaps)

    def _no_gaps(self) -> None:
        self.gaps.clear()
        self.gap_counts.clear()
        self._newest_gaps.clear()

    def _gap(self, record: LogRecord) -> None:
        gap = read_ledger(record.key, record.value)
        if gap is not None and gap.connector in ("", self._spec.name):
            self.gaps.append(gap)
            self.gap_counts[gap.kind.value] += 1
            self._newest_gaps[gap.source] = gap

    async def _read_reports(self) -> None:
        await self._read(self._reports, self._report)

    def _report(self, record: LogRecord) -> None:
        if (why := unreadable(record.key, record.value)) is not None:
            raise SchemaError(why)
        report = SliceReport.decode(record.value)
        if report is None or record.key != report_key(self._spec, report.slot):
            return  # another connector's, which has layouts of its own
        if report.layout == self._layout:
            self._slice_reports[report.slot] = report
        else:
            self._earlier_reports[report.slot] = report

    async def _read(
        self,
        tail: TopicTail,
        apply: Callable[[LogRecord], None],
        restarted: Callable[[], None] = lambda: None,
    ) -> None:
        """Reads to the end of the log as it is now. `restarted`: all of it comes again."""
        while True:
            part = await tail.read()
            self._asking = Side.TARGET, time.monotonic()
            if part.restarted:
                self._unreadable.restarted(tail.topic)
                restarted()
            self._news = self._news or bool(part.records)
            for record in part.records:
                try:
                    apply(record)
                except SchemaError as error:
                    self._unreadable.add(tail.topic, record.offset, str(error))
            self._unreadable.add_batches(tail.topic, part.unreadable)
            if part.at_end:
                return

    async def _ask_ends(self) -> None:
        # A new layout may come while the cluster is asked; its partitions are asked for at the next look.
        partitions = self._partitions
        tps = [partition.source for partition in partitions]
        if not tps:
            return
        await self._source.metadata(sorted({tp.topic for tp in tps}))
        logs = await bounds(self._source, tps, committed_only=self._spec.committed_only)
        failures = {tp: failure for tp, failure in logs.items() if isinstance(failure, KafkaFailure)}
        for copied in partitions:
            each = logs[copied.source]
            if copied.id not in self._ids or not isinstance(each, Bounds):
                continue
            if (now := self._copies.end(copied.id, each.end)) is not None:
                self.progress[copied.source] = now
        self._without_end = {}
        if len(failures) == len(logs):
            raise next(iter(failures.values()))
        # A partition that can't be asked can't be copied either, and only this tells.
        self._without_end = {tp: str(failure) for tp, failure in failures.items()}
        for tp, now in self.progress.items():
            if now.position > now.source_end >= 0:
                # Read before the end was asked for: the log was cut back and its slice is about to see that, or
                # somebody else has written a run.
                self._without_end[tp] = (
                    f"offset runs say that it is copied up to {now.position}, and its log ends at {now.source_end}"
                )

    def _find_partitions(self) -> None:
        """Finds the partitions that are not copied: of a whole slice, those that can't be asked, and those that a slice
        leaves out while it copies the others, which knows best. And those with a gap of the last day."""
        now_ms = int(time.time() * 1000)
        found = {status.source: status for status in self._still_failed()}
        for report in self._slice_reports.values():
            if report.error and report.slot < len(self._slots):
                found |= _waiting(dict.fromkeys(self._slots[report.slot], report.error), now_ms)
        found |= _waiting(self._without_end, now_ms)
        for report in self._slice_reports.values():
            found |= {partition.source: partition for partition in report.partitions}
        gaps = {
            tp: PartitionStatus(*tp, PartitionState.GAP, gap.seen_at_ms, gap.sentence)
            for tp, gap in self._newest_gaps.items()
            if now_ms - gap.seen_at_ms < GAPS_SHOWN_MS and tp in self.progress
        }
        before = {partition.source: partition for partition in self.partitions}
        self.partitions = sorted(with_since((gaps | found).values(), before))

    def _still_failed(self) -> Iterator[PartitionStatus]:
        """Yields partitions that stand where slices of the layout before could not copy a record: those of this one may
        not have come to it yet."""
        earlier = [
            status
            for report in self._earlier_reports.values()
            if report.layout >= self._layout - 1
            for status in report.partitions
        ]
        if not earlier:
            return
        reported = {tp for slot, tps in enumerate(self._slots) if slot in self._slice_reports for tp in tps}
        for status in earlier:
            known = self.progress.get(status.source)
            if known is not None and status.offset == known.position and status.source not in reported:
                yield status


def _waiting(why: Mapping[TopicPartition, str], now_ms: int) -> dict[TopicPartition, PartitionStatus]:
    return {tp: PartitionStatus(*tp, PartitionState.WAITING, now_ms, text) for tp, text in why.items()}

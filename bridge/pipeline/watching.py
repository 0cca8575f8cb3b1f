"""What the clusters tell the driver while slices copy: progress, gaps, and what slices have to say."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Coroutine, Mapping, Sequence, Set
from dataclasses import replace

from bridge.errors import KafkaFailure
from bridge.kafka.bounds import bounds
from bridge.kafka.link import Link
from bridge.kafka.state_topics import CommittedTail
from bridge.kafka.tail import TopicTail
from bridge.pipeline.gaps import read_ledger
from bridge.pipeline.layout_records import SliceReport, report_key
from bridge.translation.copying import Copied, Gap, PipelineSpec, Progress
from bridge.translation.fields import SchemaError
from bridge.translation.model import Bounds, CopyId, LogRecord, TopicPartition
from bridge.translation.runs import OffsetRun

GAPS_SHOWN = 100
_LOOK = 0.5
"""Seconds between looks at the state topics."""
_ENDS_EVERY = 2.0
"""Seconds between questions for the source's log ends."""


def advanced(before: Progress | None, run: OffsetRun, written_ms: int, began_ms: int) -> Progress:
    """Progress after a run that was committed at `written_ms`. A run that was merged from older ones, or committed
    before the pipeline was started (`began_ms`), adds nothing to the counters. Pure."""
    if before is None:
        return Progress(run.source, run.position)
    new = run.upstream_end - max(run.upstream_start, before.position)
    if run.upstream_start < before.position or new <= 0 or written_ms < began_ms:
        return replace(before, position=max(before.position, run.position))
    latency = max(0, written_ms - run.last_timestamp) if run.last_timestamp >= 0 else -1
    return replace(
        before,
        position=run.position,
        records=before.records + new - run.skipped,
        bytes=before.bytes + run.size,
        record_age_ms=latency,
        replication_latency_ms=latency,
    )


class Watcher:
    """One driver's view; `run` keeps it fresh."""

    def __init__(self, spec: PipelineSpec, source: Link, target: Link) -> None:
        self._spec, self._source, self._target = spec, source, target
        self._runs, self._ledger = (
            CommittedTail(target, spec.runs_topic),
            CommittedTail(target, spec.gaps_topic),
        )
        self._reports = TopicTail(target, spec.layout_topic)
        self._looking = asyncio.Lock()
        self._asked, self._began_ms = 0.0, int(time.time() * 1000)
        self._layout = 0
        self._wanted: Sequence[Copied] = ()
        self._ids: Set[CopyId] = frozenset()
        self._said: dict[int, SliceReport] = {}
        self._trouble: dict[str, str] = {}
        self._copies: dict[CopyId, Progress] = {}
        """Of every copy that the runs topic tells of: which of them are wanted is told later."""
        self.progress: dict[TopicPartition, Progress] = {}
        self.gaps: deque[Gap] = deque(maxlen=GAPS_SHOWN)
        self.gap_counts: Counter[str] = Counter()
        """Of the whole ledger, by kind."""

    def new_layout(self, layout: int, wanted: Sequence[Copied]) -> None:
        self._layout, self._wanted, self._said = layout, wanted, {}
        self._ids = {each.id for each in wanted}
        self.progress = {each.source: self._copies[each.id] for each in wanted if each.id in self._copies}

    def weights(self) -> Mapping[TopicPartition, float]:
        """By partition, what it has cost so far; for the balance of the next layout."""
        return {place: float(each.bytes) for place, each in self.progress.items()}

    @property
    def errors(self) -> list[str]:
        slices = [each.error for _, each in sorted(self._said.items()) if each.error]
        return list(dict.fromkeys([*slices, *self._trouble.values()]))

    @property
    def failure(self) -> str:
        return next((each.failure for each in self._said.values() if each.failure), "")

    @property
    def moved(self) -> bool:
        return any(each.moved for each in self._said.values())

    @property
    def ended(self) -> str:
        return next((each.ended for each in self._said.values() if each.ended), "")

    async def found_again(self, wanted: Sequence[Copied]) -> list[Copied]:
        """What is wanted, with the ids that its topics have now; without the topics that are gone: whoever wants them
        looks for topics itself, and says so when they are back. Raises KafkaFailure."""
        here = await self._source.metadata(sorted({each.source.topic for each in wanted}))
        there = await self._target.metadata(sorted({each.target_topic for each in wanted}))
        return [
            replace(each, source_topic_id=one.topic_id, target_topic_id=other.topic_id)
            for each in wanted
            if not (one := here[each.source.topic]).error
            and not (other := there[each.target_topic]).error
            and each.source.partition in one.partitions.keys() & other.partitions.keys()
        ]

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK)

    async def look(self, *, ends: bool = False) -> None:
        """Reads what is new. What can't be read is an error for the time being. `ends`: the source's log ends too, how
        long ago they were asked for or not."""
        async with self._looking:
            await self._try("runs", self._read_runs())
            await self._try("gaps", self._read_gaps())
            await self._try("reports", self._read_reports())
            if ends or time.monotonic() - self._asked > _ENDS_EVERY:
                self._asked = time.monotonic()
                await self._try("ends", self._ask_ends())

    async def _try(self, what: str, doing: Coroutine[None, None, None]) -> None:
        try:
            await doing
            self._trouble.pop(what, None)
        except KafkaFailure as error:
            self._trouble[what] = str(error)

    async def _read_runs(self) -> None:
        while records := await self._runs.read():
            for record in records:
                self._run(record)

    def _run(self, record: LogRecord) -> None:
        try:
            run = OffsetRun.decode(record.key, record.value) if record.value is not None else None
        except SchemaError:
            return
        if run is not None:
            before = self._copies.get(run.copy)
            self._copies[run.copy] = now = advanced(before, run, record.timestamp, self._began_ms)
            if run.copy in self._ids:
                self.progress[run.source] = now

    async def _read_gaps(self) -> None:
        while records := await self._ledger.read():
            for record in records:
                gap = read_ledger(record.key, record.value)
                if gap is not None and gap.connector in ("", self._spec.name):
                    self.gaps.append(gap)
                    self.gap_counts[gap.kind.value] += 1

    async def _read_reports(self) -> None:
        for record in (await self._reports.read()).records:
            report = SliceReport.decode(record.value)
            if report is None or record.key != report_key(self._spec, report.slot):
                continue  # another connector's, which has layouts of its own
            if report.layout == self._layout:
                self._said[report.slot] = report

    async def _ask_ends(self) -> None:
        places = [each.source for each in self._wanted]
        if not places:
            return
        await self._source.metadata(sorted({place.topic for place in places}))
        found = await bounds(self._source, places, committed_only=self._spec.committed_only)
        for copied in self._wanted:
            before, each = self._copies.get(copied.id), found[copied.source]
            if before is not None and isinstance(each, Bounds):
                now = replace(before, source_end=each.end)
                self._copies[copied.id] = self.progress[copied.source] = now
        for each in found.values():
            if isinstance(each, KafkaFailure):
                raise each  # a partition that can't be asked can't be copied either, and only this tells

"""Keeps how far each copy is, by the records of the runs topic, in the log's order. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bridge.model.copy_samples import NO_LATENCIES, CopySample, Latencies
from bridge.model.copying import Progress
from bridge.model.values import CopyId, LogRecord
from bridge.translation.runs.commit_times import decode_times
from bridge.translation.runs.runs import OffsetRun, commit_times, decode_change


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

    def of(self, copy: CopyId) -> Progress | None:
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

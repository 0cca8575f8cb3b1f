"""How far each copy is, by the records of the runs topic, in the log's order. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bridge.model.copying import Progress
from bridge.model.values import CopyId, LogRecord
from bridge.translation.runs.runs import OffsetRun, decode_change


@dataclass(slots=True)
class _Known:
    progress: Progress
    top: int | None
    """The upstream start of the run that `position` is of; None once that run was dropped."""


class ProgressTable:
    """Of every copy that the runs topic tells of: which of them are wanted is told later."""

    def __init__(self, began_ms: int) -> None:
        """`began_ms`: when the pipeline was started; what was committed before adds nothing to the counters."""
        self._began_ms = began_ms
        self._known: dict[CopyId, _Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, copy: CopyId) -> Progress | None:
        known = self._known.get(copy)
        return None if known is None else known.progress

    def apply(self, record: LogRecord) -> CopyId | None:
        """The copy that has moved. Raises SchemaError."""
        key, run = decode_change(record.key, record.value)
        if run is not None:
            self._run(run, record.timestamp)
            return run.copy
        known = self._known.get(CopyId(key.source, key.target_topic))
        if known is not None and known.top == key.upstream_start:
            known.top = None
        return None

    def _run(self, run: OffsetRun, written_ms: int) -> None:
        known = self._known.get(run.copy)
        if known is None:
            self._known[run.copy] = _Known(
                Progress(*run.source, run.target_topic, run.position), run.upstream_start
            )
        elif known.top is None or (
            known.top == run.upstream_start and run.position < known.progress.position
        ):
            # What was said of the offsets from here on is taken back: the log took another way, or was made anew.
            known.progress, known.top = known.progress._replace(position=run.position), run.upstream_start
        else:
            known.progress = advanced(known.progress, run, written_ms, self._began_ms)
            known.top = max(known.top, run.upstream_start)

    def end(self, copy: CopyId, source_end: int) -> Progress | None:
        """The same with the source's log end as it is now; None for a copy that nothing is known of."""
        known = self._known.get(copy)
        if known is None:
            return None
        known.progress = known.progress._replace(source_end=source_end)
        return known.progress

    def keep(self, copies: Collection[CopyId]) -> None:
        """Forgets all others."""
        self._known = {copy: known for copy, known in self._known.items() if copy in copies}


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

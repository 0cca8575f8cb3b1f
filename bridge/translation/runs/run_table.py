"""Holds the runs of a runs topic, by copy."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.model.state_records.fields import SchemaError
from bridge.model.values import CopyId, LogRecord
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import OffsetRun, RunKey, decode_change


class RunTable:
    """The runs of a topic, applied record by record in the log's order."""

    def __init__(self) -> None:
        self._runs: dict[CopyId, dict[RunKey, OffsetRun]] = {}
        self._nameless: dict[RunKey, CopyId] = {}
        """By key of version 0, the copy that its value has named last."""

    def apply(self, change: tuple[RunKey, OffsetRun | None]) -> set[CopyId]:
        """Applies a record; returns the copies whose runs have changed: two where a key of version 0 now names another
        copy."""
        key, run = change
        before = CopyId(key.source, key.target_topic) if key.target_topic else self._nameless.pop(key, None)
        touched = set()
        if before is not None and before in self._runs:
            touched.add(before)
            self._runs[before].pop(key, None)
            if not self._runs[before]:
                del self._runs[before]
        if run is not None:
            touched.add(run.copy)
            self._runs.setdefault(run.copy, {})[key] = run
            if not key.target_topic:
                self._nameless[key] = run.copy
        return touched

    def clear(self) -> None:
        self._runs.clear()
        self._nameless.clear()

    def of(self, copy: CopyId) -> Iterable[OffsetRun]:
        """Returns the runs of a copy, in no order."""
        return self._runs.get(copy, {}).values()

    def partition_runs(self, copy: CopyId) -> PartitionRuns:
        keys = self._runs.get(copy, {}).keys()
        return PartitionRuns(self.of(copy), [key.upstream_start for key in keys if not key.target_topic])

    @property
    def copies(self) -> Iterable[CopyId]:
        return self._runs.keys()


def read_runs(
    records: Iterable[LogRecord], errors: list[SchemaError] | None = None
) -> dict[CopyId, PartitionRuns]:
    """Reads the runs of a whole runs topic. A record that can't be read costs itself only; its error is added to
    `errors`."""
    table = RunTable()
    for record in records:
        try:
            table.apply(decode_change(record.key, record.value))
        except SchemaError as problem:
            if errors is not None:
                errors.append(problem)
    return {copy: table.partition_runs(copy) for copy in table.copies}

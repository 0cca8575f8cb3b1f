"""Holds what is read of a flow once, before positions are translated: offset runs, offset syncs, and whether the source
answers. It can be sent to other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.errors import KafkaFailure, KafkaFault
from bridge.mm2.offset_sync_store import OffsetSyncStore
from bridge.model.values import CopyId
from bridge.translation.bulk.run_columns import RunColumns
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun

_KEPT = 256
"""Copies whose columns are kept."""


@dataclass(frozen=True)
class Knowledge:
    """Everything read from a flow before its positions are translated. `runs`: of each copy. `syncs`: none where they
    are not asked. `source_fault` and `source_error`: why the source did not answer, None where it did."""

    runs: Mapping[CopyId, tuple[OffsetRun, ...]]
    syncs: OffsetSyncStore
    remarks: tuple[str, ...] = ()
    """Topics that can't be read, and why."""
    source_fault: KafkaFault | None = None
    source_error: str = ""

    @property
    def source_failure(self) -> KafkaFailure | None:
        return None if self.source_fault is None else KafkaFailure(self.source_fault, self.source_error)


@dataclass
class LoadedRuns:
    """The runs, made ready for look-ups as they are asked for."""

    runs: Mapping[CopyId, tuple[OffsetRun, ...]]
    reads: int = 1
    _consistent: dict[CopyId, ConsistentRuns] = field(default_factory=dict)
    _columns: dict[CopyId, RunColumns] = field(default_factory=dict)

    def of(self, copy: CopyId) -> ConsistentRuns:
        """Returns the runs of a copy."""
        if copy not in self._consistent:
            self._consistent[copy] = ConsistentRuns(self.runs.get(copy, ()))
        return self._consistent[copy]

    def columns(self, copy: CopyId) -> RunColumns:
        if copy not in self._columns:
            if len(self._columns) >= _KEPT:
                self._columns.clear()
            self._columns[copy] = RunColumns(self.of(copy))
        return self._columns[copy]

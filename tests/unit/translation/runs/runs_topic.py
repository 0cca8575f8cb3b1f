"""The runs topic of one copied partition."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.copying import Copied
from bridge.model.values import CopyId, LogRecord, TopicPartition
from bridge.translation.runs.partition_runs import Change, PartitionRuns
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.runs import OffsetRun, Segment

PLACE = TopicPartition("orders", 0)
COPY = CopyId(PLACE, "A.orders")
COPIED = Copied(PLACE, "s", "A.orders", "t")
Short = tuple[int, int, int, int]
"""covered_from, upstream_start, downstream_start, position."""


class Topic:
    """The live records of a runs topic, and the slot that writes them."""

    def __init__(self) -> None:
        self.owner = PartitionRuns()
        self.live: dict[bytes, bytes] = {}
        self.written = 0

    def commit(
        self,
        segments: Sequence[Segment],
        position: int,
        copied: Copied = COPIED,
        target_start: int = 0,
        lost_from: int | None = None,
    ) -> list[Change]:
        changes = self.owner.commit(segments, position, copied, target_start, lost_from=lost_from)
        for key, value in changes:
            self.written += len(key) + len(value or b"")
            if value is None:
                self.live.pop(key, None)
            else:
                self.live[key] = value
        return changes

    def read(self) -> list[OffsetRun]:
        runs = read_runs([LogRecord(0, 0, *pair) for pair in self.live.items()])
        return list(runs[COPY].runs) if runs else []

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(key) + len(value) for key, value in self.live.items())

    @property
    def short(self) -> list[Short]:
        assert self.read() == self.owner.runs
        return [
            (run.covered_from, run.upstream_start, run.downstream_start, run.position) for run in self.read()
        ]

"""The ways to a verdict: by records, by the plain timestamp rule, by offset syncs, by syncs and records together."""

from __future__ import annotations

from typing import Protocol

from bridge.translation.bracketing import bracket
from bridge.translation.evidence import agrees, both, by_syncs
from bridge.translation.memory import PartitionMemory
from bridge.translation.model import Reason, TopicPartition, Verdict
from bridge.translation.stretch import LogBounds, Steps
from bridge.translation.sync_store import SyncBounds
from bridge.translation.timestamps import by_timestamp


class Syncs(Protocol):
    """Offset syncs as OffsetSyncStore answers about them."""

    def translate(self, topic_partition: TopicPartition, offset: int, /) -> int | None: ...

    def bounds(self, topic_partition: TopicPartition, offset: int, /) -> SyncBounds | None: ...


class Way(Protocol):
    """`source` is the partition that the group reads; `ends` the bounds of it and of its counterpart."""

    def at_once(
        self,
        source: TopicPartition,
        offset: int,
        remembered: Verdict | None,
        target: LogBounds,
        *,
        late: bool,
    ) -> Verdict | None:
        """The verdict, where it takes no look-up. `remembered`: an exact one that still holds. `late`: the target
        overwrites timestamps."""

    def steps(
        self, source: TopicPartition, offset: int, ends: tuple[LogBounds, LogBounds], memory: PartitionMemory
    ) -> Steps[Verdict]: ...


class ByRecords:
    """Bracketing (design 5.2)."""

    def at_once(
        self,
        source: TopicPartition,
        offset: int,
        remembered: Verdict | None,
        target: LogBounds,
        *,
        late: bool,
    ) -> Verdict | None:
        return remembered

    def steps(
        self, source: TopicPartition, offset: int, ends: tuple[LogBounds, LogBounds], memory: PartitionMemory
    ) -> Steps[Verdict]:
        return bracket(offset, *ends, memory)


class ByTimestamp:
    """The plain rule of KIP-1292 (translation.verify=false)."""

    def at_once(
        self,
        source: TopicPartition,
        offset: int,
        remembered: Verdict | None,
        target: LogBounds,
        *,
        late: bool,
    ) -> Verdict | None:
        return Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE) if late else None

    def steps(
        self, source: TopicPartition, offset: int, ends: tuple[LogBounds, LogBounds], memory: PartitionMemory
    ) -> Steps[Verdict]:
        return by_timestamp(offset, *ends)


class BySyncs:
    """Stock's answers (mm2 3.1), without a look at any record."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs

    def at_once(
        self,
        source: TopicPartition,
        offset: int,
        remembered: Verdict | None,
        target: LogBounds,
        *,
        late: bool,
    ) -> Verdict | None:
        translated = self._syncs.translate(source, offset)
        return by_syncs(offset, translated, self._syncs.bounds(source, offset), target)

    def steps(
        self, source: TopicPartition, offset: int, ends: tuple[LogBounds, LogBounds], memory: PartitionMemory
    ) -> Steps[Verdict]:
        raise AssertionError("syncs answer at once")


class ByBoth:
    """Bracketing within what the syncs say (design 5.4)."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs

    def at_once(
        self,
        source: TopicPartition,
        offset: int,
        remembered: Verdict | None,
        target: LogBounds,
        *,
        late: bool,
    ) -> Verdict | None:
        bounds = self._syncs.bounds(source, offset)
        if late:
            # Copies can't be told by their timestamps. What is left is what stock does, and it is called what it is.
            verdict = by_syncs(offset, self._syncs.translate(source, offset), bounds, target)
            return Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE) if verdict.offset is None else verdict
        if remembered is None:
            return None
        return remembered if agrees(remembered, offset, bounds, target) else None

    def steps(
        self, source: TopicPartition, offset: int, ends: tuple[LogBounds, LogBounds], memory: PartitionMemory
    ) -> Steps[Verdict]:
        return both(offset, *ends, memory, self._syncs.bounds(source, offset))

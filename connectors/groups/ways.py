"""The ways to a verdict: by records, by the plain timestamp rule, by offset syncs, by syncs and records together."""

from __future__ import annotations

from typing import NamedTuple, Protocol

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


class Question(NamedTuple):
    """An offset of `place`, and the ends of its log and of its counterpart's. `late`: the target overwrites
    timestamps."""

    place: TopicPartition
    offset: int
    source: LogBounds
    target: LogBounds
    late: bool


class Way(Protocol):
    def at_once(self, asked: Question, remembered: Verdict | None) -> Verdict | None:
        """The verdict, where it takes no look-up. `remembered`: an exact one that still holds."""

    def steps(self, asked: Question, memory: PartitionMemory) -> Steps[Verdict]: ...


class ByRecords:
    """Bracketing (design 5.2)."""

    def at_once(self, asked: Question, remembered: Verdict | None) -> Verdict | None:
        return remembered

    def steps(self, asked: Question, memory: PartitionMemory) -> Steps[Verdict]:
        return bracket(asked.offset, asked.source, asked.target, memory)


class ByTimestamp:
    """The plain rule of KIP-1292 (translation.verify=false)."""

    def at_once(self, asked: Question, remembered: Verdict | None) -> Verdict | None:
        return Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE) if asked.late else None

    def steps(self, asked: Question, memory: PartitionMemory) -> Steps[Verdict]:
        return by_timestamp(asked.offset, asked.source, asked.target)


class BySyncs:
    """Stock's answers (mm2 3.1), without a look at any record."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs

    def at_once(self, asked: Question, remembered: Verdict | None) -> Verdict | None:
        place, offset = asked.place, asked.offset
        translated = self._syncs.translate(place, offset)
        return by_syncs(offset, translated, self._syncs.bounds(place, offset), asked.target)

    def steps(self, asked: Question, memory: PartitionMemory) -> Steps[Verdict]:
        raise AssertionError("syncs answer at once")


class ByBoth:
    """Bracketing within what the syncs say (design 5.4)."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs
        self._alone = BySyncs(syncs)

    def at_once(self, asked: Question, remembered: Verdict | None) -> Verdict | None:
        if asked.late:
            # Copies can't be told by their timestamps. What is left is what stock does, and it is called what it is.
            verdict = self._alone.at_once(asked, remembered)
            known = verdict is not None and verdict.offset is not None
            return verdict if known else Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE)
        if remembered is None:
            return None
        bounds = self._syncs.bounds(asked.place, asked.offset)
        return remembered if agrees(remembered, asked.offset, bounds, asked.target) else None

    def steps(self, asked: Question, memory: PartitionMemory) -> Steps[Verdict]:
        bounds = self._syncs.bounds(asked.place, asked.offset)
        return both(asked.offset, asked.source, asked.target, memory, bounds)

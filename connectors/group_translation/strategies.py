"""The ways to a verdict: by records, by the plain timestamp rule, by offset syncs, by syncs and records together, and
by offset runs before any of them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from bridge.mm2.offset_sync_store import SyncBounds
from bridge.model.values import (
    CopyId,
    Evidence,
    Judgement,
    Reason,
    TopicPartition,
    Verdict,
)
from bridge.translation.evidence import agrees, are_copies, both, by_syncs, ends_at
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.log_window import LogBounds, Steps
from bridge.translation.records.partition_cache import PartitionMemory
from bridge.translation.records.timestamp_rule import by_timestamp
from bridge.translation.runs.run_evidence import KnownRuns, disagrees, stronger
from bridge.translation.runs.runs import OffsetRun
from connectors.group_translation import scanning
from connectors.group_translation.scanning import Scanning
from connectors.group_translation.verdict_cache import Identity


class Syncs(Protocol):
    """Offset syncs as OffsetSyncStore answers about them."""

    def translate(self, topic_partition: TopicPartition, offset: int, /) -> int | None: ...

    def bounds(self, topic_partition: TopicPartition, offset: int, /) -> SyncBounds | None: ...


class Runs(Protocol):
    """Offset runs as FollowedRuns hands them out."""

    def of(self, copy: CopyId, /) -> KnownRuns: ...

    @property
    def known(self) -> bool: ...


class Question(NamedTuple):
    """An offset of `place`, whose copies are in `target_topic`, and the ends of both logs.

    `late`: the target overwrites timestamps.
    """

    place: TopicPartition
    target_topic: str
    offset: int
    source: LogBounds
    target: LogBounds
    late: bool
    identity: Identity

    @property
    def copy(self) -> CopyId:
        return CopyId(self.place, self.target_topic)


class Way(Protocol):
    def at_once(self, asked: Question, remembered: Verdict | None) -> Verdict | None:
        """The verdict, where it takes no look-up. `remembered`: an exact one that still holds."""

    def steps(self, asked: Question, memory: PartitionMemory) -> Steps[Verdict]: ...


class ByRecords:
    """Bracketing (decision 0002)."""

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
    """Stock's answers (stock §3.1), without a look at any record."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs

    def at_once(self, asked: Question, remembered: Verdict | None) -> Verdict | None:
        place, offset = asked.place, asked.offset
        translated = self._syncs.translate(place, offset)
        return by_syncs(offset, translated, self._syncs.bounds(place, offset), asked.target)

    def steps(self, asked: Question, memory: PartitionMemory) -> Steps[Verdict]:
        raise AssertionError("syncs answer at once")


class ByBoth:
    """Bracketing within what the syncs say (decision 0010)."""

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


class ByRuns:
    """Offset runs, and another way where they leave a bound or say nothing (docs/offset-runs.md, decision 0010);
    where that leaves one too, the target's batch headers may settle it.

    One look on either side at the record that the newest run ends with, whenever there is a newer one or a log may be
    another, shows whether the runs are of the logs that are there now. Copies that went through transforms differ from
    their records: nothing but runs tells of them then, and of that record its timestamp on the target.
    """

    def __init__(self, runs: Runs, otherwise: Way) -> None:
        self._runs, self._otherwise = runs, otherwise
        self._scanning = Scanning()
        self._seen: dict[CopyId, tuple[OffsetRun, Identity, bool]] = {}
        """The newest run when it was looked at, and whether it held."""

    def at_once(self, asked: Question, remembered: Verdict | None) -> Verdict | None:
        if remembered is not None and remembered.evidence is Evidence.RUN:
            remembered = None  # runs say themselves whether it still holds
        found, last = self._ask(asked)
        if found is None or last is None:
            return self._otherwise.at_once(asked, remembered)
        holds = self._known(asked, last)
        if holds is None:
            return None
        if not holds or found.judgement is Judgement.EXACT:
            return found if holds else disagrees(found, last)
        best: Verdict | None = found
        if not self._runs.of(asked.copy).transformed:
            other = self._otherwise.at_once(asked, remembered)
            best = None if other is None else stronger(found, other)
        return None if best is None or self._scan_due(asked, best) else best

    def steps(self, asked: Question, memory: PartitionMemory) -> Steps[Verdict]:
        found, last = self._ask(asked)
        if found is None or last is None:
            return (yield from self._otherwise.steps(asked, memory))
        holds = self._known(asked, last)
        if holds is None:
            holds = yield from _holds(asked, last, memory)
            self._seen[asked.copy] = last, asked.identity, holds
        if not holds:
            return disagrees(found, last)
        if found.judgement is Judgement.EXACT:
            return found
        other: Verdict | None = None
        if not self._runs.of(asked.copy).transformed:
            other = self._otherwise.at_once(asked, None) or (yield from self._otherwise.steps(asked, memory))
        best = found if other is None else stronger(found, other)
        if self._scan_due(asked, best):
            yield from self._scan(asked.copy, asked.offset, asked.target, asked.source)
            now, _ = self._ask(asked)
            if now is None:
                return other or disagrees(found, last)
            best = now if other is None else stronger(now, other)
        return best

    def target_from(self, copy: CopyId, offset: int) -> int:
        """Where on the target the copies begin that count for an offset; 0 where all count."""
        return self._runs.of(copy).target_from(offset)

    def last(self, copy: CopyId) -> OffsetRun | None:
        """The newest run."""
        return self._runs.of(copy).last

    @property
    def known(self) -> bool:
        """Whether there are runs at all: then offsets can be translated without the source."""
        return self._runs.known

    @property
    def unfinished(self) -> bool:
        """Whether there was more to read of the target than this round had room for."""
        return self._scanning.unfinished

    @property
    def remembered(self) -> int:
        """Copies whose runs were held against the logs."""
        return len(self._seen)

    def end_round(self, *, whole: bool = True) -> None:
        self._scanning.end_round(whole=whole)
        self._seen = {copy: seen for copy, seen in self._seen.items() if self._runs.of(copy).last is not None}

    def without_source(
        self, copy: CopyId, offset: int, target_id: str, target: LogBounds
    ) -> Steps[Verdict | None]:
        """What runs and the target alone say; None where they say nothing. Runs that did not hold when the source was
        asked last are not believed, nor are later ones of the same topics."""
        known, places = self._runs.of(copy), self._scanning.places
        found, last = known.translate(offset, target_id, target, places=places), known.last
        if found is None or last is None:
            return None
        run, _, holds = self._seen.get(copy, (last, None, True))
        if not holds and run.incarnation == last.incarnation:
            return disagrees(found, last)
        if self._scanning.due(known.held(offset), offset, target, scanning.ALONE_BYTES):
            yield from self._scan(copy, offset, target)
            found = known.translate(offset, target_id, target, places=places)
        return found

    def _scan_due(self, asked: Question, best: Verdict) -> bool:
        held = self._runs.of(asked.copy).held(asked.offset)
        return best.judgement is Judgement.BOUNDED and self._scanning.due(
            held, asked.offset, asked.target, scanning.ROUND_BYTES, asked.source
        )

    def _scan(
        self, copy: CopyId, offset: int, target: LogBounds, source: LogBounds | None = None
    ) -> Steps[None]:
        run = self._runs.of(copy).held(offset)
        if run is not None:
            yield from self._scanning.steps(run, offset, target, source)

    def _ask(self, asked: Question) -> tuple[Verdict | None, OffsetRun | None]:
        known, identity = self._runs.of(asked.copy), asked.identity
        told = identity.target_id, asked.target, identity.source_id, asked.source
        return known.translate(asked.offset, *told, self._scanning.places), known.last

    def _known(self, asked: Question, last: OffsetRun) -> bool | None:
        """Whether the newest run holds; None when nobody has looked yet."""
        run, identity, holds = self._seen.get(asked.copy, (None, None, False))
        return holds if (run, identity) == (last, asked.identity) else None


def _holds(asked: Question, last: OffsetRun, memory: PartitionMemory) -> Steps[bool]:
    """Whether nothing speaks against it that the newest run ends with a record and its copy. Where the target
    overwrites timestamps no copy can be told by its record."""
    if asked.late:
        return True
    downstream = last.downstream_end - 1
    if last.transformed:
        same = yield from ends_at(downstream, last.last_timestamp, asked.target, memory)
    else:
        same = yield from are_copies(last.upstream_end - 1, downstream, asked.source, asked.target, memory)
    return same is not False

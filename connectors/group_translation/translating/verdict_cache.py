"""Keeps verdicts and partition memories between rounds, as long as what they rest on holds.

Keyed by topic id, partition, offset and leader epoch (decision 0010): an exact verdict whose ids, epochs and offset
have not moved costs no look-up. No answer depends on it: after a restart the look-ups are made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.model.values import Bounds, Evidence, Judgement, TopicPartition, Verdict
from bridge.translation.records.copied_twice import AnotherMirror
from bridge.translation.records.extent import Extent
from bridge.translation.records.log_window import LogBounds
from bridge.translation.records.partition_cache import PartitionMemory


@dataclass(frozen=True, slots=True)
class PairIdentity:
    """Topic ids and leader epochs of a pair of partitions: when one changes, all that was remembered is dropped."""

    source_id: str
    source_epoch: int
    target_id: str
    target_epoch: int


@dataclass(slots=True)
class CachedPair:
    identity: PairIdentity
    memory: PartitionMemory = field(default_factory=PartitionMemory)
    verdicts: dict[int, tuple[Verdict, int]] = field(default_factory=dict)
    """Exact verdicts by source offset, with the target's end then."""
    extents: dict[tuple[LogBounds, LogBounds], Extent | None] = field(default_factory=dict)
    """What another mirror has copied where no run of ours covers the source, by the bounds of both logs there."""
    source_start: int | None = None
    """The source's log start when it last answered."""
    last_run_end: int = -1
    """Where on the target our newest copy stood in the last round."""
    others: LogBounds | None = None
    """The newest place that holds no copy of ours when others' records were last looked at."""
    another: AnotherMirror = field(default_factory=AnotherMirror)
    """What another mirror has copied beside ours."""


class VerdictCache:
    """Keeps exact verdicts and partition memories, by pair of partitions."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[TopicPartition, TopicPartition], CachedPair] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def memory(
        self, source: TopicPartition, target: TopicPartition, identity: PairIdentity
    ) -> PartitionMemory:
        return self.pair(source, target, identity).memory

    def recall(
        self,
        source: TopicPartition,
        target: TopicPartition,
        identity: PairIdentity,
        offset: int,
        bounds: tuple[Bounds, Bounds],
    ) -> Verdict | None:
        """Returns the exact verdict on `offset`, if it still holds. `bounds`: of source and target now."""
        cached = self.pair(source, target, identity).verdicts.get(offset)
        source_now, target_now = bounds
        return _holds(cached, target_now) if source_now.start <= offset <= source_now.end else None

    def another_mirror(self, source: TopicPartition, target: TopicPartition) -> AnotherMirror:
        """Returns what is known of another mirror's copies beside ours."""
        pair = self._pairs.get((source, target))
        return AnotherMirror() if pair is None else pair.another

    def seen(
        self, source: TopicPartition, target: TopicPartition, identity: PairIdentity, start: int
    ) -> None:
        """Notes the source's log start."""
        self.pair(source, target, identity).source_start = start

    def source_start(self, source: TopicPartition, target: TopicPartition) -> int | None:
        """Returns the source's log start when it last answered; None for not known."""
        pair = self._pairs.get((source, target))
        return None if pair is None else pair.source_start

    def extents(
        self, source: TopicPartition, target: TopicPartition
    ) -> dict[tuple[LogBounds, LogBounds], Extent | None]:
        """Returns what is known of copies by another mirror."""
        pair = self._pairs.get((source, target))
        return {} if pair is None else pair.extents

    def recall_without_source(
        self, source: TopicPartition, target: TopicPartition, target_id: str, offset: int, target_now: Bounds
    ) -> Verdict | None:
        """Returns the same while the source can't be asked, unless it rests on runs, which are translated by again.
        `target_now`: the target's bounds."""
        pair = self._pairs.get((source, target))
        if pair is None or (pair.identity.target_id, pair.identity.target_epoch) != (
            target_id,
            target_now.leader_epoch,
        ):
            return None
        cached = _holds(pair.verdicts.get(offset), target_now)
        return None if cached is None or cached.evidence is Evidence.RUN else cached

    def remember(
        self,
        source: TopicPartition,
        target: TopicPartition,
        identity: PairIdentity,
        offset: int,
        verdict: Verdict,
        target_end: int,
    ) -> None:
        pair = self.pair(source, target, identity)
        # One that lacks records is looked up again: they may arrive, or go from the source.
        if verdict.judgement is Judgement.EXACT and verdict.not_on_target == 0:
            pair.verdicts[offset] = (verdict, target_end)

    def keep(
        self, seen: Mapping[tuple[TopicPartition, TopicPartition], set[int]], *, whole: bool = True
    ) -> None:
        """Forgets the verdicts on offsets that no group is committed at, and, unless the round broke off (`whole`), the
        pairs that are not in `seen`."""
        if whole:
            self._pairs = {pair: kept for pair, kept in self._pairs.items() if pair in seen}
        for pair in seen.keys() & self._pairs.keys():
            kept = self._pairs[pair]
            if len(kept.verdicts) > len(seen[pair]):
                kept.verdicts = {
                    offset: cached for offset, cached in kept.verdicts.items() if offset in seen[pair]
                }

    def pair(self, source: TopicPartition, target: TopicPartition, identity: PairIdentity) -> CachedPair:
        """Returns what is kept of a pair, empty where it is new or another one."""
        pair = self._pairs.get((source, target))
        if pair is None or pair.identity != identity:
            pair = self._pairs[source, target] = CachedPair(identity)
        return pair


def _holds(cached: tuple[Verdict, int] | None, target: Bounds) -> Verdict | None:
    """Returns a verdict that was exact with the target's end then, if it is exact with its bounds now."""
    if cached is None:
        return None
    verdict, end = cached
    assert verdict.offset is not None
    if not target.start <= verdict.offset <= target.end or target.start >= target.end:
        return None
    if "next_copy" not in verdict.detail and end != target.end:
        return None  # it was exact because nothing had come yet; something has
    return verdict

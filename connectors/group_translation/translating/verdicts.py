"""Verdicts on committed offsets: where each stands on the other cluster, and what is remembered of that.

One portion of a round goes through `GroupVerdicts.of` once: which offsets there are, what the clusters answer about
their partitions (`pair_states`), what takes no look-up (the strategy and `verdict_cache`), and what does (`driver`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from bridge.errors import KafkaFailure
from bridge.model.values import Bounds, Committed, CopyId, Judgement, Reason, TopicPartition, Verdict
from bridge.translation.records.log_window import LogBounds
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.translating.backlog import Behind, copied_to
from connectors.group_translation.translating.driver import Job, translate_all
from connectors.group_translation.translating.pair_states import (
    BothSides,
    PairState,
    TargetOnly,
    both_sides,
    target_only,
)
from connectors.group_translation.translating.partition_pairs import PartitionPair
from connectors.group_translation.translating.strategies import ByRuns, Question, Strategy
from connectors.group_translation.translating.verdict_cache import VerdictCache
from connectors.ports import Cluster

log = logging.getLogger(__name__)

PairOffset = tuple[PartitionPair, int]
GroupOffsets = Mapping[str, Mapping[PartitionPair, Committed]]
"""What groups have committed on the source."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts on the offsets of a portion of a round, and what the round has seen of both logs on the way."""

    by_offset: Mapping[PairOffset, Verdict]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]
    behind: Mapping[TopicPartition, Behind]
    lookups: int
    """Offsets that took look-ups while the source answered."""


class GroupVerdicts:
    """The verdicts of one connector, and what it remembers between rounds."""

    def __init__(self, options: GroupOptions, source: Cluster, target: Cluster, strategy: Strategy) -> None:
        self._options, self._source, self._target, self._strategy = options, source, target, strategy
        self._by_runs = strategy if isinstance(strategy, ByRuns) else None
        """Goes on where the source can't be asked."""
        self._cache = VerdictCache()
        self._seen: dict[PartitionPair, set[int]] = {}
        """Offsets of this round."""

    @property
    def remembered(self) -> int:
        """Pairs of partitions that it knows anything of."""
        return len(self._cache)

    @property
    def unfinished(self) -> bool:
        """Whether some verdicts get closer in the next round, by more of the target than this one has read."""
        return self._by_runs is not None and self._by_runs.unfinished

    def end_round(self, *, whole: bool) -> None:
        """Lets go of what the round read, and of what is remembered of offsets that no group is at any more. `whole`:
        the round did not break off."""
        self._cache.keep(self._seen, whole=whole)
        self._seen = {}
        if self._by_runs is not None:
            self._by_runs.end_round(whole=whole)
        self._source.forget_windows()
        self._target.forget_windows()

    async def of(self, committed: GroupOffsets, source_failure: KafkaFailure | None = None) -> Verdicts:
        """Returns a verdict for every offset that some group is committed at. Raises ClusterAway.

        `source_failure`: why the source as a whole does not answer. Verdicts then rest on runs, and on what was exact
        and still is; the others are pending.
        """
        return await self.at(_offsets(committed), source_failure)

    async def at(
        self,
        offsets: Mapping[PartitionPair, Collection[int]],
        source_failure: KafkaFailure | None = None,
        states: Mapping[PartitionPair, PairState] | None = None,
    ) -> Verdicts:
        """Returns a verdict for each of these offsets. `states`: what the clusters have said about the pairs, where
        they were asked before. Raises ClusterAway."""
        if states is None:
            states = await self.states(list(offsets), source_failure)
        at_once, jobs = self._translations(states, offsets)
        looked_up = await translate_all(
            jobs, self._source, self._target, source_committed_only=self._options.source_committed_only
        )
        behind: Mapping[TopicPartition, Behind] = {}
        if source_failure is None:
            looked_up = {key: self._looked_up(states[key[0]], *key, looked_up[key]) for key in looked_up}
            behind = self._behind({pair: states[pair] for pair in offsets})
            for pair, numbers in offsets.items():
                self._seen.setdefault(pair, set()).update(numbers)
        return Verdicts(
            by_offset=at_once | looked_up,
            source_ends={
                pair[0]: state.source.end for pair in offsets if isinstance(state := states[pair], BothSides)
            },
            target_ends={
                pair[1]: state.target.end
                for pair in offsets
                if not isinstance(state := states[pair], Verdict)
            },
            behind=behind,
            lookups=len(jobs) if source_failure is None else 0,
        )

    async def states(
        self, pairs: Sequence[PartitionPair], source_failure: KafkaFailure | None = None
    ) -> dict[PartitionPair, PairState]:
        """Asks the clusters about pairs of partitions. Raises ClusterAway."""
        timeout_ms = self._options.admin_timeout_ms
        if source_failure is not None:
            return await target_only(pairs, self._target, source_failure, timeout_ms=timeout_ms)
        return await both_sides(
            pairs,
            self._source,
            self._target,
            source_committed_only=self._options.source_committed_only,
            timeout_ms=timeout_ms,
        )

    def _translations(
        self, states: Mapping[PartitionPair, PairState], offsets: Mapping[PartitionPair, Collection[int]]
    ) -> tuple[dict[PairOffset, Verdict], dict[PairOffset, Job]]:
        """Returns the verdicts that take no look-up, and jobs for all others."""
        at_once: dict[PairOffset, Verdict] = {}
        jobs: dict[PairOffset, Job] = {}
        for pair, some in offsets.items():
            for offset in some:
                begun = self._translation(pair, offset, states[pair])
                if isinstance(begun, Verdict):
                    at_once[pair, offset] = begun
                else:
                    jobs[pair, offset] = begun
        return at_once, jobs

    def _translation(self, pair: PartitionPair, offset: int, state: PairState) -> Verdict | Job:
        if isinstance(state, BothSides):
            return self._with_source(pair, offset, state)
        if isinstance(state, TargetOnly):
            return self._without_source(pair, offset, state)
        return state

    def _with_source(self, pair: PartitionPair, offset: int, state: BothSides) -> Verdict | Job:
        bounds = state.source, self._counted(pair, offset, state.target)
        source, target = map(_log_bounds, bounds)
        question = Question(
            pair[0], pair[1].topic, offset, source, target, state.log_append_time, state.identity
        )
        cached = self._cache.recall(*pair, state.identity, offset, bounds)
        at_once = self._strategy.at_once(question, cached)
        if at_once is not None:
            return at_once
        memory = self._cache.memory(*pair, state.identity)
        return Job(*pair, offset, self._strategy.steps(question, memory))

    def _without_source(self, pair: PartitionPair, offset: int, state: TargetOnly) -> Verdict | Job:
        if self._by_runs is None:
            return state.pending
        target = self._counted(pair, offset, state.target)
        cached = self._cache.recall_without_source(*pair, state.target_id, offset, target)
        copy = CopyId(pair[0], pair[1].topic)
        steps = self._by_runs.steps_without_source(
            copy, offset, state.target_id, _log_bounds(target), cached, state.pending
        )
        return Job(*pair, offset, steps)

    def _counted(self, pair: PartitionPair, offset: int, target: Bounds) -> Bounds:
        """Returns the target's bounds without older copies that an operator's reset has had copied again: they are no
        copies of the records from there on."""
        copy = CopyId(pair[0], pair[1].topic)
        start = 0 if self._by_runs is None else self._by_runs.target_from(copy, offset)
        return target if start <= target.start else replace(target, start=min(start, target.end))

    def _looked_up(self, state: PairState, pair: PartitionPair, offset: int, verdict: Verdict) -> Verdict:
        """Remembers a verdict that took look-ups, and returns it with its reason made more precise."""
        if not isinstance(state, BothSides):
            return verdict
        if state.log_append_time and verdict.reason is Reason.COPY_NOT_FOUND:
            verdict = replace(verdict, reason=Reason.TARGET_TIMESTAMP_TYPE)
        if verdict.judgement is Judgement.PENDING:
            log.debug("%s-%d offset %d is not synced: %s", *pair[0], offset, verdict.reason)
        self._cache.remember(*pair, state.identity, offset, verdict, state.target.end)
        return verdict

    def _behind(self, states: Mapping[PartitionPair, PairState]) -> dict[TopicPartition, Behind]:
        """Returns the ends of the source's logs, and up to where they are copied."""
        return {
            pair[0]: (state.source.end, self._copied_to(pair, state))
            for pair, state in states.items()
            if isinstance(state, BothSides)
        }

    def _copied_to(self, pair: PartitionPair, state: BothSides) -> int | None:
        last = None if self._by_runs is None else self._by_runs.last(CopyId(pair[0], pair[1].topic))
        memory = self._cache.memory(*pair, state.identity)
        return copied_to(last, memory, state.identity, state.source, state.target)


def _offsets(committed: GroupOffsets) -> dict[PartitionPair, set[int]]:
    offsets: dict[PartitionPair, set[int]] = {}
    for group_offsets in committed.values():
        for pair, each in group_offsets.items():
            offsets.setdefault(pair, set()).add(each.offset)
    return offsets


def _log_bounds(bounds: Bounds) -> LogBounds:
    return LogBounds(bounds.start, bounds.end)

"""Verdicts on committed offsets: where each stands on the other cluster, and what is remembered of that.

One portion of a round goes through `GroupVerdicts.of` once: which offsets there are, what the clusters answer about
their partitions (`pair_states`), what takes no look-up (the strategy and `verdict_cache`), and what does (`driver`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from bridge.errors import KafkaFailure
from bridge.model.values import Bounds, Committed, CopyId, Judgement, Reason, TopicPartition, Verdict
from bridge.translation.records.copied_twice import AnotherMirror, find_another_mirror
from bridge.translation.records.extent import Extent, extent_of, reach_of_target
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.markers import RunScan
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun
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

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

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
    errors: Sequence[str]
    """What is wrong with copies, as an operator reads it."""


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

    def has_runs(self, copy: CopyId) -> bool:
        """Whether our own mirror has made the copy."""
        return self._by_runs is not None and self._by_runs.ledger(copy).newest is not None

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
        offsets = _offsets(committed)
        states = await self.states(list(offsets), source_failure)
        verdicts = await self.at(offsets, source_failure, states)
        if source_failure is not None or not (others := _without_offsets(offsets, states)):
            return verdicts
        behind = await self._behind_of_others(others)
        return replace(verdicts, behind={**behind, **verdicts.behind})

    async def _behind_of_others(self, pairs: Sequence[PartitionPair]) -> dict[TopicPartition, Behind]:
        """Returns how far partitions are copied that groups will read, and have committed no offset in: records of
        them are missing on the target as others are."""
        states = await self.states(pairs)
        ends = {pair: [state.source.end] for pair, state in states.items() if isinstance(state, BothSides)}
        await self._look_beside(states, ends)
        for pair in ends:
            self._seen.setdefault(pair, set())
        return {pair[0]: (0, None) for pair in pairs} | self._behind(states)

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
        looked_up = await self._look(jobs)
        behind: Mapping[TopicPartition, Behind] = {}
        if source_failure is None:
            looked_up = {key: self._looked_up(states[key[0]], *key, looked_up[key]) for key in looked_up}
            await self._look_beside(states, offsets)
            behind = self._behind({pair: states[pair] for pair in offsets})
            for pair, numbers in offsets.items():
                self._seen.setdefault(pair, set()).update(numbers)
        by_offset = {
            key: self._proven(states[key[0]], *key, verdict, None if source_failure else behind)
            for key, verdict in (at_once | looked_up).items()
        }
        return Verdicts(
            by_offset=by_offset,
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
            errors=self._copied_by_another(by_offset),
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

    async def _look(self, jobs: Mapping[K, Job[T]]) -> dict[K, T | Verdict]:
        return await translate_all(
            jobs, self._source, self._target, source_committed_only=self._options.source_committed_only
        )

    def _translations(
        self, states: Mapping[PartitionPair, PairState], offsets: Mapping[PartitionPair, Collection[int]]
    ) -> tuple[dict[PairOffset, Verdict], dict[PairOffset, Job[Verdict]]]:
        """Returns the verdicts that take no look-up, and jobs for all others."""
        at_once: dict[PairOffset, Verdict] = {}
        jobs: dict[PairOffset, Job[Verdict]] = {}
        for pair, some in offsets.items():
            for offset in some:
                begun = self._translation(pair, offset, states[pair])
                if isinstance(begun, Verdict):
                    at_once[pair, offset] = begun
                else:
                    jobs[pair, offset] = begun
        return at_once, jobs

    def _translation(self, pair: PartitionPair, offset: int, state: PairState) -> Verdict | Job[Verdict]:
        if isinstance(state, BothSides):
            return self._with_source(pair, offset, state)
        if isinstance(state, TargetOnly):
            return self._without_source(pair, offset, state)
        return state

    def _with_source(self, pair: PartitionPair, offset: int, state: BothSides) -> Verdict | Job[Verdict]:
        bounds = state.source, self._counted(pair, offset, state.target)
        source, target = map(_log_bounds, bounds)
        question = Question(
            pair[0],
            pair[1].topic,
            offset,
            source,
            target,
            state.log_append_time,
            state.identity,
            state.compacted,
        )
        cached = self._cache.recall(*pair, state.identity, offset, bounds)
        at_once = self._strategy.at_once(question, cached)
        if at_once is not None:
            return at_once
        memory = self._cache.memory(*pair, state.identity)
        return Job(*pair, offset, self._strategy.steps(question, memory))

    def _without_source(self, pair: PartitionPair, offset: int, state: TargetOnly) -> Verdict | Job[Verdict]:
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
        memory = self._cache.memory(*pair, state.identity)
        newest = None if self._by_runs is None else self._by_runs.ledger(_copy(pair)).newest
        position = copied_to(newest, memory, state.identity, state.source, state.target)
        if newest is None or newest.handed_back:
            by_syncs = self._strategy.reached(pair[0], state.source.end, state.target.end)
            if by_syncs is not None:
                position = max(by_syncs, position or 0)
        return None if position is None else max(position, state.source.start)

    # -- what is not on the target -----------------------------------------------------------------------------------

    async def _look_beside(
        self, states: Mapping[PartitionPair, PairState], offsets: Mapping[PartitionPair, Collection[int]]
    ) -> None:
        """Looks at the target's end, where only its records show how far a partition is copied; and at what another
        mirror has copied where no run of ours covers the source."""
        tails: dict[PartitionPair, Job[None]] = {}
        others: dict[PartitionPair, Job[AnotherMirror]] = {}
        extents: dict[tuple[PartitionPair, LogBounds, LogBounds], Job[Extent | None]] = {}
        for pair, some in offsets.items():
            state = states[pair]
            if not isinstance(state, BothSides):
                continue
            self._cache.seen(*pair, state.identity, state.source.start)
            source, target = _log_bounds(state.source), _log_bounds(state.target)
            memory = self._cache.memory(*pair, state.identity)
            if target.start < target.end and self._copied_to(pair, state) is None:
                tails[pair] = Job(*pair, source.end, reach_of_target(source, target, memory))
            ledger = self._ledger(pair, state)
            if ledger is None:
                continue
            if places := self._others(pair, state, ledger, min(some)):
                looking = find_another_mirror(places, ledger.has_copied, ledger.position or 0, source, target)
                others[pair] = Job(*pair, source.end, looking)
            known = self._cache.extents(*pair)
            for stretch in _stretches(ledger, min(some), source, target):
                if stretch not in known:
                    steps = extent_of(
                        *stretch,
                        compacted=state.compacted,
                        recognisable=not (ledger.transformed or state.log_append_time),
                    )
                    extents[pair, *stretch] = Job(*pair, stretch[0].start, steps)
        await self._look(tails)
        for pair, another in (await self._look(others)).items():
            state = states[pair]
            if isinstance(another, AnotherMirror) and isinstance(state, BothSides):
                kept = self._cache.pair(*pair, state.identity)
                kept.another = kept.another.with_newer(another)
        for (pair, *bounds), extent in (await self._look(extents)).items():
            if not isinstance(extent, Verdict):
                self._cache.extents(*pair)[bounds[0], bounds[1]] = extent

    def _others(
        self, pair: PartitionPair, state: BothSides, ledger: ConsistentRuns, begin: int
    ) -> Sequence[LogBounds]:
        """Returns where on the target others may have copied beside us, the newest first; nothing where that was looked
        at already. Before our first run that concerns groups alone that stand before it. What stands behind our newest
        run may be copies of ours that came after it was read, until a round later it is still the newest."""
        kept, last = self._cache.pair(*pair, state.identity), ledger.last
        if last is None:
            return ()
        tail = LogBounds(last.downstream_end, state.target.end)
        settled = kept.last_run_end == tail.start and not last.handed_back
        kept.last_run_end = tail.start
        places = [tail] if settled and tail.end - tail.start > 1 else []
        places += ledger.others
        first = ledger.runs[0]
        if begin < first.upstream_start and state.target.start < first.downstream_start:
            places.append(LogBounds(state.target.start, first.downstream_start))
        if not places or places[0] == kept.others or state.log_append_time:
            return ()
        kept.others = places[0]
        return places

    def _ledger(self, pair: PartitionPair, state: BothSides | TargetOnly) -> ConsistentRuns | None:
        """Returns the runs of the topics that the clusters have now; None where there are none."""
        ledger = None if self._by_runs is None else self._by_runs.ledger(_copy(pair))
        newest = None if ledger is None else ledger.newest
        if newest is None:
            return None
        if isinstance(state, BothSides):
            ids = state.identity.source_id, state.identity.target_id
            return ledger if ids == (newest.source_topic_id, newest.target_topic_id) else None
        return ledger if state.target_id == newest.target_topic_id else None

    def _proven(
        self,
        state: PairState,
        pair: PartitionPair,
        offset: int,
        verdict: Verdict,
        behind: Mapping[TopicPartition, Behind] | None,
    ) -> Verdict:
        """Returns a verdict with how many records at or after the offset are not on the target: not known, where it is
        not known up to where the partition is copied. `behind`: None while the source as a whole does not answer."""
        if verdict.offset is None:
            return verdict
        if isinstance(state, BothSides) and offset >= state.source.end:
            absent: int | None = 0  # the source has no such record
        else:
            absent = self._absent(state, pair, offset, verdict)
            if behind is not None and behind.get(pair[0], (0, None))[1] is None and not _empty(state):
                absent = None
        verdict = self._read_twice(state, pair, offset, verdict)
        if absent and behind is not None and (to_come := self._to_come(state, pair, offset, behind)):
            verdict = replace(verdict, detail=verdict.detail | {"to_come": min(absent, to_come)})
        return verdict if verdict.not_on_target == absent else replace(verdict, not_on_target=absent)

    def _read_twice(self, state: PairState, pair: PartitionPair, offset: int, verdict: Verdict) -> Verdict:
        """Returns a verdict that is not exact where records behind it stand twice on the target."""
        if isinstance(state, Verdict) or verdict.offset is None:
            return verdict
        place = self._cache.another_mirror(*pair).reaches(offset, verdict.offset)
        if place is None:
            return verdict
        ledger = self._ledger(pair, state)
        more = None if ledger is None else ledger.no_copies(verdict.offset, state.target.end)
        bound = None if more is None or verdict.bound is None else verdict.bound + more
        judgement = Judgement.BOUNDED if verdict.judgement is Judgement.EXACT else verdict.judgement
        detail = verdict.detail | {"copied_twice": place}
        return replace(verdict, judgement=judgement, bound=bound, detail=detail)

    def _copied_by_another(self, by_offset: Mapping[PairOffset, Verdict]) -> list[str]:
        """Names the partitions that another mirror copies beside ours. What an operator has had copied again stands
        twice too, and is no error."""
        reached: dict[PartitionPair, int] = {}
        for (pair, _), verdict in by_offset.items():
            place = verdict.detail.get("copied_twice")
            if isinstance(place, int):
                reached[pair] = max(place, reached.get(pair, -1))
        errors: list[str] = []
        for pair, place in sorted(reached.items()):
            ledger = None if self._by_runs is None else self._by_runs.ledger(_copy(pair))
            if ledger is None or place >= max((start for _, start in ledger.again), default=0):
                source, target = (f"{topic}-{number}" for topic, number in pair)
                errors.append(
                    f"another mirror copies {source} too: its copies stand beside ours in {target}, up to offset "
                    f"{place}, and groups that are committed before it read records twice: stop that mirror, or "
                    "leave the topic to it with topics.exclude"
                )
        return errors

    def _absent(self, state: PairState, pair: PartitionPair, offset: int, verdict: Verdict) -> int | None:
        if isinstance(state, Verdict):
            return None
        ledger = self._ledger(pair, state)
        if ledger is None or ledger.position is None:
            return verdict.not_on_target
        if isinstance(state, TargetOnly):
            # What no run covers was looked at when the source answered last; what the target has lost since shows.
            begin = max(offset, self._cache.source_start(*pair) or 0)
            gone = ledger.below_target(begin, state.target.start, self._scans)
            return None if gone is None else gone + ledger.to_copy_again(begin)
        begin = max(offset, state.source.start)
        if ledger.holds_all(begin, state.target.start):
            absent: int | None = 0
        else:
            absent = self._by_ledger(ledger, pair, begin, state, verdict.not_on_target)
        if absent is None:
            return None
        if state.target.start >= state.target.end:
            return absent + max(0, state.source.end - max(begin, ledger.position))
        return absent + ledger.to_copy_again(begin, state.source.end)

    def _to_come(
        self, state: PairState, pair: PartitionPair, offset: int, behind: Mapping[TopicPartition, Behind]
    ) -> int:
        """Returns how many of the records that are not on the target are yet to be copied: those count as missing
        wherever what the mirror is behind counts."""
        position = behind.get(pair[0], (0, None))[1]
        if not isinstance(state, BothSides) or position is None:
            return 0
        begin = max(offset, state.source.start)
        if _empty(state):
            return max(0, state.source.end - max(begin, position))
        ledger = self._ledger(pair, state)
        return 0 if ledger is None else ledger.to_copy_again(begin, state.source.end)

    @property
    def _scans(self) -> Mapping[OffsetRun, RunScan]:
        return {} if self._by_runs is None else self._by_runs.scans

    def _by_ledger(
        self,
        ledger: ConsistentRuns,
        pair: PartitionPair,
        begin: int,
        state: BothSides,
        by_records: int | None,
    ) -> int | None:
        """Returns how many records from `begin` on neither our runs nor another mirror have left on the target.
        `by_records`: those before the first one there, where no run covers `begin`."""
        absent = ledger.below_target(begin, state.target.start, self._scans)
        known, alone = self._cache.extents(*pair), self._cache.another_mirror(*pair).alone
        logs = _log_bounds(state.source), _log_bounds(state.target)
        for origin, goal in _stretches(ledger, begin, *logs):
            extent = known.get((origin, goal))
            if alone and origin.start <= alone.upstream < origin.end and alone.downstream >= goal.end:
                return None  # another mirror copies this now, behind our copies: it is not known how far
            if absent is None or (extent is None and goal.start < goal.end):
                return None
            if extent is None or extent.begin >= extent.end:
                absent += origin.end - max(begin, origin.start)
            elif begin <= origin.start:
                absent += extent.begin - origin.start + origin.end - extent.end
            elif by_records is None:
                return None
            else:
                tail = origin.end - max(extent.end, begin)
                absent += min(origin.end - begin, by_records + max(0, tail))
        return absent


def _empty(state: PairState) -> bool:
    """Whether the target holds no record: none of the source's is there then, however far the mirror has come."""
    return not isinstance(state, Verdict) and state.target.start >= state.target.end


def _stretches(
    ledger: ConsistentRuns, begin: int, source: LogBounds, target: LogBounds
) -> Iterator[tuple[LogBounds, LogBounds]]:
    """Yields what no run covers from `begin` on, cut to what the logs hold."""
    for stretch in ledger.stretches:
        start, end = max(stretch.begin, source.start), min(stretch.end, source.end)
        if max(start, begin) < end:
            low = min(max(stretch.downstream_begin, target.start), target.end)
            yield LogBounds(start, end), LogBounds(low, max(low, min(stretch.downstream_end, target.end)))


def _copy(pair: PartitionPair) -> CopyId:
    return CopyId(pair[0], pair[1].topic)


def _offsets(committed: GroupOffsets) -> dict[PartitionPair, set[int]]:
    offsets: dict[PartitionPair, set[int]] = {}
    for group_offsets in committed.values():
        for pair, each in group_offsets.items():
            offsets.setdefault(pair, set()).add(each.offset)
    return offsets


def _without_offsets(
    offsets: Mapping[PartitionPair, object], states: Mapping[PartitionPair, PairState]
) -> list[PartitionPair]:
    """Returns the other partitions of the same topics."""
    counts = {
        (source.topic, target.topic): state.partitions
        for source, target in offsets
        if isinstance(state := states[source, target], BothSides)
    }
    pairs = (
        (TopicPartition(source, number), TopicPartition(target, number))
        for (source, target), count in counts.items()
        for number in range(count)
    )
    return [pair for pair in pairs if pair not in offsets]


def _log_bounds(bounds: Bounds) -> LogBounds:
    return LogBounds(bounds.start, bounds.end)

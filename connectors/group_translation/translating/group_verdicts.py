"""Translates committed offsets: where each stands on the other cluster, and whether that is proved.

    offsets that groups have committed
      │  ask        both clusters about each pair of partitions: ids, epochs, log bounds       (`states`)
      │  translate  by what is remembered and by runs at once, else by look-ups at both logs   (`_translations`)
      │  look       at what no offset shows: how far the mirror has come, what others copied   (`_look_beside`)
      ▼  prove      that the records behind each answer are there                              (`proof`)
    verdicts

One portion of a round goes through `GroupVerdicts.of` once. A failure of the target as a whole, and one of the source
that the round did not know of, ends it (ClusterAway); one of a topic or a partition is a pending verdict, and holds up
nothing else. What is remembered between rounds only spares look-ups.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from bridge.errors import KafkaFailure
from bridge.model.values import (
    Bounds,
    CopyId,
    Judgement,
    Reason,
    Side,
    TopicInfo,
    TopicPartition,
    Verdict,
)
from bridge.translation.records.log_window import LogBounds, holds_nothing
from bridge.translation.records.other_mirror import (
    AnotherMirror,
    Extent,
    extent_of,
    find_another_mirror,
    reach_of_target,
)
from bridge.translation.runs.run_evidence import ConsistentRuns
from connectors.cluster_away import ask
from connectors.group_translation.options import GroupOptions
from connectors.group_translation.translating.driver import Job, translate_all
from connectors.group_translation.translating.pairs import (
    BothSides,
    GroupOffsets,
    Lacked,
    PairMemories,
    PairMemory,
    PairState,
    PartitionPair,
    TargetOnly,
    both_sides,
    missing_partition,
    pending_verdict,
    target_only,
    topics_of,
    yet_to_begin,
)
from connectors.group_translation.translating.proof import (
    Behind,
    KnownPair,
    places_of_others,
    settled_to,
    uncovered,
)
from connectors.group_translation.translating.strategies import ByRuns, Question, Strategy
from connectors.ports import Cluster

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

PairOffset = tuple[PartitionPair, int]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts on the offsets of a portion of a round, and what the round has seen of both logs on the way."""

    by_offset: Mapping[PairOffset, Verdict]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]
    behind: Mapping[TopicPartition, Behind]
    lacked: Mapping[PartitionPair, Lacked]
    """Of partitions that some group has yet to begin."""
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
        self._memories = PairMemories()
        self._offsets: dict[PartitionPair, set[int]] = {}
        """Offsets of this round."""

    @property
    def remembered(self) -> int:
        """Pairs of partitions that it knows anything of."""
        return len(self._memories)

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
        self._memories.end_round(self._offsets, whole=whole)
        self._offsets = {}
        if self._by_runs is not None:
            self._by_runs.end_round(whole=whole)
        self._source.forget_windows()
        self._target.forget_windows()

    async def translate(
        self, committed: GroupOffsets, source_failure: KafkaFailure | None = None
    ) -> Verdicts:
        """Returns a verdict for every offset that some group is committed at. Raises ClusterAway.

        `source_failure`: why the source as a whole does not answer. Verdicts then rest on runs, and on what was exact
        and still is; the others are pending.
        """
        offsets = _offsets(committed)
        states = await self.states(list(offsets), source_failure)
        if source_failure is not None:
            verdicts = await self.translate_pairs(offsets, source_failure, states)
            return replace(verdicts, lacked=await self._lacked_by_now({pair[0].topic for pair in offsets}))
        not_begun = yet_to_begin(committed, states)
        if others := [pair for pair in not_begun if pair not in states]:
            states |= await self.states(others)
        verdicts = await self.translate_pairs(offsets, None, states, not_begun)
        for pair, lacked in verdicts.lacked.items():
            self._memories.note_lacked(pair, lacked)
        return verdicts

    def recall_lacked(self, pair: PartitionPair, lacked: Lacked) -> None:
        """Takes over what the target lacked of a partition that some group has yet to begin, before this instance
        began."""
        self._memories.note_lacked(pair, lacked)

    async def _lacked_by_now(self, topics: Collection[str]) -> dict[PartitionPair, Lacked]:
        """Returns what the target lacks of partitions that some group has yet to begin: what it lacked when the source
        answered last, and has lost since. Raises ClusterAway."""
        pairs = self._memories.lacked(topics)
        if not pairs:
            return {}
        states = await self._target_only(list(pairs), Verdict.pending(Reason.SOURCE_UNREACHABLE))
        by_now: dict[PartitionPair, Lacked] = {}
        for pair, noted in pairs.items():
            state = states[pair]
            if not isinstance(state, TargetOnly):
                by_now[pair] = Lacked(None, None)
                continue
            known = self._known(pair, state, source_away=True)
            of_another = known.ledger is None and self.has_runs(_copy(pair))
            if of_another or noted.lost_since(state.target_id, state.target):
                noted = Lacked(known.lacks_by_now(noted), state.target.start)
            by_now[pair] = noted
        return by_now

    async def translate_pairs(
        self,
        offsets: Mapping[PartitionPair, Collection[int]],
        source_failure: KafkaFailure | None = None,
        states: Mapping[PartitionPair, PairState] | None = None,
        not_begun: Collection[PartitionPair] = (),
    ) -> Verdicts:
        """Returns a verdict for each of these offsets. `states`: what the clusters have said about the pairs, where
        they were asked before; `not_begun`: partitions with states of which it is told besides what the target
        lacks. Raises ClusterAway."""
        if states is None:
            states = await self.states(list(offsets), source_failure)
        starts = {
            pair: [state.source.start] for pair in not_begun if isinstance(state := states[pair], BothSides)
        }
        by_records = {pair: at for pair in starts if (at := self._asked_of_records(pair, states[pair]))}
        at_once, jobs = self._translations(states, _merged(offsets, by_records))
        looked_up = await self._look(jobs)
        if source_failure is None:
            looked_up = {key: self._looked_up(states[key[0]], *key, looked_up[key]) for key in looked_up}
            for pair, numbers in _merged(offsets, starts).items():
                self._offsets.setdefault(pair, set()).update(numbers)
        known = await self.known(_merged(offsets, starts), states, source_failure)
        by_offset = {
            (pair, offset): known[pair].prove(offset, verdict) if pair in known else verdict
            for (pair, offset), verdict in (at_once | looked_up).items()
        }
        both = {
            pair: (known_pair.state.source.end, known_pair.position)
            for pair, known_pair in known.items()
            if isinstance(known_pair.state, BothSides)
        }
        return Verdicts(
            by_offset=by_offset,
            source_ends={pair[0]: end for pair, (end, _) in both.items()},
            target_ends={pair[1]: known_pair.state.target.end for pair, known_pair in known.items()},
            behind={}
            if source_failure is not None
            else {pair[0]: (0, None) for pair in (*offsets, *not_begun) if not _gone(states[pair])}
            | {pair[0]: behind for pair, behind in both.items()},
            lacked={pair: self._lacked(pair, known.get(pair), by_offset) for pair in not_begun},
            lookups=len(jobs) if source_failure is None else 0,
            errors=self._copied_by_another(by_offset),
        )

    async def known(
        self,
        offsets: Mapping[PartitionPair, Collection[int]],
        states: Mapping[PartitionPair, PairState],
        source_failure: KafkaFailure | None = None,
    ) -> dict[PartitionPair, KnownPair]:
        """Returns what proofs of verdicts on these offsets rest on, having looked at what no offset shows; nothing of
        pairs that are pending."""
        if source_failure is None:
            await self._look_beside(states, offsets)
        return {
            pair: self._known(pair, state, source_away=source_failure is not None)
            for pair in offsets
            if not isinstance(state := states[pair], Verdict)
        }

    async def holding_nothing(
        self, stretches: Collection[tuple[PartitionPair, LogBounds]]
    ) -> set[tuple[PartitionPair, LogBounds]]:
        """Returns those of these stretches of the target's logs that hold no data record. A log only grows at its end,
        so each is looked at once. Raises ClusterAway."""
        known = {pair: memory.nothing_in for pair, _ in stretches if (memory := self._memories.last(pair))}
        jobs = {
            (pair, stretch): Job(*pair, stretch.start, holds_nothing(Side.TARGET, stretch))
            for pair, stretch in stretches
            if stretch not in known.get(pair, {})
        }
        for (pair, stretch), nothing in (await self._look(jobs)).items():
            if isinstance(nothing, bool):
                known.setdefault(pair, {})[stretch] = nothing
        return {(pair, stretch) for pair, stretch in stretches if known.get(pair, {}).get(stretch)}

    # -- asking ------------------------------------------------------------------------------------------------------

    async def states(
        self, pairs: Sequence[PartitionPair], source_failure: KafkaFailure | None = None
    ) -> dict[PartitionPair, PairState]:
        """Asks for topics and log bounds, in two requests to each cluster; the target alone while the source does not
        answer. Raises ClusterAway."""
        if source_failure is not None:
            return await self._target_only(pairs, pending_verdict(Side.SOURCE, source_failure))
        originals, copies = await asyncio.gather(
            self._topics(Side.SOURCE, [pair[0] for pair in pairs]),
            self._topics(Side.TARGET, [pair[1] for pair in pairs]),
        )
        topics = {pair: topics_of(pair, originals, copies) for pair in pairs}
        present = {pair: infos for pair, infos in topics.items() if not isinstance(infos, Verdict)}
        source_bounds, target_bounds = await asyncio.gather(
            self._bounds(Side.SOURCE, [pair[0] for pair in present]),
            self._bounds(Side.TARGET, [pair[1] for pair in present]),
        )
        return {
            pair: infos
            if isinstance(infos, Verdict)
            else self._unless_cut_off(
                pair, both_sides(*infos, source_bounds[pair[0]], target_bounds[pair[1]])
            )
            for pair, infos in topics.items()
        }

    async def _target_only(
        self, pairs: Sequence[PartitionPair], unanswered: Verdict
    ) -> dict[PartitionPair, PairState]:
        topics = await self._topics(Side.TARGET, [pair[1] for pair in pairs])
        states: dict[PartitionPair, PairState] = {}
        present: dict[PartitionPair, TopicInfo] = {}
        for pair in pairs:
            info = topics[pair[1].topic]
            if isinstance(info, KafkaFailure):
                states[pair] = pending_verdict(Side.TARGET, info)
            elif pair[1].partition >= info.partitions:
                states[pair] = missing_partition(Reason.TARGET_PARTITION_MISSING, pair[1], info)
            else:
                present[pair] = info
        bounds = await self._bounds(Side.TARGET, [pair[1] for pair in present])
        return states | {
            pair: self._unless_cut_off(pair, target_only(info, bounds[pair[1]], unanswered))
            for pair, info in present.items()
        }

    def _unless_cut_off(self, pair: PartitionPair, state: PairState) -> PairState:
        """Returns the state of a pair; a pending verdict where a replica leads the target's partition that lacks what
        came last (unclean.leader.election.enable=true), and no source shows what that was."""
        if not isinstance(state, TargetOnly):
            return state
        ledger = self._ledger(pair, state)
        runs_end = ledger.runs[-1].downstream_end if ledger is not None and ledger.runs else 0
        ended = self._memories.note_end_alone(pair, state.target_id, state.target.end, runs_end)
        if ended is None:
            return state
        said = (
            f"a replica without the last records leads {pair[1].topic}-{pair[1].partition} on the target: its log has "
            f"ended at {ended}, and ends at {state.target.end}"
        )
        return Verdict.pending(Reason.COPIES_UNKNOWN, said=said)

    async def _topics(
        self, side: Side, partitions: Sequence[TopicPartition]
    ) -> Mapping[str, TopicInfo | KafkaFailure]:
        names = sorted({tp.topic for tp in partitions})
        return await ask(side, self._cluster(side).topics(names), self._options.admin_timeout_ms)

    async def _bounds(
        self, side: Side, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Bounds | KafkaFailure]:
        # The request is made in here: a caller that makes one for a task that is cancelled before it begins, as at the
        # end of an instance, leaves a coroutine that nobody awaits, which Python reports on standard error.
        committed_only = side is Side.TARGET or self._options.source_committed_only
        asked = self._cluster(side).bounds(partitions, committed_only=committed_only)
        return await ask(side, asked, self._options.admin_timeout_ms)

    def _cluster(self, side: Side) -> Cluster:
        return self._source if side is Side.SOURCE else self._target

    # -- translating -------------------------------------------------------------------------------------------------

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
        target = self._counted(pair, offset, state.target)
        question = Question(
            pair[0],
            pair[1].topic,
            offset,
            _log_bounds(state.source),
            _log_bounds(target),
            state.log_append_time,
            state.identity,
            state.compacted,
        )
        memory = self._memories.get(pair, state.identity)
        at_once = self._strategy.at_once(question, memory.recall(offset, state.source, target))
        if at_once is not None:
            return at_once
        return Job(*pair, offset, self._strategy.steps(question, memory.records))

    def _without_source(self, pair: PartitionPair, offset: int, state: TargetOnly) -> Verdict | Job[Verdict]:
        if self._by_runs is None:
            return state.pending
        target, memory = self._counted(pair, offset, state.target), self._memories.last(pair)
        cached = None if memory is None else memory.recall_without_source(offset, state.target_id, target)
        steps = self._by_runs.steps_without_source(
            _copy(pair), offset, state.target_id, _log_bounds(target), cached, state.pending
        )
        return Job(*pair, offset, steps)

    def _counted(self, pair: PartitionPair, offset: int, target: Bounds) -> Bounds:
        """Returns the target's bounds without older copies that an operator's reset has had copied again: they are no
        copies of the records from there on."""
        start = 0 if self._by_runs is None else self._by_runs.target_from(_copy(pair), offset)
        return target if start <= target.start else replace(target, start=min(start, target.end))

    def _looked_up(self, state: PairState, pair: PartitionPair, offset: int, verdict: Verdict) -> Verdict:
        """Remembers a verdict that took look-ups, and returns it with its reason made more precise."""
        if not isinstance(state, BothSides):
            return verdict
        memory = self._memories.get(pair, state.identity)
        if _overwritten(state, memory) and verdict.reason is Reason.COPY_NOT_FOUND:
            verdict = replace(verdict, reason=Reason.TARGET_TIMESTAMP_TYPE)
        if verdict.judgement is Judgement.PENDING:
            log.debug("%s-%d offset %d is not synced: %s", *pair[0], offset, verdict.reason)
        memory.remember(offset, verdict, state.target.end)
        return verdict

    # -- looking beside the offsets ----------------------------------------------------------------------------------

    async def _look_beside(
        self, states: Mapping[PartitionPair, PairState], offsets: Mapping[PartitionPair, Collection[int]]
    ) -> None:
        """Looks at the target's end, where only its records show how far a partition is copied; at what another mirror
        has copied where no run of ours covers the source; and at what it has copied beside ours."""
        tails: dict[PartitionPair, Job[None]] = {}
        extents: dict[tuple[PartitionPair, tuple[LogBounds, LogBounds]], Job[Extent | None]] = {}
        others: dict[PartitionPair, Job[AnotherMirror]] = {}
        memories: dict[PartitionPair, PairMemory] = {}
        reads = 0 if self._by_runs is None else self._by_runs.reads
        for pair, some in offsets.items():
            state = states[pair]
            if not isinstance(state, BothSides):
                continue
            memories[pair] = memory = self._memories.get(pair, state.identity)
            memory.source_start, memory.target_start = state.source.start, state.target.start
            self._memories.note_end(pair, state.identity.target_id, state.target.end)
            source, target = _log_bounds(state.source), _log_bounds(state.target)
            overwritten = _overwritten(state, memory)
            if target.start < target.end and self._copied_to(pair, state) is None:
                tails[pair] = Job(*pair, source.end, reach_of_target(source, target, memory.records))
            ledger = self._ledger(pair, state)
            if ledger is None:
                continue
            if places := places_of_others(memory, ledger, state, min(some), reads, settled_only=overwritten):
                looking = find_another_mirror(
                    places,
                    ledger.copied_before,
                    source,
                    target,
                    memory.turn,
                    recognisable=not overwritten,
                    settled=settled_to(memory, ledger),
                )
                others[pair] = Job(*pair, source.end, looking)
                memory.turn += 1
            recognisable = not (ledger.transformed or overwritten)
            for stretch in uncovered(ledger, min(some), state):
                if stretch not in memory.extents:
                    steps = extent_of(*stretch, compacted=state.compacted, recognisable=recognisable)
                    extents[pair, stretch] = Job(*pair, stretch[0].start, steps)
        await self._look(tails)
        for (pair, stretch), extent in (await self._look(extents)).items():
            if not isinstance(extent, Verdict):
                memories[pair].extents[stretch] = extent
        for pair, another in (await self._look(others)).items():
            if isinstance(another, AnotherMirror):
                memories[pair].another = memories[pair].another.with_newer(another)

    def _copied_to(self, pair: PartitionPair, state: BothSides) -> int | None:
        """Returns up to where a source partition is copied for certain, None for not known: the position of our newest
        run, or, where another mirror goes on behind it, what the target's last records and syncs show."""
        newest = None if self._by_runs is None else self._by_runs.ledger(_copy(pair)).newest
        source, target, identity = state.source, state.target, state.identity
        if newest is None or newest.handed_back:
            position = _reached(self._memories.get(pair, identity), source, target)
            by_syncs = self._strategy.reached(pair[0], source.end, target.end)
            if by_syncs is not None:
                position = max(by_syncs, position or 0)
            return None if position is None else max(position, source.start)
        ids = (newest.source_topic_id, identity.source_id), (newest.target_topic_id, identity.target_id)
        if any(then and now and then != now for then, now in ids):
            return source.start  # a topic was created again, and nothing of it is copied yet
        return max(newest.position, source.start) if newest.downstream_end <= target.end else None

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

    # -- proving -----------------------------------------------------------------------------------------------------

    def _known(self, pair: PartitionPair, state: BothSides | TargetOnly, *, source_away: bool) -> KnownPair:
        scans = {} if self._by_runs is None else self._by_runs.scans
        ledger = self._ledger(pair, state)
        position = None
        if isinstance(state, BothSides) and not source_away:
            position = self._copied_to(pair, state)
        return KnownPair(state, self._memories.last(pair), ledger, scans, position, source_away)

    def _asked_of_records(self, pair: PartitionPair, state: PairState) -> list[int]:
        """Returns the offsets that show what the target holds of a partition that some group has yet to begin: where
        the source begins if there are no runs, one of the newest run if it was not compared with these logs yet."""
        if not isinstance(state, BothSides):
            return []
        ledger = self._ledger(pair, state)
        if ledger is not None:
            compared = not ledger.runs or self._are_compared(pair, state)
            return [] if compared else [ledger.runs[-1].upstream_start]
        is_record = state.source.start < state.source.end and state.target.start < state.target.end
        return [state.source.start] if is_record else []

    def _are_compared(self, pair: PartitionPair, state: BothSides) -> bool:
        return self._by_runs is not None and self._by_runs.are_compared(_copy(pair), state.identity)

    def _lacked(
        self, pair: PartitionPair, known: KnownPair | None, by_offset: Mapping[PairOffset, Verdict]
    ) -> Lacked:
        """Returns how many records of a partition, at most, the copy is past and the target does not hold."""
        if known is None or not isinstance(state := known.state, BothSides):
            return Lacked(None, None)
        lacks = self._lacks(pair, known, state, by_offset)
        return Lacked(lacks, state.target.start, state.source.start, state.identity.target_id)

    def _lacks(
        self,
        pair: PartitionPair,
        known: KnownPair,
        state: BothSides,
        by_offset: Mapping[PairOffset, Verdict],
    ) -> int | None:
        if self._by_runs is not None and known.ledger is not None and not state.log_append_time:
            agreed = self._by_runs.agreed(_copy(pair), state.identity)
            if agreed is False or (known.ledger.runs and not self._are_compared(pair, state)):
                return None
        verdict = by_offset.get((pair, state.source.start))
        return known.lacks_from_start(None if verdict is None else verdict.not_on_target)

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
            if ledger is None or place >= ledger.target_from(ledger.position or 0):
                source, target = (f"{topic}-{number}" for topic, number in pair)
                errors.append(
                    f"another mirror has copied {source} too: its copies stand beside ours in {target}, up to offset "
                    f"{place}, and groups that are committed before it read records twice until they have passed "
                    "it: stop that mirror if it still runs, or leave the topic to it with topics.exclude"
                )
        return errors


def _gone(state: PairState) -> bool:
    """Whether the source has no such partition, and so no record that the target could lack."""
    return isinstance(state, Verdict) and state.reason is Reason.SOURCE_TOPIC_MISSING


def _overwritten(state: BothSides, memory: PairMemory) -> bool:
    """Whether the target overwrites timestamps. Records show it before the topic's configs are described again."""
    return state.log_append_time or memory.records.append_time


def _reached(memory: PairMemory, source: Bounds, target: Bounds) -> int | None:
    """Returns up to where another mirror has copied for certain: the source's end where its last record was found on
    the target, since records before that show how far a group has come, not the mirror."""
    if target.end == 0:
        return source.start  # nothing was ever written there
    records = memory.records
    seen = records.tail_seen == (source.end, target.end)
    return records.reached if records.reached >= source.end or seen else None


def _copy(pair: PartitionPair) -> CopyId:
    return CopyId(pair[0], pair[1].topic)


def _offsets(committed: GroupOffsets) -> dict[PartitionPair, set[int]]:
    offsets: dict[PartitionPair, set[int]] = {}
    for group_offsets in committed.values():
        for pair, position in group_offsets.items():
            offsets.setdefault(pair, set()).add(position.offset)
    return offsets


def _merged(
    offsets: Mapping[PartitionPair, Collection[int]], more: Mapping[PartitionPair, Collection[int]]
) -> Mapping[PartitionPair, Collection[int]]:
    if not more:
        return offsets
    return {**offsets, **{pair: {*offsets.get(pair, ()), *some} for pair, some in more.items()}}


def _log_bounds(bounds: Bounds) -> LogBounds:
    return LogBounds(bounds.start, bounds.end)

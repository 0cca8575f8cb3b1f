"""Proves what a verdict says: that the records that a group has not read are on the target now. Pure.

    source   [start .... offset #################### position ~~~~~~~~ end)
    target        [start .. answer  copies * others' records  * copies .. end)       *: our own markers

A verdict knows where the group goes on. It is a yes only where each record marked # stands at the answer or behind it.

- Up to where the partition is copied (`position`) is known by our newest run, or by the target's last records. Where it
  is not known, nothing is.
- Our runs say which of # were never copied (a stretch that none covers), stood below the target's log start, or are to
  be copied again. What another mirror has left in a stretch lies between its first and its last copy there (`Extent`).
- Without runs it is what precedes, at or after the offset, the original of the first copy at the answer: a verdict by
  records brings that along.
- `exact` says besides that no copy by another mirror stands at the answer or behind it, nor a record of which nobody
  can tell that it is none (`AnotherMirror`).

`not_on_target` of a verdict: 0 is proof, a count is at most so many, None is not known, which is no yes
(`deny_unproved`).

Finds where on the target others may have copied beside us: between our runs, and behind the newest one. Pure.

    target   ... [ run ) x x [ run ) * [ newest run ) x x x ~ ~ ~ )    x: not ours; *: our marker; ~: not settled
                                                          seen    end

What stands behind the newest run may be copies of ours that came after the runs were read. What stood there before they
were read again, and the same one was the newest still, is none.

Counts the records of the source that are not on the target yet, and since when. Pure.

Those records would be lost if the source were gone now. Their age is bounded by observations of the source's end:
whatever lies beyond an end that was seen at a time was appended after it.

The same observations show whether copying goes on, whoever copies: it does not, while records are missing and none of
them was copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bridge.model.values import Bounds, Flag, Judgement, Reason, TopicPartition, Verdict
from bridge.translation.records.log_window import LogBounds
from bridge.translation.records.other_mirror import AnotherMirror, turns_of
from bridge.translation.runs.markers import RunScan
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun
from connectors.base import Missing
from connectors.group_translation.translating.pairs import (
    BehindRuns,
    BothSides,
    Lacked,
    PairMemory,
    TargetOnly,
)

_MOST_OBSERVATIONS = 64
"""Observations kept of a partition; of more every second one goes, which makes an age longer, never shorter."""
_CLOCK_STEP_MS = 1_000
"""The wall clock was set where it differs by more from the monotonic one."""
Behind = tuple[int, int | None]
"""The end of a source partition, and up to where it is copied: None for not known."""


class ProvedFrom(NamedTuple):
    """An answer by runs for an offset from `source` on that stands at `target` or behind is proved as it is."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class KnownPair:
    """All that a proof rests on, of one pair of partitions.

    `ledger`: the runs of the topics that the clusters have now, None where there are none; `scans`: what headers have
    shown of them; `position`: up to where the source is copied, None for not known; `source_away`: the source as a
    whole does not answer.
    """

    state: BothSides | TargetOnly
    memory: PairMemory | None
    ledger: ConsistentRuns | None
    scans: Mapping[OffsetRun, RunScan]
    position: int | None
    source_away: bool

    def prove(self, offset: int, verdict: Verdict) -> Verdict:
        """Returns a verdict with how many records at or after the offset are not on the target, and no longer exact
        where a reader comes to copies of another mirror."""
        if verdict.offset is None:
            return verdict
        verdict = self._without_what_never_comes(offset, verdict)
        absent = self._absent(offset, verdict.not_on_target)
        if absent and not self.source_away:
            verdict = replace(verdict, detail={**verdict.detail, **self._counted_before(offset, absent)})
        verdict = self._read_twice(offset, verdict)
        return verdict if verdict.not_on_target == absent else replace(verdict, not_on_target=absent)

    def lacks_from_start(self, by_records: int | None) -> int | None:
        """Returns how many of the source's records, at most, the copy is past and the target does not hold: what who
        begins at the source's log start would miss, beside what is yet to be copied. None for not known.
        `by_records`: those before the first one on the target, where there is no ledger."""
        state = self.state
        if not isinstance(state, BothSides):
            return None
        begin = state.source.start
        if self.ledger is None and self._target_is_empty:
            return None if self.position is None else max(0, self.position - begin)
        absent = self._absent(begin, by_records, at_most=True)
        return absent and absent - sum(self._counted_before(begin, absent).values())

    def lacks_by_now(self, noted: Lacked) -> int | None:
        """The same while the source is away and the target has lost some: what it lacked then (`noted`), and has lost
        since."""
        state = self.state
        if noted.records is None or noted.target_start is None or self.ledger is None:
            return None
        if not isinstance(state, TargetOnly) or noted.target_id not in ("", state.target_id):
            return None
        begin, ends = noted.source_start, (noted.target_start, state.target.start)
        before, now = (self.ledger.below_target(begin, end, self.scans, at_most=True) for end in ends)
        lost = self.ledger.uncovered_between(begin, *ends)
        return None if before is None or now is None else noted.records + now - before + lost

    @property
    def proved_from(self) -> ProvedFrom | None:
        """Which answers by runs `prove` leaves as they are, with nothing missing on the target, so that of many offsets
        only the others take it; None for not one."""
        state, ledger = self.state, self.ledger
        if ledger is None or self._target_is_empty or ledger.beyond_target(0, state.target.end):
            return None
        begin = ledger.stretches[-1].end if ledger.stretches else 0
        if isinstance(state, BothSides):
            if self.position is None or ledger.to_copy_again(begin, state.source.end):
                return None
            begin = 0 if begin <= state.source.start else begin
        elif ledger.to_copy_again(begin):
            return None
        # What follows stands at the answer or behind it. One at the target's start may have been moved up to it.
        copies = state.target.start + 1 if state.target.start else 0
        another = AnotherMirror() if self.memory is None else self.memory.another
        return ProvedFrom(begin, max(copies, another.newest + 1))

    @property
    def _source_start(self) -> int:
        """The source's log start, when it last answered."""
        if isinstance(self.state, BothSides):
            return self.state.source.start
        return (self.memory.source_start or 0) if self.memory else 0

    @property
    def _target_is_empty(self) -> bool:
        """None of the source's records is there then, however far the mirror has come."""
        return self.state.target.start >= self.state.target.end

    def _without_what_never_comes(self, offset: int, verdict: Verdict) -> Verdict:
        """Returns a verdict on an empty target without the records before the offset that are yet to be copied, where
        copying goes on at the offset or behind it: a look at the target can't know that."""
        position = None if self.ledger is None else self.ledger.position
        if not self._target_is_empty or position is None or position < offset or not verdict.bound:
            return verdict
        flags = tuple(flag for flag in verdict.flags if flag is not Flag.AHEAD_OF_MIRROR)
        return replace(verdict, judgement=Judgement.EXACT, bound=0, flags=flags)

    def _absent(self, offset: int, by_records: int | None, *, at_most: bool = False) -> int | None:
        state, ledger = self.state, self.ledger
        if isinstance(state, BothSides) and offset >= state.source.end:
            return 0  # the source has no such record
        cut_off = ledger is not None and ledger.beyond_target(0, state.target.end) > 0
        if self.position is None and not self.source_away and (cut_off or not self._target_is_empty):
            return None
        if ledger is None or ledger.position is None:
            return by_records
        if isinstance(state, TargetOnly):
            # What no run covers was looked at when the source answered last; what the target has lost since shows.
            begin, target_start = max(offset, self._source_start), state.target.start
            since = 0 if self.memory is None else self.memory.target_start or 0
            lost = ledger.uncovered_between(begin, since, target_start)
            if self.memory is None and not lost and ledger.stretches and ledger.stretches[-1].end > begin:
                return None
            gone = ledger.below_target(begin, target_start, self.scans)
            return None if gone is None else gone + lost + ledger.to_copy_again(begin)
        begin = max(offset, state.source.start)
        if ledger.holds_all(begin, state.target.start):
            absent: int | None = 0
        else:
            absent = self._by_runs(ledger, state, begin, by_records, at_most=at_most)
        if absent is None:
            return None
        if self._target_is_empty:
            return absent + max(0, state.source.end - max(begin, ledger.position))
        return absent + ledger.to_copy_again(begin, state.source.end)

    def _by_runs(
        self,
        ledger: ConsistentRuns,
        state: BothSides,
        begin: int,
        by_records: int | None,
        *,
        at_most: bool,
    ) -> int | None:
        """Returns how many records from `begin` on neither our runs nor another mirror have left on the target.
        `by_records`: those before the first one there, where no run covers `begin`."""
        absent = ledger.below_target(begin, state.target.start, self.scans, at_most=at_most)
        memory = self.memory or PairMemory(state.identity)
        alone = memory.another.alone
        for origin, goal in uncovered(ledger, begin, state):
            extent = memory.extents.get((origin, goal))
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
                before = max(by_records, extent.begin - begin)
                absent += min(origin.end - begin, before + max(0, origin.end - max(extent.end, begin)))
        return absent

    def _counted_before(self, offset: int, absent: int) -> dict[str, int]:
        """Returns how many of the absent records count as missing wherever what the mirror is behind counts: those that
        are yet to be copied (`to_come`), or lie behind the position, which may be further on than is known
        (`beyond_position`)."""
        state, ledger = self.state, self.ledger
        if not isinstance(state, BothSides) or self.position is None:
            return {}
        begin, word = max(offset, state.source.start), "to_come"
        if self._target_is_empty:
            count = max(0, state.source.end - max(begin, self.position))
        elif ledger is not None:
            count = ledger.to_copy_again(begin, state.source.end)
        else:
            count, word = begin + absent - max(begin, self.position), "beyond_position"
        return {word: min(absent, count)} if count > 0 else {}

    def _read_twice(self, offset: int, verdict: Verdict) -> Verdict:
        assert verdict.offset is not None
        ledger = self.ledger or ConsistentRuns([])
        another = AnotherMirror() if self.memory is None else self.memory.another
        place = another.reaches(offset, verdict.offset, lambda upstream: ledger.held(upstream) is not None)
        word = "copied_twice"
        if place is None:
            # What the source deleted before the group read it is no reason to doubt, nor what was there before ours.
            first = ledger.runs[0].downstream_start if ledger.runs else 0
            if another.unknown < max(verdict.offset, first) or offset < self._source_start:
                return verdict
            place, word = another.unknown, "others_unknown"
        more = ledger.no_copies(verdict.offset, self.state.target.end) if ledger.runs else None
        bound = None if more is None or verdict.bound is None else verdict.bound + more
        judgement = Judgement.BOUNDED if verdict.judgement is Judgement.EXACT else verdict.judgement
        detail = verdict.detail | {word: place}
        return replace(verdict, judgement=judgement, bound=bound, detail=detail)


def deny_unproved(verdict: Verdict, *, source_away: bool = False) -> Verdict:
    """Returns a verdict pending where records behind its offset are missing on the target, or not known to be there:
    the offset is right, and a consumer would skip what is not there. `source_away`: what was known when the source
    answered last still counts, unless the target has lost something since."""
    absent = verdict.not_on_target
    if verdict.judgement is Judgement.PENDING or absent == 0 or (absent is None and source_away):
        return verdict
    reason = Reason.COPIES_UNKNOWN if absent is None else Reason.RECORDS_NOT_ON_TARGET
    if absent is not None and verdict.detail.get("to_come") == absent:
        reason = Reason.NOT_MIRRORED_YET
    detail = verdict.detail if absent is None else verdict.detail | {"not_on_target": absent}
    return replace(verdict, judgement=Judgement.PENDING, reason=reason, detail=detail)


def uncovered(ledger: ConsistentRuns, begin: int, state: BothSides) -> Iterator[tuple[LogBounds, LogBounds]]:
    """Yields what no run covers from `begin` on, and where its copies can stand, cut to what the logs hold."""
    source, target = state.source, state.target
    for stretch in ledger.stretches:
        start, end = max(stretch.begin, source.start), min(stretch.end, source.end)
        if max(start, begin) < end:
            low = min(max(stretch.downstream_begin, target.start), target.end)
            yield LogBounds(start, end), LogBounds(low, max(low, min(stretch.downstream_end, target.end)))


def places_of_others(
    memory: PairMemory,
    ledger: ConsistentRuns,
    state: BothSides,
    begin: int,
    reads: int,
    *,
    settled_only: bool,
) -> Sequence[LogBounds]:
    """Returns these places, the newest first; nothing where they were looked at often enough. Before our first run that
    concerns groups alone that stand before it (`begin`). `reads`: how often the runs were read; `settled_only`: copies
    of ours can't be recognised."""
    last = ledger.last
    if last is None:
        return ()
    behind = _behind_runs(memory, last, state.target, reads)
    place, settled = behind.others, behind.others is not None
    if place is None and reads == 1 and not settled_only:
        place = behind.place  # a service that begins does not wait for another round
    is_room = place is not None and place.end - place.start > 1 and not last.handed_back
    places = [*([place] if place is not None and is_room else []), *ledger.others]
    first = ledger.runs[0]
    if begin < first.upstream_start and state.target.start < first.downstream_start:
        places.append(LogBounds(state.target.start, first.downstream_start))
    if not places:
        return ()
    if memory.not_ours != (places[0], settled):
        memory.not_ours, memory.looks = (places[0], settled), 0
    if memory.looks >= turns_of(places):
        return ()
    memory.looks += 1
    # What is known already says nothing new.
    twice = memory.another.twice
    known = 0 if twice is None else twice.downstream + 1
    return [LogBounds(max(place.start, known), place.end) for place in places if place.end > known]


def settled_to(memory: PairMemory, ledger: ConsistentRuns) -> int:
    """Returns up to where on the target no copy of ours can stand that no run tells of."""
    behind = memory.behind_runs
    if behind is not None and behind.others is not None:
        return behind.others.end
    return 0 if ledger.last is None else ledger.last.downstream_end


def _behind_runs(memory: PairMemory, last: OffsetRun, target: Bounds, reads: int) -> BehindRuns:
    known, place = memory.behind_runs, LogBounds(last.downstream_end, target.end)
    if known is None or known.place.start != place.start:
        known = BehindRuns(reads, place)
    elif reads > known.reads:
        known = BehindRuns(reads, place, known.place)
    memory.behind_runs = known
    return known


class _Stuck(NamedTuple):
    """Up to where a partition was copied, and when records beyond that were seen first (ms), by the wall clock and by
    the monotonic one: only that says for how long."""

    copied_to: int
    at_ms: int
    monotonic_ms: int


class Backlog:
    """The missing records of the partitions that a connector's groups read."""

    def __init__(self) -> None:
        self._observed: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """Times (ms) with the source's end then, oldest first; the first one is the newest end that is copied whole."""
        self._last_missing: dict[TopicPartition, Missing] = {}
        self._stuck: dict[TopicPartition, _Stuck] = {}

    @property
    def missing(self) -> Mapping[TopicPartition, Missing]:
        """The missing records of each partition, as of the last round."""
        return self._last_missing

    def observations(self, tp: TopicPartition) -> int:
        """How many ends of the source's partition are remembered."""
        return len(self._observed.get(tp, ()))

    def after(
        self, at_ms: int, behind: Mapping[TopicPartition, Behind], monotonic_ms: int | None = None
    ) -> dict[TopicPartition, Missing | None]:
        """Returns what a round changed that began at `at_ms` and has seen `behind`; None for partitions it did not
        see. `monotonic_ms`: the beginning by the monotonic clock; None where the wall clock is never set."""
        monotonic_ms = at_ms if monotonic_ms is None else monotonic_ms
        now = {tp: self._missing(tp, at_ms, monotonic_ms, *behind[tp]) for tp in behind}
        changed: dict[TopicPartition, Missing | None] = {
            tp: missing for tp, missing in now.items() if self._last_missing.get(tp) != missing
        }
        for tp in self._last_missing.keys() - now.keys():
            changed[tp] = None
            self._forget(tp)
        self._last_missing = now
        return changed

    def _missing(
        self, tp: TopicPartition, at_ms: int, monotonic_ms: int, end: int, copied_to: int | None
    ) -> Missing:
        if copied_to is None:
            self._forget(tp)
            return Missing()
        observed = self._observed.setdefault(tp, deque())
        position, seen_end = observed[-1] if observed else (at_ms, end)
        if end < seen_end or at_ms < position:
            # The log was truncated or the topic created again, so offsets are other records now; or the clock was set
            # back.
            self._observed[tp] = observed = deque()
            if end < seen_end:
                self._stuck.pop(tp, None)
        observed.append((at_ms, end))
        while len(observed) > 1 and observed[1][1] <= copied_to:
            observed.popleft()
        if len(observed) > _MOST_OBSERVATIONS:
            self._observed[tp] = observed = deque([observed[0], *list(observed)[1::2]])
        records = max(0, end - copied_to)
        if not records:
            self._stuck.pop(tp, None)
            return Missing(0)
        since_ms, covered = observed[0]
        return Missing(
            records,
            since_ms if covered <= copied_to else -1,
            self._stuck_since_ms(tp, at_ms, monotonic_ms, copied_to),
        )

    def _stuck_since_ms(self, tp: TopicPartition, at_ms: int, monotonic_ms: int, copied_to: int) -> int:
        stuck = self._stuck.get(tp)
        if stuck is None or stuck.copied_to != copied_to:
            self._stuck[tp] = _Stuck(copied_to, at_ms, monotonic_ms)
            return -1
        by_monotonic_ms = at_ms - (monotonic_ms - stuck.monotonic_ms)
        if abs(by_monotonic_ms - stuck.at_ms) > _CLOCK_STEP_MS:
            self._stuck[tp] = stuck = stuck._replace(at_ms=by_monotonic_ms)
        return stuck.at_ms

    def _forget(self, tp: TopicPartition) -> None:
        self._observed.pop(tp, None)
        self._stuck.pop(tp, None)

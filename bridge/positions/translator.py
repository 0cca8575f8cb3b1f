"""Translates tables of positions of one flow, one table after the other; keeps connections and what it has learned in
between.

Answers as arrays: for each position an offset on the target, a bound, and codes for the words of a verdict.

Verdicts on many offsets of many partitions: by arrays of runs where these settle them, else as the service does.

What runs say is proved for all offsets of a partition together, where its runs cover what follows, else for each by
itself. Look-ups are the slow part, and there may be a million of them: only so many are made, for those first of which
nothing is known without. The others keep the bound that their run gives, or stay not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bridge.errors import KafkaFailure
from bridge.model.values import (
    Committed,
    CopyId,
    Evidence,
    Flag,
    Judgement,
    Reason,
    Side,
    TopicPartition,
    Verdict,
)
from bridge.positions.flow import Flow, Knowledge, LoadedRuns
from bridge.translation.bulk.run_columns import Mask, Numbers, PartitionLogs, RunAnswers
from bridge.translation.records.log_window import LogBounds
from connectors.cluster_away import ClusterAway
from connectors.group_translation.translating.group_verdicts import GroupVerdicts
from connectors.group_translation.translating.pairs import BothSides, PairState, PartitionPair, TargetOnly
from connectors.group_translation.translating.proof import KnownPair, deny_unproved
from connectors.group_translation.translating.strategies import ByRuns
from connectors.ports import Clusters

UNKNOWN = -1
"""Of offset, bound and missing records, where there is none."""
VERDICTS = [judgement.value for judgement in Judgement]
EVIDENCES = [evidence.value for evidence in Evidence]
REASONS = [reason.value for reason in Reason]
FLAGS = [flag.value for flag in Flag]
_VERDICT_CODE = {judgement: code for code, judgement in enumerate(Judgement)}
_EVIDENCE_CODE: dict[Evidence | None, int] = {None: -1} | {
    evidence: code for code, evidence in enumerate(Evidence)
}
_REASON_CODE: dict[Reason | None, int] = {None: -1} | {reason: code for code, reason in enumerate(Reason)}
_FLAG_BIT = {flag: 1 << code for code, flag in enumerate(Flag)}
_CHUNK = 5_000
"""Positions whose look-ups are made together: bounds what is held of both logs."""
_PASSES = 16
"""How often scans of one chunk go on that had no room in the pass before."""
PairOffset = tuple[PartitionPair, int]
Places: TypeAlias = npt.NDArray[np.intp]
"""Indices of positions."""
LOOKUPS = 10_000
"""Positions that are looked up on the clusters where nothing else settles them, unless it is said otherwise."""


@dataclass(frozen=True, slots=True)
class AnswerArrays:
    """Arrays with one element for each position. Codes are indices into VERDICTS, EVIDENCES and REASONS, -1 for none;
    `flags` has a bit for each of FLAGS."""

    offset: Numbers
    bound: Numbers
    not_on_target: Numbers
    """Records behind the position that the target lacks, at most: see `Verdict.not_on_target`."""
    verdict: npt.NDArray[np.int8]
    evidence: npt.NDArray[np.int8]
    reason: npt.NDArray[np.int8]
    flags: npt.NDArray[np.int8]

    @staticmethod
    def empty(count: int) -> AnswerArrays:
        """Answers that say nothing yet: pending, not looked at yet."""
        answers = AnswerArrays(
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            *(np.empty(count, np.int8) for _ in range(4)),
        )
        answers.set(slice(None), Verdict.pending(Reason.NOT_LOOKED_AT_YET))
        return answers

    def set(self, at: slice | int | np.intp | npt.NDArray[np.intp], verdict: Verdict) -> None:
        """Sets the same verdict for some positions."""
        self.offset[at] = UNKNOWN if verdict.offset is None else verdict.offset
        self.bound[at] = UNKNOWN if verdict.bound is None else verdict.bound
        absent = None if verdict.offset is None else verdict.not_on_target
        self.not_on_target[at] = UNKNOWN if absent is None else absent
        self.verdict[at] = _VERDICT_CODE[verdict.judgement]
        self.evidence[at] = _EVIDENCE_CODE[verdict.evidence]
        self.reason[at] = _REASON_CODE[verdict.reason]
        self.flags[at] = sum(_FLAG_BIT[flag] for flag in verdict.flags)

    def set_runs(self, begin: int, runs: RunAnswers) -> None:
        """Sets what runs say, which is proved, for those of the positions from `begin` on of which they know."""
        of = np.flatnonzero(runs.known)
        at = begin + of
        bound = runs.bound[of]
        exact, bounded = _VERDICT_CODE[Judgement.EXACT], _VERDICT_CODE[Judgement.BOUNDED]
        self.offset[at], self.bound[at], self.not_on_target[at] = runs.offset[of], bound, 0
        self.verdict[at] = np.where(bound > 0, bounded, exact)
        self.evidence[at], self.reason[at] = _EVIDENCE_CODE[Evidence.RUN], -1
        self.flags[at] = (
            _FLAG_BIT[Flag.AHEAD_OF_MIRROR] * runs.ahead[of] + _FLAG_BIT[Flag.TRUNCATED] * runs.truncated[of]
        )

    def with_last(self, verdict: Verdict) -> AnswerArrays:
        """These answers, and one more behind them."""
        last = AnswerArrays.empty(1)
        last.set(0, verdict)
        both = (np.append(getattr(self, name), getattr(last, name)) for name in self.__slots__)
        return AnswerArrays(*both)

    def take(self, which: npt.NDArray[np.intp]) -> AnswerArrays:
        """The answers at these places, in this order."""
        return AnswerArrays(*(getattr(self, name)[which] for name in self.__slots__))


def verdict_by_runs(runs: RunAnswers, at: int | np.intp) -> Verdict:
    """Returns one of the answers by runs, as `ConsistentRuns.translate` returns it."""
    bound = int(runs.bound[at])
    flags = (Flag.TRUNCATED, runs.truncated[at]), (Flag.AHEAD_OF_MIRROR, runs.ahead[at])
    return Verdict(
        Judgement.BOUNDED if bound else Judgement.EXACT,
        int(runs.offset[at]),
        bound,
        Evidence.RUN,
        flags=tuple(flag for flag, has in flags if has),
    )


class PairOffsets(NamedTuple):
    """Offsets of one pair of partitions, ascending and each once, and where their answers begin. `source_id`: the id of
    the topic that they are offsets of, "" where that is not known."""

    pair: PartitionPair
    offsets: Numbers
    begin: int
    source_id: str = ""


class BulkVerdicts:
    """Keeps between calls what the clusters said about pairs, and how many look-ups are left."""

    def __init__(
        self,
        verdicts: GroupVerdicts,
        runs: LoadedRuns | None,
        by_runs: ByRuns | None,
        lookups: int,
        source_failure: KafkaFailure | None,
        *,
        at_once: bool,
    ) -> None:
        """`runs` and `by_runs`: None where runs do not count. `at_once`: no answer takes a look-up, so that any number
        is answered."""
        self._verdicts, self._runs, self._by_runs = verdicts, runs, by_runs
        self.left = lookups
        self._source_failure, self._at_once = source_failure, at_once
        self._states: dict[PartitionPair, PairState] = {}
        self._probed: dict[PartitionPair, Verdict] = {}

    async def translate(self, asked: Sequence[PairOffsets]) -> AnswerArrays:
        """Returns the answers for all offsets, one pair behind the other. Raises ClusterAway for the target."""
        answers = AnswerArrays.empty(sum(len(offsets.offsets) for offsets in asked))
        await self._ask_states([offsets.pair for offsets in asked])
        run_answers = [self._run_answers(offsets) for offsets in asked]
        await self._compare(zip(asked, run_answers, strict=True))
        known = await self._known(zip(asked, run_answers, strict=True))
        unknown: list[tuple[PairOffsets, Places]] = []
        bounded: list[tuple[PairOffsets, Places]] = []
        for offsets, runs in zip(asked, run_answers, strict=True):
            left = np.arange(len(offsets.offsets))
            if runs is not None:
                left = np.flatnonzero(~runs.known)
                if self._believed(offsets, runs, answers):
                    _prove(offsets, runs, known[offsets.pair], answers)
                    bounded.append((offsets, np.flatnonzero(runs.known & (runs.bound > 0))))
            unknown.append((offsets, self._at_once_pending(offsets, left, answers)))
        await self._look_up(
            [(offsets, int(at)) for offsets, some in (*unknown, *bounded) for at in some], answers
        )
        return answers

    async def _ask_states(self, pairs: Sequence[PartitionPair]) -> None:
        new = [pair for pair in pairs if pair not in self._states]
        if not new:
            return
        try:
            self._states |= await self._verdicts.states(new, self._source_failure)
        except ClusterAway as away:
            if not away.on_source:
                raise
            self._source_failure, self._states = away.failure, {}
            self._states |= await self._verdicts.states(pairs, self._source_failure)

    def _state(self, offsets: PairOffsets) -> PairState:
        """Returns what the clusters say; a pending verdict on offsets of a topic that was deleted and made again."""
        state = self._states[offsets.pair]
        if not offsets.source_id or isinstance(state, Verdict):
            return state
        if isinstance(state, BothSides):
            source_id = state.identity.source_id
        else:  # the newest run says of which topic the copy is
            newest = None if self._runs is None else self._runs.get_runs(_copy(offsets.pair)).newest
            source_id = "" if newest is None else newest.source_topic_id
        return (
            Verdict.pending(Reason.SOURCE_TOPIC_MISSING)
            if source_id not in ("", offsets.source_id)
            else state
        )

    def _run_answers(self, offsets: PairOffsets) -> RunAnswers | None:
        """Returns what runs say; None where there are none."""
        state = self._state(offsets)
        if self._runs is None or isinstance(state, Verdict):
            return None
        logs = PartitionLogs(_target_id(state), LogBounds(state.target.start, state.target.end))
        if isinstance(state, BothSides):
            source = LogBounds(state.source.start, state.source.end)
            logs = logs._replace(source_topic_id=state.identity.source_id, source=source)
        answers = self._runs.columns(_copy(offsets.pair)).translate(offsets.offsets, logs)
        return answers if answers.known.any() else None

    async def _compare(self, run_answers: Iterable[tuple[PairOffsets, RunAnswers | None]]) -> None:
        """Has the newest run of each pair held against both logs, by translating one offset that runs answer."""
        probes: dict[PartitionPair, list[int]] = {}
        for offsets, runs in run_answers:
            state = self._states[offsets.pair]
            if (
                runs is not None
                and isinstance(state, BothSides)
                and self._agreed(offsets.pair, state) is None
            ):
                exact = runs.known & (runs.bound == 0)
                position = int(np.argmax(exact if exact.any() else runs.known))
                probes[offsets.pair] = [int(offsets.offsets[position])]
        if probes:
            verdicts = await self._verdicts.translate_pairs(probes, self._source_failure, self._states)
            self._probed |= {pair: verdict for (pair, _), verdict in verdicts.by_offset.items()}
            self._verdicts.end_round(whole=False)

    async def _known(
        self, run_answers: Iterable[tuple[PairOffsets, RunAnswers | None]]
    ) -> dict[PartitionPair, KnownPair]:
        """Returns what the proof of answers by runs rests on. What other mirrors have copied is looked at once for each
        pair, from the lowest offset on."""
        lowest = {
            offsets.pair: [int(offsets.offsets[np.argmax(runs.known)])]
            for offsets, runs in run_answers
            if runs is not None
        }
        known = await self._verdicts.known(lowest, self._states, self._source_failure)
        self._verdicts.end_round(whole=False)
        return known

    def _agreed(self, pair: PartitionPair, state: BothSides) -> bool | None:
        assert self._by_runs is not None
        return self._by_runs.agreed(_copy(pair), state.identity)

    def _believed(self, offsets: PairOffsets, runs: RunAnswers, answers: AnswerArrays) -> bool:
        """Fills in what runs say, or why they can't be believed; returns whether they are."""
        state = self._states[offsets.pair]
        if isinstance(state, BothSides) and not (agreed := self._agreed(offsets.pair, state)):
            known = offsets.begin + np.flatnonzero(runs.known)
            why = (
                Verdict.pending(Reason.EVIDENCE_DISAGREES) if agreed is False else self._probed[offsets.pair]
            )
            # Where the target ends before the newest run does there was nothing to compare: the proof denies these.
            if why.judgement is Judgement.PENDING:
                answers.set(known, why)
                return False
        answers.set_runs(offsets.begin, runs)
        return True

    def _at_once_pending(self, offsets: PairOffsets, left: Places, answers: AnswerArrays) -> Places:
        """Fills in the reasons that take no look-up, for offsets of which runs say nothing; returns the others."""
        state = self._state(offsets)
        if isinstance(state, Verdict | TargetOnly):
            answers.set(offsets.begin + left, state if isinstance(state, Verdict) else state.pending)
            return left[:0]
        if self._at_once or state.log_append_time:
            return left
        beyond = offsets.offsets[left] > state.source.end
        answers.set(offsets.begin + left[beyond], Verdict.pending(Reason.OFFSET_BEYOND_END))
        return left[~beyond]

    async def _look_up(self, open_: Sequence[tuple[PairOffsets, int]], answers: AnswerArrays) -> None:
        """Looks up as many as are allowed, those first that come first."""
        if not self._at_once:
            open_ = open_[: self.left]
            self.left -= len(open_)
        for begin in range(0, len(open_), _CHUNK):
            places = {
                (offsets.pair, int(offsets.offsets[position])): offsets.begin + position
                for offsets, position in open_[begin : begin + _CHUNK]
            }
            for _ in range(_PASSES):
                again = await self._look_up_chunk(places, answers)
                if not again:
                    break
                places = again

    async def _look_up_chunk(
        self, places: Mapping[PairOffset, int], answers: AnswerArrays
    ) -> dict[PairOffset, int]:
        """Returns those that get closer when they are looked up once more."""
        offsets: dict[PartitionPair, list[int]] = {}
        for pair, offset in places:
            offsets.setdefault(pair, []).append(offset)
        verdicts = await self._verdicts.translate_pairs(offsets, self._source_failure, self._states)
        for key, verdict in verdicts.by_offset.items():
            answers.set(places[key], deny_unproved(verdict))
        unfinished = self._verdicts.unfinished
        self._verdicts.end_round(whole=False)
        if not unfinished:
            return {}
        return {
            key: places[key]
            for key, verdict in verdicts.by_offset.items()
            if verdict.judgement is Judgement.BOUNDED and verdict.evidence is Evidence.RUN
        }


def _prove(offsets: PairOffsets, runs: RunAnswers, known: KnownPair, answers: AnswerArrays) -> None:
    """Has those answers by runs proved one by one that are not proved together."""
    left, proved = runs.known, known.proved_from
    if proved is not None:
        left = left & ((offsets.offsets < proved.source) | (runs.offset < proved.target))
    for at in np.flatnonzero(left):
        verdict = known.prove(int(offsets.offsets[at]), verdict_by_runs(runs, at))
        answers.set(offsets.begin + at, deny_unproved(verdict))


def _copy(pair: PartitionPair) -> CopyId:
    return CopyId(pair[0], pair[1].topic)


def _target_id(state: BothSides | TargetOnly) -> str:
    return state.identity.target_id if isinstance(state, BothSides) else state.target_id


@dataclass(frozen=True)
class PositionColumns:
    """Positions as columns of one length. `topic`: places in `topics`. `topic_ids`: of the topics that they are
    positions of, as far as that is known: where one was made again they are none of the new one."""

    topics: list[str]
    topic: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]
    offset: Numbers
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TranslatedPositions:
    """Answers in the order of the positions. `target`: places in `target_topics`, -1 for positions of topics that the
    flow does not copy."""

    target_topics: list[str]
    target: npt.NDArray[np.int32]
    answers: AnswerArrays


class _Targets(NamedTuple):
    """The names of target topics, and for each partition its place there, -1 for none."""

    names: list[str]
    of_partition: npt.NDArray[np.int32]


class PositionTranslator:
    """Holds clusters open. For use in one event loop."""

    def __init__(
        self, flow: Flow, clusters: Clusters, props: Mapping[str, str], lookups: int = LOOKUPS
    ) -> None:
        self._flow, self._clusters = flow, clusters
        self._source, self._target = clusters.open(Side.SOURCE, props), clusters.open(Side.TARGET, props)
        self._pairs = flow.pairs()
        self._lookups = lookups
        self._bulk: BulkVerdicts | None = None

    async def close(self) -> None:
        await self._clusters.release(self._source)
        await self._clusters.release(self._target)

    async def load(self) -> Knowledge:
        """Reads what there is to know of the flow. Raises ClusterAway for the target."""
        return await self._flow.load(self._source, self._target)

    def use(self, knowledge: Knowledge) -> None:
        """Translates by this from now on."""
        runs = LoadedRuns(knowledge.runs) if self._flow.uses_runs else None
        strategy = self._flow.strategy(knowledge, runs)
        self._bulk = BulkVerdicts(
            GroupVerdicts(self._flow.options, self._source, self._target, strategy),
            runs,
            strategy if isinstance(strategy, ByRuns) else None,
            self._lookups,
            knowledge.source_failure,
            at_once=self._flow.answers_at_once,
        )

    async def translate(self, positions: PositionColumns) -> TranslatedPositions:
        """Raises ClusterAway for the target."""
        assert self._bulk is not None, "use() comes first"
        count = len(positions.offset)
        number = positions.topic.astype(np.int64) << 32 | positions.partition
        order = np.lexsort((positions.offset, number))
        number, offset = number[order], positions.offset[order]
        # Where another position begins, and another partition.
        new_pair = np.append(True, number[1:] != number[:-1])[:count]
        new = new_pair | np.append(True, offset[1:] != offset[:-1])[:count]
        place = np.cumsum(new_pair) - 1
        begins = np.flatnonzero(new_pair)
        asked, targets = self._asked(positions, number, offset, new, begins)
        looked_up = await self._bulk.translate([offsets for offsets in asked if offsets is not None])
        answers = looked_up.with_last(Verdict.pending(Reason.TOPIC_NOT_SELECTED))
        none = len(looked_up.offset)
        # Answers of a partition stand in the order of its offsets, each once.
        first = np.array([none if offsets is None else offsets.begin for offsets in asked], np.int64)
        rank = np.cumsum(new) - 1
        at = first[place] + (rank - rank[begins][place]) * (first[place] < none)
        back = np.empty(count, np.int64)
        back[order] = np.arange(count)
        return TranslatedPositions(targets.names, targets.of_partition[place][back], answers.take(at[back]))

    def _asked(
        self, positions: PositionColumns, number: Numbers, offset: Numbers, new: Mask, begins: Places
    ) -> tuple[list[PairOffsets | None], _Targets]:
        """Returns the questions for each partition, None where the flow does not copy it; and its target topic.
        `number` and `offset`: of the positions, in order."""
        asked: list[PairOffsets | None] = []
        targets: dict[str, int] = {}
        of_partition = np.full(len(begins), -1, np.int32)
        found = 0
        for place, (begin, end) in enumerate(pairwise([*begins, len(offset)])):
            tp = TopicPartition(positions.topics[number[begin] >> 32], int(number[begin] & 0xFFFFFFFF))
            pair = next(iter(self._pairs.paired({tp: Committed(0)})), None)
            if pair is None:
                asked.append(None)
                continue
            offsets = offset[begin:end][new[begin:end]]
            asked.append(PairOffsets(pair, offsets, found, positions.topic_ids.get(tp.topic, "")))
            found += len(offsets)
            of_partition[place] = targets.setdefault(pair[1].topic, len(targets))
        return asked, _Targets(list(targets), of_partition)


async def translate_once(
    flow: Flow, clusters: Clusters, props: Mapping[str, str], positions: PositionColumns, lookups: int
) -> tuple[TranslatedPositions, Knowledge]:
    """Translates one table of positions; returns what it was translated by, too. Raises KafkaFailure for the target."""
    try:
        translator = PositionTranslator(flow, clusters, props, lookups)
        knowledge = await translator.load()
        translator.use(knowledge)
        return await translator.translate(positions), knowledge
    except ClusterAway as away:
        raise away.with_side() from None

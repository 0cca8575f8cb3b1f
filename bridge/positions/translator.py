"""Translates tables of positions of one flow, one table after the other; keeps connections and what it has learned in
between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridge.model.values import Committed, Reason, Side, TopicPartition, Verdict
from bridge.positions.answers import AnswerArrays
from bridge.positions.bulk_verdicts import BulkVerdicts, PairOffsets, Places
from bridge.positions.flow import Flow
from bridge.positions.knowledge import Knowledge, LoadedRuns
from bridge.translation.bulk.run_columns import Mask, Numbers
from connectors.cluster_away import ClusterAway
from connectors.group_translation.translating.group_verdicts import GroupVerdicts
from connectors.group_translation.translating.strategies import ByRuns
from connectors.ports import Clusters

LOOKUPS = 10_000
"""Positions that are looked up on the clusters where nothing else settles them, unless it is said otherwise."""


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
        looked_up = await self._bulk.of([each for each in asked if each is not None])
        answers = looked_up.with_last(Verdict.pending(Reason.TOPIC_NOT_SELECTED))
        none = len(looked_up.offset)
        # Answers of a partition stand in the order of its offsets, each once.
        first = np.array([none if each is None else each.begin for each in asked], np.int64)
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

"""Answers in bulk against those that the service gives a group: the same function of the same world."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import TopicPartition, Verdict
from bridge.positions.answers import EVIDENCES, FLAGS, REASONS, VERDICTS, AnswerArrays
from bridge.positions.bulk_verdicts import BulkVerdicts, PairOffsets
from bridge.positions.flow import Flow
from bridge.positions.knowledge import LoadedRuns
from connectors.group_translation.translating.group_verdicts import GroupVerdicts
from connectors.group_translation.translating.strategies import ByRuns
from tests.support.forms import examples
from tests.unit.connectors.fake_clusters import FakeCluster
from tests.unit.positions.worlds import clusters_of, flow
from tests.unit.translation.copied import CopiedPartition

PAIR = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
AWAY = KafkaFailure(KafkaFault.UNREACHABLE, "gone")
Words = tuple[int | None, str, int | None, str | None, str | None, list[str]]


def words(answers: AnswerArrays, at: int) -> Words:
    offset, bound = int(answers.offset[at]), int(answers.bound[at])
    evidence, reason, flags = int(answers.evidence[at]), int(answers.reason[at]), int(answers.flags[at])
    return (
        None if offset < 0 else offset,
        VERDICTS[answers.verdict[at]],
        None if bound < 0 else bound,
        None if evidence < 0 else EVIDENCES[evidence],
        None if reason < 0 else REASONS[reason],
        [flag for bit, flag in enumerate(FLAGS) if flags >> bit & 1],
    )


def words_of(verdict: Verdict) -> Words:
    return (
        verdict.offset,
        verdict.judgement.value,
        verdict.bound,
        verdict.evidence and verdict.evidence.value,
        verdict.reason and verdict.reason.value,
        sorted((flag.value for flag in verdict.flags), key=FLAGS.index),
    )


async def by_service(
    flow: Flow, source: FakeCluster, target: FakeCluster, offset: int, failure: KafkaFailure | None
) -> Verdict:
    """As a group gets it that is committed there alone, after as many rounds as its answer takes."""
    knowledge = await flow.load(source, target)
    strategy = flow.strategy(knowledge, LoadedRuns(knowledge.runs) if flow.uses_runs else None)
    verdicts = GroupVerdicts(flow.options, source, target, strategy)
    said = await verdicts.at({PAIR: {offset}}, failure)
    return said.by_offset[PAIR, offset]


async def in_bulk(
    flow: Flow,
    source: FakeCluster,
    target: FakeCluster,
    offsets: range,
    failure: KafkaFailure | None,
    lookups: int = 1 << 30,
) -> AnswerArrays:
    knowledge = await flow.load(source, target)
    runs = LoadedRuns(knowledge.runs) if flow.uses_runs else None
    strategy = flow.strategy(knowledge, runs)
    bulk = BulkVerdicts(
        GroupVerdicts(flow.options, source, target, strategy),
        runs,
        strategy if isinstance(strategy, ByRuns) else None,
        lookups,
        failure,
        at_once=flow.answers_at_once,
    )
    return await bulk.of([PairOffsets(PAIR, np.array(offsets, np.int64), 0)])


FLOWS: Mapping[str, Flow] = {
    "runs": flow(),
    "timestamps": flow(translation_verify="false"),
    "both": flow(connector_class="BridgeMirrorCheckpointConnector"),
    "syncs": flow(connector_class="BridgeMirrorCheckpointConnector", translation_evidence="syncs"),
}


@given(st.integers(0, 1 << 32), st.sampled_from(sorted(FLOWS)), st.booleans())
@settings(max_examples=examples(12, 40), deadline=None)
def test_each_offset_gets_what_the_service_gives_a_group(seed: int, kind: str, away: bool) -> None:
    history = CopiedPartition(str(seed))
    source, target = clusters_of(history)
    failure = AWAY if away else None

    async def compare() -> None:
        offsets = range(len(history.source) + 3)
        together = await in_bulk(FLOWS[kind], source, target, offsets, failure)
        for offset in offsets:
            expected = words_of(await by_service(FLOWS[kind], source, target, offset, failure))
            alone = await in_bulk(FLOWS[kind], source, target, range(offset, offset + 1), failure)
            assert words(alone, 0) == expected, offset
            said = words(together, offset)
            if said != expected:
                # A look-up uses what others have seen of the logs, also in a round of the service.
                assert "verified" in (said[3], expected[3]), (offset, said, expected)
                holds(history, offset, said)

    asyncio.run(compare())


def holds(history: CopiedPartition, offset: int, said: Words) -> None:
    """Nothing is skipped, and no more is read twice than the bound says."""
    answer, verdict, bound, *_ = said
    assert (answer is None) == (verdict == "pending")
    if answer is not None and bound is not None:
        assert not history.skipped(offset, answer), (offset, said)
        assert history.reread(offset, answer) <= bound, (offset, said)


@given(st.integers(0, 1 << 32), st.integers(0, 5))
@settings(max_examples=examples(20, 30), deadline=None)
def test_without_look_ups_runs_alone_answer_and_the_rest_is_not_looked_at(seed: int, lookups: int) -> None:
    history = CopiedPartition(str(seed))
    source, target = clusters_of(history)
    offsets = range(len(history.source) + 3)
    said = asyncio.run(in_bulk(FLOWS["runs"], source, target, offsets, None, lookups))
    rest = 0
    for offset in offsets:
        _, verdict, _, evidence, reason, _ = each = words(said, offset)
        if evidence == "run":
            holds(history, offset, each)
        elif reason not in ("offset_beyond_end", "evidence_disagrees"):
            assert verdict != "pending" or reason in ("not_looked_at_yet", "copy_not_found")
            rest += reason != "not_looked_at_yet"
    assert rest <= lookups

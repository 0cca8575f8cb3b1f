"""Answers in bulk against those that the service gives a group: the same function of the same world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import TopicPartition, Verdict
from bridge.positions.flow import Flow, LoadedRuns
from bridge.positions.translator import (
    EVIDENCES,
    FLAGS,
    REASONS,
    VERDICTS,
    AnswerArrays,
    BulkVerdicts,
    PairOffsets,
)
from connectors.group_translation.translating.group_verdicts import GroupVerdicts
from connectors.group_translation.translating.proof import deny_unproved
from connectors.group_translation.translating.strategies import ByRuns
from tests.support.forms import examples
from tests.unit.connectors.fake_clusters import FakeCluster
from tests.unit.connectors.group_translation.mirrored_topic import Flow as MirroredTopic
from tests.unit.positions.worlds import clusters_of, flow
from tests.unit.translation.copied import CopiedPartition

PAIR = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
AWAY = KafkaFailure(KafkaFault.UNREACHABLE, "gone")
Words = tuple[int | None, str, int | None, str | None, str | None, list[str], int | None]


def words(answers: AnswerArrays, at: int) -> Words:
    offset, bound = int(answers.offset[at]), int(answers.bound[at])
    evidence, reason, flags = int(answers.evidence[at]), int(answers.reason[at]), int(answers.flags[at])
    absent = int(answers.not_on_target[at])
    return (
        None if offset < 0 else offset,
        VERDICTS[answers.verdict[at]],
        None if bound < 0 else bound,
        None if evidence < 0 else EVIDENCES[evidence],
        None if reason < 0 else REASONS[reason],
        [flag for bit, flag in enumerate(FLAGS) if flags >> bit & 1],
        None if absent < 0 else absent,
    )


def words_of(verdict: Verdict) -> Words:
    return (
        verdict.offset,
        verdict.judgement.value,
        verdict.bound,
        verdict.evidence and verdict.evidence.value,
        verdict.reason and verdict.reason.value,
        sorted((flag.value for flag in verdict.flags), key=FLAGS.index),
        None if verdict.offset is None else verdict.not_on_target,
    )


async def by_service(
    flow: Flow, source: FakeCluster, target: FakeCluster, offset: int, failure: KafkaFailure | None
) -> Verdict:
    """As a group gets it that is committed there alone, after as many rounds as its answer takes."""
    knowledge = await flow.load(source, target)
    strategy = flow.strategy(knowledge, LoadedRuns(knowledge.runs) if flow.uses_runs else None)
    verdicts = GroupVerdicts(flow.options, source, target, strategy)
    said = await verdicts.translate_pairs({PAIR: {offset}}, failure)
    return deny_unproved(said.by_offset[PAIR, offset])


async def in_bulk(
    flow: Flow,
    source: FakeCluster,
    target: FakeCluster,
    offsets: range,
    failure: KafkaFailure | None,
    lookups: int = 1 << 30,
) -> AnswerArrays:
    bulk = await bulk_of(flow, source, target, failure, lookups)
    return await bulk.translate([PairOffsets(PAIR, np.array(offsets, np.int64), 0)])


async def bulk_of(
    flow: Flow,
    source: FakeCluster,
    target: FakeCluster,
    failure: KafkaFailure | None = None,
    lookups: int = 1 << 30,
) -> BulkVerdicts:
    knowledge = await flow.load(source, target)
    runs = LoadedRuns(knowledge.runs) if flow.uses_runs else None
    strategy = flow.strategy(knowledge, runs)
    return BulkVerdicts(
        GroupVerdicts(flow.options, source, target, strategy),
        runs,
        strategy if isinstance(strategy, ByRuns) else None,
        lookups,
        failure,
        at_once=flow.answers_at_once,
    )


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
    answer, verdict, bound, _, _, _, absent = said
    assert (absent == 0) == (verdict != "pending")
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
        _, verdict, _, evidence, reason, *_ = each = words(said, offset)
        if evidence == "run":
            holds(history, offset, each)
        elif reason not in ("offset_beyond_end", "evidence_disagrees"):
            assert verdict != "pending" or reason in (
                "not_looked_at_yet",
                "copy_not_found",
                "copies_unknown",
                "records_not_on_target",
                "not_mirrored_yet",
            )
            # Of a target that ends before the newest run does nothing is known, and nothing looked at.
            rest += reason not in ("not_looked_at_yet", "copies_unknown")
    assert rest <= lookups


def answers_of(world: MirroredTopic, *, away: bool = False, lookups: int = 1 << 30) -> list[Words]:
    """For each offset of the source."""
    world.a.away = AWAY if away else None
    offsets = range(world.origin.end + 1)
    said = asyncio.run(in_bulk(FLOWS["runs"], world.a, world.b, offsets, AWAY if away else None, lookups))
    return [words(said, offset) for offset in offsets]


def lacks(said: Words) -> tuple[str, str | None, int | None]:
    _, verdict, _, _, reason, _, absent = said
    return verdict, reason, absent


def test_copying_began_behind_the_position() -> None:
    world = MirroredTopic()
    world.produce(100)
    world.begin_at(0)
    world.reset(40)
    world.copy(60)
    said = answers_of(world)
    assert lacks(said[30]) == ("pending", "records_not_on_target", 10)
    assert (said[30][0], said[40][:3]) == (0, (0, "exact", 0)), "where to resume is told all the same"
    assert {lacks(each) for each in said[40:]} == {("exact", None, 0)}


def test_an_operator_had_some_skipped_in_the_middle() -> None:
    world = MirroredTopic()
    world.produce(100)
    world.copy(40)
    world.reset(60)
    world.copy(40)
    said = answers_of(world)
    assert [lacks(said[at])[2] for at in (0, 39, 40, 50, 59, 60, 100)] == [20, 20, 20, 10, 1, 0, 0]
    assert lacks(said[50]) == ("pending", "records_not_on_target", 10)


@pytest.mark.parametrize("lookups", [0, 1 << 30])
def test_the_target_has_deleted_what_follows(lookups: int) -> None:
    world = MirroredTopic()
    world.produce(100)
    world.copy(100)
    world.expire(world.copies, 30)
    said = answers_of(world, lookups=lookups)
    assert [lacks(said[at]) for at in (0, 29)] == [
        ("pending", "records_not_on_target", 30),
        ("pending", "records_not_on_target", 1),
    ]
    assert {lacks(each) for each in said[30:]} == {("exact", None, 0)}


def test_the_copy_was_deleted_and_copying_goes_on_where_it_was() -> None:
    world = MirroredTopic()
    world.produce(100)
    world.copy(80)
    world.delete_copy(recopy=False)
    said = answers_of(world)
    assert lacks(said[50]) == ("pending", "records_not_on_target", 50)
    world.copy(20)
    said = answers_of(world)
    assert [lacks(said[at])[:2] for at in (50, 79)] == [("pending", "records_not_on_target")] * 2
    assert {lacks(each) for each in said[80:]} == {("exact", None, 0)}


def test_a_copy_that_is_made_again_lacks_what_is_to_come() -> None:
    world = MirroredTopic()
    world.produce(100)
    world.copy(100)
    world.delete_copy(recopy=True)
    world.copy(60)
    assert lacks(answers_of(world)[20]) == ("pending", "not_mirrored_yet", 40)


def test_without_the_source_what_no_run_covers_is_not_known() -> None:
    """What another mirror has left there was never looked at."""
    world = MirroredTopic()
    world.produce(100)
    world.copy(40)
    world.reset(60)
    world.copy(40)
    said = answers_of(world, away=True)
    assert lacks(said[20]) == ("pending", "copies_unknown", None)
    assert {lacks(each) for each in said[60:]} == {("exact", None, 0)}


def test_another_mirror_copies_beside_ours() -> None:
    world = MirroredTopic()
    world.produce(100)
    world.copy(50)
    world.another_copies(0, 50)
    world.copy(50)
    said = answers_of(world)
    assert said[20][1] == "bounded"
    assert said[60][1:3] == ("exact", 0)


def test_another_mirror_has_copied_behind_our_newest_run() -> None:
    """What ours holds already is no copy of ours that came after the runs were read."""
    world = MirroredTopic()
    world.produce(100)
    world.copy(100)
    world.another_copies(0, 50)
    said = answers_of(world)
    assert {each[1] for each in said} == {"bounded"}
    assert said[60][2] == 50 + 1, "and a marker"


def test_our_copies_that_came_after_the_runs_were_read_are_no_other_mirrors() -> None:
    """Also not in the second table: the runs are those of the first."""
    world = MirroredTopic()
    world.produce(100)
    world.copy(50)
    made = asyncio.run(bulk_of(FLOWS["runs"], world.a, world.b))
    world.copy(50)
    for _ in range(2):
        answers = asyncio.run(made.translate([PairOffsets(PAIR, np.arange(101), 0)]))
        assert {words(answers, at)[1] for at in range(101)} == {"exact"}


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize(
    ("source_id", "expected"), [("", "exact"), ("id-of-orders", "exact"), ("id-of-older", "pending")]
)
def test_offsets_of_a_topic_that_was_made_again_are_none_of_the_new_one(
    source_id: str, expected: str, away: bool
) -> None:
    world = MirroredTopic()
    world.produce(100)
    world.copy(100)
    made = asyncio.run(bulk_of(FLOWS["runs"], world.a, world.b, AWAY if away else None))
    answers = asyncio.run(made.translate([PairOffsets(PAIR, np.arange(100), 0, source_id)]))
    assert {words(answers, at)[1] for at in range(100)} == {expected}
    if expected == "pending":
        assert words(answers, 0)[4] == "source_topic_missing"


@pytest.mark.parametrize("seed", range(examples(60, 2_000)))
def test_worlds_with_missing_records_get_what_a_group_gets(seed: int) -> None:
    random, world = Random(seed), MirroredTopic(ours=True)
    world.begin_at(0)
    for _ in range(10):
        random.choice(EVENTS)(world, random)
    away = seed % 4 == 0
    said = answers_of(world, away=away)
    without = answers_of(world, away=away, lookups=0)
    for offset in range(world.origin.end + 1):
        failure = AWAY if away else None
        expected = words_of(asyncio.run(by_service(FLOWS["runs"], world.a, world.b, offset, failure)))
        if said[offset] != expected:
            assert "verified" in (said[offset][3], expected[3]), (offset, said[offset], expected)
        for each in (said[offset], without[offset]):
            if each[1] != "pending":
                assert each[0] is not None
                assert world.lost_from(offset, each[0]) == 0, (offset, each)


EVENTS: Sequence[Callable[[MirroredTopic, Random], None]] = (
    lambda world, random: world.produce(random.randint(1, 30)),
    lambda world, random: world.copy(random.randint(1, 40)),
    lambda world, _: world.copy(1000),
    lambda world, random: world.others_send(random.randint(1, 3)),
    lambda world, random: world.another_copies(
        max(world.another_position, world.origin.start), world.another_position + random.randint(1, 20)
    ),
    lambda world, random: world.reset(random.randint(world.position, world.origin.end)),
    lambda world, random: world.delete_copy(recopy=random.random() < 0.5),
    lambda world, random: world.expire(world.copies, random.randint(world.copies.start, world.copies.end)),
    lambda world, random: world.expire(
        world.origin, random.randint(world.origin.start, max(world.origin.start, world.position))
    ),
)

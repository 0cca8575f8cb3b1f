"""Driving translations: what they ask is asked together, and trouble becomes the verdict of those it touches."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.lookups import FindTime, LookupResult, Need, Read, Window
from bridge.model.values import Judgement, Reason, Side, TopicPartition, Verdict
from connectors.cluster_away import reason_of
from connectors.group_translation.translating.driver import Job, translate_all
from tests.unit.connectors.fake_clusters import FakeCluster, mirrored

Steps = Generator[Need, LookupResult, Verdict]

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


def exact(offset: int) -> Verdict:
    return Verdict(Judgement.EXACT, offset, 0)


def one_read_each(offset: int, closed: list[int] | None = None) -> Steps:
    """Reads the source, then finds its time on the target, then reads there: three steps on two sides."""
    try:
        window = yield Read(Side.SOURCE, offset, 100)
        assert isinstance(window, Window)
        place = yield FindTime(Side.TARGET, window.records[0].timestamp)
        assert isinstance(place, int)
        window = yield Read(Side.TARGET, place, 100)
        assert isinstance(window, Window)
        return exact(window.records[0].offset)
    finally:
        if closed is not None:
            closed.append(offset)


def run(jobs: dict[int, Job[Verdict]], source: FakeCluster, target: FakeCluster) -> dict[int, Verdict]:
    return asyncio.run(translate_all(jobs, source, target, source_committed_only=False))


def job(offset: int, steps: Steps, partition: int = 0) -> Job[Verdict]:
    return Job(TopicPartition("orders", partition), TopicPartition("A.orders", partition), offset, steps)


def test_needs_of_one_step_are_asked_in_one_call() -> None:
    source, target = mirrored(20, partitions=4)
    jobs = {10 * part + at: job(at, one_read_each(at), part) for part in range(4) for at in range(10)}
    verdicts = run(jobs, source, target)
    assert verdicts == {key: exact(key % 10 + 7) for key in jobs}
    # The first of each partition goes ahead, to find what the others build on; then the nine others, together.
    assert (source.calls["answer"], target.calls["answer"]) == (2, 4)
    assert len(source.asked) == len(jobs)


def test_the_same_need_of_two_translations_is_one_key() -> None:
    source, target = mirrored()
    jobs = {key: job(key, one_read_each(5)) for key in range(3)}
    assert run(jobs, source, target) == dict.fromkeys(jobs, exact(12))


def test_both_sides_are_asked_at_once() -> None:
    source, target = mirrored()

    def ask(side: Side) -> Steps:
        yield Read(side, 7, 100)
        return exact(0)

    waiting = {"source": asyncio.Event(), "target": asyncio.Event()}

    class Meeting(FakeCluster):
        """Answers only when the other side has been asked too."""

        def __init__(self, name: str, other: str) -> None:
            super().__init__()
            self.name, self.other = name, other

        async def answer(self, needs, *, committed_only):  # type: ignore[no-untyped-def]
            waiting[self.name].set()
            await waiting[self.other].wait()
            return await super().answer(needs, committed_only=committed_only)

    one, two = Meeting("source", "target"), Meeting("target", "source")
    one.logs, two.logs = dict(source.logs), dict(target.logs)
    one.topic("b", *source.logs.values())
    two.topic("A.b", *target.logs.values())
    jobs = {
        0: Job(SOURCE, TARGET, 0, ask(Side.SOURCE)),
        1: Job(TopicPartition("b", 0), TopicPartition("A.b", 0), 0, ask(Side.TARGET)),
    }

    async def within() -> dict[int, Verdict]:
        return await asyncio.wait_for(translate_all(jobs, one, two, source_committed_only=False), 60)

    assert set(asyncio.run(within())) == {0, 1}


@pytest.mark.parametrize("side", list(Side))
def test_trouble_with_a_partition_is_its_verdict_and_no_others(side: Side) -> None:
    source, target = mirrored(20, partitions=2)
    cluster, place = (
        (source, TopicPartition("orders", 1))
        if side is Side.SOURCE
        else (target, TopicPartition("A.orders", 1))
    )
    cluster.answer_trouble[place] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "no READ")
    closed: list[int] = []
    jobs = {
        0: job(3, one_read_each(3, closed), 0),
        1: job(4, one_read_each(4, closed), 1),
        2: job(5, one_read_each(5, closed), 1),
    }
    verdicts = run(jobs, source, target)
    assert verdicts[0] == exact(10)
    for key in (1, 2):
        assert verdicts[key] == Verdict.pending(
            reason_of(side, cluster.answer_trouble[place]), said="no READ"
        )
    assert sorted(closed) == [3, 4, 5]  # none is left half way


def test_a_translation_that_asks_nothing() -> None:
    def nothing() -> Steps:
        return exact(1)
        yield

    source, target = mirrored()
    assert run({0: job(0, nothing())}, source, target) == {0: exact(1)}
    assert source.calls == target.calls == {}
    assert run({}, source, target) == {}


def test_thousands_are_under_way_in_portions_and_none_is_lost() -> None:
    source, target = mirrored(20, partitions=3)
    most: list[int] = []

    class Counting(FakeCluster):
        async def answer(self, needs, *, committed_only):  # type: ignore[no-untyped-def]
            most.append(sum(map(len, needs.values())))
            return await super().answer(needs, committed_only=committed_only)

    counting = Counting()
    counting.logs = source.logs
    jobs = {key: job(key % 20, one_read_each(key % 20), key % 3) for key in range(3001)}
    verdicts = run(jobs, counting, target)
    assert verdicts == {key: exact(key % 20 + 7) for key in jobs}
    assert max(most) <= 500


def test_more_partitions_than_a_portion_holds() -> None:
    source, target = mirrored(3, partitions=700)
    jobs = {at: job(1, one_read_each(1), at % 700) for at in range(1400)}
    assert run(jobs, source, target) == dict.fromkeys(jobs, exact(8))


@pytest.mark.parametrize(
    ("fault", "reasons"),
    [
        (KafkaFault.NOT_AUTHORIZED, (Reason.SOURCE_NOT_AUTHORIZED, Reason.TARGET_NOT_AUTHORIZED)),
        (KafkaFault.UNKNOWN_TOPIC, (Reason.SOURCE_TOPIC_MISSING, Reason.TARGET_TOPIC_MISSING)),
        (KafkaFault.OUT_OF_RANGE, (Reason.NOT_LOOKED_AT_YET, Reason.NOT_LOOKED_AT_YET)),
        (KafkaFault.LEADER_MOVED, (Reason.SOURCE_UNREACHABLE, Reason.TARGET_UNREACHABLE)),
        (
            KafkaFault.UNREADABLE_BATCH,
            (Reason.SOURCE_BATCH_UNREADABLE, Reason.TARGET_BATCH_UNREADABLE),
        ),
        (KafkaFault.OTHER, (Reason.SOURCE_UNREACHABLE, Reason.TARGET_UNREACHABLE)),
    ],
)
def test_reasons(fault: KafkaFault, reasons: tuple[Reason, Reason]) -> None:
    failure = KafkaFailure(fault, "said")
    assert (reason_of(Side.SOURCE, failure), reason_of(Side.TARGET, failure)) == reasons

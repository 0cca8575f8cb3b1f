"""Requests of one transactional id against a coordinator in memory: what it refuses, and that whoever takes the id over
knows how its last transaction has ended, however many die before they have ended what hangs of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.producer import transaction_coordinator
from bridge.kafka.producer.transaction_coordinator import Coordinator, StillEnding, fence
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.protocol.wire import ApiKeys, Call, Reader, Writer
from bridge.model.values import TopicPartition
from tests.support.messages import message

STATE_TOPIC = TopicPartition("runs", 0)
VERSIONS = {int(key): (0, version) for key, version in [(22, 4), (24, 3), (26, 3), (65, 0)]}
SETTINGS: Any = None
"""Of a client in memory."""
DEATHS = 24
"""More than the requests of a life, each before and after it has come."""


class Died(Exception):
    pass


class CoordinatorModel:
    """Keeps one id, and how a transaction has ended of which the state topic has no marker.

    `refused`: codes for partitions to be added. `describes`: the error of DescribeTransactions; None where the broker
    does not know the question. `loses_marker`: the markers of transactions with records do not reach the state topic.
    """

    def __init__(
        self, state: str, refused: dict[TopicPartition, int] | None = None, describes: int | None = 0
    ) -> None:
        self.state, self.timeout_ms, self.epoch = state, 15_000, 3
        self.refused, self.describes = refused or {}, describes
        self.added = self.has_records = False
        self.loses_marker = False
        self.hanging: bool | None = None
        """Whether the transaction was committed that hangs; None where none does."""
        self.ended: list[tuple[bool, bool]] = []
        """Of each that hung: whether it was committed, and whether the marker that ended it commits."""
        self.death: Iterator[bool] = iter(())

    def live(self, death: int) -> None:
        """The next client dies at this place."""
        self.death = iter([number == death for number in range(DEATHS)])

    async def close(self) -> None:
        pass

    async def send(self, node: int | None, call: Call, doing: str, **_: Any) -> Reader:
        writer = Writer(flexible=node is not None)
        writer.int32(0)
        if node is None:  # FindCoordinator
            writer.int16(0)
            writer.string(None)
            writer.int32(1)
            return Reader(writer.encode(), flexible=writer.flexible)
        if next(self.death, False):
            raise Died
        self.answer(call.prepare(VERSIONS), writer)
        if next(self.death, False):
            raise Died
        return Reader(writer.encode(), flexible=writer.flexible)

    def answer(self, call: Call, writer: Writer) -> None:
        request = Reader(bytes(call.encode()), flexible=True)
        if call.API_KEY == ApiKeys.DESCRIBE_TRANSACTIONS:
            self.describe(writer)
        elif call.API_KEY == ApiKeys.INIT_PRODUCER_ID and self.state.startswith("Prepare"):
            writer.int16(51)
            writer.int64(-1)
            writer.int16(-1)
        elif call.API_KEY == ApiKeys.INIT_PRODUCER_ID:
            request.string()
            if self.state == "Ongoing":
                self.end(commit=False)
            self.state, self.timeout_ms, self.epoch = "Empty", request.int32(), self.epoch + 1
            writer.int16(0)
            writer.int64(7)
            writer.int16(self.epoch)
        elif call.API_KEY == ApiKeys.ADD_PARTITIONS_TO_TXN:
            self.state, self.added = "Ongoing", True
            codes = self.refused or {STATE_TOPIC: 0}
            writer.array(len(codes))
            for tp, code in codes.items():
                writer.string(tp.topic)
                writer.array(1)
                writer.int32(tp.partition)
                writer.int16(code)
                writer.tags()
                writer.tags()
        else:
            request.string()
            request.skip(8)
            assert request.int16() == self.epoch, "fenced"
            commit = bool(request.int8())
            writer.int16(self.end(commit=commit))
        writer.tags()

    def describe(self, writer: Writer) -> None:
        if self.describes is None:
            raise KafkaFailure(KafkaFault.UNSUPPORTED, "no such request", retriable=False)
        writer.array(1)
        writer.int16(self.describes)
        writer.string("mirror-0")
        writer.string(self.state)
        writer.int32(self.timeout_ms)
        writer.int64(1)
        writer.int64(7)
        writer.int16(self.epoch)
        writer.array(1)
        writer.string(STATE_TOPIC.topic)
        writer.array(1)
        writer.int32(STATE_TOPIC.partition)
        writer.tags()
        writer.tags()
        writer.tags()

    def end(self, *, commit: bool) -> int:
        """Returns the error code, as a broker does for an id that has nothing open."""
        complete = "CompleteCommit" if commit else "CompleteAbort"
        if self.state != "Ongoing":
            return 0 if self.state == complete else 48
        if self.added and self.hanging is not None:
            self.ended.append((self.hanging, commit))
            self.hanging = None
        if self.added and self.has_records and self.loses_marker:
            self.hanging = commit
        self.state, self.added, self.has_records = complete, False, False
        return 0


def coordinator_of(model: CoordinatorModel) -> Coordinator:
    client: Any = model
    return Coordinator(client, "mirror-0")


def test_topics_that_may_not_be_written_to_are_named_with_what_to_grant() -> None:
    """The other partitions were not tried (55), and are none of the reader's business."""
    codes = {
        TopicPartition("orders", 0): 29,
        TopicPartition("orders", 1): 29,
        TopicPartition("bills", 0): 55,
        TopicPartition("audit", 0): 29,
    }
    coordinator = coordinator_of(CoordinatorModel("Empty", refused=codes))
    with pytest.raises(KafkaFailure) as raised:
        asyncio.run(coordinator.add(ProducerIdAndEpoch(7, 3), list(codes), 5.0))
    assert raised.value.fault is KafkaFault.NOT_AUTHORIZED
    assert message("kafka.write_denied", topics="audit, orders") in str(raised.value)


def test_an_abort_of_nothing_is_done_and_a_commit_of_nothing_is_an_error() -> None:
    coordinator = coordinator_of(CoordinatorModel("Empty"))
    asyncio.run(coordinator.end(ProducerIdAndEpoch(7, 3), 5.0, commit=False))
    with pytest.raises(KafkaFailure):
        asyncio.run(coordinator.end(ProducerIdAndEpoch(7, 3), 5.0, commit=True))


@pytest.mark.parametrize(
    ("describes", "state", "committed"),
    [
        (0, "CompleteCommit", True),
        (0, "CompleteAbort", False),
        (0, "Ongoing", False),
        (0, "Empty", False),
        (105, "Dead", False),
        (None, "CompleteCommit", False),
    ],
)
def test_a_transaction_is_committed_where_its_coordinator_says_so(
    describes: int | None, state: str, committed: bool
) -> None:
    coordinator = coordinator_of(CoordinatorModel(state, describes=describes))
    asyncio.run(coordinator.init(lambda: 15_000, ProducerIdAndEpoch(), 5.0))
    assert coordinator.last_committed is committed


def test_an_id_whose_last_transaction_is_still_ending_is_not_waited_for_longer_than_that_may_take() -> None:
    client: Any = (model := CoordinatorModel("PrepareCommit"))
    coordinator = Coordinator(client, "mirror-0", ends_within=0.05)
    with pytest.raises(StillEnding):
        asyncio.run(coordinator.init(lambda: 15_000, ProducerIdAndEpoch(), 5.0))
    assert coordinator.last_committed, "that is decided"
    described = asyncio.run(coordinator.describe(5.0))
    assert described is not None
    assert described.ending
    assert described.id_and_epoch == ProducerIdAndEpoch(7, model.epoch)
    assert described.partitions == {STATE_TOPIC}


@pytest.mark.parametrize(
    ("state", "left", "epoch"),
    [
        ("PrepareCommit", ProducerIdAndEpoch(7, 3), 3),
        ("PrepareAbort", ProducerIdAndEpoch(7, 3), 3),
        ("CompleteCommit", ProducerIdAndEpoch(7, 3), 4),
        ("Ongoing", ProducerIdAndEpoch(7, 3), 4),
        ("CompleteCommit", None, 4),
    ],
)
def test_an_id_that_its_holder_has_left_is_fenced_unless_its_transaction_is_still_ending(
    monkeypatch: pytest.MonkeyPatch, state: str, left: ProducerIdAndEpoch | None, epoch: int
) -> None:
    model = CoordinatorModel(state)
    monkeypatch.setattr(transaction_coordinator, "NetworkClient", lambda _: model)
    asyncio.run(fence(SETTINGS, ["mirror-0"], 1.0, left={} if left is None else {"mirror-0": left}))
    assert model.epoch == epoch


@pytest.mark.parametrize(
    "left", [{}, {"mirror-0": ProducerIdAndEpoch(7, 2)}, {"mirror-1": ProducerIdAndEpoch(7, 3)}]
)
def test_an_id_that_is_still_ending_and_that_another_holder_has_left_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, left: dict[str, ProducerIdAndEpoch]
) -> None:
    model = CoordinatorModel("PrepareCommit")
    monkeypatch.setattr(transaction_coordinator, "NetworkClient", lambda _: model)
    with pytest.raises(KafkaFailure):
        asyncio.run(fence(SETTINGS, ["mirror-0"], 0.2, left=left))


@pytest.mark.parametrize(
    ("state", "further", "timed_out"),
    [
        ("PrepareEpochFence", 1, True),
        ("CompleteAbort", 1, True),
        ("CompleteAbort", 0, False),
        ("CompleteAbort", 2, False),
        ("Empty", 1, False),
        ("Ongoing", 1, False),
        ("CompleteCommit", 1, False),
    ],
)
def test_a_broker_that_aborts_what_took_too_long_raises_the_epoch(
    state: str, further: int, timed_out: bool
) -> None:
    """Somebody who has taken over the id has an epoch of that number too, and begins without a transaction."""
    model = CoordinatorModel("Empty")
    coordinator = coordinator_of(model)
    asyncio.run(coordinator.init(lambda: 15_000, ProducerIdAndEpoch(), 5.0))
    model.state, model.epoch = state, model.epoch + further
    assert asyncio.run(coordinator.has_timed_out(5.0)) is timed_out


async def take_over(model: CoordinatorModel) -> tuple[Coordinator, ProducerIdAndEpoch]:
    """As layouts.hanging does."""
    coordinator = coordinator_of(model)
    taken = await coordinator.init(lambda: 15_000, ProducerIdAndEpoch(), 5.0)
    if model.hanging is not None:
        committed = coordinator.last_committed
        taken = await coordinator.end_hanging(lambda: 15_000, taken, [STATE_TOPIC], 5.0, commit=committed)
    return coordinator, taken


async def copy(model: CoordinatorModel, commits: list[bool]) -> None:
    """Takes the id over, and writes transactions that end so; the next one follows only where nothing hangs."""
    coordinator, taken = await take_over(model)
    for commit in commits:
        await coordinator.add(taken, [STATE_TOPIC], 5.0)
        model.has_records = True
        await coordinator.end(taken, 5.0, commit=commit)
        if not commit:  # as TransactionalProducer.abort does
            taken = await coordinator.init(lambda: 15_000, taken, 5.0)
        if model.hanging is not None:
            return


@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort"])
@pytest.mark.parametrize("commits", [[], [True], [False]], ids=["copies nothing", "commits", "aborts"])
def test_what_hangs_ends_as_its_transaction_has_ended(state: str, commits: list[bool]) -> None:
    died = 0
    for deaths in product(range(DEATHS), repeat=2):
        model = CoordinatorModel(state)
        model.hanging, model.loses_marker = state == "CompleteCommit", True
        for death in (*deaths, DEATHS):
            model.live(death)
            try:
                asyncio.run(copy(model, commits))
            except Died:
                died += 1
        model.live(DEATHS)
        asyncio.run(take_over(model))
        assert model.ended
        assert all(committed == marker for committed, marker in model.ended), (deaths, model.ended)
    assert died > 100


@pytest.mark.parametrize(
    ("commit", "deaths"),
    [(True, range(7, DEATHS + 1)), (False, [DEATHS])],
    ids=["commits, and dies at any request", "aborts"],
)
def test_ending_what_hangs_leaves_the_outcome_of_the_last_transaction(
    commit: bool, deaths: Iterable[int]
) -> None:
    """What hangs of a copy ends as its run says, however the last transaction has ended. The first 7 places come before
    that one is committed."""

    async def scene(model: CoordinatorModel) -> None:
        coordinator = coordinator_of(model)
        taken = await coordinator.init(lambda: 15_000, ProducerIdAndEpoch(), 5.0)
        await coordinator.add(taken, [STATE_TOPIC], 5.0)
        await coordinator.end(taken, 5.0, commit=True)
        await coordinator.end_hanging(lambda: 15_000, taken, [STATE_TOPIC], 5.0, commit=commit)

    for death in deaths:
        model = CoordinatorModel("CompleteAbort")
        model.live(death)
        with contextlib.suppress(Died):
            asyncio.run(scene(model))
        if model.state == "Ongoing":
            assert model.timeout_ms > 60_000, "a broker aborts what takes longer"
        model.live(DEATHS)
        coordinator = coordinator_of(model)
        asyncio.run(coordinator.init(lambda: 15_000, ProducerIdAndEpoch(), 5.0))
        assert coordinator.last_committed, death

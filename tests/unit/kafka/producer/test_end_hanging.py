"""How a transaction has ended is known to whoever takes over its id, however many die before they have ended what hangs
of it: against a coordinator in memory, with a death before and after each request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from bridge.kafka.producer.transaction_coordinator import Coordinator
from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.protocol.wire import Call, Reader, Writer
from bridge.model.values import TopicPartition

HANGING = TopicPartition("runs", 0)
VERSIONS = {int(key): (0, version) for key, version in [(22, 4), (24, 3), (26, 3), (65, 0)]}
DEATHS = 16
"""More than the requests of a life, each before and after it has come."""


class Died(Exception):
    pass


class CoordinatorModel:
    """Keeps one id. `outcome`: how the first marker ends what hangs in the partition."""

    def __init__(self, state: str) -> None:
        self.state, self.timeout_ms, self.epoch, self.added = state, 15_000, 3, False
        self.outcome: str | None = None
        self.death: Iterator[bool] = iter(())

    def live(self, death: int) -> None:
        """The next client dies at this place."""
        self.death = iter([number == death for number in range(DEATHS)])

    async def send(self, node: int | None, call: Call, doing: str, **_: Any) -> Reader:
        writer = Writer(flexible=node is not None)
        writer.int32(0)
        if node is None:
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
            writer.array(1)
            writer.int16(0)
            writer.string("mirror-0")
            writer.string(self.state)
            writer.int32(self.timeout_ms)
            writer.int64(1)
            writer.int64(7)
            writer.int16(self.epoch)
            writer.array(0)
            writer.tags()
        elif call.API_KEY == ApiKeys.INIT_PRODUCER_ID:
            request.string()
            self.end("abort" if self.state == "Ongoing" else None, "Empty")
            self.timeout_ms, self.epoch = request.int32(), self.epoch + 1
            writer.int16(0)
            writer.int64(7)
            writer.int16(self.epoch)
        elif call.API_KEY == ApiKeys.ADD_PARTITIONS_TO_TXN:
            self.state, self.added = "Ongoing", True
            writer.array(1)
            writer.string(HANGING.topic)
            writer.array(1)
            writer.int32(HANGING.partition)
            writer.int16(0)
            writer.tags()
            writer.tags()
        else:
            request.string()
            request.skip(8)
            assert request.int16() == self.epoch, "fenced"
            commit = request.int8()
            self.end("commit" if commit else "abort", "CompleteCommit" if commit else "CompleteAbort")
            writer.int16(0)
        writer.tags()

    def end(self, marker: str | None, state: str) -> None:
        if self.added and marker is not None:
            self.outcome = self.outcome or marker
        self.state, self.added = state, False


async def take_over(model: CoordinatorModel) -> None:
    """As layouts.hanging does."""
    client: Any = model
    coordinator = Coordinator(client, "mirror-0")
    committed = await coordinator.last_committed(5.0)
    taken = await coordinator.init(lambda: 15_000, ProducerIdAndEpoch(), 5.0)
    if model.outcome is None:
        await coordinator.end_hanging(lambda: 15_000, taken, [HANGING], 5.0, commit=committed)


@pytest.mark.parametrize(("state", "outcome"), [("CompleteCommit", "commit"), ("CompleteAbort", "abort")])
def test_what_hangs_ends_as_its_transaction_has_ended(state: str, outcome: str) -> None:
    died = 0
    for deaths in product(range(DEATHS), repeat=2):
        model = CoordinatorModel(state)
        for death in (*deaths, DEATHS):
            model.live(death)
            try:
                asyncio.run(take_over(model))
            except Died:
                died += 1
        assert model.outcome == outcome, deaths
    assert died > 100

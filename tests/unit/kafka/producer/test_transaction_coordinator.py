"""What a coordinator refuses, on a client in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.producer.transaction_coordinator import Coordinator
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.protocol.wire import Call, Reader, Writer
from bridge.model.values import TopicPartition
from tests.support.messages import message


class MemoryClient:
    """Answers AddPartitionsToTxn v3 by these codes, and FindCoordinator."""

    def __init__(self, codes: dict[TopicPartition, int]) -> None:
        self.codes = codes

    async def send(self, node: int | None, call: Call, doing: str, **_: Any) -> Reader:
        writer = Writer(flexible=node is not None)
        writer.int32(0)
        if node is None:
            writer.int16(0)
            writer.string(None)
            writer.int32(1)
        else:
            writer.array(len(self.codes))
            for tp, code in self.codes.items():
                writer.string(tp.topic)
                writer.array(1)
                writer.int32(tp.partition)
                writer.int16(code)
                writer.tags()
                writer.tags()
        return Reader(writer.encode(), flexible=writer.flexible)


def test_topics_that_may_not_be_written_to_are_named_with_what_to_grant() -> None:
    """The other partitions were not tried (55), and are none of the reader's business."""
    codes = {
        TopicPartition("orders", 0): 29,
        TopicPartition("orders", 1): 29,
        TopicPartition("bills", 0): 55,
        TopicPartition("audit", 0): 29,
    }
    client: Any = MemoryClient(codes)
    with pytest.raises(KafkaFailure) as raised:
        asyncio.run(Coordinator(client, "mirror-0").add(ProducerIdAndEpoch(1, 0), list(codes), 5.0))
    assert raised.value.fault is KafkaFault.NOT_AUTHORIZED
    assert message("kafka.write_denied", topics="audit, orders") in str(raised.value)


class EndingClient:
    """Answers EndTxn v3 by this code, and FindCoordinator."""

    def __init__(self, code: int) -> None:
        self.code = code

    async def send(self, node: int | None, call: Call, doing: str, **_: Any) -> Reader:
        writer = Writer(flexible=node is not None)
        writer.int32(0)
        writer.int16(0 if node is None else self.code)
        if node is None:
            writer.string(None)
            writer.int32(1)
        writer.tags()
        return Reader(writer.encode(), flexible=writer.flexible)


@pytest.mark.parametrize("code", [48, 49], ids=["no transaction", "an expired id"])
def test_an_abort_of_nothing_is_done_and_a_commit_of_nothing_is_an_error(code: int) -> None:
    client: Any = EndingClient(code)
    coordinator = Coordinator(client, "mirror-0")
    asyncio.run(coordinator.end(ProducerIdAndEpoch(1, 0), 5.0, commit=False))
    with pytest.raises(KafkaFailure):
        asyncio.run(coordinator.end(ProducerIdAndEpoch(1, 0), 5.0, commit=True))


class DescribingClient:
    """Answers DescribeTransactions v0 by this error and state, and FindCoordinator."""

    def __init__(self, error: int, state: str) -> None:
        self.error, self.state, self.timeout_ms = error, state, 15_000

    async def send(self, node: int | None, call: Call, doing: str, **_: Any) -> Reader:
        writer = Writer(flexible=node is not None)
        writer.int32(0)
        if node is None:
            writer.int16(0)
            writer.string(None)
            writer.int32(1)
        else:
            writer.array(1)
            writer.int16(self.error)
            writer.string("mirror-0")
            writer.string(self.state)
            writer.int32(self.timeout_ms)
            writer.int64(1)
            writer.int64(7)
            writer.int16(3)
            writer.array(1)
            writer.string("orders")
            writer.array(2)
            writer.int32(0)
            writer.int32(1)
            writer.tags()
            writer.tags()
            writer.tags()
        return Reader(writer.encode(), flexible=writer.flexible)


@pytest.mark.parametrize(
    ("error", "state", "committed"),
    [
        (0, "CompleteCommit", True),
        (0, "PrepareCommit", True),
        (0, "CompleteAbort", False),
        (0, "Ongoing", False),
        (0, "Empty", False),
        (105, "Dead", False),
    ],
)
def test_a_transaction_is_committed_where_its_coordinator_says_so(
    error: int, state: str, committed: bool
) -> None:
    client: Any = DescribingClient(error, state)
    assert asyncio.run(Coordinator(client, "mirror-0").last_committed(5.0)) is committed


def test_of_a_broker_that_does_not_know_the_question_no_transaction_counts_as_committed() -> None:
    class Old:
        async def send(self, node: int | None, call: Call, doing: str, **_: Any) -> Reader:
            if node is None:
                return await DescribingClient(0, "").send(node, call, doing)
            raise KafkaFailure(KafkaFault.UNSUPPORTED, "no such request", retriable=False)

    client: Any = Old()
    assert asyncio.run(Coordinator(client, "mirror-0").last_committed(5.0)) is False

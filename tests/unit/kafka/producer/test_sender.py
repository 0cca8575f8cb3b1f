"""Batches on their way: order, sizes, sequences and what one error does, on a client in memory."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.in_flight import LEAST
from bridge.kafka.producer import sender as producer_sender
from bridge.kafka.producer.sender import BatchSender
from bridge.kafka.protocol.errors import failure
from bridge.kafka.protocol.log_requests import TopicMetadata
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.protocol.wire import Call, Reader, Writer
from bridge.model.values import TopicPartition
from tests.support.messages import message_pattern
from tests.unit.kafka.record.raw_batches import NOW, Plain, batch_of

A, B, C = (TopicPartition("orders", number) for number in range(3))
T = TypeVar("T")
NODE = 1


def batch(count: int = 1, size: int = 10) -> bytearray:
    return bytearray(batch_of([Plain(NOW, None, b"v" * size)] * count))


class MemoryClient:
    """One node that answers each Produce by `serve`: partition → (error, base offset). Others hang while `held`."""

    def __init__(self) -> None:
        self.requests: list[dict[TopicPartition, bytes]] = []
        self.serve: Callable[[TopicPartition], tuple[int, int]] = lambda _: (0, 100)
        self.held = asyncio.Event()
        self.held.set()
        self.arrived = asyncio.Event()
        self.broken: KafkaFailure | None = None
        self.under_way = self.most_under_way = self.throttle_ms = 0

    async def seen(self, requests: int) -> None:
        while len(self.requests) < requests:
            self.arrived.clear()
            await self.arrived.wait()

    async def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        return {}

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaFailure]]:
        return {NODE: list(partitions)}, {}

    async def send_bulk(self, node: int, call: Call, read: Callable[[Reader], T], doing: str) -> T:
        request = Reader(call.prepare({0: (3, 11)}).encode(), flexible=False)
        request.string()
        request.skip(2 + 4)
        sent = {}
        for _ in request.array():
            topic = request.string()
            for _ in request.array():
                number = request.int32()
                sent[TopicPartition(topic, number)] = request.blob()
        self.requests.append(sent)
        self.arrived.set()
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await self.held.wait()
        self.under_way -= 1
        if self.broken is not None:
            raise self.broken
        answer = Writer(flexible=False)
        answer.array(len(sent))
        for tp in sent:
            error, offset = self.serve(tp)
            answer.string(tp.topic)
            answer.array(1)
            answer.int32(tp.partition)
            answer.int16(error)
            answer.int64(offset)
            answer.int64(-1)
            answer.int64(0)
            answer.array(0)
            answer.string(None)
        answer.int32(self.throttle_ms)
        return read(Reader(answer.encode(), flexible=False))


Enter = Callable[[Sequence[TopicPartition]], Awaitable[None]]


def run(
    work: Callable[[MemoryClient, BatchSender], Awaitable[T]], within: float = 5.0, enter: Enter | None = None
) -> T:
    async def go() -> T:
        client = MemoryClient()
        sender = BatchSender(client, "tx", within, enter)  # type: ignore[arg-type]
        sender.restart(ProducerIdAndEpoch(4000, 3))
        try:
            return await work(client, sender)
        finally:
            await sender.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert sender.bytes_in_flight == 0

    return asyncio.run(go())


def producer_fields(data: bytes) -> tuple[int, int, int]:
    """Producer id, epoch, sequence."""
    result: tuple[int, int, int] = struct.unpack_from(">qhi", data, 43)
    return result


async def fault_of(answer: Awaitable[int]) -> KafkaFault | None:
    try:
        await answer
    except KafkaFailure as error:
        return error.fault
    return None


def test_one_batch_of_a_partition_goes_with_a_request_and_all_in_order() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        answers = [sender.send(tp, batch(3), 3) for tp in (A, A, B, A)]
        await sender.flush()
        assert [await each for each in answers] == [100] * 4
        assert [list(request) for request in client.requests] == [[A, B], [A], [A]]
        assert [producer_fields(request[A]) for request in client.requests] == [
            (4000, 3, 0),
            (4000, 3, 3),
            (4000, 3, 6),
        ]

    run(work)


def test_at_most_five_requests_are_under_way() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        client.held.clear()
        for _ in range(9):
            sender.send(A, batch(), 1)
        await client.seen(5)
        client.held.set()
        await sender.flush()
        assert (len(client.requests), client.most_under_way) == (9, 5)

    run(work)


def test_a_request_is_bounded_and_a_greater_batch_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_sender, "REQUEST_BYTES", 500)

    async def work(client: MemoryClient, sender: BatchSender) -> None:
        for tp, size in ((A, 10), (B, 100), (C, 1000), (A, 10)):
            sender.send(tp, batch(size=size), 1)
        await sender.flush()
        assert [list(request) for request in client.requests] == [[A, B], [C], [A]]

    run(work)


def test_sequences_wrap_to_zero() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        sender.sequences[A] = (1 << 31) - 2
        for _ in range(3):
            sender.send(A, batch(3), 3)
        await sender.flush()
        assert [producer_fields(request[A])[2] for request in client.requests] == [(1 << 31) - 2, 1, 4]

    run(work)


def test_the_batch_that_failed_is_told_from_those_that_suffer_with_it() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        client.serve = lambda tp: (32, -1) if tp == B else (0, 7)
        first = [sender.send(tp, batch(), 1) for tp in (A, B, C)]
        second = sender.send(A, batch(), 1)
        client.held.clear()
        await client.seen(1)
        third = [sender.send(C, batch(), 1) for _ in range(9)]
        client.held.set()
        with pytest.raises(KafkaFailure, match=r"orders-1") as caught:
            await sender.flush()
        assert caught.value.fault is KafkaFault.RECORD_REFUSED
        assert [await fault_of(each) for each in first] == [None, KafkaFault.RECORD_REFUSED, None]
        assert await fault_of(second) in (None, KafkaFault.ABORTED)
        assert await fault_of(third[-1]) is KafkaFault.ABORTED
        # Nothing is sent any more, until it begins anew.
        sent = len(client.requests)
        assert await fault_of(sender.send(A, batch(), 1)) is KafkaFault.ABORTED
        assert len(client.requests) == sent
        await sender.close()
        client.serve = lambda _: (0, 8)
        sender.restart(ProducerIdAndEpoch(4000, 4))
        assert await sender.send(A, batch(), 1) == 8
        assert producer_fields(client.requests[-1][A]) == (4000, 4, 0)

    run(work)


def test_an_offset_that_the_broker_does_not_tell_is_an_error() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        client.serve = lambda _: (0, -1)
        assert await fault_of(sender.send(A, batch(), 1)) is KafkaFault.OTHER

    run(work)


def test_a_lost_connection_fails_what_was_on_it() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        client.broken = failure(KafkaFault.UNREACHABLE, "write", "Connection lost")
        answers = [sender.send(tp, batch(), 1) for tp in (*[A] * 7, B)]
        result = [await fault_of(each) for each in answers]
        assert result == [*[KafkaFault.UNREACHABLE] * 5, *[KafkaFault.ABORTED] * 2, KafkaFault.UNREACHABLE]

    run(work)


def test_a_silent_broker_costs_no_more_than_the_time_given() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        client.held.clear()
        answers = [sender.send(A, batch(), 1) for _ in range(7)]
        with pytest.raises(KafkaFailure) as caught:
            await sender.flush()
        assert caught.value.fault is KafkaFault.TIMEOUT
        assert {await fault_of(each) for each in answers} == {KafkaFault.TIMEOUT, KafkaFault.ABORTED}

    run(work, within=0.05)


def test_requests_get_larger_over_a_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_sender, "REQUEST_BYTES", 500)

    async def work(client: MemoryClient, sender: BatchSender) -> None:
        client.held.clear()
        for tp in (A, B, C):
            sender.send(tp, batch(), 1)
        await client.seen(1)
        asyncio.get_running_loop().call_later(0.05, client.held.set)
        await sender.flush()
        for tp in (A, B, C):
            sender.send(tp, batch(size=400), 1)
        await sender.flush()
        assert [list(request) for request in client.requests] == [[A, B, C]] * 2

    run(work)


def test_what_was_not_written_knows_why() -> None:
    """Here no batch was at fault: nothing but the cause says that somebody else has the id."""
    fenced = KafkaFailure(KafkaFault.FENCED, "somebody else has the id", retriable=False)

    async def enter(_: Sequence[TopicPartition]) -> None:
        raise fenced

    async def work(_: MemoryClient, sender: BatchSender) -> None:
        for answered in [sender.send(tp, batch(), 1) for tp in (A, B)]:
            with pytest.raises(KafkaFailure) as caught:
                await answered
            assert (caught.value.fault, caught.value.__cause__) == (KafkaFault.ABORTED, fenced)

    run(work, enter=enter)


def test_closing_answers_what_is_still_under_way() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        client.held.clear()
        answers = [sender.send(A, batch(), 1) for _ in range(7)]
        await asyncio.sleep(0)
        answers.append(sender.send(B, batch(), 1))
        await sender.close()
        assert all([await fault_of(each) for each in answers])

    run(work)


def test_a_missing_right_is_named_with_what_to_grant() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        client.serve = lambda tp: (29, -1) if tp == B else (0, 100)
        written, refused = sender.send(A, batch(), 1), sender.send(B, batch(), 1)
        with pytest.raises(KafkaFailure, match=message_pattern("kafka.write_denied", topics="orders")):
            await sender.flush()
        assert await written == 100
        assert await fault_of(refused) is KafkaFault.NOT_AUTHORIZED

    run(work)


def test_a_partition_that_every_transaction_needs_is_entered_with_the_first() -> None:
    entered: list[list[TopicPartition]] = []

    async def enter(partitions: Sequence[TopicPartition]) -> None:
        entered.append(list(partitions))

    async def work(client: MemoryClient, sender: BatchSender) -> None:
        sender.always = C
        for _ in range(2):
            sender.send(A, batch(), 1)
            await sender.flush()
            sender.send(B, batch(), 1)
            sender.send(C, batch(), 1)
            await sender.flush()
            sender.next_transaction()
        sender.send(C, batch(), 1)
        await sender.flush()
        assert entered == [[A, C], [B], [A, C], [B], [C]]
        assert [set(request) for request in client.requests][:3] == [{A}, {C}, {B}]

    run(work, enter=enter)


def test_the_window_learns_from_answers_and_from_none() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        sender.window.size = 1000
        for _ in range(9):
            sender.send(A, batch(size=1000), 1)
        await sender.flush()
        grown = sender.window.size
        assert grown > 5000
        # An answer that comes late, be it that the broker asks to wait.
        client.throttle_ms = 10_000
        throttled = time.monotonic()
        await sender.send(A, batch(size=100_000), 1)
        assert sender.window.size == LEAST
        assert throttled + 10.0 <= sender.throttled_until <= time.monotonic() + 10.0
        # No answer at all.
        sender.window.size = 4 * LEAST
        client.held.clear()
        sender.send(A, batch(), 1)
        with pytest.raises(KafkaFailure):
            await sender.flush()
        assert sender.window.size == 2 * LEAST

    run(work, within=0.2)


@pytest.mark.long
def test_nothing_goes_on_after_the_deadline_whenever_it_began() -> None:
    async def work(client: MemoryClient, sender: BatchSender) -> None:
        client.held.clear()
        began = time.monotonic()
        sender.deadline = began + 0.1
        early = sender.send(A, batch(), 1)
        await asyncio.sleep(0.05)
        late = sender.send(B, batch(), 1)
        assert await fault_of(late) is KafkaFault.TIMEOUT
        assert await fault_of(early) is KafkaFault.TIMEOUT
        assert time.monotonic() - began < 4.5

    run(work)

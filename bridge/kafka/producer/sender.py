"""Sends ready-made batches to the leaders of their partitions, pipelined. One error ends the caller's transaction.

Not by the library's producer: that one sends one request at a time to a node and one batch at a time of a partition (a
round trip each), tries for ever what does not heal, wraps sequences to negative numbers, and leaves tasks behind when
it is closed after an error.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.in_flight import UNKNOWN, InFlightWindow, quickest, stretched
from bridge.kafka.protocol import produce_requests
from bridge.kafka.protocol.errors import failure
from bridge.kafka.protocol.produce_requests import NOT_ANSWERED, ProducerIdAndEpoch, read_produced, refusal
from bridge.kafka.protocol.wire import Writable
from bridge.kafka.record.batch import stamp
from bridge.model.values import TopicPartition

_IN_FLIGHT = 5
"""Requests at a time to a node: as many of a producer's batches as a broker remembers for each partition."""
REQUEST_BYTES, _MOST_REQUEST_BYTES = 1024 * 1024, 8 * 1024 * 1024
"""Of batches in one request, near by and over a distance; a batch larger than that goes alone. What the socket does not
take at once is copied once more. Far below socket.request.max.bytes (100 MiB), beyond which a broker closes the
connection."""
_SEQUENCES = 1 << 31


@dataclass(eq=False, slots=True)
class _Batch:
    tp: TopicPartition
    data: Writable
    acknowledged: asyncio.Future[int]
    handed_over: float
    in_flight: int
    """Bytes in flight when it was handed over, its own included."""


class BatchSender:
    """Sends batches in order within a partition. No batch is tried twice: after the first error nothing is sent any
    more until `restart`, so that what follows an error never gets in front of it.

    `add_partitions` is awaited once for partitions that are new since the last `restart` or `next_transaction`, before
    anything is sent to them. `window` learns from responses how much may be in flight; whoever calls `send` keeps to
    it. For use in one event loop.
    """

    def __init__(
        self,
        client: NetworkClient,
        transactional_id: str | None,
        within: float,
        add_partitions: Callable[[Sequence[TopicPartition]], Awaitable[None]] | None = None,
        window: InFlightWindow | None = None,
    ) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self.within, self.deadline = within, math.inf
        """Seconds that a request may take, and the monotonic time by which it has its response in any case."""
        self._add_partitions = add_partitions
        self.always: TopicPartition | None = None
        """Added together with the first other partition, because every transaction sends to it."""
        self.window = window or InFlightWindow()
        self._id_and_epoch = ProducerIdAndEpoch()
        self.sequences: dict[TopicPartition, int] = {}
        """Of the next record of a partition; from 2^31 - 1 on to 0, as brokers count."""
        self.log_starts: dict[TopicPartition, int] = {}
        """Where the partition's log began with its last response."""
        self._leaders: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._adding: set[TopicPartition] = set()
        self._new: list[TopicPartition] = []
        self._queues: dict[TopicPartition, deque[_Batch]] = {}
        self._ready: dict[int, dict[TopicPartition, None]] = {}
        self._in_flight: dict[int, int] = {}
        self._unacknowledged: set[_Batch] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waking: asyncio.Handle | None = None
        self._changed = asyncio.Event()
        self.bytes_in_flight = 0
        self.failed: KafkaFailure | None = None
        self.round_trip = UNKNOWN
        """Seconds that the quickest response took."""
        self.throttled_until = 0.0
        """In monotonic time: brokers ask to send nothing until then."""

    @property
    def in_transaction(self) -> bool:
        """Whether partitions were added, or may have been, since the last `restart` or `next_transaction`."""
        return bool(self._added or self._adding)

    def send(self, tp: TopicPartition, data: Writable, count: int) -> asyncio.Future[int]:
        """Sends a batch; `data` belongs to the sender from here on. The future has its base offset, and need not be
        awaited."""
        acknowledged: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.bytes_in_flight += len(data)
        batch = _Batch(tp, data, acknowledged, time.monotonic(), self.bytes_in_flight)
        self._unacknowledged.add(batch)
        if self.failed is not None:
            self._complete(batch, aborted(self.failed))
            return acknowledged
        sequence = self.sequences.get(tp, 0) if self._id_and_epoch.epoch >= 0 else -1
        stamp(data, *self._id_and_epoch, sequence, self._transactional_id is not None)
        self.sequences[tp] = (sequence + count) % _SEQUENCES
        queue = self._queues.setdefault(tp, deque())
        queue.append(batch)
        if tp in self._added:
            self._ready.setdefault(self._leaders[tp], {})[tp] = None
        else:
            for key in (tp, self.always):
                if key is not None and key not in self._adding and key not in self._added:
                    self._adding.add(key)
                    self._new.append(key)
        self._wake()
        return acknowledged

    async def flush(self) -> None:
        """Waits until all is acknowledged. Raises the first failure."""
        try:
            async with asyncio.timeout(self._left()):
                while self._unacknowledged and self.failed is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            self.fail(self._no_answer("write"))
        if self.failed is not None:
            raise self.failed

    def set_leaders(self, leaders: Mapping[int, Collection[TopicPartition]]) -> None:
        """Partitions by the node that leads them: they need not be looked up."""
        self._leaders.update((tp, node) for node, led in leaders.items() for tp in led)

    def next_transaction(self) -> None:
        """The next batch of a partition needs `add_partitions` again."""
        self._added.clear()

    def restart(self, id_and_epoch: ProducerIdAndEpoch) -> None:
        """After `close`: goes on with another producer id or epoch, from sequence 0."""
        self._id_and_epoch, self.failed = id_and_epoch, None
        for kept in (self.sequences, self.log_starts, self._leaders, self._added):
            kept.clear()

    async def close(self) -> None:
        """Ends all tasks. What is not acknowledged fails with ABORTED."""
        closed = failure(KafkaFault.ABORTED, "write", "The producer was closed")
        self.fail(closed)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for batch in list(self._unacknowledged):
            self._complete(batch, aborted(closed))
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        self._in_flight.clear()

    def _wake(self) -> None:
        if self._waking is None and self.failed is None:
            self._waking = asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._waking = None
        if self._new:
            new, self._new = self._new, []
            self._start(self._prepare, new)
        for node, tps in self._ready.items():
            while tps and self._in_flight.get(node, 0) < _IN_FLIGHT:
                self._in_flight[node] = self._in_flight.get(node, 0) + 1
                self._start(self._request, node, self._drain(tps))

    def _start(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        task = asyncio.get_running_loop().create_task(self._bounded(work, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bounded(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        try:
            async with asyncio.timeout(self._left()):
                await work(*arguments)
        except TimeoutError:
            self.fail(self._no_answer("write"))
        except KafkaFailure as error:
            self.fail(error)
        self._wake()

    async def _prepare(self, tps: Sequence[TopicPartition]) -> None:
        unknown = [tp for tp in tps if tp not in self._leaders]
        if unknown:
            await self._client.metadata(sorted({tp.topic for tp in unknown}))
            nodes, leaderless = self._client.by_leader(unknown)
            for why in leaderless.values():
                raise why
            self.set_leaders(nodes)
        if self._add_partitions is not None:
            await self._add_partitions(tps)
        self._adding.difference_update(tps)
        self._added.update(tps)
        for tp in tps:
            if queue := self._queues.get(tp):
                self._ready.setdefault(self._leaders[tp], {})[tp] = None
                for batch in queue:
                    batch.handed_over = time.monotonic()  # the time before says nothing of the network

    def _drain(self, tps: dict[TopicPartition, None]) -> dict[TopicPartition, _Batch]:
        """One batch for each partition, as many as fit; partitions that have more come last the next time."""
        batches: dict[TopicPartition, _Batch] = {}
        size, most = 0, stretched(REQUEST_BYTES, self.round_trip, _MOST_REQUEST_BYTES)
        for tp in list(tps):
            queue = self._queues[tp]
            size += len(queue[0].data)
            if batches and size > most:
                break
            batches[tp] = queue.popleft()
            del tps[tp]
            if queue:
                tps[tp] = None
        return batches

    async def _request(self, node: int, batches: dict[TopicPartition, _Batch]) -> None:
        doing = f"write to {', '.join(f'{topic}-{number}' for topic, number in list(batches)[:5])}"
        data = {tp: batch.data for tp, batch in batches.items()}
        call = produce_requests.produce(self._transactional_id, data, int(self.within * 1000))
        error, began = self._no_answer(doing), time.monotonic()
        try:
            produced, throttle = await self._client.send_bulk(node, call, read_produced, doing)
            self._learn(began, throttle, batches.values())
            for tp, batch in batches.items():
                response = produced.get(tp, NOT_ANSWERED)
                failed = refusal(response, tp)
                if failed is not None:
                    self.fail(failed)
                self.log_starts[tp] = response.log_start
                self._complete(batch, failed or response.offset)
        except KafkaFailure as raised:
            error = raised
            self.fail(error)
        finally:
            self._in_flight[node] -= 1
            for batch in batches.values():
                if batch in self._unacknowledged:
                    self._complete(batch, error)

    def _learn(self, began: float, throttle: float, batches: Collection[_Batch]) -> None:
        """Learns from a response how far away the broker is. `throttle`: seconds that the broker asks to wait."""
        now = time.monotonic()
        self.round_trip = quickest(self.round_trip, now - began)
        self.throttled_until = max(self.throttled_until, now + throttle)
        last, size = (
            max(batches, key=lambda each: each.handed_over),
            sum(len(batch.data) for batch in batches),
        )
        self.window.acknowledged(size, last.in_flight, now - last.handed_over, self.round_trip, throttle)

    def _left(self) -> float:
        return min(self.within, self.deadline - time.monotonic())

    def _no_answer(self, doing: str) -> KafkaFailure:
        return failure(KafkaFault.TIMEOUT, doing, f"No answer within {self.within:g} s")

    def _complete(self, batch: _Batch, result: int | KafkaFailure) -> None:
        self._unacknowledged.remove(batch)
        self.bytes_in_flight -= len(batch.data)
        self._changed.set()
        if batch.acknowledged.done():
            return
        if isinstance(result, int):
            batch.acknowledged.set_result(result)
        else:
            batch.acknowledged.set_exception(result)
            batch.acknowledged.exception()  # as if awaited; cheaper than a callback of each batch

    def fail(self, error: KafkaFailure) -> None:
        """Fails all that waits to be sent; requests in flight still get their responses."""
        if self.failed is None:
            self.failed = error
            if error.fault is KafkaFault.TIMEOUT:
                self.window.timed_out()
        waiting = [batch for queue in self._queues.values() for batch in queue]
        for kept in (self._queues, self._ready):
            kept.clear()
        self._new.clear()
        self._adding.clear()
        for batch in waiting:
            self._complete(batch, aborted(self.failed))
        self._changed.set()


def aborted(cause: KafkaFailure) -> KafkaFailure:
    """Returns the failure of what was aborted. `__cause__` decides how to go on: where no batch was at fault (a
    partition could not be added to the transaction, say, because somebody else has the id), nothing else says so."""
    not_written = KafkaFailure(KafkaFault.ABORTED, f"Not written, because something else failed: {cause}")
    not_written.__cause__ = cause
    return not_written

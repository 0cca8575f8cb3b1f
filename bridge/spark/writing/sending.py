"""Sends the batches of one task in one transaction: of a batch job with its commit record, of a stream for the driver
to commit (see epochs)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.model.values import TopicPartition
from bridge.spark.planning import patiently
from bridge.spark.writing.commits import (
    CommitRecord,
    Decision,
    Prepared,
    SinkTask,
    WrittenTotals,
    partly_written,
    unknown_query,
)
from bridge.spark.writing.commits_topic import ensure, find_epoch_of_tasks, look_up
from bridge.spark.writing.encoding import EncodedBatch
from bridge.spark.writing.epochs import last_decision, network_client, partitions_of
from bridge.spark.writing.options import HEAL, SinkOptions

_PAUSES = (0.1, 2.0)
"""Seconds before a transaction is tried again, and at most."""


class TaskTransaction:
    """The transaction of one task. For use in one event loop.

    Batches are held up to `buffer` bytes. If that is all, the transaction is as short as can be, and is tried again
    when a broker is away for a moment. What is more is sent while rows come, in a transaction that a failure ends."""

    def __init__(self, options: SinkOptions, task: SinkTask, since: int = 0) -> None:
        """`since`: the offset of the commits topic before which nothing stands of the task."""
        self._options, self._task, self._since = options, task, since
        self._client = network_client(options)
        self._id = options.transactional_id(task.query, task.partition)
        self._producer = TransactionalProducer(
            options.settings(), self._id, timeout_ms=options.transaction_ms
        )
        self._held: list[EncodedBatch] = []
        self._size = 0
        self._under_way: deque[asyncio.Future[int]] = deque()

    async def open(self) -> CommitRecord | None:
        """Takes over the id of a task of a batch job; returns what it has committed. Raises KafkaFailure."""
        return await patiently(self._open, self._options.patience, HEAL)

    async def partitions(self, topic: str) -> int:
        """How many the topic has. Raises SourceRejected for one that does not exist, and KafkaFailure."""
        return await patiently(lambda: partitions_of(self._client, topic), self._options.patience, HEAL)

    async def add(self, batches: Iterable[EncodedBatch]) -> None:
        """Raises KafkaFailure."""
        for batch in batches:
            if self._producer.open:
                await self._send(batch)
                continue
            self._held.append(batch)
            self._size += batch.chunk.size
            if self._size > self._options.buffer:
                await self._producer.begin()
                held, self._held = self._held, []
                for encoded_batch in held:
                    await self._send(encoded_batch)

    async def decided(self) -> Decision | None:
        """Returns what was decided last of the task's query; before `open_epoch`. Raises KafkaFailure."""
        query = self._task.query
        return await patiently(
            lambda: last_decision(self._client, self._options, query), self._options.patience, HEAL
        )

    async def open_epoch(self, last: Decision | None) -> None:
        """Takes over the id of a task of a stream; `last`: what was decided last. Raises SourceRejected and
        KafkaFailure."""
        await patiently(self._producer.start, self._options.patience, HEAL)
        if not self._producer.last_committed or last is not None:
            return
        query, topic = self._task.query, self._options.commits_topic
        older = await patiently(
            lambda: find_epoch_of_tasks(self._client, topic, query), self._options.patience, HEAL
        )
        if older is None:
            raise unknown_query(self._task, self._id, topic)
        if older >= self._task.epoch:
            raise partly_written(self._task, self._id)

    async def prepare(self) -> Prepared:
        """All of it is sent when this returns, in a transaction that stays open; nothing counts when it raises
        KafkaFailure."""
        await self._send_all(self._flush)
        return Prepared(self._task.partition, *self._producer.id_and_epoch)

    async def commit(self, written: WrittenTotals) -> None:
        """All of it is committed when this returns, and nothing when it raises KafkaFailure, unless it was the commit
        that was not answered; who opens the transaction again learns which."""

        async def finish() -> None:
            record = CommitRecord(self._task, written).packed
            await self._producer.send_records(self._options.commits_topic, [record])
            await self._producer.commit()
            self._under_way.clear()

        await self._send_all(finish)

    async def abort(self) -> None:
        """Nothing that was sent counts, as far as that can be said: never raises KafkaFailure."""
        if self._producer.open:
            with contextlib.suppress(KafkaFailure):
                await self._producer.abort()

    async def close(self) -> None:
        await self._producer.close()
        await self._client.close()

    async def _open(self) -> CommitRecord | None:
        await ensure(self._client, self._options)
        await self._producer.start(always=TopicPartition(self._options.commits_topic, 0))
        return await self._look_up()

    async def _look_up(self) -> CommitRecord | None:
        await self._client.metadata([self._options.commits_topic])
        return await look_up(self._client, self._options.commits_topic, self._task, self._since)

    async def _send(self, batch: EncodedBatch) -> None:
        window = self._producer.window
        while self._under_way and self._producer.bytes_in_flight + batch.chunk.size > window:
            await self._cause(self._under_way.popleft())
        self._under_way.append(self._producer.send(batch.tp, batch.chunk.data, batch.chunk.count))

    async def _cause(self, sent: asyncio.Future[int]) -> None:
        """Raises what a batch failed with, and for one that failed with others, what these did."""
        try:
            await sent
        except KafkaFailure as error:
            cause = error.__cause__ if error.fault is KafkaFault.ABORTED else None
            raise (cause if isinstance(cause, KafkaFailure) else error) from None

    async def _send_all(self, finish: Callable[[], Awaitable[None]]) -> None:
        """Sends what is held, and finishes; again where that fails with what heals. Raises KafkaFailure."""
        if self._producer.open:
            await finish()
            return
        backoff, until = Backoff(*_PAUSES), time.monotonic() + self._options.patience
        while True:
            try:
                await self._producer.begin()
                for batch in self._held:
                    await self._send(batch)
                await finish()
                return
            except KafkaFailure as error:
                pause = backoff.next()
                if error.fault not in HEAL or time.monotonic() + pause > until:
                    raise
                self._under_way.clear()
            await asyncio.sleep(pause)
            await self._producer_again(until)
            if await patiently(self._look_up, self._options.patience, HEAL) is not None:
                return  # it was only the answer that was lost

    async def _flush(self) -> None:
        await self._producer.flush()
        self._under_way.clear()

    async def _producer_again(self, until: float) -> None:
        """Aborts what failed. Raises KafkaFailure."""
        await patiently(self._producer.abort, max(1.0, until - time.monotonic()), HEAL)

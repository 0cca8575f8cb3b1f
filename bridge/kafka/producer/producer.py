"""Producers: batches and records in transactions, and offset syncs without.

Records of state topics: in batches, and appended outside of transactions, acknowledged by all in-sync replicas.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Collection, Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from bridge.backoff import Backoff, pauses
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import RawSettings, producer_settings
from bridge.kafka.consumer.log_bounds import open_transactions
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.in_flight import InFlightWindow, quickest
from bridge.kafka.producer.sender import BatchSender
from bridge.kafka.producer.transaction_coordinator import (
    TRANSACTION_TIMEOUT_MS,
    Coordinator,
    StillEnding,
    fence,
    transaction_timeout_ms,
)
from bridge.kafka.protocol.errors import failure, not_allowed_to_write, of_code
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.protocol.wire import Writable
from bridge.kafka.record.compression import LZ4
from bridge.model.values import TopicPartition

__all__ = ["StillEnding", "SyncProducer", "TransactionalProducer", "fence", "producer_settings"]


KeyValue = tuple[bytes | None, bytes | None]

_RECORDS_BYTES = 512 * 1024
"""Of records of a state topic in one batch, before compression: below every broker's default limit."""
_PORTION = 200
"""Records that are built, and perhaps sent again, together."""
_RETRIABLE = {KafkaFault.LEADER_MOVED, KafkaFault.UNREACHABLE, KafkaFault.UNKNOWN_TOPIC}
"""What another leader may heal, or a moment: not every broker knows a topic at once that was just created."""
_PAUSES = (0.1, 0.5, 2)
"""Seconds before a batch is sent again, with its leader looked up anew: the first pause, the longest, and how many;
then its failure is raised."""
_ABORT_SECONDS = 2.0
_START_SECONDS = 30.0
"""A cluster without transactions has to create __transaction_state first."""
_FLUSHED_AFTER = 0.8
"""Part of a transaction's time by which all of it has to be acknowledged; the rest is for EndTxn to arrive."""
_CLOSE_SECONDS = 2.0
RETRY_SECONDS = (0.1, 5.0)
"""Seconds: the first pause after a failure and the longest."""


def record_batches(records: Sequence[KeyValue], codec: int = 0) -> list[tuple[bytearray, int]]:
    """Batches of the records, and how many are in each. A record that is too large for a batch has one of its own."""
    now = time.time_ns() // 1_000_000
    batches: list[tuple[bytearray, int]] = []
    position = 0
    while position < len(records):
        builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, _RECORDS_BYTES)
        count = 0
        while position < len(records):
            key, value = records[position]
            if builder.append(count, now, key, value, []) is None:
                break
            count, position = count + 1, position + 1
        batches.append((bytearray(builder.build()), count))
    return batches


class StateWriter:
    """Appends to partition 0, one batch in flight, at least once: each record stands for its key, so twice is harmless.

    No producer id is asked for, so that writing needs no right but that of the topic.
    """

    def __init__(self, client: NetworkClient, timeout: float) -> None:
        """`timeout`: seconds that a batch may take. The caller closes the client."""
        self._client = client
        self._sender = BatchSender(client, None, timeout)
        self._appending = asyncio.Lock()

    async def append(self, topic: str, records: Sequence[KeyValue]) -> None:
        """Acknowledged when this returns. Raises KafkaFailure; then some may be."""
        async with self._appending:
            for pieces in _portions(records):
                await self._write(topic, pieces)

    async def close(self) -> None:
        await self._sender.close()

    async def _write(self, topic: str, records: Sequence[KeyValue]) -> None:
        for pause in (*pauses(*_PAUSES), None):
            try:
                if self._sender.failed is not None:
                    await self._sender.close()
                    self._sender.restart(ProducerIdAndEpoch())
                for data, count in record_batches(records, LZ4):
                    self._sender.send(TopicPartition(topic, 0), data, count)
                    await self._sender.flush()
                return
            except KafkaFailure as failed:
                if failed.fault is KafkaFault.UNKNOWN_TOPIC:
                    await self._refuse_unseen(topic)
                if failed.fault not in _RETRIABLE or pause is None:
                    raise
            await asyncio.sleep(pause)

    async def _refuse_unseen(self, topic: str) -> None:
        """A topic that we may not describe looks like one that is not there. Raises KafkaFailure."""
        doing = f"write to {topic}"
        failed = of_code((await self._client.metadata([topic]))[topic].error, doing)
        if failed is not None and failed.fault is KafkaFault.NOT_AUTHORIZED:
            raise not_allowed_to_write([topic], doing)


def _portions(records: Sequence[KeyValue]) -> list[Sequence[KeyValue]]:
    return [records[start : start + _PORTION] for start in range(0, len(records), _PORTION)]


class TransactionalProducer:
    """Transactions of one transactional id, one after the other.

    Any error ends the transaction: its batch's future and `commit` raise it, the futures of the others ABORTED, and
    only `abort` (then `begin`) or `close` may follow. FENCED is the end: somebody else has the id, or the transaction
    took longer than `timeout_ms`, for which a broker sends the same error.

    After a `commit` that raised it may be committed or not: read what was sent after `abort`.

    `timeout_ms` is the transaction.timeout.ms of a cluster near by; `timeout` says what it is over this distance. What
    was sent has to be acknowledged well before, so that it is we who end a transaction that takes too long, with
    TIMEOUT: the broker's error would be FENCED. Every wait ends by then (that of `start` after 30 s), and no task
    outlives `close`. `window`: how much may be in flight, as far as former producers have learnt it.
    `ends_within`: as of Coordinator. `fail_disconnected`: no transaction begins once a connection was lost
    (`disconnected`).
    """

    def __init__(
        self,
        settings: RawSettings,
        transactional_id: str,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        window: InFlightWindow | None = None,
        ends_within: float = math.inf,
        *,
        fail_disconnected: bool = False,
    ) -> None:
        self._client = NetworkClient(settings)
        self._near_ms = self._timeout_ms = timeout_ms
        self._coordinator = Coordinator(self._client, transactional_id, ends_within)
        self._id_and_epoch = ProducerIdAndEpoch()
        self._sender = BatchSender(
            self._client, transactional_id, timeout_ms / 1000, self._add_partitions, window
        )
        self._open = False
        self._fail_disconnected, self._dropped_before = fail_disconnected, 0
        self._began = math.inf
        """When a transaction did that has not ended, by the monotonic clock."""

    @property
    def open(self) -> bool:
        """Whether a transaction is: begun, and neither committed nor aborted."""
        return self._open

    @property
    def id_and_epoch(self) -> ProducerIdAndEpoch:
        """Nobody else ever has the same ones."""
        return self._id_and_epoch

    @property
    def disconnected(self) -> bool:
        """Whether a connection was lost since the last `start` or `abort`: a broker that comes back may have left out
        markers of transactions that are committed (see layouts.hanging)."""
        return self._client.connections_dropped > self._dropped_before

    @property
    def bytes_in_flight(self) -> int:
        """Bytes of batches that are sent and not acknowledged yet."""
        return self._sender.bytes_in_flight

    @property
    def window(self) -> int:
        """Bytes that may be in flight."""
        return self._sender.window.size

    @property
    def throttled(self) -> float:
        """Seconds for which brokers ask us to send nothing."""
        return max(0.0, self._sender.throttled_until - time.monotonic())

    @property
    def round_trip(self) -> float:
        """Seconds to the cluster and back, at the quickest; 0 before `start`."""
        return self._sender.round_trip

    @property
    def timeout(self) -> float:
        """Seconds after which the broker aborts a transaction."""
        return self._timeout_ms / 1000

    def log_start(self, tp: TopicPartition) -> int:
        """Returns where a partition's log began with its last response; 0 before the first."""
        return max(0, self._sender.log_starts.get(tp, 0))

    async def start(self, tps: Sequence[TopicPartition] = (), always: TopicPartition | None = None) -> None:
        """Fences older holders of the id and aborts what they have open. Connects to the leaders of `tps` meanwhile,
        which takes as long over a distance. `always`: a partition that every transaction writes to, at its end."""
        self._sender.always = always
        connecting = asyncio.get_running_loop().create_task(self._connect(tps))
        try:
            await self._init_producer_id(_START_SECONDS)
            self._sender.set_leaders(await connecting)
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)

    async def begin(self) -> None:
        assert not self._open, "a transaction is open"
        self._open, self._began = True, time.monotonic()
        self._sender.deadline = time.monotonic() + self._sender.within

    def send(self, tp: TopicPartition, data: Writable, count: int) -> asyncio.Future[int]:
        """Sends one batch of `count` offsets (Chunk.data), in order within a partition; the future has its base
        offset, and need not be awaited: `commit` raises too. Whoever sends keeps `bytes_in_flight` in the `window`."""
        assert self._open, "no transaction is open"
        return self._sender.send(tp, data, count)

    async def send_records(self, topic: str, records: Sequence[KeyValue]) -> None:
        """Sends records to partition 0, with the time of now; `commit` waits for them."""
        for data, count in record_batches(records):
            self.send(TopicPartition(topic, 0), data, count)

    async def write(self, topic: str, records: Sequence[KeyValue]) -> None:
        """Writes these records, and nothing else, in one transaction. Raises KafkaFailure; then none of them counts,
        unless it was the commit that got no response."""
        await self.begin()
        try:
            await self.send_records(topic, records)
            await self.commit()
        except KafkaFailure:
            await self.abort()
            raise

    async def flush(self) -> None:
        """Waits for what was sent, in a transaction that stays open."""
        await self._sender.flush()

    async def commit(self) -> None:
        """Waits for what was sent; then it is committed, all of it."""
        assert self._open, "no transaction is open"
        await self._sender.flush()
        if self._sender.in_transaction:
            try:
                await self._coordinator.end(self._id_and_epoch, self._sender.within, commit=True)
            except KafkaFailure as error:
                self._sender.fail(error)
                raise
        self._sender.next_transaction()
        self._open, self._began = False, math.inf

    async def abort(self) -> None:
        """Aborts the transaction: nothing of it counts when this returns. May be called again when it raises, but for
        FENCED."""
        failed = self._sender.failed
        if failed is not None and failed.fault is KafkaFault.FENCED:
            raise failed
        await self._sender.close()
        await self._coordinator.end(self._id_and_epoch, self._sender.within, commit=False)
        await self._init_producer_id(self._sender.within)
        self._open, self._began = False, math.inf

    @property
    def last_committed(self) -> bool:
        """Whether the id's last transaction before the last `start` or `abort` is committed, whoever had it."""
        return self._coordinator.last_committed

    async def open_transactions(
        self, tps: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaFailure]]:
        """Returns where transactions begin that are open now in these partitions, anybody's, and why others do not
        tell. Raises KafkaFailure."""
        await self._client.metadata(sorted({tp.topic for tp in tps}))
        return await open_transactions(self._client, tps)

    async def end_hanging(self, tps: Collection[TopicPartition], *, commit: bool) -> None:
        """Ends what earlier transactions of this id have left open in these partitions, as they have ended elsewhere. A
        coordinator that finds no leader for a partition takes it for deleted and writes no marker there (seen with
        Kafka 4.3); the marker of the next transaction would end it, aborted or not, as that one ends. A transaction
        without records writes a marker alone, which changes nothing where nothing of this id is open. Raises
        KafkaFailure."""
        assert not self._open, "a transaction is open"
        self._began = time.monotonic()
        self._id_and_epoch = await self._coordinator.end_hanging(
            lambda: self._timeout_ms, self._id_and_epoch, tps, self._sender.within, commit=commit
        )
        self._sender.restart(self._id_and_epoch)
        self._began = math.inf

    async def has_timed_out(self) -> bool:
        """Whether FENCED means that our transaction took longer than `timeout`, and that nobody has taken over the id.
        Raises KafkaFailure."""
        if time.monotonic() - self._began < self.timeout:
            return False
        return await self._coordinator.has_timed_out(_START_SECONDS)

    async def close(self, *, abort: bool = False) -> None:
        """An open transaction stays open until another producer takes over the id, or its time is up; with `abort` it
        is aborted, where the coordinator answers soon."""
        await self._sender.close()
        if self._open and abort and not isinstance(self._sender.failed, StillEnding):
            with contextlib.suppress(KafkaFailure):
                await self._coordinator.end(self._id_and_epoch, _ABORT_SECONDS, commit=False)
        await self._client.close()

    async def _init_producer_id(self, within: float) -> None:
        def timeout_ms() -> int:
            round_trip, patience = self._client.round_trip, self._sender.window.patience
            self._timeout_ms = transaction_timeout_ms(self._near_ms, round_trip, patience)
            return self._timeout_ms

        self._id_and_epoch = await self._coordinator.init(timeout_ms, self._id_and_epoch, within)
        self._dropped_before = self._client.connections_dropped
        self._sender.within = _FLUSHED_AFTER * self.timeout
        self._sender.round_trip = quickest(self._sender.round_trip, self._client.round_trip)
        self._sender.restart(self._id_and_epoch)

    async def _connect(self, tps: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Connects to the leaders of these partitions, and returns them. None when that fails: it is tried again with
        the first batch, which fails with the reason."""
        try:
            await self._client.metadata(sorted({tp.topic for tp in tps}))
            return await self._connected(tps)
        except KafkaFailure:
            return {}

    async def _connected(self, tps: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        nodes, _ = self._client.by_leader(tps)
        for node in nodes:
            await self._client.connect_bulk(node, "write")
        return nodes

    async def _add_partitions(self, tps: Sequence[TopicPartition]) -> None:
        # Connections first: while they are opened there is no transaction, and batches have the network to themselves.
        await self._connected(tps)
        if self._fail_disconnected and self.disconnected:
            raise failure(KafkaFault.UNREACHABLE, "begin a transaction", "A connection was lost")
        await self._coordinator.add(
            self._id_and_epoch, tps, self._sender.within, retry=not self._fail_disconnected
        )


class SyncProducer:
    """Records of partition 0, outside of transactions, at least once: each stands for its key, so twice is harmless.

    No producer id is asked for, so that writing needs no right but that of the topic.
    """

    def __init__(self, settings: RawSettings, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> None:
        self._client = NetworkClient(settings)
        self._sender = BatchSender(self._client, None, timeout_ms / 1000)
        self._writing = asyncio.Lock()
        self._pending: list[tuple[str, KeyValue]] = []
        self._sending: asyncio.Task[None] | None = None
        self.failed: KafkaFailure | None = None
        """Why the last try to write failed; None after one that succeeded."""

    def send(self, topic: str, records: Sequence[KeyValue]) -> None:
        """Writes later, and tries until it succeeds; meanwhile only the newest record of a key is kept."""
        self._pending += ((topic, record) for record in records)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def write(self, topic: str, records: Sequence[KeyValue]) -> None:
        """Written when this returns. Raises KafkaFailure; then some may be."""
        async with self._writing:
            if self._sender.failed is not None:
                await self._sender.close()
                self._sender.restart(ProducerIdAndEpoch())
            for data, count in record_batches(records):
                self._sender.send(TopicPartition(topic, 0), data, count)
            await self._sender.flush()

    async def close(self) -> None:
        """Closes the connections: what was sent and is not written within a moment is dropped."""
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=_CLOSE_SECONDS)
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        await self._sender.close()
        await self._client.close()

    async def _send(self) -> None:
        backoff = Backoff(*RETRY_SECONDS)
        while self._pending:
            batch, self._pending = self._pending, []
            topics: dict[str, list[KeyValue]] = {}
            for topic, record in batch:
                topics.setdefault(topic, []).append(record)
            try:
                for topic, records in topics.items():
                    await self.write(topic, records)
                self.failed = None
                backoff.reset()
            except KafkaFailure as error:
                self.failed = error
                newest = {(topic, record[0]): (topic, record) for topic, record in (*batch, *self._pending)}
                self._pending = list(newest.values())
                await asyncio.sleep(backoff.next())

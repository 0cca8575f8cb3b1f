"""Requests of a producer, encoding only: FindCoordinator, DescribeTransactions, InitProducerId, AddPartitionsToTxn,
Produce, EndTxn.

Transactions as brokers have them from 2.5 on: InitProducerId takes the id and epoch that we had (KIP-360), so that
continuing after an error never fences a newer producer.

Responses to Produce: the base offset of each batch, or why it was not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure, not_allowed_to_write, of_code
from bridge.kafka.protocol.wire import ApiKeys, BytesLike, Call, Reader, Writer
from bridge.model.values import TopicPartition

_NAMED = 3
"""Records of a batch that an error names."""


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch by which a broker knows a producer; (-1, -1) before InitProducerId, and for a producer
    without one."""

    producer_id: int = -1
    epoch: int = -1


def find_transaction_coordinator(transactional_id: str) -> Call:
    """FindCoordinator v1 to v2."""

    def write(writer: Writer, _version: int) -> None:
        writer.string(transactional_id)
        writer.int8(1)

    return Call(ApiKeys.FIND_COORDINATOR, versions=range(1, 3), flexible_from=3, write=write)


def read_transaction_coordinator(response: Reader) -> tuple[int, int]:
    """Error and node."""
    response.skip(4)
    error = response.int16()
    response.string()
    return error, response.int32()


def list_transactions(states: Sequence[str]) -> Call:
    """ListTransactions v0 (KIP-664), from Kafka 3.0 on: those of a coordinator that are in these states."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(states))
        for state in states:
            writer.string(state)
        writer.array(0)  # of whatever producers
        writer.tags()

    return Call(ApiKeys.LIST_TRANSACTIONS, versions=range(1), flexible_from=0, write=write)


def read_listed_transactions(response: Reader) -> tuple[int, list[str]]:
    """Error, and the transactional ids, those that we may describe."""
    response.skip(4)
    error = response.int16()
    for _ in response.array():
        response.string()  # a state that the broker does not know
    ids = []
    for _ in response.array():
        ids.append(response.string())
        response.skip(8)  # producer id
        response.string()  # state
        response.tags()
    return error, ids


def describe_transactions(transactional_ids: Sequence[str]) -> Call:
    """DescribeTransactions v0 (KIP-664), from Kafka 3.0 on."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(transactional_ids))
        for text in transactional_ids:
            writer.string(text)
        writer.tags()

    return Call(ApiKeys.DESCRIBE_TRANSACTIONS, versions=range(1), flexible_from=0, write=write)


class DescribedTransaction(NamedTuple):
    """`state`: as Kafka's TransactionState names it; `timeout_ms`: as InitProducerId was given it; `partitions`: those
    that are part of it and have no marker yet."""

    error: int
    state: str
    timeout_ms: int
    id_and_epoch: ProducerIdAndEpoch
    partitions: Set[TopicPartition] = frozenset()

    @property
    def ending(self) -> bool:
        """Whether it is decided, and markers are still to be written. Its id can't be taken over meanwhile."""
        return self.state in ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")


def read_described_transactions(response: Reader) -> dict[str, DescribedTransaction]:
    """By transactional id."""
    response.skip(4)
    described = {}
    for _ in response.array():
        error, transactional_id, state = response.int16(), response.string(), response.string()
        timeout_ms = response.int32()
        response.skip(8)  # start time
        id_and_epoch = ProducerIdAndEpoch(response.int64(), response.int16())
        partitions = set()
        for _ in response.array():
            topic = response.string() or ""
            partitions |= {TopicPartition(topic, response.int32()) for _ in response.array()}
            response.tags()
        response.tags()
        described[transactional_id or ""] = DescribedTransaction(
            error, state or "", timeout_ms, id_and_epoch, partitions
        )
    return described


def init_producer_id(transactional_id: str | None, timeout_ms: int, id_and_epoch: ProducerIdAndEpoch) -> Call:
    """InitProducerId v3 to v4: aborts the id's open transaction and raises its epoch. If `id_and_epoch` is given, the
    broker fences us when another producer has taken the id since; without it, this call fences whoever holds the id."""

    def write(writer: Writer, _version: int) -> None:
        writer.string(transactional_id)
        writer.int32(timeout_ms)
        writer.int64(id_and_epoch.producer_id)
        writer.int16(id_and_epoch.epoch)
        writer.tags()

    return Call(ApiKeys.INIT_PRODUCER_ID, versions=range(3, 5), flexible_from=2, write=write)


def read_producer_id(response: Reader) -> tuple[int, ProducerIdAndEpoch]:
    response.skip(4)
    return response.int16(), ProducerIdAndEpoch(response.int64(), response.int16())


def _by_topic(tps: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in tps:
        topics.setdefault(topic, []).append(partition)
    return topics


def add_partitions(
    transactional_id: str, id_and_epoch: ProducerIdAndEpoch, tps: Iterable[TopicPartition]
) -> Call:
    """AddPartitionsToTxn v2 to v3."""
    topics = _by_topic(tps)

    def write(writer: Writer, _version: int) -> None:
        writer.string(transactional_id)
        writer.int64(id_and_epoch.producer_id)
        writer.int16(id_and_epoch.epoch)
        writer.array(len(topics))
        for topic, partitions in topics.items():
            writer.string(topic)
            writer.array(len(partitions))
            for partition in partitions:
                writer.int32(partition)
            writer.tags()
        writer.tags()

    return Call(ApiKeys.ADD_PARTITIONS_TO_TXN, versions=range(2, 4), flexible_from=3, write=write)


def read_added_partitions(response: Reader) -> dict[TopicPartition, int]:
    """Error codes."""
    response.skip(4)
    errors = {}
    for _ in response.array():
        topic = response.string()
        for _ in response.array():
            partition = response.int32()
            errors[TopicPartition(topic, partition)] = response.int16()
            response.tags()
        response.tags()
    return errors


def end_transaction(transactional_id: str, id_and_epoch: ProducerIdAndEpoch, *, commit: bool) -> Call:
    """EndTxn v2 to v3."""

    def write(writer: Writer, _version: int) -> None:
        writer.string(transactional_id)
        writer.int64(id_and_epoch.producer_id)
        writer.int16(id_and_epoch.epoch)
        writer.int8(1 if commit else 0)
        writer.tags()

    return Call(ApiKeys.END_TXN, versions=range(2, 4), flexible_from=3, write=write)


def read_ended_transaction(response: Reader) -> int:
    """The error code."""
    response.skip(4)
    return response.int16()


def produce(
    transactional_id: str | None, batches: Mapping[TopicPartition, BytesLike], timeout_ms: int
) -> Call:
    """Produce v8 (the first that says which record was refused, KIP-467), to all in-sync replicas; one batch for each
    partition, which is all that a broker takes."""
    topics = _by_topic(batches)

    def write(writer: Writer, _version: int) -> None:
        writer.string(transactional_id)
        writer.int16(-1)
        writer.int32(timeout_ms)
        writer.array(len(topics))
        for topic, partitions in topics.items():
            writer.string(topic)
            writer.array(len(partitions))
            for partition in partitions:
                writer.int32(partition)
                writer.blob(batches[TopicPartition(topic, partition)])

    return Call(ApiKeys.PRODUCE, versions=range(8, 9), flexible_from=9, write=write)


class Produced(NamedTuple):
    """A partition's answer to Produce. `refused`: index within the batch and the broker's words, of records that spoilt
    it. `log_start`: where the partition's log begins, -1 for unknown."""

    error: int
    offset: int
    refused: tuple[tuple[int, str], ...]
    message: str
    log_start: int = -1


NOT_ANSWERED = Produced(Errors.UNKNOWN_SERVER_ERROR, -1, (), "The response does not contain the partition")


def read_produced(response: Reader) -> tuple[dict[TopicPartition, Produced], float]:
    """Reads the answers by partition, and for how many seconds the broker asks to send nothing more, because of a quota
    (KIP-219)."""
    produced = {}
    for _ in response.array():
        topic = response.string()
        for _ in response.array():
            partition, error, offset = response.int32(), response.int16(), response.int64()
            response.skip(8)
            log_start = response.int64()
            refused = tuple((response.int32(), response.string()) for _ in response.array())
            produced[TopicPartition(topic, partition)] = Produced(
                error, offset, refused, response.string(), log_start
            )
    return produced, response.int32() / 1000


def refusal(produced: Produced, tp: TopicPartition) -> KafkaFailure | None:
    """Why the batch of this partition was not written; None if it was."""
    doing = f"write to {tp.topic}-{tp.partition}"
    failed = of_code(produced.error, doing)
    if produced.error == Errors.TOPIC_AUTHORIZATION_FAILED:
        return not_allowed_to_write([tp.topic], doing)
    if failed is None and produced.offset >= 0:
        return None
    if failed is None:
        # Of a duplicate that the broker has forgotten.
        return failure(KafkaFault.OTHER, doing, "The response has no base offset")
    named = {index: why or produced.message for index, why in produced.refused}
    text = "; ".join(f"record {index} of the batch: {why}" for index, why in list(named.items())[:_NAMED])
    text = text or produced.message
    if not text:
        return failed
    more = f"; and {len(named) - _NAMED} record(s) more" if len(named) > _NAMED else ""
    records = {index: f"{failed}: {why}" for index, why in named.items()}
    return KafkaFailure(failed.fault, f"{failed}: {text}{more}", retriable=failed.retriable, records=records)

"""Commits an epoch as a whole: all that its tasks have sent, or nothing, whatever becomes of whom.

An epoch is a micro-batch of a stream, or a batch that is saved with txnAppId and txnVersion.

    task       takes over its transactional id │ sends its rows │ leaves the transaction open      prepared
    driver     all tasks have prepared ─▶ writes the decision ─▶ commits each of the transactions  decided, then ended

- Nothing of an epoch counts before the decision: a record of the commits topic that names the epoch's transactions. A
  run that is started again without it sends all rows again, in whatever split: its tasks abort what the last one has
  left, by taking over the ids.
- With it the epoch is written: tasks read their rows and send none, and the driver commits what is not committed yet.
- Who asks for the decision first takes over the id by which it is written: an older driver decides nothing any more,
  and what it has decided is to be seen. Only without a decision does a task take over its own id.

What can go wrong is a transaction that its coordinator aborts after the decision, because its time was up
(kafka.transaction.timeout.ms) before the driver, or the next one, has come to commit it. Then a part of the epoch is
missing for good, and the query says which; `partialEpoch` leads out.

Connects to the cluster that is written to, and asks for its topics. Loads nothing that only tasks need.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer, fence
from bridge.kafka.producer.transaction_coordinator import Coordinator
from bridge.kafka.protocol import produce_requests
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.spark.planning import patiently
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing.commits import Decision, Prepared
from bridge.spark.writing.commits_topic import ensure, find_decision
from bridge.spark.writing.options import HEAL, TRANSACTION_MS, PartialEpoch, SinkOptions

log = logging.getLogger(__name__)

_AT_A_TIME = 50
"""Transactions that are asked for, or ended, together."""
_LOST = frozenset({KafkaFault.FENCED})
_ONGOING = "Ongoing"


def network_client(options: SinkOptions) -> NetworkClient:
    """A client of the cluster that the options name."""
    # The library logs each failed attempt as an error; who writes gets one line.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return NetworkClient(options.settings())


async def partitions_of(client: NetworkClient, topic: str) -> int:
    """Raises SourceRejected for a topic that does not exist, and KafkaFailure."""
    described = (await client.metadata([topic]))[topic]
    failed = of_code(described.error, f"describe topic {topic}", f"DESCRIBE on topic {topic}")
    if failed is not None and failed.fault is KafkaFault.UNKNOWN_TOPIC:
        where = ",".join(client.settings.bootstrap_servers)
        near = get_close_matches(topic, await client.topic_names(), 1, 0.75)
        text = f"there is no topic {topic} on {where}, and the sink makes none"
        raise SourceRejected(text + (f"; did you mean {near[0]}?" if near else ""))
    if failed is not None:
        raise failed
    return len(described.partitions)


async def commit_epoch(options: SinkOptions, query: str, epoch: int, prepared: Sequence[Prepared]) -> None:
    """Commits what the tasks of an epoch have prepared, unless the epoch is decided already; then what was decided.
    Raises SourceRejected and KafkaFailure; without a decision nothing counts then."""
    client = network_client(options)
    try:
        last = await patiently(lambda: last_decision(client, options, query), options.patience, HEAL)
        verify_newest(last, query, epoch)
        if last is not None and last.epoch == epoch:
            await _end(client, options, last)
            return
        if not prepared:
            return
        await _verify_open(client, options, query, epoch, prepared)
        decision = Decision(query, epoch, tuple(prepared))
        await _decide(options, decision)
        await _end(client, options, decision)
        await _end_others(client, options, query)
    finally:
        await client.close()


async def abort_epoch(options: SinkOptions, query: str, epoch: int) -> None:
    """Aborts what tasks of an epoch that has failed have left open, unless the epoch is decided: what is not committed
    of it then is for the next attempt. Raises KafkaFailure."""
    client = network_client(options)
    try:
        last = await patiently(lambda: last_decision(client, options, query), options.patience, HEAL)
        if last is None or last.epoch < epoch:
            await _end_others(client, options, query)
    finally:
        await client.close()


def verify_newest(last: Decision | None, query: str, epoch: int) -> None:
    """Raises SourceRejected where a later epoch was decided."""
    if last is not None and last.epoch > epoch:
        raise SourceRejected(
            f"query {query} has already written epoch {last.epoch}, and is at epoch {epoch} now: its checkpoint is "
            "older than what it has written, or another query has a copy of it; restore the newest one, or begin with "
            "a new checkpoint (and, in foreachBatch, another txnAppId)"
        )


async def last_decision(client: NetworkClient, options: SinkOptions, query: str) -> Decision | None:
    """Returns what was decided last of a query: nobody who has asked before decides anything after that. Raises
    KafkaFailure."""
    await ensure(client, options)
    driver = Coordinator(client, options.driver_id(query))
    await driver.init(lambda: TRANSACTION_MS, ProducerIdAndEpoch(), options.patience)
    await client.metadata([options.commits_topic])
    return await find_decision(client, options.commits_topic, query)


async def _verify_open(
    client: NetworkClient, options: SinkOptions, query: str, epoch: int, prepared: Sequence[Prepared]
) -> None:
    """Raises SourceRejected where a transaction is not the one that its task has left: its time was up, or somebody has
    taken over its id. Brokers before 3.0 do not tell: there ending it is what finds out."""

    async def verify(task: Prepared) -> None:
        coordinator = Coordinator(client, options.transactional_id(query, task.partition))
        last = await coordinator.describe(options.patience)
        if last is not None and (last.state != _ONGOING or last.id_and_epoch != _holder(task)):
            raise SourceRejected(
                f"transaction {coordinator.transactional_id} of epoch {epoch} is {last.state}, and not as its task has "
                f"left it: the epoch took longer than kafka.transaction.timeout.ms ({options.transaction_ms}), or "
                "another query has a copy of the same checkpoint; nothing of the epoch was written"
            )

    for some in _parts(prepared):
        await asyncio.gather(*map(verify, some))


async def _decide(options: SinkOptions, decision: Decision) -> None:
    """From here on the epoch is written. By a transactional id of the query's own, which older drivers lose."""
    producer = TransactionalProducer(options.settings(), options.driver_id(decision.query))
    try:
        await patiently(producer.start, options.patience, HEAL)
        await producer.write(options.commits_topic, [decision.packed])
    finally:
        await producer.close()


async def _end(client: NetworkClient, options: SinkOptions, decision: Decision) -> None:
    """Commits the transactions of a decided epoch, those that are committed once more. Raises SourceRejected where some
    are aborted, unless `partialEpoch` says to go on."""
    lost: list[int] = []

    async def end(task: Prepared) -> None:
        coordinator = Coordinator(client, options.transactional_id(decision.query, task.partition))
        try:
            await coordinator.end(_holder(task), options.patience, commit=True)
        except KafkaFailure as error:
            if error.fault not in _LOST:
                raise
            # Somebody has taken the id over since then: its coordinator tells how the transaction before has ended.
            await coordinator.init(lambda: TRANSACTION_MS, ProducerIdAndEpoch(), options.patience)
            if not coordinator.last_committed:
                lost.append(task.partition)

    for some in _parts(decision.transactions):
        await asyncio.gather(*map(end, some))
    if lost and options.partial_epoch is PartialEpoch.FAIL:
        raise SourceRejected(
            f"epoch {decision.epoch} of query {decision.query} is on the target but for the rows of Spark partition(s) "
            f"{', '.join(map(str, sorted(lost)[:10]))}: their transactions were aborted after the epoch was decided, "
            f"because kafka.transaction.timeout.ms ({options.transaction_ms}) was over before they were committed. "
            "Start the query once with partialEpoch=skip to go on without these rows"
        )


async def _end_others(client: NetworkClient, options: SinkOptions, query: str) -> None:
    """Aborts what other attempts of the query have left open: nobody takes over their ids where this one has fewer
    Spark partitions, or no rows in some. Best effort: their time is up at last."""
    mine = options.transactional_id(query, 0).removesuffix("0")

    async def listed(node: int) -> list[str]:
        doing = "list transactions"
        response = await client.send(node, produce_requests.list_transactions([_ONGOING]), doing)
        error, ids = produce_requests.read_listed_transactions(response)
        failed = of_code(error, doing)
        if failed is not None:
            raise failed
        return [text for text in ids if text.startswith(mine) and text.removeprefix(mine).isdecimal()]

    try:
        found = await asyncio.gather(*map(listed, await client.nodes()))
        ids = [text for some in found for text in some]
        for start in range(0, len(ids), _AT_A_TIME):
            await fence(options.settings(), ids[start : start + _AT_A_TIME])
    except KafkaFailure as error:
        log.warning("could not abort what earlier attempts of query %s have left open: %s", query, error)


def _holder(task: Prepared) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(task.producer_id, task.producer_epoch)


def _parts(tasks: Sequence[Prepared]) -> Iterator[Sequence[Prepared]]:
    return (tasks[start : start + _AT_A_TIME] for start in range(0, len(tasks), _AT_A_TIME))

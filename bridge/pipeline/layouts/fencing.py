"""Fences slices and drivers of a connector off by their transactional ids, so that they commit nothing more (see
state).

Ends transactions of slices and drivers that a broker has left open without a marker (hanging, KIP-664), before
anything follows them.

    remote partition   ... | copies, committed | copies of a transaction without a marker |  <- what a slice writes next
                                               ^ last stable offset

A coordinator that comes back and finds no leader for a partition takes it for deleted, and writes no marker there. What
stands there hides all that follows it from who reads committed records; and the next marker of the same producer id,
whichever it is, ends it too: a commit would commit records that were aborted, which were copied again since then.

So who takes over a transactional id ends such a transaction first, by a transaction without records that ends as that
one did:

- in a state topic as the id's last transaction ended, which its coordinator tells, and keeps for the next one where who
  has taken the id over dies (transaction_coordinator): each transaction writes to the runs topic;
- in a copy as its run says: a transaction has records and their run, or neither. So it is right also where the
  partition was away for many transactions. The runs topic comes first.

Others' transactions, of an application that writes to the same topic, look the same from outside: to end none of one's
own there changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.log_bounds import open_transactions
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer, fence, producer_settings
from bridge.kafka.state_topics import read_uncommitted
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.values import CopyId, LogRecord, Side, TopicPartition
from bridge.pipeline.layouts.left_ids import read_left
from bridge.pipeline.layouts.records import LayoutRecord, LayoutTopic, layout_key, unversioned_layout_key
from bridge.pipeline.layouts.slots import transactional_id, unescaped_id
from bridge.pipeline.layouts.state import layout_topic, state_partitions
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_evidence import read_runs

log = logging.getLogger(__name__)

_NAMED = 10
"""Partitions that a line of the log names."""


def driver(spec: PipelineSpec) -> TransactionalProducer:
    """Holds the driver's transactional id once it is started: nobody else makes layouts then."""
    return TransactionalProducer(producer_settings(Side.TARGET, spec.props), transactional_id(spec, "driver"))


async def fence_slots(
    spec: PipelineSpec, target: NetworkClient, slots: int, unversioned: LayoutRecord | None
) -> set[int]:
    """Aborts the transactions that slices have open, in state topics also what a broker has left open;
    none of the slices can commit after this, and of those whose ids they have left (see left_ids) none can before it
    looks which layout is the newest. Returns the numbers of these ids. Raises KafkaFailure."""
    ids = [transactional_id(spec, number) for number in range(slots)]
    left = read_left(await read_uncommitted(target, spec.layout_topic), spec)
    if unversioned is not None:
        old = ["driver", *range(unversioned.slots)]
        ids += [
            each
            for who in old
            if (each := unescaped_id(spec, who)) not in (*ids, transactional_id(spec, who))
        ]
    runs = TopicPartition(spec.runs_topic, 0)
    passed_over = await fence(
        producer_settings(Side.TARGET, spec.props),
        ids,
        partitions=state_partitions(spec),
        required=runs,
        left={transactional_id(spec, number): holder for number, holder in left.items()},
    )
    return {number for number in range(slots) if ids[number] in passed_over}


async def shut_out(spec: PipelineSpec, target: NetworkClient, leader: TransactionalProducer) -> None:
    """Ends the connector's copying for good: slices that still run commit nothing more, and a driver that still runs
    makes no layout. `leader`: its driver(), started. Raises KafkaFailure."""
    topic = await layout_topic(target, spec)
    before = topic.before
    stopped = LayoutRecord(before.layout + 1, max(1, before.slots), stop=True, copied=before.copied)
    await leader.write(spec.layout_topic, [(layout_key(spec), stopped.value())])
    await fence_slots(spec, target, stopped.slots, topic.unversioned)


def forget_unversioned(spec: PipelineSpec, topic: LayoutTopic) -> list[tuple[bytes, bytes | None]]:
    """The record that drops a layout of version 0, once its slots are fenced."""
    return [] if topic.unversioned is None else [(unversioned_layout_key(spec), None)]


async def take_over(
    spec: PipelineSpec,
    producer: TransactionalProducer,
    tps: Sequence[TopicPartition] = (),
    always: TopicPartition | None = None,
) -> None:
    """Starts a producer, or aborts what its last try has left open; then no state topic holds a transaction of its id.
    `tps` and `always` as of `start`. Raises KafkaFailure; FENCED when another one has taken over."""
    if producer.open:
        await producer.abort()
    else:
        await producer.start(tps, always)
    await end_in_state_topics(spec, producer, commit=producer.last_committed)


async def end_in_state_topics(spec: PipelineSpec, producer: TransactionalProducer, *, commit: bool) -> None:
    """`commit`: whether the last transaction of the producer's id is committed. Raises KafkaFailure, also where the
    runs topic does not tell what is open: it is read next, and what hangs there would hide what follows."""
    hanging, failed = await producer.open_transactions(state_partitions(spec))
    if (no_answer := failed.get(TopicPartition(spec.runs_topic, 0))) is not None:
        raise no_answer
    if hanging:
        await producer.end_hanging(hanging, commit=commit)


async def end_in_copies(
    producer: TransactionalProducer,
    begin: Mapping[TopicPartition, int],
    copies: Iterable[Copied],
    runs: Mapping[CopyId, PartitionRuns],
) -> None:
    """Ends transactions of the producer's id. `begin`: remote partitions, with the offset at which a transaction begins
    that is open. `runs`: as they are committed. Raises KafkaFailure."""
    committed = {
        copy.remote
        for copy in copies
        if copy.remote in begin
        and (last := runs[copy.id].last if copy.id in runs else None) is not None
        and last.target_topic_id == copy.target_topic_id
        and last.downstream_end > begin[copy.remote]
    }
    for tps, commit in ((committed, True), (begin.keys() - committed, False)):
        if tps:
            await producer.end_hanging(tps, commit=commit)


async def end_of_slots(
    spec: PipelineSpec,
    target: NetworkClient,
    transactional_ids: Iterable[str],
    copies: Sequence[Copied],
    runs_topic: Iterable[LogRecord],
    ending: Collection[TopicPartition],
) -> None:
    """Ends what slots have left open in copies that may be another slot's from now on. `runs_topic`: its committed
    records; `ending`: partitions that take no marker now. Raises KafkaFailure."""
    remote = list({copy.remote: None for copy in copies if copy.remote not in ending})
    await target.metadata(sorted({tp.topic for tp in remote}))
    begin, _ = await open_transactions(target, remote)
    if not begin:
        return
    names = [f"{topic}-{partition}" for topic, partition in sorted(begin)]
    log.info(
        "transactions are open in %d partition(s) of the target: %s; those that earlier slices have left are ended",
        len(names),
        ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else ""),
    )
    await end_of_ids(spec, transactional_ids, begin, copies, read_runs(runs_topic))


async def end_of_ids(
    spec: PipelineSpec,
    transactional_ids: Iterable[str],
    begin: Mapping[TopicPartition, int],
    copies: Sequence[Copied],
    runs: Mapping[CopyId, PartitionRuns],
) -> None:
    """Ends transactions of ids that nobody uses, by taking them over; the rest as of `end_in_copies`. Raises
    KafkaFailure."""
    for name in transactional_ids:
        producer = TransactionalProducer(producer_settings(Side.TARGET, spec.props), name)
        try:
            await producer.start()
            await end_in_copies(producer, begin, copies, runs)
        finally:
            await producer.close()


async def end_of_left_ids(
    spec: PipelineSpec,
    transactional_ids: Iterable[str],
    begin: Mapping[TopicPartition, int],
    copies: Sequence[Copied],
    runs: Mapping[CopyId, PartitionRuns],
) -> None:
    """Does the same for ids that the layout has passed over. Another slice may do so at this moment, or a newer layout
    use one by now: that is no reason for this slice to end, and what hangs is looked at again. Raises KafkaFailure."""
    try:
        await end_of_ids(spec, transactional_ids, begin, copies, runs)
    except KafkaFailure as error:
        if error.fault is not KafkaFault.FENCED:
            raise
        text = (
            f"{error}; another slice, or a newer layout, has the id now, and what is open is looked at again"
        )
        raise KafkaFailure(KafkaFault.OTHER, text) from error

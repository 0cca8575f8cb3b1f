"""Transactional ids that slices leave, because a partition of the target takes no marker: the others of the slice go on
with another id.

    id 0   | transaction with X, decided; X has no leader, or too few replicas in sync ... | ended, id 0 is free
    id 1                    | a new layout copies all but X ...                             X again ...

A transaction is ended everywhere before its transactional id can be used again. Until then the coordinator answers
CONCURRENT_TRANSACTIONS to whoever would go on with the id, and to whoever would take it over: a slice can't copy, and
a driver can't fence it to let somebody else copy in its place.

A slice that finds its id so ends itself. It writes its producer id and epoch to the layout topic: whoever holds them
has left the id, and nobody else ever has the same ones. The driver makes a new layout. It passes over what was left as
long as DescribeTransactions shows the very same, still ending: nobody can commit by that id before somebody takes it
over, who then looks whether its layout is the newest. All other ids are fenced as ever, and the slices of the new
layout take ids that are free.

- Where the record is missing, or shows another epoch, the driver waits for the end of the transaction.
- While the transaction lacks the marker of a state topic the slice waits, too: every transaction writes to one.
- Partitions without a marker wait, in whichever slice they are: a transaction with them could not be ended either.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import count

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.transaction_coordinator import Coordinator
from bridge.kafka.protocol.produce_requests import DescribedTransaction, ProducerIdAndEpoch
from bridge.model.copying import PipelineSpec
from bridge.model.state_records.claims import json_key, json_object
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline.layouts.slots import transactional_id

VERSION = 1
_DESCRIBE_SECONDS = 30.0


def left_key(spec: PipelineSpec, number: int) -> bytes:
    return json_key(connector=spec.name, left=number)


def encode_left(holder: ProducerIdAndEpoch) -> bytes:
    return json.dumps({"version": VERSION, **holder._asdict()}).encode()


def read_left(records: Iterable[LogRecord], spec: PipelineSpec) -> dict[int, ProducerIdAndEpoch]:
    """Returns who has left ids of the connector last, by the ids' numbers. `records`: those of the layout topic,
    committed or not: these are no part of transactions."""
    left: dict[int, ProducerIdAndEpoch] = {}
    for record in records:
        key, fields = json_object(record.key), json_object(record.value)
        number, producer_id, epoch = key.get("left"), fields.get("producer_id"), fields.get("epoch")
        if type(number) is int and record.key == left_key(spec, number):
            left.pop(number, None)
            if type(producer_id) is int and type(epoch) is int:
                left[number] = ProducerIdAndEpoch(producer_id, epoch)
    return left


async def describe_passed_over(
    target: NetworkClient, spec: PipelineSpec, left: Mapping[int, ProducerIdAndEpoch]
) -> dict[int, Set[TopicPartition]]:
    """Returns the numbers of ids that may be passed over, and the partitions that lack a marker of their last
    transactions. Raises KafkaFailure."""
    ending = await _describe_unended(target, spec, left)
    return {number: last.partitions for number, last in ending.items() if last.id_and_epoch == left[number]}


async def _describe_unended(
    target: NetworkClient, spec: PipelineSpec, numbers: Iterable[int]
) -> dict[int, DescribedTransaction]:
    """Returns the last transactions of ids that have not ended everywhere, by the ids' numbers."""
    ending = {}
    for number in numbers:
        last = await Coordinator(target, transactional_id(spec, number)).describe(_DESCRIBE_SECONDS)
        if last is not None and last.ending:
            ending[number] = last
    return ending


def free_numbers(ending: Collection[int]) -> Iterator[int]:
    """Yields the numbers of ids for the slots of a layout."""
    return (number for number in count() if number not in ending)


class PartitionsEnding:
    """The remote partitions that lack a marker of ids that the layout has passed over."""

    def __init__(self, target: NetworkClient, spec: PipelineSpec, numbers: Collection[int]) -> None:
        self._target, self._spec = target, spec
        self._numbers: Collection[int] = numbers
        self._all = frozenset(numbers)

    async def ask(self) -> Set[TopicPartition]:
        """Raises KafkaFailure."""
        ending = await _describe_unended(self._target, self._spec, self._numbers)
        self._numbers = ending.keys()
        return {tp for last in ending.values() for tp in last.partitions}

    @property
    def ended_ids(self) -> list[str]:
        """The ids whose last transactions have ended by now, as far as their coordinators know. A coordinator that has
        found no leader for a partition has written no marker there, and asks no more (see fencing)."""
        return [
            transactional_id(self._spec, number) for number in sorted(self._all.difference(self._numbers))
        ]

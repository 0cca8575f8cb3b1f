"""What fetching takes and gives; trouble that no waiting heals, and the questions that tell it from what heals."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Self

from bridge.errors import KafkaFailure
from bridge.kafka.consumer.log_bounds import bounds
from bridge.kafka.errors import of_code
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import epoch_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.log_requests import PartitionData
from bridge.kafka.protocol.wire import BytesLike
from bridge.model.values import TopicPartition


class FetchErrorKind(StrEnum):
    OUT_OF_RANGE = "out_of_range"
    """The log begins above the position, or ends below it."""
    DIVERGED = "diverged"
    """The log took another way below the position: an unclean election."""
    UNKNOWN_TOPIC_ID = "unknown_topic_id"
    """The topic was deleted, and perhaps made again."""
    NOT_AUTHORIZED = "not_authorized"


class FetchError(NamedTuple):
    """`log_start`, `log_end`: of an OUT_OF_RANGE partition. `epoch`, `end_offset`: up to where a DIVERGED log agrees
    with what was fetched. -1 for unknown."""

    kind: FetchErrorKind
    log_start: int = -1
    log_end: int = -1
    epoch: int = -1
    end_offset: int = -1


class FetchPosition(NamedTuple):
    """Where to begin. `topic_id`: "" where brokers have none. `last_epoch`: leader epoch of the last batch before
    `offset`, -1 for unknown; a log that went another way below `offset` is noticed by it."""

    topic_id: str
    offset: int
    last_epoch: int = -1


class CompletedFetch(NamedTuple):
    """One partition's share of an answer, fetched at `offset`: complete batches, and perhaps the beginning of one more.
    `aborted`: (producer id, first offset) of aborted transactions, read_committed only. With `trouble` there are no
    records, and none come until the partition is set again."""

    tp: TopicPartition
    records: BytesLike
    offset: int
    aborted: Sequence[tuple[int, int]] = ()
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1
    error: FetchError | None = None

    @classmethod
    def of(cls, tp: TopicPartition, offset: int, got: PartitionData) -> Self:
        ends = (got.high_watermark, got.last_stable, got.log_start)
        return cls(tp, got.records, offset, got.aborted, *ends)


async def out_of_range(client: NetworkClient, tp: TopicPartition, offset: int) -> FetchError | None:
    """None when the offset is in range by now: a new leader may be behind for a moment. Raises KafkaFailure."""
    found = (await bounds(client, [tp], committed_only=False))[tp]
    if isinstance(found, KafkaFailure):
        raise found
    if found.start <= offset <= found.end:
        return None
    return FetchError(FetchErrorKind.OUT_OF_RANGE, log_start=found.start, log_end=found.end)


async def topic_errors(
    client: NetworkClient, positions: Mapping[TopicPartition, FetchPosition]
) -> dict[TopicPartition, FetchError]:
    """Partitions whose topic is not there any more, or is another one. Raises KafkaFailure."""
    topics = await client.metadata(sorted({tp.topic for tp in positions}))
    troubles = {}
    for tp, position in positions.items():
        topic = topics[tp.topic]
        if topic.error == Errors.TOPIC_AUTHORIZATION_FAILED:
            troubles[tp] = FetchError(FetchErrorKind.NOT_AUTHORIZED)
        elif topic.error == Errors.UNKNOWN_TOPIC_OR_PARTITION or (
            topic.topic_id and position.topic_id and topic.topic_id != position.topic_id
        ):
            troubles[tp] = FetchError(FetchErrorKind.UNKNOWN_TOPIC_ID)
    return troubles


async def errors_by_name(
    client: NetworkClient,
    before: Mapping[TopicPartition, FetchPosition],
    now: Mapping[TopicPartition, FetchPosition],
) -> dict[TopicPartition, FetchError]:
    """What fetches by name do not tell. `before`: where partitions stood when that was asked last; the epoch that they
    have come to since may have begun below. Raises KafkaFailure."""
    return (
        await topic_errors(client, now) or await log_errors(client, before) or await log_errors(client, now)
    )


async def log_errors(
    client: NetworkClient, positions: Mapping[TopicPartition, FetchPosition]
) -> dict[TopicPartition, FetchError]:
    """Partitions whose log ends below the position, or has another epoch there (OffsetForLeaderEpoch, KIP-320); those
    without a known epoch can't be told. Needs `client.metadata` of the topics first. Raises KafkaFailure."""
    known = [tp for tp, position in positions.items() if position.last_epoch >= 0]
    nodes, leaderless = client.by_leader(known)
    for failed in leaderless.values():
        raise failed

    async def ask(node: int, tps: Sequence[TopicPartition]) -> dict[TopicPartition, FetchError]:
        doing = "check leader epochs"
        call = epoch_requests.epoch_ends({tp: positions[tp].last_epoch for tp in tps})
        ends = epoch_requests.read_epoch_ends(await client.send(node, call, doing))
        troubles = {}
        for tp, end in ends.items():
            refused = of_code(end.error, f"{doing} of {tp.topic}-{tp.partition}")
            if refused is not None:
                raise refused
            if end.epoch < positions[tp].last_epoch or end.end_offset < positions[tp].offset:
                troubles[tp] = FetchError(FetchErrorKind.DIVERGED, epoch=end.epoch, end_offset=end.end_offset)
        return troubles

    asked = await asyncio.gather(*(ask(node, tps) for node, tps in nodes.items()))
    return {tp: trouble for troubles in asked for tp, trouble in troubles.items()}

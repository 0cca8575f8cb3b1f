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
from bridge.kafka.protocol.log_requests import Fetched
from bridge.kafka.protocol.wire import BytesLike
from bridge.model.values import TopicPartition


class TroubleKind(StrEnum):
    OUT_OF_RANGE = "out_of_range"
    """The log begins above the position, or ends below it."""
    DIVERGED = "diverged"
    """The log took another way below the position: an unclean election."""
    UNKNOWN_TOPIC_ID = "unknown_topic_id"
    """The topic was deleted, and perhaps made again."""
    NOT_AUTHORIZED = "not_authorized"


class FetchTrouble(NamedTuple):
    """`log_start`, `log_end`: of an OUT_OF_RANGE partition. `epoch`, `end_offset`: up to where a DIVERGED log agrees
    with what was fetched. -1 for unknown."""

    kind: TroubleKind
    log_start: int = -1
    log_end: int = -1
    epoch: int = -1
    end_offset: int = -1


class FetchFrom(NamedTuple):
    """Where to begin. `topic_id`: "" where brokers have none. `last_epoch`: leader epoch of the last batch before
    `offset`, -1 for unknown; a log that went another way below `offset` is noticed by it."""

    topic_id: str
    offset: int
    last_epoch: int = -1


class FetchedPart(NamedTuple):
    """One partition's share of an answer, fetched at `offset`: complete batches, and perhaps the beginning of one more.
    `aborted`: (producer id, first offset) of aborted transactions, read_committed only. With `trouble` there are no
    records, and none come until the partition is set again."""

    place: TopicPartition
    records: BytesLike
    offset: int
    aborted: Sequence[tuple[int, int]] = ()
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1
    trouble: FetchTrouble | None = None

    @classmethod
    def of(cls, place: TopicPartition, offset: int, got: Fetched) -> Self:
        ends = (got.high_watermark, got.last_stable, got.log_start)
        return cls(place, got.records, offset, got.aborted, *ends)


async def out_of_range(client: NetworkClient, place: TopicPartition, offset: int) -> FetchTrouble | None:
    """None when the offset is in range by now: a new leader may be behind for a moment. Raises KafkaFailure."""
    found = (await bounds(client, [place], committed_only=False))[place]
    if isinstance(found, KafkaFailure):
        raise found
    if found.start <= offset <= found.end:
        return None
    return FetchTrouble(TroubleKind.OUT_OF_RANGE, log_start=found.start, log_end=found.end)


async def topics_trouble(
    client: NetworkClient, positions: Mapping[TopicPartition, FetchFrom]
) -> dict[TopicPartition, FetchTrouble]:
    """Partitions whose topic is not there any more, or is another one. Raises KafkaFailure."""
    topics = await client.metadata(sorted({place.topic for place in positions}))
    troubles = {}
    for place, position in positions.items():
        topic = topics[place.topic]
        if topic.error == Errors.TOPIC_AUTHORIZATION_FAILED:
            troubles[place] = FetchTrouble(TroubleKind.NOT_AUTHORIZED)
        elif topic.error == Errors.UNKNOWN_TOPIC_OR_PARTITION or (
            topic.topic_id and position.topic_id and topic.topic_id != position.topic_id
        ):
            troubles[place] = FetchTrouble(TroubleKind.UNKNOWN_TOPIC_ID)
    return troubles


async def trouble_by_name(
    client: NetworkClient, before: Mapping[TopicPartition, FetchFrom], now: Mapping[TopicPartition, FetchFrom]
) -> dict[TopicPartition, FetchTrouble]:
    """What fetches by name do not tell. `before`: where partitions stood when that was asked last; the epoch that they
    have come to since may have begun below. Raises KafkaFailure."""
    return (
        await topics_trouble(client, now)
        or await logs_trouble(client, before)
        or await logs_trouble(client, now)
    )


async def logs_trouble(
    client: NetworkClient, positions: Mapping[TopicPartition, FetchFrom]
) -> dict[TopicPartition, FetchTrouble]:
    """Partitions whose log ends below the position, or has another epoch there (OffsetForLeaderEpoch, KIP-320); those
    without a known epoch can't be told. Needs `client.metadata` of the topics first. Raises KafkaFailure."""
    known = [place for place, position in positions.items() if position.last_epoch >= 0]
    nodes, leaderless = client.by_leader(known)
    for failed in leaderless.values():
        raise failed

    async def ask(node: int, places: Sequence[TopicPartition]) -> dict[TopicPartition, FetchTrouble]:
        doing = "check leader epochs"
        call = epoch_requests.epoch_ends({place: positions[place].last_epoch for place in places})
        ends = epoch_requests.read_epoch_ends(await client.send(node, call, doing))
        troubles = {}
        for place, end in ends.items():
            refused = of_code(end.error, f"{doing} of {place.topic}-{place.partition}")
            if refused is not None:
                raise refused
            if end.epoch < positions[place].last_epoch or end.end_offset < positions[place].offset:
                troubles[place] = FetchTrouble(
                    TroubleKind.DIVERGED, epoch=end.epoch, end_offset=end.end_offset
                )
        return troubles

    asked = await asyncio.gather(*(ask(node, places) for node, places in nodes.items()))
    return {place: trouble for troubles in asked for place, trouble in troubles.items()}

"""Whether a position is still one of its log: the errors that no waiting heals, and the requests that tell
them from those that heal. Kafka's consumer calls it offset validation (KIP-320)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from bridge.errors import KafkaFailure
from bridge.kafka.consumer.log_bounds import bounds
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.log_requests import FetchParams, FetchPartition
from bridge.model.values import TopicPartition

_WAIT_MS = 500
"""For which a broker may look for a partition's records: tiered storage takes its time."""


class FetchPosition(NamedTuple):
    """Where to fetch from. `topic_id`: "" where brokers have none. `last_epoch`: leader epoch of the last batch before
    `offset`, -1 for unknown; with it a log that diverged below `offset` is noticed."""

    topic_id: str
    offset: int
    last_epoch: int = -1


class FetchErrorKind(StrEnum):
    OUT_OF_RANGE = "out_of_range"
    """The log begins above the position, or ends below it."""
    DIVERGED = "diverged"
    """The log has other records below the position: an unclean election."""
    UNKNOWN_TOPIC_ID = "unknown_topic_id"
    """The topic was deleted, and perhaps made again."""
    NOT_AUTHORIZED = "not_authorized"
    SILENT = "silent"
    """The log goes on at the position, and its leader sends nothing of it, nor an error: the length of a batch is not
    what was written, and a broker reads a segment batch by batch. What follows in the segment is out of reach, too."""


class FetchError(NamedTuple):
    """Why a position can't be fetched from. `log_start`, `log_end`: of an OUT_OF_RANGE partition, and the end of a
    SILENT one. `epoch`, `end_offset`: up to where a DIVERGED log agrees with what was fetched. -1 for unknown."""

    kind: FetchErrorKind
    log_start: int = -1
    log_end: int = -1
    epoch: int = -1
    end_offset: int = -1


async def range_error(client: NetworkClient, tp: TopicPartition, offset: int) -> FetchError | None:
    """Returns the error of an offset that is out of range; None when it is in range by now: a new leader may be behind
    for a moment. Raises KafkaFailure."""
    log = (await bounds(client, [tp], committed_only=False))[tp]
    if isinstance(log, KafkaFailure):
        raise log
    if log.start <= offset <= log.end:
        return None
    return FetchError(FetchErrorKind.OUT_OF_RANGE, log_start=log.start, log_end=log.end)


async def silence(
    client: NetworkClient, tp: TopicPartition, position: FetchPosition, *, committed_only: bool
) -> FetchError | None:
    """Returns the error of a position from which the leader sends nothing, though its log goes on there; None where it
    sends something, or an error that says why not. Needs `client.metadata` of the topic first. Raises KafkaFailure."""
    nodes, leaderless = client.by_leader([tp])
    if leaderless:
        return None
    (node,) = nodes
    # By itself: in a fetch of several partitions one may come empty because others have filled the response.
    part = FetchPartition(position.topic_id, position.offset, 1)
    params = FetchParams(_WAIT_MS)
    call = log_requests.fetch({tp: part}, committed_only=committed_only, params=params)
    response = await client.send(node, call, f"fetch {tp.topic}-{tp.partition}", apart=True)
    data = log_requests.read_fetched(response, call.API_VERSION, {position.topic_id: tp.topic}).get(tp)
    if data is None or data.error or data.records:
        return None
    end = data.last_stable if committed_only else data.high_watermark
    return FetchError(FetchErrorKind.SILENT, log_end=end) if end > position.offset else None


async def topic_errors(
    client: NetworkClient, positions: Mapping[TopicPartition, FetchPosition]
) -> dict[TopicPartition, FetchError]:
    """Partitions whose topic does not exist any more, or is another one. Raises KafkaFailure."""
    topics = await client.metadata(sorted({tp.topic for tp in positions}))
    errors = {}
    for tp, position in positions.items():
        topic = topics[tp.topic]
        if topic.error == Errors.TOPIC_AUTHORIZATION_FAILED:
            errors[tp] = FetchError(FetchErrorKind.NOT_AUTHORIZED)
        elif topic.error == Errors.UNKNOWN_TOPIC_OR_PARTITION or (
            topic.topic_id and position.topic_id and topic.topic_id != position.topic_id
        ):
            errors[tp] = FetchError(FetchErrorKind.UNKNOWN_TOPIC_ID)
    return errors


async def log_errors(
    client: NetworkClient, positions: Mapping[TopicPartition, FetchPosition]
) -> dict[TopicPartition, FetchError]:
    """Partitions whose log ends below the position, or has another epoch there (OffsetForLeaderEpoch, KIP-320). Those
    without a known epoch can't be validated. Needs `client.metadata` of the topics first. Raises KafkaFailure."""
    known = [tp for tp, position in positions.items() if position.last_epoch >= 0]
    nodes, leaderless = client.by_leader(known)
    for failed in leaderless.values():
        raise failed

    async def ask(node: int, tps: Sequence[TopicPartition]) -> dict[TopicPartition, FetchError]:
        doing = "check leader epochs"
        call = log_requests.epoch_ends({tp: positions[tp].last_epoch for tp in tps})
        ends = log_requests.read_epoch_ends(await client.send(node, call, doing))
        errors = {}
        for tp, end in ends.items():
            failed = of_code(end.error, f"{doing} of {tp.topic}-{tp.partition}")
            if failed is not None:
                raise failed
            if end.epoch < positions[tp].last_epoch or end.end_offset < positions[tp].offset:
                errors[tp] = FetchError(FetchErrorKind.DIVERGED, epoch=end.epoch, end_offset=end.end_offset)
        return errors

    by_node = await asyncio.gather(*(ask(node, tps) for node, tps in nodes.items()))
    return {tp: error for errors in by_node for tp, error in errors.items()}


async def errors_by_name(
    client: NetworkClient,
    before: Mapping[TopicPartition, FetchPosition],
    now: Mapping[TopicPartition, FetchPosition],
) -> dict[TopicPartition, FetchError]:
    """Returns errors that fetches by name do not notice. `before`: the positions at the last such validation; the epoch
    that they have come to since may have begun below. Raises KafkaFailure."""
    return (
        await topic_errors(client, now) or await log_errors(client, before) or await log_errors(client, now)
    )

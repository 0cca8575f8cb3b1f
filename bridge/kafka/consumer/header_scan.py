"""Batch headers of a log, read for the places that hold no data: nothing is decompressed, and nothing kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bridge.errors import KafkaFailure
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.log_requests import Fetched, FetchPart
from bridge.kafka.record.batch import CorruptBatch, DataFilter, parse
from bridge.model.lookups import Need, Scan, Scanned
from bridge.model.values import TopicPartition

_AT_ONCE = 4
"""Fetches under way at a time: each may bring `max_bytes`, or one batch that is larger."""


async def scan(
    client: NetworkClient, needs: Mapping[TopicPartition, Sequence[Need]], *, committed_only: bool
) -> dict[TopicPartition, dict[Need, Scanned | None]]:
    """Answers the Scans among `needs`. `committed_only`: aborted transactions are told, what is open is not read."""
    answers: dict[TopicPartition, dict[Need, Scanned | None]] = {place: {} for place in needs}
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(node: int, place: TopicPartition, need: Scan) -> None:
        async with room:
            answers[place][need] = await _scan(client, node, place, need, committed_only=committed_only)

    wanted = {place: {need for need in some if isinstance(need, Scan)} for place, some in needs.items()}
    nodes, leaderless = client.by_leader(place for place, some in wanted.items() if some)
    for place in leaderless:
        answers[place].update(dict.fromkeys(wanted[place]))
    work = [
        one(node, place, need) for node, places in nodes.items() for place in places for need in wanted[place]
    ]
    await asyncio.gather(*work)
    return answers


async def _scan(
    client: NetworkClient, node: int, place: TopicPartition, need: Scan, *, committed_only: bool
) -> Scanned | None:
    topic_id = client.topic_id(place.topic)
    part = FetchPart(topic_id, need.offset, need.max_bytes)
    call = log_requests.fetch({place: part}, committed_only=committed_only)
    try:
        reader = await client.send(node, call, f"read {place.topic}-{place.partition}")
        got = log_requests.read_fetched(reader, call.API_VERSION, {topic_id: place.topic}).get(place)
        return None if got is None or got.error else _scanned(got, need, committed_only=committed_only)
    except (KafkaFailure, CorruptBatch):
        return None


def _scanned(got: Fetched, need: Scan, *, committed_only: bool) -> Scanned | None:
    data_filter = DataFilter(got.aborted)
    without: list[tuple[int, int]] = []
    end, epoch = need.offset, -1
    for batch in parse(got.records):
        end, epoch = max(end, batch.last_offset + 1), max(epoch, batch.leader_epoch)
        if not data_filter.is_data(batch):
            without.append((batch.base_offset, batch.last_offset + 1))
    if not got.records:
        # Nothing is there up to the end of what may be read: compaction took it.
        end = max(end, got.last_stable if committed_only else got.high_watermark)
    return Scanned(need.offset, end, without, len(got.records), epoch) if end > need.offset else None

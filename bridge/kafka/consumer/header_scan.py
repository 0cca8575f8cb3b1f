"""Batch headers of a log, read for the offsets that hold no data: nothing is decompressed, and nothing kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bridge.errors import KafkaFailure
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.log_requests import FetchPartition, PartitionData
from bridge.kafka.record.batch import CorruptBatch, DataFilter, parse
from bridge.model.lookups import Need, Scan, Scanned
from bridge.model.values import TopicPartition

_AT_ONCE = 4
"""Fetches in flight at a time: each may bring `max_bytes`, or one batch that is larger."""


async def scan(
    client: NetworkClient, needs: Mapping[TopicPartition, Sequence[Need]], *, committed_only: bool
) -> dict[TopicPartition, dict[Need, Scanned | None]]:
    """Answers the Scans among `needs`. `committed_only`: offsets of aborted transactions count as without data, and a
    scan ends at the last stable offset."""
    answers: dict[TopicPartition, dict[Need, Scanned | None]] = {tp: {} for tp in needs}
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(node: int, tp: TopicPartition, need: Scan) -> None:
        async with room:
            answers[tp][need] = await _scan(client, node, tp, need, committed_only=committed_only)

    scans = {tp: {need for need in some if isinstance(need, Scan)} for tp, some in needs.items()}
    nodes, leaderless = client.by_leader(tp for tp, some in scans.items() if some)
    for tp in leaderless:
        answers[tp].update(dict.fromkeys(scans[tp]))
    work = [
        one(node, tp, need) for node, partitions in nodes.items() for tp in partitions for need in scans[tp]
    ]
    await asyncio.gather(*work)
    return answers


async def _scan(
    client: NetworkClient, node: int, tp: TopicPartition, need: Scan, *, committed_only: bool
) -> Scanned | None:
    topic_id = client.topic_id(tp.topic)
    part = FetchPartition(topic_id, need.offset, need.max_bytes)
    call = log_requests.fetch({tp: part}, committed_only=committed_only)
    try:
        reader = await client.send(node, call, f"read {tp.topic}-{tp.partition}")
        data = log_requests.read_fetched(reader, call.API_VERSION, {topic_id: tp.topic}).get(tp)
        return None if data is None or data.error else scanned(data, need, committed_only=committed_only)
    except (KafkaFailure, CorruptBatch):
        return None


def scanned(data: PartitionData, need: Scan, *, committed_only: bool) -> Scanned | None:
    data_filter = DataFilter(data.aborted)
    without: list[tuple[int, int]] = []
    end, epoch = need.offset, -1
    for batch in parse(data.records):
        end, epoch = max(end, batch.last_offset + 1), max(epoch, batch.leader_epoch)
        if not data_filter.is_data(batch):
            without.append((batch.base_offset, batch.last_offset + 1))
    if not data.records:
        # Nothing is there up to the end of what may be read: compaction took it.
        end = max(end, data.last_stable if committed_only else data.high_watermark)
    return Scanned(need.offset, end, without, len(data.records), epoch) if end > need.offset else None

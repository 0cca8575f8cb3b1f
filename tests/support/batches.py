"""Record batches as they stand in a broker's log."""

from __future__ import annotations

import asyncio

from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.log_requests import FetchPartition
from bridge.kafka.record.batch import CONTROL, RawBatch, parse
from bridge.model.values import Side, TopicPartition

_MOST_BYTES = 1 << 24


def data_batches(bootstrap: str, topic: str, partition: int = 0) -> list[RawBatch]:
    """Those with data of a partition's first 16 MiB."""

    async def asking() -> bytes:
        client = NetworkClient(
            client_settings(Side.TARGET, {"target.cluster.bootstrap.servers": bootstrap}).raw
        )
        try:
            meta = (await client.metadata([topic]))[topic]
            part = FetchPartition(meta.topic_id, 0, _MOST_BYTES)
            place = TopicPartition(topic, partition)
            call = log_requests.fetch({place: part}, committed_only=True)
            answer = await client.send(meta.partitions[partition].leader, call, "read batches")
            result = log_requests.read_fetched(answer, call.API_VERSION, {meta.topic_id: topic})
            return bytes(result[place].records)
        finally:
            await client.close()

    return [each for each in parse(asyncio.run(asking())) if not each.attributes & CONTROL]

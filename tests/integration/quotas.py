"""Client quotas of a cluster (KIP-546), which confluent-kafka has no admin call for."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.wire import ApiKeys, Call, Writer
from bridge.model.values import Side

PRODUCER_BYTE_RATE = "producer_byte_rate"


@contextmanager
def quota(bootstrap: str, client_id: str, rate: float, key: str = PRODUCER_BYTE_RATE) -> Iterator[None]:
    """Bytes per second that clients of this client.id may produce to each broker, for the time of the block."""
    _alter(bootstrap, client_id, key, rate)
    try:
        yield
    finally:
        _alter(bootstrap, client_id, key, None)


def _alter(bootstrap: str, client_id: str, key: str, rate: float | None) -> None:
    def write(writer: Writer, _version: int) -> None:
        """AlterClientQuotas v0: one entry of one entity, with one operation."""
        writer.array(1)
        writer.array(1)
        writer.string("client-id")
        writer.string(client_id)
        writer.array(1)
        writer.string(key)
        writer.int64(struct.unpack(">q", struct.pack(">d", rate or 0.0))[0])
        writer.int8(rate is None)
        writer.int8(0)

    async def ask() -> None:
        client = NetworkClient(
            client_settings(Side.TARGET, {"target.cluster.bootstrap.servers": bootstrap}).raw
        )
        try:
            answer = await client.send(
                None,
                Call(ApiKeys.ALTER_CLIENT_QUOTAS, versions=range(1), flexible_from=1, write=write),
                "alter client quotas",
            )
        finally:
            await client.close()
        answer.skip(4)
        for _ in answer.array():
            failed = of_code(answer.int16(), f"{key} of {client_id}")
            if failed is not None:
                raise failed
            answer.string()
            for _ in answer.array():
                answer.string()
                answer.string()

    asyncio.run(ask())

"""Whether our clients are let in by a secured broker."""

from __future__ import annotations

import asyncio
import gc

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bridge.kafka.config.settings import ClientSettings, client_settings
from bridge.model.values import Side


def settings(address: str, **props: str) -> ClientSettings:
    given = {f"source.cluster.{name.replace('__', '.')}": value for name, value in props.items()}
    hasty = {"source.admin.request.timeout.ms": "5000", "source.consumer.request.timeout.ms": "5000"}
    return client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": address, **hasty, **given})


def brokers_seen(settings_: ClientSettings) -> tuple[int, int]:
    """By librdkafka, by aiokafka; 0 where the client is not let in."""
    try:
        admin = AdminClient({**settings_.admin, "log_level": 0})
        by_admin = len(admin.list_topics(timeout=3).brokers)
    except KafkaException:
        by_admin = 0

    async def raw() -> int:
        client = AIOKafkaClient(**settings_.raw.arguments())
        try:
            await client.bootstrap()
            return len(client.cluster.brokers())
        except KafkaError:
            return 0
        finally:
            await client.close()

    by_raw = asyncio.run(raw())
    gc.collect()
    return by_admin, by_raw

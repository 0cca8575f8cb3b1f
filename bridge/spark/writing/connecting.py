"""Connects to the cluster that is written to, and asks for its topics. Loads nothing that only tasks need."""

from __future__ import annotations

import logging
from difflib import get_close_matches

from bridge.errors import KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.errors import of_code
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing.options import SinkOptions


def network_client(options: SinkOptions) -> NetworkClient:
    """A client of the cluster that the options name."""
    # The library logs each failed attempt as an error; who writes gets one line.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return NetworkClient(options.settings())


async def partitions_of(client: NetworkClient, topic: str) -> int:
    """Raises SourceRejected for a topic that does not exist, and KafkaFailure."""
    described = (await client.metadata([topic]))[topic]
    failed = of_code(described.error, f"describe topic {topic}", f"DESCRIBE on topic {topic}")
    if failed is not None and failed.fault is KafkaFault.UNKNOWN_TOPIC:
        where = ",".join(client.settings.bootstrap_servers)
        near = get_close_matches(topic, await client.topic_names(), 1, 0.75)
        text = f"there is no topic {topic} on {where}, and the sink makes none"
        raise SourceRejected(text + (f"; did you mean {near[0]}?" if near else ""))
    if failed is not None:
        raise failed
    return len(described.partitions)

"""Making an internal topic, and seeing that it is there."""

from __future__ import annotations

import asyncio

from bridge.errors import KafkaFailure, KafkaFault
from bridge.translation.model import Side
from connectors.groups.trouble import ask
from connectors.ports import Cluster

_APPEARS = (0.0, 0.1, 0.3, 0.6)
"""Seconds before each look: a broker may learn a moment later of what the controller has made."""


async def make(
    cluster: Cluster, topic: str, replication_factor: int, timeout_ms: int, side: Side = Side.TARGET
) -> KafkaFailure | None:
    """As stock makes it; then one thing more. Stock takes for made what it may not make (mm2 1.8): Connect's producer
    then lets the broker make one that is not compacted, or, where brokers don't, holds its task up for ever.

    None: it is there, or may not be described by us, so that nobody can tell. Raises ClusterAway.
    """
    making = cluster.create_compacted_topic(topic, replication_factor)
    failed = await ask(side, making, timeout_ms)
    if failed is not None:
        return failed
    for pause in _APPEARS:
        await asyncio.sleep(pause)
        found = (await ask(side, cluster.topics([topic]), timeout_ms))[topic]
        if not isinstance(found, KafkaFailure) or found.fault is not KafkaFault.UNKNOWN_TOPIC:
            return None
    return KafkaFailure(
        KafkaFault.UNKNOWN_TOPIC,
        f"Topic {topic} does not exist, and we are not allowed to create it: grant CREATE on it, or create it with one "
        "partition and cleanup.policy=compact; until then nothing is written to it",
    )

"""Stock's MirrorClient and RemoteClusterUtils in Python: reads MirrorMaker's internal topics on a cluster (stock §1.9).

async with MirrorClient({"bootstrap.servers": "b:9092"}) as client:
    offsets = await client.remote_consumer_offsets("orders", "A", timeout_s=30)

offsets = translate_offsets({"bootstrap.servers": "b:9092"}, "A", "orders", timeout_s=30)

for record in heartbeat_consumer({"bootstrap.servers": "b:9092"}, idle_s=10):
    print(record.topic, record.value)
"""

from bridge.client.blocking import (
    checkpoint_consumer,
    checkpoint_topics,
    heartbeat_consumer,
    heartbeat_topics,
    remote_topics,
    replication_hops,
    translate_offsets,
    upstream_clusters,
)
from bridge.client.consumers import ConsumerRecord
from bridge.client.mirror_client import MirrorClient

__all__ = [
    "ConsumerRecord",
    "MirrorClient",
    "checkpoint_consumer",
    "checkpoint_topics",
    "heartbeat_consumer",
    "heartbeat_topics",
    "remote_topics",
    "replication_hops",
    "translate_offsets",
    "upstream_clusters",
]

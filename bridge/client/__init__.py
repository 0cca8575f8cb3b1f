"""Stock's MirrorClient and RemoteClusterUtils in Python: reads MirrorMaker's internal topics on a cluster (stock §1.9).

async with MirrorClient({"bootstrap.servers": "b:9092"}) as client:
    offsets = await client.remote_consumer_offsets("orders", "A", timeout_s=30)

offsets = translate_offsets({"bootstrap.servers": "b:9092"}, "A", "orders", timeout_s=30)
"""

from bridge.client.blocking import (
    checkpoint_topics,
    heartbeat_topics,
    remote_topics,
    replication_hops,
    translate_offsets,
    upstream_clusters,
)
from bridge.client.mirror_client import MirrorClient

__all__ = [
    "MirrorClient",
    "checkpoint_topics",
    "heartbeat_topics",
    "remote_topics",
    "replication_hops",
    "translate_offsets",
    "upstream_clusters",
]

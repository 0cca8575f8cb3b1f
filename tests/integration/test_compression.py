"""compression.type of what the pipeline writes: of every batch that arrives, whatever it had on the source."""

from __future__ import annotations

import asyncio

import pytest

from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.log_requests import FetchPartition
from bridge.kafka.record.batch import CODEC, CONTROL, parse
from bridge.local import Cluster
from bridge.model.copying import PipelineState
from bridge.model.values import Side, TopicPartition
from tests.integration.test_copying import varied
from tests.support import produce
from tests.support.pipeline import CopyFlow

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def arrived(bootstrap: str, topic: str) -> set[str]:
    """Codecs of the batches with data in partition 0."""

    async def asking() -> bytes:
        client = NetworkClient(
            client_settings(Side.TARGET, {"target.cluster.bootstrap.servers": bootstrap}).raw
        )
        try:
            meta = (await client.metadata([topic]))[topic]
            part = FetchPartition(meta.topic_id, 0, 1 << 24)
            call = log_requests.fetch({TopicPartition(topic, 0): part}, committed_only=True)
            answer = await client.send(meta.partitions[0].leader, call, "read batches")
            result = log_requests.read_fetched(answer, call.API_VERSION, {meta.topic_id: topic})
            return bytes(result[TopicPartition(topic, 0)].records)
        finally:
            await client.close()

    batches = list(parse(asyncio.run(asking())))
    return {CODECS[each.attributes & CODEC] for each in batches if not each.attributes & CONTROL}


@pytest.mark.parametrize(("requested", "level"), [("", None), ("zstd", 9), ("lz4", None), ("none", None)])
def test_every_batch_arrives_with_the_codec_that_is_wanted(
    source: Cluster, target: Cluster, requested: str, level: int | None
) -> None:
    flow = CopyFlow(source, target, {"compression": requested, "compression_level": level})
    topic = flow.topic()
    for at, codec in enumerate(CODECS):
        produce(flow.source.bootstrap, topic, varied(200, 200 * at), compression=codec)
    assert flow.copy().state is PipelineState.CAUGHT_UP
    assert arrived(target.bootstrap, flow.remote(topic)) == ({requested} if requested else set(CODECS))
    flow.assert_copied()
    flow.assert_runs_true()

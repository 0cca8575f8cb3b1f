"""compression.type of what the pipeline writes: of every batch that arrives, whatever it had on the source."""

from __future__ import annotations

import pytest

from bridge.kafka.record.batch import CODEC
from bridge.local import Cluster
from bridge.model.copying import PipelineState
from tests.integration.copy_flow import CopyFlow
from tests.support import produce
from tests.support.batches import data_batches
from tests.support.forms import mostly_long
from tests.support.records import varied

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def arrived(bootstrap: str, topic: str) -> set[str]:
    """Codecs of the batches with data in partition 0."""
    return {CODECS[each.attributes & CODEC] for each in data_batches(bootstrap, topic)}


@pytest.mark.parametrize(
    ("requested", "level"), mostly_long([("", None), ("zstd", 9), ("lz4", None), ("none", None)])
)
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

"""The pipeline without Spark, between two real brokers: batches that nobody can decode."""

from __future__ import annotations

import pytest

from bridge.kafka import records
from bridge.kafka.compiled import Bytes, Numbers
from bridge.kafka.raw_batches import RawBatch
from bridge.local import Cluster
from bridge.translation.copying import PipelineState
from tests.support import numbered, produce
from tests.support.pipeline import CopyFlow, gaps_of

BROKEN = 20


@pytest.mark.parametrize("policy", ["fail", "report"])
def test_a_batch_that_nobody_can_decode(
    policy: str, source: Cluster, target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic with append time, whose batches can't pass as they are. No broker takes such a batch, so that it is
    the decoder that fails here."""
    flow = CopyFlow(source, target, settings={"fail_on_refused_record": policy == "fail"})
    topic = flow.topic(configs={"message.timestamp.type": "LogAppendTime"})
    for start in (0, BROKEN, BROKEN + 10):
        produce(source.bootstrap, topic, numbered(10 if start else BROKEN, start=start), compression="zstd")
    cut = records._cut

    def failing(batch: RawBatch) -> tuple[Bytes, Numbers]:
        if batch.base_offset <= BROKEN <= batch.last_offset:  # also as one with its neighbours
            raise RuntimeError("Corrupted frame")
        return cut(batch)

    monkeypatch.setattr(records, "_cut", failing)
    status = flow.copy()
    here, there = ([each.content for each in found] for found in (flow.original(topic), flow.copies(topic)))
    if policy == "fail":
        assert status.state is PipelineState.FAILED
        assert status.failure is not None
        assert f"{topic}-0 at offsets {BROKEN} to {BROKEN + 9}" in status.failure
        assert "Corrupted frame" in status.failure
        assert gaps_of(status) == []
        assert there == here[: len(there)]
        assert len(there) <= BROKEN
        return
    assert status.state is PipelineState.CAUGHT_UP
    assert gaps_of(status) == [("record_refused", BROKEN, BROKEN + 10)]
    assert there == here[:BROKEN] + here[BROKEN + 10 :]
    # What is left out is a hole: nothing of it comes any more.
    assert flow.copy().state is PipelineState.CAUGHT_UP
    assert len(flow.copies(topic)) == 30

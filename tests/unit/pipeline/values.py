"""Specs and partitions for tests of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bridge.model.copying import Copied, PipelineSpec
from bridge.model.values import TopicPartition

SPEC = PipelineSpec(
    name="mirror",
    props={},
    source_alias="A",
    runs_topic="mm2-offset-runs.A.internal",
    layout_topic="mm2-layout.A.internal",
    gaps_topic="mm2-gaps.A.internal",
    syncs_topic="",
    syncs_on_target=False,
    offset_lag_max=100,
    from_latest=False,
    committed_only=True,
    fail_on_gap=False,
    fail_on_refused_record=True,
    transaction_interval=0.1,
    batch_size=16384,
)


def spec(props: Mapping[str, str] | None = None, **changes: object) -> PipelineSpec:
    return replace(SPEC, props=dict(props or {}), **changes)  # type: ignore[arg-type]


def copied(
    partition: int = 0,
    topic: str = "orders",
    *,
    ids: tuple[str, str] = ("source-id", "target-id"),
    start: int | None = None,
) -> Copied:
    return Copied(TopicPartition(topic, partition), ids[0], f"A.{topic}", ids[1], start)

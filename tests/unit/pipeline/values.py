"""Specs and partitions for tests of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bridge.model.copying import Copied, PipelineSpec
from bridge.model.values import TopicPartition
from tests.support.pipeline_spec import SPEC


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

"""Takes the records of a fetch through a partition's transforms, and makes batches of them again."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from bridge.kafka.record.batch import CODEC, RawBatch
from bridge.kafka.record.rebuilding import (
    BatchPolicy,
    CodecSizes,
    TopicLimits,
    UnreadableBatch,
    decoded_each,
    put_together,
)
from bridge.model.copying import Copied, Gap, GapKind, PipelineSpec
from bridge.pipeline.slices.refusals import GO_ON_WITHOUT, LeftOut
from bridge.pipeline.slices.resume import PolicySaysFail
from bridge.pipeline.slices.transformed import Step
from bridge.pipeline.slices.transforming.calls import Calls, TransformUnusable

_READ = 4 * 1024 * 1024
"""Bytes of batches that are decoded at once."""


class TransformSteps:
    """The Transforms of a slice (see transformed); close it."""

    reading = BatchPolicy(_READ, _READ, CodecSizes.all(1 << 31))

    def __init__(self, spec: PipelineSpec) -> None:
        self._calls = Calls(spec)

    async def close(self) -> None:
        await self._calls.close()

    async def start(self) -> None:
        """Raises PolicySaysFail when the transforms can't be called at all."""
        try:
            await self._calls.start()
        except TransformUnusable as unusable:
            raise PolicySaysFail(str(unusable)) from None

    async def steps(
        self,
        copied: Copied,
        batches: Sequence[RawBatch],
        policy: BatchPolicy,
        limits: Mapping[str, TopicLimits],
        position: int,
    ) -> AsyncGenerator[Step, None]:
        await self.start()
        try:
            async for step in self._steps(copied, batches, policy, limits, position):
                yield step
        except TransformUnusable as unusable:
            raise PolicySaysFail(str(unusable)) from None

    async def _steps(
        self,
        copied: Copied,
        batches: Sequence[RawBatch],
        policy: BatchPolicy,
        limits: Mapping[str, TopicLimits],
        position: int,
    ) -> AsyncGenerator[Step, None]:
        place = position
        for batch, records in decoded_each(batches, position, policy.decompressed):
            if isinstance(records, UnreadableBatch):
                first, place = max(place, records.offset), records.last_offset + 1
                yield _failed_step(copied, GapKind.RECORD_REFUSED, first, place, str(records))
                continue
            codec, epoch = batch.attributes & CODEC, batch.leader_epoch
            rest = records.since(position)
            if not rest.count:
                continue
            async for outcome in self._calls.through(copied, rest):
                place = outcome.end
                if outcome.failed:
                    yield _failed_step(
                        copied, GapKind.TRANSFORM_FAILED, outcome.first, outcome.end, outcome.failed
                    )
                else:
                    made = {
                        topic: partial(
                            put_together,
                            record,
                            codec,
                            epoch,
                            replace(policy, **limits[topic]._asdict()),
                        )
                        for topic, record in outcome.records.items()
                    }
                    yield Step(outcome.end, made)


def _failed_step(copied: Copied, kind: GapKind, first: int, end: int, why: str) -> Step:
    topic, partition = copied.source
    gap = Gap(
        copied.source,
        kind,
        copied.source_topic_id,
        first,
        end,
        int(time.time() * 1000),
        why,
        copied.target_topic,
    )
    offsets = f"record of {topic}-{partition} at offset {first}"
    if end - first > 1:
        offsets = f"records of {topic}-{partition} at offsets {first} to {end - 1}"
    text = f"the {offsets} can't be copied to {copied.target_topic}: {why}"
    return Step(end, {}, LeftOut(gap, text, f"fix the transform if it is at fault, or {GO_ON_WITHOUT}"))

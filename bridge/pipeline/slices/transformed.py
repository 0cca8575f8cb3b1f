"""How a copier sees what transforms make of the records of a fetch: step by step, in the order of the log.

What does that work takes pyarrow, and is imported only where transforms are configured (see transforming).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from bridge.kafka.record.batch import Chunk, RawBatch
from bridge.kafka.record.rebuilding import BatchPolicy, TopicLimits
from bridge.model.copying import Copied
from bridge.pipeline.slices.refusals import LeftOut


class Step(NamedTuple):
    """The result of transforms for the records up to `end`. `made`: by target topic, the batches of those that go on,
    from an offset on. Or the records that transforms fail with (`left_out`)."""

    end: int
    made: Mapping[str, Callable[[int], Iterator[Chunk]]]
    left_out: LeftOut | None = None


class Transforms(Protocol):
    reading: BatchPolicy
    """By which a fetch is read for them."""

    def steps(
        self,
        copied: Copied,
        batches: Sequence[RawBatch],
        policy: BatchPolicy,
        limits: Mapping[str, TopicLimits],
        position: int,
    ) -> AsyncGenerator[Step, None]:
        """Transforms the records from `position` on. `policy` of the copy's own topic; `limits` by target
        topic. Raises PolicySaysFail where transforms can not be called at all."""

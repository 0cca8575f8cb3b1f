"""Where a stock mirror of the same name has come to: offsets that Connect keeps, read by the shim (stock §2).

Asked once for every partition while a task is active. Until it is known a partition is not copied: it would begin at
`consumer.auto.offset.reset`, and be on the target twice. Partitions that have a run go on from there, whatever a stock
mirror has left (bridge.pipeline.gaps).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from bridge import VERSION
from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.copying import Copied
from bridge.model.values import TopicPartition
from connectors.base import SourceOffset, SourcePartition
from connectors.source.discovery import DiscoveredTopics

PATIENCE_SECONDS = 5.0
"""Seconds that a round waits: a worker polls once a second at least."""


class TakeOver:
    """`ask` is Publisher.stored_offsets."""

    def __init__(
        self,
        source_alias: str,
        ask: Callable[[Sequence[SourcePartition]], Awaitable[Sequence[SourceOffset | None]]],
    ) -> None:
        self._alias, self._ask = source_alias, ask
        self._starts: dict[TopicPartition, int | None] = {}

    @property
    def remembered(self) -> int:
        """Partitions whose start is known."""
        return len(self._starts)

    async def begun(self, found: DiscoveredTopics) -> DiscoveredTopics:
        """With the start of each partition; those of which it is not known yet are left out, and that is a failure."""
        places = {each.source for each in found.copied}
        self._starts = {tp: start for tp, start in self._starts.items() if tp in places}
        unknown = [each.source for each in found.copied if each.source not in self._starts]
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                offsets = await self._ask([stocks_partition(self._alias, tp) for tp in unknown])
                self._starts |= {tp: _start(offset) for tp, offset in zip(unknown, offsets, strict=True)}
        except TimeoutError:
            return self._with(found, [*found.failures, _unanswered(len(unknown))])
        return self._with(found, found.failures)

    def _with(self, found: DiscoveredTopics, failures: Sequence[KafkaFailure]) -> DiscoveredTopics:
        known: list[Copied] = [
            replace(each, start=self._starts[each.source])
            for each in found.copied
            if each.source in self._starts
        ]
        return replace(found, copied=known, failures=failures)


def stocks_partition(alias: str, tp: TopicPartition) -> SourcePartition:
    """As stock's MirrorSourceConnector names it in Connect."""
    return {"cluster": alias, "partition": tp.partition, "topic": tp.topic}


def _start(stored: SourceOffset | None) -> int | None:
    """Stock keeps the offset of the last record that it has copied; none, or a negative one, is no position."""
    offset = None if stored is None else stored.get("offset")
    return offset + 1 if isinstance(offset, int) and offset >= 0 else None


def _unanswered(partitions: int) -> KafkaFailure:
    said = (
        f"{partitions} partition(s) are not copied yet: no Connect worker has told from which offsets a mirror of this "
        "name has to go on. If that lasts the worker can't read its offset storage, or its plugin is older than this "
        f"service: it has to be of version {VERSION} on every worker"
    )
    return KafkaFailure(KafkaFault.TIMEOUT, said)

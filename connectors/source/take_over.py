"""Takes over from a stock mirror of the same name: reads the source offsets that Connect has stored (stock §2).

They are read once for every partition while a task is active, by the shim. Until then a partition is not copied: it
would begin at `consumer.auto.offset.reset`, and be on the target twice. Partitions that have a run go on from there,
whatever a stock mirror has left (bridge.pipeline.slices.gaps).
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
_LAST_OFFSET = 2**63 - 2


class TakeOver:
    """Sets the start of each partition. `ask` is Publisher.stored_offsets."""

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

    async def begun(self, topics: DiscoveredTopics) -> DiscoveredTopics:
        """Returns the topics with the start of each partition; a partition without one yet is left out, and counts as a
        failure."""
        partitions = {each.source for each in topics.copied}
        self._starts = {tp: start for tp, start in self._starts.items() if tp in partitions}
        unknown = [each.source for each in topics.copied if each.source not in self._starts]
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                offsets = await self._ask([stocks_partition(self._alias, tp) for tp in unknown])
                self._starts |= {
                    tp: start_position(offset) for tp, offset in zip(unknown, offsets, strict=True)
                }
        except TimeoutError:
            return self._with(topics, [*topics.failures, _unanswered(len(unknown))])
        return self._with(topics, topics.failures)

    def _with(self, topics: DiscoveredTopics, failures: Sequence[KafkaFailure]) -> DiscoveredTopics:
        started: list[Copied] = [
            replace(each, start=self._starts[each.source])
            for each in topics.copied
            if each.source in self._starts
        ]
        return replace(topics, copied=started, failures=failures)


def stocks_partition(alias: str, tp: TopicPartition) -> SourcePartition:
    """Returns the source partition as stock's MirrorSourceConnector names it in Connect."""
    return {"cluster": alias, "partition": tp.partition, "topic": tp.topic}


def start_position(stored: SourceOffset | None) -> int | None:
    """Returns the position after the last record that stock has copied, or that is stored itself; None without a valid
    one."""
    position = None if stored is None else stored.get("position")
    if isinstance(position, int) and 0 <= position <= _LAST_OFFSET + 1:
        return position
    offset = None if stored is None else stored.get("offset")
    return offset + 1 if isinstance(offset, int) and 0 <= offset <= _LAST_OFFSET else None


def _unanswered(partitions: int) -> KafkaFailure:
    text = (
        f"{partitions} partition(s) are not copied yet: the stored source offsets, from which a mirror of this name "
        "has to go on, have not come. If that lasts: a Connect worker can't read its offset storage, or its plugin is "
        f"older than this service (it has to be of version {VERSION} on every worker); in dedicated mode the node "
        "can't read offset.storage.topic on the target"
    )
    return KafkaFailure(KafkaFault.TIMEOUT, text)

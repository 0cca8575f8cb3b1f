"""Takes over from a stock mirror of the same name: reads the source offsets that Connect has stored (stock §2).

They are read once for every partition while a task is active, by the shim. Until then a partition is not copied: it
would begin at `consumer.auto.offset.reset`, and be on the target twice. Partitions that have a run go on from there,
whatever a stock mirror has left (bridge.pipeline.slices.gaps).

Converts source offsets that an operator alters in Connect (KIP-875) to positions where copying goes on. Pure.

Connect asks the same of a connector for DELETE (every source partition that it has stored, without an offset) and for a
PATCH that takes offsets of some partitions away. What our mirror copies is not in Connect, so that only what was copied
tells the two apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge import VERSION
from bridge.errors import KafkaFailure, KafkaFault, OperationRefused
from bridge.model.copying import Copied
from bridge.model.values import TopicPartition
from bridge.translation.runs.reset_positions import EARLIEST, LATEST, Destination, ResetTo
from connectors.base import SourceOffset, SourcePartition
from connectors.source.discovery import DiscoveredTopics

PATIENCE_SECONDS = 5.0
"""Seconds that a round waits: a worker polls once a second at least."""
_LAST_OFFSET = 2**63 - 2
_NAMED = 3
Offsets = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
"""Source partitions as stock's MirrorSourceConnector names them, each with its source offset."""


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
        partitions = {copied.source for copied in topics.copied}
        self._starts = {tp: start for tp, start in self._starts.items() if tp in partitions}
        unknown = [copied.source for copied in topics.copied if copied.source not in self._starts]
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
            replace(copied, start=self._starts[copied.source])
            for copied in topics.copied
            if copied.source in self._starts
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


def destinations(
    offsets: Offsets, alias: str, copied: Collection[TopicPartition], *, from_latest: bool
) -> dict[TopicPartition, Destination]:
    """Returns where each of the partitions goes on, as with stock: behind the record that the offset names, or, without
    an offset, where consumer.auto.offset.reset says (`from_latest`). Without any partition all are meant.

    Raises OperationRefused where it is not clear which partitions are meant, or an offset is of another flow.
    """
    reset = LATEST if from_latest else EARLIEST
    result: dict[TopicPartition, Destination] = {}
    for partition, offset in offsets:
        tp = _tp(partition, alias)
        if tp is None and offset is not None:
            raise OperationRefused(f"source partition {dict(partition)} is none of source cluster {alias}")
        if tp is not None:
            result[tp] = reset if offset is None else Destination(ResetTo.OFFSET, int(offset["offset"]) + 1)
    if not offsets:
        return dict.fromkeys(copied, reset)
    others = sorted(set(copied) - result.keys())
    if others and all(offset is None for _, offset in offsets):
        named = ", ".join(f"{topic}-{partition}" for topic, partition in others[:_NAMED])
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        raise OperationRefused(
            f"Connect has stored offsets of {len(result)} partition(s), and {named}{more} were copied too: it is not "
            "clear whether those are meant. To copy everything again: mirror-bridge reset NAME --to earliest; to copy "
            "some partitions again name them with --topic and --partition"
        )
    return result


def of_group(
    offsets: Offsets, alias: str, copied: Collection[TopicPartition], *, from_latest: bool
) -> dict[TopicPartition, Destination]:
    """Returns the same for a sink connector, whose offsets are those of its group: Connect lists all that are meant.
    Without any the group has none, and all partitions are meant.

    Raises OperationRefused for an offset of a partition that was not copied: nothing remembers it.
    """
    result = destinations(offsets, alias, (), from_latest=from_latest)
    stored = {tp for partition, offset in offsets if offset is not None and (tp := _tp(partition, alias))}
    if missing := sorted(stored - set(copied)):
        named = ", ".join(f"{topic}-{partition}" for topic, partition in missing[:_NAMED])
        raise OperationRefused(
            f"nothing of {named} was copied yet, so that no offset of it can be altered; where copying begins is what "
            "source.consumer.auto.offset.reset says"
        )
    return result or dict.fromkeys(copied, LATEST if from_latest else EARLIEST)


def _tp(partition: Mapping[str, Any], alias: str) -> TopicPartition | None:
    """Returns the partition; None for one of another source, whose offset may always be deleted (as in stock)."""
    topic, number = partition.get("topic"), partition.get("partition")
    if partition.get("cluster") != alias or not isinstance(topic, str) or not isinstance(number, int):
        return None
    return TopicPartition(topic, number)

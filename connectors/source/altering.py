"""Converts source offsets that an operator alters in Connect (KIP-875) to positions where copying goes on. Pure.

Connect asks the same of a connector for DELETE (every source partition that it has stored, without an offset) and for a
PATCH that takes offsets of some partitions away. What our mirror copies is not in Connect, so that only what was copied
tells the two apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bridge.errors import OperationRefused
from bridge.model.values import TopicPartition
from bridge.translation.runs.reset_positions import EARLIEST, LATEST, Destination, ResetTo

_NAMED = 3

Offsets = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
"""Source partitions as stock's MirrorSourceConnector names them, each with its source offset."""


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
    given = {tp for partition, offset in offsets if offset is not None and (tp := _tp(partition, alias))}
    if missing := sorted(given - set(copied)):
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

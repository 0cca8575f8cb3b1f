"""Decides which checkpoints are emitted for a group, by stock MirrorCheckpointTask's rules (Kafka 4.3.1).

A checkpoint is emitted when it is the first of its partition, when the group went back on the source, or when it takes
the group forward on the target. All others are suppressed: the store's answer for one and the same offset goes down as
syncs are thinned, and a checkpoint must not follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from bridge.mm2.records import Checkpoint
from bridge.model.values import Committed, TopicPartition

_NONE: Mapping[TopicPartition, Checkpoint] = MappingProxyType({})


def is_more_recent(last: Checkpoint | None, new: Checkpoint) -> bool:
    """Whether `new` is to be emitted after `last`, the checkpoint emitted before it for that group and partition
    (`checkpointIsMoreRecent`)."""
    return (
        last is None
        or new.upstream_offset < last.upstream_offset
        or new.downstream_offset > last.downstream_offset
    )


def emit(
    group: str,
    committed: Mapping[TopicPartition, Committed | None],
    translate: Callable[[TopicPartition, int], int | None],
    rename: Callable[[str], str],
    last: Mapping[TopicPartition, Checkpoint],
) -> list[Checkpoint]:
    """Returns the checkpoints to emit for one group (`checkpointsForGroup`, but for the topic filter, which is the
    caller's).

    `committed` is by partition of the source, None where the broker had no offset; `translate` answers None or a
    negative number where there is no translation; `rename` gives the remote topic; `last` is by remote partition, and
    is the caller's to update. Where two topics of the source have one remote topic the lower answer counts (stock
    fails, and emits nothing for any group).
    """
    lowest: dict[TopicPartition, Checkpoint] = {}
    for (topic, partition), standing in committed.items():
        if standing is None:
            continue
        downstream = translate(TopicPartition(topic, partition), standing.offset)
        if downstream is None or downstream < 0:
            continue
        remote = TopicPartition(rename(topic), partition)
        other = lowest.get(remote)
        if other is None or downstream < other.downstream_offset:
            lowest[remote] = Checkpoint(group, remote, standing.offset, downstream, standing.metadata)
    return [
        checkpoint for remote, checkpoint in lowest.items() if is_more_recent(last.get(remote), checkpoint)
    ]


class CheckpointStore:
    """The last checkpoint of every group and remote partition, in the topic's order (mm2's `CheckpointStore`, of all
    groups; stock's drops what other tasks own). Nothing is committed from here: what counts for that is what the group
    has committed on the source now, so what is gone may stay (B2)."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, Checkpoint]] = {}

    def apply(self, checkpoint: Checkpoint) -> None:
        self._groups.setdefault(checkpoint.group, {})[checkpoint.topic_partition] = checkpoint

    def get(self, group: str, topic_partition: TopicPartition) -> Checkpoint | None:
        return self.of_group(group).get(topic_partition)

    def of_group(self, group: str) -> Mapping[TopicPartition, Checkpoint]:
        """Returns a group's checkpoints by remote partition; empty for a group without checkpoints. For reading only,
        and now: it may change."""
        return self._groups.get(group, _NONE)

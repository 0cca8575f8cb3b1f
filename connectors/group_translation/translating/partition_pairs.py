"""Pairs source partitions with the target partitions that hold their copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridge.mm2.replication_policy import counterpart
from bridge.model.values import Committed, CopyId, TopicPartition
from connectors.group_translation.checks import GroupOptions

PartitionPair = tuple[TopicPartition, TopicPartition]
"""A source partition and its counterpart on the target."""
GroupOffsets = Mapping[str, Mapping[PartitionPair, Committed]]
"""What groups have committed on the source."""


class PartitionPairs:
    """The pairs of one connector. Returns the same objects each time, for there are many groups to a partition."""

    def __init__(
        self,
        options: GroupOptions,
        *,
        reverse: bool,
        was_copied: Callable[[CopyId], bool] = lambda _: False,
    ) -> None:
        """`reverse`: copies of the target's own topics are paired with those (failback). `was_copied`: whether a topic
        that the filter leaves out is paired all the same."""
        self._options, self._reverse, self._was_copied = options, reverse, was_copied
        self._pairs: dict[TopicPartition, PartitionPair | None] = {}
        self._older: dict[TopicPartition, PartitionPair | None] = {}
        """Those that were asked for in the last whole round."""

    def __len__(self) -> int:
        return len(self._pairs) + len(self._older)

    def end_round(self, *, whole: bool) -> None:
        """Forgets partitions that no group asked for in the last two rounds. `whole`: the round did not break off."""
        self._older, self._pairs = self._pairs if whole else self._older | self._pairs, {}

    def paired(self, offsets: Mapping[TopicPartition, Committed]) -> dict[PartitionPair, Committed]:
        """Returns a group's offsets by pair, without partitions that are not to be synced."""
        return {pair: committed for tp, committed in offsets.items() if (pair := self._pair(tp))}

    def _pair(self, tp: TopicPartition) -> PartitionPair | None:
        if tp not in self._pairs:
            self._pairs[tp] = self._older[tp] if tp in self._older else self._paired(tp)
        return self._pairs[tp]

    def _paired(self, tp: TopicPartition) -> PartitionPair | None:
        options = self._options
        if options.policy.is_internal_topic(tp.topic):
            return None
        chosen = options.topic_filter.should_replicate_topic(tp.topic)
        aliases = options.source_alias, options.target_alias
        topic = counterpart(options.policy, tp.topic, *aliases, reverse=self._reverse)
        if topic is None or not (chosen or self._was_copied(CopyId(tp, topic))):
            return None
        return tp, TopicPartition(topic, tp.partition)

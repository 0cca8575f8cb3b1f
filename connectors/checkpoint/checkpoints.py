"""Keeps track of checkpoints: those in the topic, and those that Connect has yet to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridge.mm2.checkpoints import CheckpointStore, emit
from bridge.mm2.records import Checkpoint
from bridge.model.values import LogRecord, Side, TopicPartition
from bridge.translation.plan import Translated
from connectors.group_translation.translating.followed_topic import TopicFollower
from connectors.ports import Tail

Key = tuple[str, TopicPartition]


class Checkpoints:
    """The newest checkpoints of all groups; follows the topic as long as the connector runs. Stock reads the topic
    once, at the start of each task: it does not see what another connector writes there, and takes for written what
    Connect never wrote."""

    def __init__(self, side: Side, tail: Tail, timeout_ms: int) -> None:
        self._in_topic = CheckpointStore()
        self._in_flight: dict[Key, Checkpoint] = {}
        """Handed to Connect, which writes them sooner or later."""
        self.log = TopicFollower(side, tail, self._apply, self._restart, timeout_ms)

    async def follow(self) -> None:
        """Reads what is new in the topic. Raises ClusterAway."""
        await self.log.follow()

    def last(self, group: str, tp: TopicPartition) -> Checkpoint | None:
        """Returns the newest checkpoint of a group and remote partition, written or in flight."""
        return self._in_flight.get((group, tp)) or self._in_topic.get(group, tp)

    def written(self, group: str, tp: TopicPartition) -> Checkpoint | None:
        return self._in_topic.get(group, tp)

    def emit(
        self, group: str, rows: Sequence[Translated], target_end: Callable[[TopicPartition], int | None]
    ) -> list[Checkpoint]:
        """Returns the checkpoints that are due for a group (stock §3.8), and counts them as in flight. A last one that
        points past the target's end counts as none: the target was truncated or created again, and nothing would ever
        be more recent."""
        answers = {row.source: row.verdict.offset for row in rows}
        topics = {row.source.topic: row.target.topic for row in rows}
        last: dict[TopicPartition, Checkpoint] = {}
        for row in rows:
            checkpoint, end = self.last(group, row.target), target_end(row.target)
            if checkpoint is not None and (end is None or checkpoint.downstream_offset <= end):
                last[row.target] = checkpoint
        due = emit(
            group,
            {row.source: row.committed for row in rows},
            lambda tp, _: answers[tp],
            topics.__getitem__,
            last,
        )
        self._in_flight.update({(group, checkpoint.topic_partition): checkpoint for checkpoint in due})
        return due

    def _apply(self, record: LogRecord) -> None:
        checkpoint = Checkpoint.checked(record.key, record.value)
        key = (checkpoint.group, checkpoint.topic_partition)
        if self._in_flight.get(key) == checkpoint:
            del self._in_flight[key]
        self._in_topic.apply(checkpoint)

    def _restart(self) -> None:
        """Forgets all: a topic that was emptied gets its checkpoints again, those in flight too, for they may have been
        written to the old one."""
        self._in_topic = CheckpointStore()
        self._in_flight = {}

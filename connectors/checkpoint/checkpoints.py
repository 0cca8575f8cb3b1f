"""The checkpoints topic: what stands there, and what is on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bridge.mm2.checkpoints import CheckpointStore, emit
from bridge.mm2.records import Checkpoint
from bridge.model.values import Side, TopicPartition
from bridge.translation.plan import Translated
from connectors.group_translation.followed_topic import Followed
from connectors.ports import Tail

Key = tuple[str, TopicPartition]


class Checkpoints:
    """Followed as long as the connector runs. Stock reads the topic once, at the start of each task: it does not see
    what another connector writes there, and takes for written what Connect never wrote."""

    def __init__(self, side: Side, tail: Tail, timeout_ms: int) -> None:
        self._there = CheckpointStore()
        self._sent: dict[Key, Checkpoint] = {}
        """On their way through Connect, which writes them sooner or later."""
        self._log = Followed(side, tail, Checkpoint.checked, self._apply, self._restart, timeout_ms)

    @property
    def unreadable(self) -> Mapping[str, int]:
        return self._log.unreadable

    @property
    def remark(self) -> str | None:
        return self._log.remark

    @property
    def missing(self) -> bool:
        return self._log.missing

    async def follow(self) -> None:
        """Raises ClusterAway."""
        await self._log.follow()

    def last(self, group: str, tp: TopicPartition) -> Checkpoint | None:
        """The newest one of a group and remote partition, written or on its way."""
        return self._sent.get((group, tp)) or self._there.get(group, tp)

    def written(self, group: str, tp: TopicPartition) -> Checkpoint | None:
        return self._there.get(group, tp)

    def emit(
        self, group: str, rows: Sequence[Translated], target_end: Callable[[TopicPartition], int | None]
    ) -> list[Checkpoint]:
        """The checkpoints that are due for a group (stock §3.8); they count as on their way from now on. One that
        points past the target's end counts as none: the target was cut back or made anew, and nothing would ever be
        more recent."""
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
        self._sent.update({(group, checkpoint.topic_partition): checkpoint for checkpoint in due})
        return due

    def _apply(self, checkpoint: Checkpoint) -> None:
        key = (checkpoint.group, checkpoint.topic_partition)
        if self._sent.get(key) == checkpoint:
            del self._sent[key]
        self._there.apply(checkpoint)

    def _restart(self) -> None:
        """A topic that was emptied gets its checkpoints again. Those on their way too: nobody knows whether they have
        arrived in the old one."""
        self._there = CheckpointStore()
        self._sent = {}

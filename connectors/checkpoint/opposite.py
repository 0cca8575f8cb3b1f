"""The loop guard of failback: what the opposite flow has put where it is says nothing new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bridge.translation.mm2_records import Checkpoint
from bridge.translation.model import Reason, Side, TopicPartition, Verdict
from bridge.translation.plan import Translated
from connectors.groups.followed import Followed
from connectors.ports import Tail

_WAITING = Verdict.pending(Reason.MOVED_BY_MIRROR)


class _Put(NamedTuple):
    """Where the mirror has put a group: by its last checkpoint, and the furthest so far."""

    upstream: int
    downstream: int
    furthest: int


class Opposite:
    """The checkpoints of the flow from the target, by group and partition of the source.

    A group that its consumers have moved on stands past everything that the mirror has put there. The last checkpoint
    alone does not tell: after a reset on the target it is a low one, while the offset here stays where it was (group
    offsets are not moved back), and sent back it would undo the reset.
    """

    def __init__(self, tail: Tail, timeout_ms: int) -> None:
        self._put: dict[tuple[str, TopicPartition], _Put] = {}
        self._log = Followed(
            Side.SOURCE, tail, Checkpoint.checked, self._apply, self._put.clear, timeout_ms, optional=True
        )

    @property
    def unreadable(self) -> Mapping[str, int]:
        return self._log.unreadable

    @property
    def trouble(self) -> str | None:
        """Why the topic can't be read. One that is missing is none: there may be no opposite flow."""
        return self._log.remark

    async def follow(self) -> None:
        """Raises ClusterAway."""
        await self._log.follow()

    def guarded(
        self, group: str, rows: Sequence[Translated], source_end: Callable[[TopicPartition], int | None]
    ) -> list[Translated]:
        """Pending where consumers have not moved the group on. A checkpoint past the source's end counts for nothing,
        as in `Checkpoints.emit`: no group would ever get there."""

        def moved(row: Translated) -> bool:
            put, end = self._put.get((group, row.source)), source_end(row.source)
            return (
                put is not None
                and row.committed.offset <= put.furthest
                and (end is None or put.furthest <= end)
            )

        return [row._replace(verdict=_WAITING) if moved(row) else row for row in rows]

    def _apply(self, checkpoint: Checkpoint) -> None:
        group, place, upstream, downstream, _ = checkpoint
        last = self._put.get((group, place))
        # A lower one for an offset that is not lower: the topic here was cut back or made anew.
        cut_back = last is not None and downstream < last.downstream and upstream >= last.upstream
        furthest = downstream if last is None or cut_back else max(downstream, last.furthest)
        self._put[group, place] = _Put(upstream, downstream, furthest)

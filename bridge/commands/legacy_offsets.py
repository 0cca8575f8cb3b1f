"""Keeps the committed offsets of MirrorMaker 1's consumer group: copying begins there, and tells how far it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from bridge.backoff import Backoff
from bridge.commands.views import LocalPublisher
from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import Committed, GroupState, Side, TopicPartition
from connectors.ports import Cluster, Clusters

log = logging.getLogger(__name__)


_FIRST_PAUSE, _MOST_PAUSE = 0.1, 5.0


ANSWER_SECONDS = 60.0


_FREE = (GroupState.EMPTY, GroupState.DEAD, GroupState.NOT_FOUND)


class GroupOffsets(LocalPublisher):
    """The Publisher of a copy that goes on where the group has come to, and commits for it how far it has come."""

    def __init__(self, group: str, interval: float) -> None:
        """`interval` in seconds."""
        super().__init__()
        self._group, self._interval = group, interval
        self._clusters: Clusters | None = None
        self._cluster: Cluster | None = None
        self._committed: dict[TopicPartition, int] = {}

    async def begin(self, clusters: Clusters, props: Mapping[str, str]) -> None:
        """Reads what the group has committed. Raises KafkaFailure, also for a group that has members: they copy."""
        self._clusters, source = clusters, clusters.open(Side.SOURCE, props)
        self._cluster = source
        state, offsets = await self._answered(source)
        if state not in _FREE:
            text = (
                f"group {self._group} is {state} on the source: another mirror uses it. Stop kafka-mirror-maker first, "
                "or give another group.id"
            )
            raise KafkaFailure(KafkaFault.FENCED, text, retriable=False)
        self._committed = {tp: offset.offset for tp, offset in offsets.items()}

    async def _answered(self, source: Cluster) -> tuple[GroupState, Mapping[TopicPartition, Committed]]:
        """Returns the group's state and offsets, once its coordinator says them: a cluster that has had no group yet
        makes the coordinators' topic when it is first asked, and a broker that has just started reads it first. Raises
        KafkaFailure."""
        backoff, until = Backoff(_FIRST_PAUSE, _MOST_PAUSE), time.monotonic() + ANSWER_SECONDS
        while True:
            state = (await source.group_states([self._group]))[self._group]
            offsets = (await source.committed([self._group]))[self._group]
            if not isinstance(offsets, KafkaFailure):
                if state is not GroupState.UNKNOWN:
                    return state, offsets
            elif not offsets.retriable or time.monotonic() > until:
                raise offsets
            if time.monotonic() > until:
                text = (
                    f"group {self._group} can't be described on the source: whether another mirror uses it is not "
                    "known. See that the broker that coordinates it runs, and start again"
                )
                raise KafkaFailure(KafkaFault.TIMEOUT, text, retriable=False)
            await asyncio.sleep(backoff.next())

    async def stored_offsets(
        self, partitions: Sequence[Mapping[str, str | int]]
    ) -> Sequence[Mapping[str, int] | None]:
        places = [
            TopicPartition(str(partition["topic"]), int(partition["partition"])) for partition in partitions
        ]
        return [{"position": self._committed[tp]} if tp in self._committed else None for tp in places]

    async def run(self) -> None:
        """Commits every interval, until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            await self.commit()

    async def finish(self) -> None:
        if self._clusters is not None and self._cluster is not None:
            await self.commit()
            await self._clusters.release(self._cluster)

    async def commit(self) -> None:
        """Commits what has moved. What fails is tried again next time: it stands for nothing but what others are
        shown, and where kafka-mirror-maker would go on."""
        moved = {
            tp: row.position
            for tp, row in self.rows.items()
            if row.position >= 0 and self._committed.get(tp) != row.position
        }
        if self._cluster is None or not moved:
            return
        try:
            done = await self._cluster.alter(
                self._group, {tp: Committed(position) for tp, position in moved.items()}
            )
        except KafkaFailure as failure:
            log.warning("offsets of group %s are not committed: %s", self._group, failure)
            return
        for tp, failed in done.items():
            if failed is None:
                self._committed[tp] = moved[tp]
            else:
                log.warning("offset of group %s for %s-%d is not committed: %s", self._group, *tp, failed)

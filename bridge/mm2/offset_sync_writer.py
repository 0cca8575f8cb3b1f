"""Decides when a mirror writes offset syncs, as `OffsetSyncWriter` of Kafka 4.3.1 does, to the record (stock §3.4).

A sync is due at once for the first record of a partition's task, after a gap upstream, where the target's log was cut
back, and when the answer of the last one (its downstream offset plus one) lies `offset.lag.max` records back: in a
steady flow one for every `offset.lag.max + 1` records. The others wait, the latest of each partition, until Connect
commits.
"""

from __future__ import annotations

from bridge.mm2.records import OffsetSync
from bridge.model.values import TopicPartition


class PartitionState:
    """The state of one source partition. Offsets are 0 to 2^63 - 1, and -1 while there was none."""

    def __init__(self, max_offset_lag: int) -> None:
        self._max_offset_lag = max_offset_lag
        self.previous_upstream_offset = -1
        self.previous_downstream_offset = -1
        self.last_sync_downstream_offset = -1
        self.should_sync_offsets = False
        """Once set it stays so until `reset`."""

    def update(self, upstream_offset: int, downstream_offset: int) -> bool:
        """Notes that a record was written on the target; returns whether a sync is due."""
        last = self.last_sync_downstream_offset
        if (
            last == -1
            or downstream_offset - (last + 1) >= self._max_offset_lag
            or upstream_offset - self.previous_upstream_offset != 1
            or downstream_offset < self.previous_downstream_offset
        ):
            self.last_sync_downstream_offset = downstream_offset
            self.should_sync_offsets = True
        self.previous_upstream_offset = upstream_offset
        self.previous_downstream_offset = downstream_offset
        return self.should_sync_offsets

    def update_range(self, upstream_offset: int, downstream_offset: int, count: int) -> list[int]:
        """Notes `count` records in a row on both sides, as `update` for each and `reset` after each that was due;
        returns which of them were due, as numbers from 0. Costs what it answers, whatever the length of the range."""
        due = []
        position = 0
        while position < count:
            if self.update(upstream_offset + position, downstream_offset + position):
                self.reset()
                due.append(position)
            # Within the range nothing but the lag makes a sync due.
            lag_reached = self.last_sync_downstream_offset + 1 + self._max_offset_lag - downstream_offset
            position = max(position + 1, lag_reached)
        self.previous_upstream_offset = upstream_offset + count - 1
        self.previous_downstream_offset = downstream_offset + count - 1
        return due

    def reset(self) -> None:
        self.should_sync_offsets = False


class OffsetSyncWriter:
    """Decides which syncs of one task are written, and when. One thread at a time; the caller writes them, all of them:
    stock has ten on their way at most, and of what waits behind these only the latest of each partition (B7)."""

    def __init__(self, max_offset_lag: int) -> None:
        self._max_offset_lag = max_offset_lag
        self.states: dict[TopicPartition, PartitionState] = {}
        self.delayed: dict[TopicPartition, OffsetSync] = {}
        """To be written with the next commit, one of each partition at most."""

    def queue_range(
        self, topic_partition: TopicPartition, upstream_offset: int, downstream_offset: int, count: int
    ) -> list[OffsetSync]:
        """Notes `count` records, in a row on both sides, that were written on the target. Returns the syncs that are
        due at once, in order; the last record's, where it is not due, waits."""
        state = self.states.get(topic_partition)
        if state is None:
            state = self.states[topic_partition] = PartitionState(self._max_offset_lag)
        due = state.update_range(upstream_offset, downstream_offset, count)
        last = count - 1
        if due:
            # Otherwise the next commit would write an older sync after a newer one, which reads as a rewind.
            self.delayed.pop(topic_partition, None)
        if not due or due[-1] != last:
            sync = OffsetSync(topic_partition, upstream_offset + last, downstream_offset + last)
            self.delayed[topic_partition] = sync
        return [
            OffsetSync(topic_partition, upstream_offset + position, downstream_offset + position)
            for position in due
        ]

    def drain_delayed(self) -> list[OffsetSync]:
        """Returns the delayed syncs, when the transaction ends or Connect commits: a partition that has gone quiet is
        synced to its end."""
        syncs = list(self.delayed.values())
        self.delayed.clear()
        return syncs

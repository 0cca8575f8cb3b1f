"""Follows the offset-syncs topic into an OffsetSyncStore."""

from __future__ import annotations

from bridge.mm2.offset_sync_store import OffsetSyncStore, SyncBounds
from bridge.mm2.records import OffsetSync, SyncColumns
from bridge.model.values import LogRecord, LogRecords, Side, TopicPartition
from connectors.group_translation.translating.followed_topic import TopicFollower
from connectors.ports import Tail


class FollowedSyncs:
    """The offset syncs, read to the end before each round, so that no answer rests on half a log. `mended`: see
    OffsetSyncStore."""

    def __init__(self, side: Side, tail: Tail, timeout_ms: int, *, mended: bool) -> None:
        self.side, self._mended = side, mended
        self._store = OffsetSyncStore(must_read_to_end=False, mended=mended)
        self._begun = self._only_last = False
        self.log = TopicFollower(
            side, tail, self._apply, self._restart, timeout_ms, apply_all=self._apply_all
        )

    async def follow(self, *, must_read_to_end: bool) -> None:
        """Follows the syncs. `must_read_to_end` counts until the end is reached for the first time: which checkpoints
        were emitted before is not known. Raises ClusterAway; what was read until then is kept."""
        if not self._begun:
            self._only_last = must_read_to_end
            self._store.begin(must_read_to_end=must_read_to_end)
        await self.log.follow()
        if self.log.remark is None or self.log.missing:
            self._begun, self._only_last = True, False
            self._store.finish_start()

    @property
    def store(self) -> OffsetSyncStore:
        return self._store

    def translate(self, tp: TopicPartition, offset: int) -> int | None:
        return self._store.translate(tp, offset)

    def bounds(self, tp: TopicPartition, offset: int) -> SyncBounds | None:
        return self._store.bounds(tp, offset)

    def _apply(self, record: LogRecord) -> None:
        self._store.apply(OffsetSync.checked(record.key, record.value))

    def _apply_all(self, records: LogRecords) -> bool:
        columns = SyncColumns.decode([(record.key, record.value) for record in records])
        if columns is None:
            return False
        self._store.apply_all(columns)
        return True

    def _restart(self) -> None:
        self._store = OffsetSyncStore(self._only_last, self._mended)

"""A history with the offset syncs of stock."""

from __future__ import annotations

from bridge.mm2.offset_sync_store import OffsetSyncStore, SyncBounds
from bridge.mm2.offset_sync_writer import OffsetSyncWriter
from bridge.model.values import TopicPartition
from tests.unit.translation.history import History, Kind
from tests.unit.translation.logs import Row

PLACE = TopicPartition("t", 0)


class Synced(History):
    """A history whose mirror writes offset syncs as stock's does (stock §3.4), and loses some of them."""

    def __init__(self, kind: Kind, seed: str, *, mended: bool = True) -> None:
        self.store = OffsetSyncStore(must_read_to_end=False, mended=mended)
        self.store.finish_start()
        self.lag: int | None = None
        self.writer: OffsetSyncWriter | None = None
        super().__init__(kind, seed)

    def restart(self, position: int) -> None:
        super().restart(position)
        self.writer = None

    def place(self, rows: list[Row]) -> None:
        if self.lag is None:
            self.lag = self.random.choice([0, 1, 4, 100])
        writer = self.writer = self.writer or OffsetSyncWriter(self.lag)
        for place, row in enumerate(rows, self.target.end):
            assert row.origin is not None
            for sync in writer.queue_range(PLACE, row.origin, place, 1):
                if self.random.random() < 0.9:
                    self.store.apply(sync)
        super().place(rows)

    def bounds(self, offset: int) -> SyncBounds | None:
        return self.store.bounds(PLACE, offset)

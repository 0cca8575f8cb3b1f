"""What is to be copied of a fetch: batches that hold data, neighbours among them taken for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from bridge.kafka.protocol.wire import BytesLike
from bridge.kafka.record import loops
from bridge.kafka.record.batch import (
    APPEND_TIME,
    CODEC,
    HEADER_SIZE,
    TRANSACTIONAL,
    CorruptBatch,
    DataFilter,
    RawBatch,
    batch_at,
)
from bridge.kafka.record.crc32c import undamaged
from bridge.kafka.record.jit import as_bytes

_LEAST = HEADER_SIZE + loops.LEAST
"""Bytes of a batch with a record."""


class Small(NamedTuple):
    """Batches of up to so many bytes, by codec, in the order of their numbers: to put them together, compressed ones
    have to be decoded and encoded."""

    none: int
    gzip: int
    snappy: int
    lz4: int
    zstd: int

    @classmethod
    def any(cls, size: int) -> Self:
        """Of up to so many bytes, whatever their codec."""
        return cls(size, size, size, size, size)

    def of(self, codec: int) -> int:
        """0 for a codec that nobody knows."""
        return self[codec] if codec < len(self) else 0


class Joining(NamedTuple):
    """Which neighbours are taken for one: small ones, together of `batch_size` bytes at most."""

    small: Small
    batch_size: int

    def takes(self, codec: int, size: int) -> bool:
        """Whether a batch of so many bytes has room for a neighbour."""
        return size <= min(self.small.of(codec), self.batch_size // 2)


class DataBatches(NamedTuple):
    """The data of one fetch. `next_offset`: past the last complete batch, control and aborted ones too; the fetch's
    own offset when there is none. `leader_epoch`: of that batch, -1 for none or unknown. `incomplete`: bytes have
    come, and no complete batch among them: ask for more."""

    batches: list[RawBatch]
    next_offset: int
    leader_epoch: int
    incomplete: bool

    @classmethod
    def committed(
        cls,
        data: BytesLike,
        offset: int,
        aborted: Sequence[tuple[int, int]] | None,
        join: Joining | None = None,
    ) -> DataBatches:
        """What is to be copied of a fetch at `offset`: batches that hold data at or after it. `aborted` is None where
        data of open and aborted transactions is copied too. Raises CorruptBatch."""
        batches: list[RawBatch] = []
        following, epoch, at, end = offset, -1, 0, 0
        data_filter = DataFilter(aborted or ())
        # Where transactions were aborted, each batch is looked at by itself.
        joined = CODEC | APPEND_TIME | (0 if aborted else TRANSACTIONAL)
        view = memoryview(data)
        while (batch := batch_at(view, at, checked=True)) is not None:
            if join is not None and not batch.attributes & ~joined:
                batch = neighbours(view, at, batch, join) or batch
            if batch.base_offset < end:
                raise CorruptBatch(batch.base_offset)
            at, end = at + len(batch.data), batch.last_offset + 1
            if batch.last_offset >= following:
                following = batch.last_offset + 1
            epoch = batch.leader_epoch
            # A batch without records is what compaction keeps of a producer's last sequence.
            if data_filter.is_data(batch) and batch.count and batch.last_offset >= offset:
                batches.append(batch)
        return cls(batches, following, epoch, bool(data) and not at)


def neighbours(view: memoryview, start: int, first: RawBatch, join: Joining) -> RawBatch | None:
    """The batch at `start`, which is `first`, and those behind it that are of its kind, as one; None when there are
    none, or it has no room for any. What is damaged is not among them."""
    codec = first.attributes & CODEC
    if first.magic < 2 or not join.takes(codec, len(first.data)):
        return None
    room = min(join.batch_size, len(view) - start)
    heads = np.empty((room // _LEAST, loops.COLUMNS), np.int64)
    append = bool(first.attributes & APPEND_TIME)
    data = view[start : start + room]
    rows = loops.walk(
        as_bytes(data), join.small.of(codec), first.attributes, first.leader_epoch, append, heads
    )
    heads = heads[: undamaged(data, heads[:rows])]
    if len(heads) < 2:
        return None
    return replace(
        first,
        last_offset=int(heads[-1, loops.LAST]),
        count=int(heads[:, loops.COUNT].sum()),
        data=data[: int(heads[-1, loops.END])],
        heads=heads,
    )

"""Reads what is to be copied of a fetch: the batches that hold data, neighbours among them as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

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
from bridge.kafka.record.batch_plan import BatchPolicy
from bridge.kafka.record.crc32c import undamaged
from bridge.kafka.record.jit import as_bytes

_LEAST = HEADER_SIZE + loops.LEAST
"""Bytes of a batch with a record."""


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
        policy: BatchPolicy | None = None,
        *,
        until_damage: bool = False,
    ) -> DataBatches:
        """Reads what is to be copied of a fetch at `offset`: batches that hold data at or after it. `aborted` is None
        where data of open and aborted transactions is copied too. `policy`: which neighbours are coalesced, None for
        none. Raises CorruptBatch; with `until_damage` only where the first batch is damaged, and ends before another
        one."""
        batches: list[RawBatch] = []
        following, epoch, at, end = offset, -1, 0, 0
        before = following, epoch, at, 0
        data_filter = DataFilter(aborted or ())
        # Where transactions were aborted, each batch is looked at by itself.
        others = ~(CODEC | APPEND_TIME | (0 if aborted else TRANSACTIONAL))
        sizes = policy.with_room if policy is not None else ()
        view = memoryview(data)
        try:
            while (batch := batch_at(view, at, checked=True)) is not None:
                if (
                    policy is not None
                    and not batch.attributes & others
                    and batch.magic == 2
                    and len(batch.data) <= sizes[batch.attributes & CODEC]
                ):
                    batch = neighbours(view, at, batch, policy) or batch
                if until_damage and batch.last_offset < offset:
                    raise CorruptBatch(batch.base_offset)
                if batch.base_offset < end:
                    raise _Overlap(batch.base_offset)
                is_data = data_filter.is_data(batch)
                before = following, epoch, at, len(batches)
                at, end = at + len(batch.data), batch.last_offset + 1
                if batch.last_offset >= following:
                    following = batch.last_offset + 1
                epoch = batch.leader_epoch
                # A batch without records is what compaction keeps of a producer's last sequence.
                if is_data and batch.count and batch.last_offset >= offset:
                    batches.append(batch)
        except _Overlap:
            if (
                until_damage and policy is not None
            ):  # which batch it is shows where none is joined with others
                return cls.committed(data, offset, aborted, until_damage=True)
            if not until_damage:
                raise
            # The base offset of the one before may be what is wrong, since no checksum has it; but not of the one that
            # the broker has found for this offset.
            if not (len(batches) == 1 and batches[0].base_offset <= offset):
                following, epoch, at, kept = before
                if not at:
                    raise
                del batches[kept:]
        except CorruptBatch:
            if not (until_damage and at):
                raise
        return cls(batches, following, epoch, bool(data) and not at)


class _Overlap(CorruptBatch):
    """A batch begins before the one in front of it ends."""


def neighbours(view: memoryview, start: int, first: RawBatch, policy: BatchPolicy) -> RawBatch | None:
    """The batch at `start`, which is `first`, and those behind it that are of its kind, as one; None when there are
    none. What is damaged is not among them."""
    room = min(policy.room, len(view) - start)
    heads = np.empty((room // _LEAST, loops.COLUMNS), np.int64)
    append = bool(first.attributes & APPEND_TIME)
    data = view[start : start + room]
    largest = policy.coalesced[first.attributes & CODEC]
    rows = loops.walk(as_bytes(data), largest, first.attributes, first.leader_epoch, append, heads)
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

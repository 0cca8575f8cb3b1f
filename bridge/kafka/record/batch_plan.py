"""Decides what becomes of fetched batches: sent as they are, rebuilt, or coalesced with their neighbours. Pure.

The one place for that decision: reading of a fetch (`coalescing`) and making of batches (`rebuilding`) carry it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from bridge.kafka.record.batch import APPEND_TIME, CODEC, RawBatch
from bridge.kafka.record.compression import Compression
from bridge.model.batch_limits import MOST_BYTES

_CODECS = CODEC + 1
"""Numbers that a batch's attributes have room for."""


class CodecSizes(NamedTuple):
    """Sizes of batches in bytes, by codec, in the order of their numbers."""

    none: int
    gzip: int
    snappy: int
    lz4: int
    zstd: int

    @classmethod
    def all(cls, size: int) -> Self:
        return cls(size, size, size, size, size)


NONE_COALESCED = CodecSizes.all(0)


class TopicLimits(NamedTuple):
    """What a target topic takes. `max_message_bytes`: of a batch as it is stored. `stored`: the codec in which brokers
    store batches whatever they come in (compression.type), by its number; None: as they come (`producer`)."""

    max_message_bytes: int
    stored: int | None = None


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """Says how the batches of a fetch are made ready for their target topic. Sizes in bytes.

    `max_message_bytes`: of that topic. `batch_size`: up to which neighbours are coalesced and records put together.
    `coalesced`: the largest batches that are coalesced; compressed ones have to be decoded and encoded for that.
    `compression`: of every batch that can be decoded; None keeps each batch's own. `decompressed`: of a batch; one that
    holds more counts as one that nobody can decode. `stored`: as of TopicLimits.
    """

    max_message_bytes: int
    batch_size: int
    coalesced: CodecSizes = NONE_COALESCED
    compression: Compression | None = None
    decompressed: int = MOST_BYTES
    stored: int | None = None
    room: int = field(init=False)
    """Of neighbours together, as they are before they are coalesced."""
    with_room: Sequence[int] = field(init=False)
    """By codec number the largest batch that has room for a neighbour: half of `room`; 0 for codecs that nobody
    knows."""

    def __post_init__(self) -> None:
        room = min(self.batch_size, self.max_message_bytes)
        sizes = (*self.coalesced, *[0] * (_CODECS - len(self.coalesced)))
        object.__setattr__(self, "room", room)
        object.__setattr__(self, "with_room", tuple(min(size, room // 2) for size in sizes))


class PlannedChunk(NamedTuple):
    """Batches whose records become one batch, or several where they have no room in one. `as_is`: the bytes of the only
    batch are sent under a new header."""

    batches: Sequence[RawBatch]
    as_is: bool


def plan(batches: Iterable[RawBatch], policy: BatchPolicy, start_offset: int) -> Iterator[PlannedChunk]:
    """Plans what becomes of `batches` from `start_offset` on, in order. Nothing is coalesced over a change of codec,
    nor of leader epoch, which a chunk has one of."""
    sizes, most = policy.with_room, policy.room
    group: list[RawBatch] = []
    kind: tuple[int, int] | None = None
    room = 0
    for batch in batches:
        if batch.last_offset < start_offset:
            continue
        size, codec = len(batch.data), batch.attributes & CODEC
        coalesced = batch.heads is not None or size <= sizes[codec]
        if group and (not coalesced or size > room or (codec, batch.leader_epoch) != kind):
            yield PlannedChunk(group, _is_unchanged(group, policy, start_offset))
            group = []
        if not group:
            room, kind = most if coalesced else 0, (codec, batch.leader_epoch)
        group.append(batch)
        room -= size
    if group:
        yield PlannedChunk(group, _is_unchanged(group, policy, start_offset))


def _is_unchanged(group: Sequence[RawBatch], policy: BatchPolicy, start_offset: int) -> bool:
    if len(group) > 1:
        return False
    batch, compression, stored = group[0], policy.compression, policy.stored
    codec = batch.attributes & CODEC
    same = (compression is None or compression.codec == codec) and (stored is None or stored == codec)
    return same and passes(batch, start_offset, policy.max_message_bytes)


def is_unchanged_if_small(group: Sequence[RawBatch], policy: BatchPolicy, start_offset: int) -> bool:
    """Whether the group is one batch that is sent as it is, if only it is small enough as brokers store it."""
    return policy.stored is not None and _is_unchanged(group, replace(policy, stored=None), start_offset)


def passes(batch: RawBatch, start_offset: int, max_message_bytes: int) -> bool:
    """Whether the broker takes the batch's own bytes under a new header, and keeps what they say.

    Not with a hole (rejected), nor with append time (the bit is dropped, and the producers' timestamps reappear), nor
    when it begins below `start_offset` or is larger than the target's max.message.bytes.
    """
    return (
        batch.magic == 2
        and batch.heads is None
        and batch.last_offset - batch.base_offset + 1 == batch.count
        and not batch.attributes & APPEND_TIME
        and batch.base_offset >= start_offset
        and len(batch.data) <= max_message_bytes
    )

"""Makes chunks of batches as planned: their bytes under a new header, or their records put together anew.

Decides what becomes of fetched batches: sent as they are, rebuilt, or coalesced with their neighbours. Pure.

The one place for that decision: reading of a fetch (`coalescing`) and making of batches (`rebuilding`) carry it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from bridge.kafka.record.batch import APPEND_TIME, CODEC, Chunk, RawBatch, parse, passed
from bridge.kafka.record.columns import Records
from bridge.kafka.record.compression import Compression
from bridge.model.copying import FREE, MOST_BYTES

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


class RecordTooLarge(ValueError):
    """A single record that the target topic's max.message.bytes has no room for. Sizes in bytes."""

    def __init__(self, offset: int, size: int, limit: int) -> None:
        super().__init__(
            f"The record at offset {offset} takes {size} bytes; max.message.bytes allows {limit}"
        )
        self.offset, self.size, self.limit = offset, size, limit


class UnreadableBatch(ValueError):
    """Nobody can decode the batch though it arrived as it was written, and its own bytes can't be passed. `offset`: of
    its first record; -1 for one from before 0.11, whose header tells the last one only."""

    def __init__(self, offset: int, last_offset: int, why: str) -> None:
        where = (
            f"at offsets {offset} to {last_offset}" if offset >= 0 else f"that ends at offset {last_offset}"
        )
        super().__init__(f"The batch {where} can't be decoded: {why}")
        self.offset, self.last_offset, self.why = offset, last_offset, why


def chunks(batches: Sequence[RawBatch], policy: BatchPolicy, start_offset: int) -> Iterator[Chunk]:
    """Makes `batches` from `start_offset` on ready to be produced, in order.

    Raises RecordTooLarge or UnreadableBatch when all before it has been handed out: to leave it out, ask again from
    behind it.
    """
    for group, as_is in plan(batches, policy, start_offset):
        if as_is:
            yield passed(group[0])
        else:
            yield from _rebuilt(group, policy, start_offset)


def put_together(
    records: Records, codec: int, leader_epoch: int, policy: BatchPolicy, start_offset: int
) -> Iterator[Chunk]:
    """Makes chunks of records from `start_offset` on of about `batch_size` before they are compressed. Raises
    RecordTooLarge as `chunks` does."""
    compression = policy.compression or Compression(codec)
    for part in records.since(start_offset).parts(policy.batch_size):
        yield from _fitting(part, compression, leader_epoch, policy)


def refused(chunk: Chunk, most: int = MOST_BYTES) -> tuple[Chunk, ...]:
    """The halves of a chunk that the broker has rejected without saying for which record; none of a single record,
    which is the one (its offset is the chunk's first segment's). Raises UnreadableBatch for one that was passed, and
    that holds more than `most` bytes or can't be decoded."""
    if chunk.count == 1:
        return ()
    (batch,) = parse(chunk.data)
    same = Compression(batch.attributes & CODEC)
    records = _decoded(batch, most)
    if isinstance(records, UnreadableBatch):
        (first, _), (last, count) = chunk.segments[0], chunk.segments[-1]
        raise UnreadableBatch(first, last + count - 1, records.why)
    return tuple(half.chunk(same, chunk.leader_epoch) for half in records.numbered(chunk.segments).halves())


def _rebuilt(group: Sequence[RawBatch], policy: BatchPolicy, start_offset: int) -> Iterator[Chunk]:
    compression = policy.compression or Compression(group[0].attributes & CODEC)
    epoch, unchanged = group[0].leader_epoch, is_unchanged_if_small(group, policy, start_offset)
    collected, held = list[Records](), 0

    def ready() -> Iterator[Chunk]:
        if collected:
            yield from _fitting(Records.together(collected), compression, epoch, policy)
            collected.clear()

    for batch, decoded in decoded_each(group, start_offset, policy.decompressed):
        if isinstance(decoded, Records):
            if unchanged and decoded.max_stored_size <= policy.max_message_bytes:
                yield passed(batch)
                continue
            # The first offset of a batch from before 0.11 is in its records only.
            records = decoded.since(start_offset)
            collected += [records] if records.count else []
            # Small ones may hold so much that together they are more than one batch may hold.
            held += len(decoded.data)
            if held > policy.decompressed // FREE:
                yield from ready()
                held = 0
            continue
        yield from ready()
        if not passes(batch, start_offset, policy.max_message_bytes):
            raise decoded
        yield passed(batch)
    yield from ready()


def _fitting(
    records: Records, compression: Compression, leader_epoch: int, policy: BatchPolicy
) -> Iterator[Chunk]:
    """Makes one chunk, or halves and their halves until each is small enough, also as brokers store it."""
    largest, single = policy.max_message_bytes, records.count == 1
    if single or policy.stored in (None, compression.codec) or records.max_stored_size <= largest:
        whole = records.chunk(compression, leader_epoch)
        if whole.size <= largest:
            yield whole
            return
        if single:
            raise RecordTooLarge(records.first, whole.size, largest)
    for half in records.halves():
        yield from _fitting(half, compression, leader_epoch, policy)


def decoded_each(
    batches: Iterable[RawBatch], start_offset: int, most: int = MOST_BYTES
) -> Iterator[tuple[RawBatch, Records | UnreadableBatch]]:
    """Decodes batches that end at `start_offset` or behind it. Coalesced neighbours are decoded one by one where they
    can't be decoded together: what is wrong has a name."""
    for batch in batches:
        if batch.last_offset < start_offset:
            continue
        decoded = _decoded(batch, most)
        if isinstance(decoded, UnreadableBatch) and batch.heads is not None:
            # Of a copy: what is passed is overwritten, and this may be asked for again.
            yield from decoded_each(parse(bytes(batch.data)), start_offset, most)
            continue
        yield batch, decoded


def _decoded(batch: RawBatch, most: int) -> Records | UnreadableBatch:
    try:
        return Records.from_batch(batch, most)
    except Exception as error:  # each codec has exceptions of its own
        why = str(error) or repr(error)
    # Not one that is raised: what was decoded until then would live as long as it does.
    return UnreadableBatch(batch.base_offset if batch.magic == 2 else -1, batch.last_offset, why)

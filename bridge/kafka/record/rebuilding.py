"""Batches into chunks: passed as they are where that keeps what they say, else their records put together anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bridge.kafka.record.batch import CODEC, Chunk, RawBatch, parse, passed, passes
from bridge.kafka.record.coalescing import Joining, Small
from bridge.kafka.record.columns import Records
from bridge.kafka.record.compression import Compression
from bridge.model.batch_limits import FREE, MOST_BYTES


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


class Limits(NamedTuple):
    """In bytes. `coalesce`: neighbours as small as this are put together into batches of up to `batch_size`, as pays
    when a backlog exists; None: none are. `compression`: of every batch that can be decoded; None: as it is.
    `decompressed`: of a batch; one that holds more counts as one that nobody can decode."""

    max_message_bytes: int
    batch_size: int
    coalesce: Small | None
    compression: Compression | None = None
    decompressed: int = MOST_BYTES

    def passes(self, batch: RawBatch, start_offset: int) -> bool:
        """Whether the batch's own bytes may be sent on."""
        kept = self.compression is None or self.compression.codec == batch.attributes & CODEC
        return kept and passes(batch, start_offset, self.max_message_bytes)


def chunks(batches: Sequence[RawBatch], limits: Limits, start_offset: int) -> Iterator[Chunk]:
    """`batches` from `start_offset` on, ready to be produced, in order.

    Raises RecordTooLarge or UnreadableBatch when all before it has been handed out: to leave it out, ask again from
    behind it.
    """
    wanted = (batch for batch in batches if batch.last_offset >= start_offset)
    for group in _groups(wanted, limits):
        first = group[0]
        if len(group) == 1 and limits.passes(first, start_offset):
            yield passed(first)
        else:
            yield from _rebuilt(group, limits, start_offset)


def put_together(
    records: Records, codec: int, leader_epoch: int, limits: Limits, start_offset: int
) -> Iterator[Chunk]:
    """Records from `start_offset` on as chunks of about `batch_size` before they are compressed. Raises RecordTooLarge
    as `chunks` does."""
    compression = limits.compression or Compression(codec)
    for part in records.since(start_offset).parts(limits.batch_size):
        yield from _fitting(part, compression, leader_epoch, limits.max_message_bytes)


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


def _groups(batches: Iterable[RawBatch], limits: Limits) -> Iterator[list[RawBatch]]:
    """Neighbours that become one batch together. Not over a change of codec, nor of leader epoch, which a chunk has one
    of."""
    most = min(limits.batch_size, limits.max_message_bytes)
    join = Joining(limits.coalesce or Small.any(0), most)
    group: list[RawBatch] = []
    kind: tuple[int, int] | None = None
    room = 0
    for batch in batches:
        size = len(batch.data)
        codec = batch.attributes & CODEC
        small = batch.heads is not None or join.takes(codec, size)
        its_kind = (codec, batch.leader_epoch)
        if group and (not small or size > room or its_kind != kind):
            yield group
            group = []
        if not group:
            room, kind = most if small else 0, its_kind
        group.append(batch)
        room -= size
    if group:
        yield group


def _rebuilt(group: Sequence[RawBatch], limits: Limits, start_offset: int) -> Iterator[Chunk]:
    compression = limits.compression or Compression(group[0].attributes & CODEC)
    epoch, most = group[0].leader_epoch, limits.max_message_bytes
    found, held = list[Records](), 0

    def ready() -> Iterator[Chunk]:
        if found:
            yield from _fitting(Records.together(found), compression, epoch, most)
            found.clear()

    for batch, decoded in decoded_each(group, start_offset, limits.decompressed):
        if isinstance(decoded, Records):
            # The first offset of a batch from before 0.11 is in its records only.
            wanted = decoded.since(start_offset)
            found += [wanted] if wanted.count else []
            # Small ones may hold so much that together they are more than one batch may hold.
            held += len(decoded.data)
            if held > limits.decompressed // FREE:
                yield from ready()
                held = 0
            continue
        yield from ready()
        if not passes(batch, start_offset, most):
            raise decoded
        yield passed(batch)
    yield from ready()


def _fitting(
    records: Records, compression: Compression, leader_epoch: int, max_message_bytes: int
) -> Iterator[Chunk]:
    """One chunk, or halves and their halves until each is small enough."""
    whole = records.chunk(compression, leader_epoch)
    if whole.size <= max_message_bytes:
        yield whole
        return
    if records.count == 1:
        raise RecordTooLarge(records.first, whole.size, max_message_bytes)
    for half in records.halves():
        yield from _fitting(half, compression, leader_epoch, max_message_bytes)


def decoded_each(
    batches: Iterable[RawBatch], start_offset: int, most: int = MOST_BYTES
) -> Iterator[tuple[RawBatch, Records | UnreadableBatch]]:
    """Batches that end at `start_offset` or behind it. Neighbours that are taken for one are told apart where that one
    can't be decoded: what is wrong has a name."""
    for batch in batches:
        if batch.last_offset < start_offset:
            continue
        found = _decoded(batch, most)
        if isinstance(found, UnreadableBatch) and batch.heads is not None:
            # Of a copy: what is passed is overwritten, and this may be asked for again.
            yield from decoded_each(parse(bytes(batch.data)), start_offset, most)
            continue
        yield batch, found


def _decoded(batch: RawBatch, most: int) -> Records | UnreadableBatch:
    try:
        return Records.of(batch, most)
    except Exception as error:  # each codec has exceptions of its own
        why = str(error) or repr(error)
    # Not one that is raised: what was decoded until then would live as long as it does.
    return UnreadableBatch(batch.base_offset if batch.magic == 2 else -1, batch.last_offset, why)

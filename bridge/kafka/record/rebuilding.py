"""Makes chunks of batches as planned: their bytes under a new header, or their records put together anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bridge.kafka.record.batch import CODEC, Chunk, RawBatch, parse, passed
from bridge.kafka.record.batch_plan import BatchPolicy, is_unchanged_if_small, passes, plan
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
        return Records.of(batch, most)
    except Exception as error:  # each codec has exceptions of its own
        why = str(error) or repr(error)
    # Not one that is raised: what was decoded until then would live as long as it does.
    return UnreadableBatch(batch.base_offset if batch.magic == 2 else -1, batch.last_offset, why)

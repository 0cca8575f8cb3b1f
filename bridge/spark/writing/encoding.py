"""Arrow batches of rows as record batches, a topic's partition each. Nothing is done for each row in Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.kafka.record.arrow_columns import Fields, Texts, joined
from bridge.kafka.record.batch import Chunk
from bridge.kafka.record.columns import Records
from bridge.kafka.record.hashes import NO_KEY, keyed_partitions
from bridge.kafka.record.loops import Numbers
from bridge.model.values import TopicPartition
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing.commits import WrittenTotals
from bridge.spark.writing.options import SinkOptions

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_BITS = 32
"""Of a partition's number, below a topic's in what rows are ordered by."""
_OVERHEAD = 24
"""Bytes of a record beside key and value, about."""
_SHOWN = 5


class EncodedBatch(NamedTuple):
    """A record batch on its way."""

    tp: TopicPartition
    chunk: Chunk


class Encoder:
    """Encodes the rows of one task. `partitions_of`: how many a topic has; raises SourceRejected for one that does not
    exist. `first`: where records without key and partition begin to be spread."""

    def __init__(self, options: SinkOptions, partitions_of: Callable[[str], int], first: int = 0) -> None:
        self._options, self._compression = options, options.compression
        self._partitions_of = partitions_of
        self._spread = first
        self._kept: dict[TopicPartition, list[Records]] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._written = WrittenTotals(0, 0)

    @property
    def written(self) -> WrittenTotals:
        """The totals of all rows so far."""
        return self._written

    def count(self, rows: pa.RecordBatch) -> None:
        """Adds rows to what counts as written, and no more."""
        self._add(_fields(rows))

    def add(self, rows: pa.RecordBatch) -> Iterator[EncodedBatch]:
        """The batches that are full. Raises SourceRejected for a row that can't be written."""
        if not rows.num_rows:
            return
        fields = _fields(rows)
        places, names = self._places(rows, fields)
        if len(names) > 1:
            order = np.argsort(places, kind="stable")
            places = places[order]
            fields = _fields(rows.take(pa.array(order)))
        self._add(fields)
        records = joined(fields)
        begins = np.flatnonzero(np.diff(places, prepend=-1)).tolist()
        for begin, end in zip(begins, [*begins[1:], records.count], strict=True):
            tp = names[int(places[begin])]
            yield from self._full(tp, _part(records, begin, end))

    def last_batches(self) -> Iterator[EncodedBatch]:
        """Yields the last, incomplete batches."""
        for tp in list(self._kept):
            yield from self._chunks(tp, whole=True)

    def _add(self, fields: Fields) -> None:
        rows, size = self._written
        texts = (fields.keys, fields.values, fields.header_keys, fields.header_values)
        size += sum(int(text.ends[-1]) for text in texts)
        self._written = WrittenTotals(rows + len(fields.offsets), size)

    def _full(self, tp: TopicPartition, records: Records) -> Iterator[EncodedBatch]:
        self._kept.setdefault(tp, []).append(records)
        self._sizes[tp] = self._sizes.get(tp, 0) + records.size + _OVERHEAD * records.count
        if self._sizes[tp] >= self._options.batch_size:
            yield from self._chunks(tp, whole=False)

    def _chunks(self, tp: TopicPartition, *, whole: bool) -> Iterator[EncodedBatch]:
        """Batches of what is kept for a partition; unless `whole`, its last and perhaps small part is kept on."""
        records = Records.together(self._kept.pop(tp))
        del self._sizes[tp]
        parts = list(records.parts(self._options.batch_size))
        if not whole and len(parts) > 1:
            last = parts.pop()
            self._kept[tp] = [_part(records, records.count - last.count, records.count)]
            self._sizes[tp] = last.size + _OVERHEAD * last.count
        for part in parts:
            yield EncodedBatch(tp, part.chunk(self._compression, -1))

    def _places(self, rows: pa.RecordBatch, fields: Fields) -> tuple[Numbers, dict[int, TopicPartition]]:
        """A number for the place of each row, in no order of its own, and what they stand for."""
        topics, names = self._topics(rows)
        counts = [self._partitions_of(name) for name in names]
        partitions = _given(rows)
        for number, (name, count) in enumerate(zip(names, counts, strict=True)):
            here = topics == number
            there = partitions[here]
            wrong = np.unique(there[(there != NO_KEY) & ((there < 0) | (there >= count))])
            if len(wrong):
                shown = ", ".join(f"{name}-{place}" for place in wrong[:_SHOWN].tolist())
                raise SourceRejected(f"there is no partition {shown}: topic {name} has {count} partition(s)")
            if (there == NO_KEY).any():
                partitions[here] = np.where(there == NO_KEY, self._by_key(fields, count)[here], there)
        places = topics << _BITS | partitions
        unique = np.unique(places).tolist()
        mask = (1 << _BITS) - 1
        return places, {place: TopicPartition(names[place >> _BITS], place & mask) for place in unique}

    def _topics(self, rows: pa.RecordBatch) -> tuple[Numbers, list[str]]:
        if self._options.topic:
            return np.zeros(rows.num_rows, np.int64), [self._options.topic]
        column = rows.column("topic")
        if column.null_count:
            raise SourceRejected(
                "a row has no topic: column topic is null; the option topic names one for all rows"
            )
        encoded = pc.dictionary_encode(column)
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()

    def _by_key(self, fields: Fields, partitions: int) -> Numbers:
        """The partitions that Kafka's default partitioner chooses. Records without key go to one partition until a
        batch is full, and then to the next."""
        rows = len(fields.offsets)
        chosen = keyed_partitions(fields.keys, rows, partitions)
        keyless = chosen == NO_KEY
        if keyless.any():
            sizes = np.diff(fields.values.ends[: rows + 1].astype(np.int64)) + _OVERHEAD
            steps = np.cumsum(np.where(keyless, sizes, 0)) // self._options.batch_size
            chosen[keyless] = (self._spread + steps[keyless]) % partitions
            self._spread += int(steps[-1]) + 1
        return chosen


def _part(records: Records, begin: int, end: int) -> Records:
    """Some of the records, with no bytes but their own: they may be kept for long."""
    columns = records.columns[:, begin:end].copy()
    first, last = int(columns[2, 0]), int(columns[3, -1])
    columns[2:] -= first
    columns[0] = np.arange(end - begin)
    return Records(records.data[first:last].copy(), columns)


def _given(rows: pa.RecordBatch) -> Numbers:
    """The column partition; NO_KEY where it does not say one."""
    if "partition" not in rows.schema.names:
        return np.full(rows.num_rows, NO_KEY, np.int64)
    column = rows.column("partition")
    numbers: Numbers = column.fill_null(0).to_numpy().astype(np.int64)
    if column.null_count:
        numbers = np.where(column.is_null().to_numpy(zero_copy_only=False), NO_KEY, numbers)
    # -1 of the column is a number that no topic has, and not the one for null.
    wrong = (numbers < 0) & column.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        raise SourceRejected(
            f"there is no partition {numbers[wrong][0]}: column partition must be 0 or more, or null"
        )
    return numbers


def _fields(rows: pa.RecordBatch) -> Fields:
    count, names = rows.num_rows, rows.schema.names
    keys = _texts(rows.column("key"), pa.binary()) if "key" in names else _nulls(count)
    lists, header_keys, header_values = _headers(rows)
    return Fields(
        np.zeros(count, np.int64),
        _timestamps(rows),
        keys,
        _texts(rows.column("value"), pa.binary()),
        lists,
        header_keys,
        header_values,
    )


def _timestamps(rows: pa.RecordBatch) -> Numbers:
    """In ms; what is finer is cut off. Null is now."""
    now = time.time_ns() // 1_000_000
    if "timestamp" not in rows.schema.names:
        return np.full(rows.num_rows, now, np.int64)
    column = rows.column("timestamp")
    # As Java's producer has it: a record without a time gets that of its sending.
    micros = column.cast(pa.int64()).fill_null(now * 1000).to_numpy()
    if len(micros) and int(micros.min()) < 0:
        raise SourceRejected("a timestamp is before 1970, which no record of Kafka can have")
    millis: Numbers = micros // 1000
    return millis


def _headers(rows: pa.RecordBatch) -> tuple[Any, Texts, Texts]:
    if "headers" not in rows.schema.names:
        return np.zeros(rows.num_rows + 1, np.int32), _nulls(0), _nulls(0)
    column = rows.column("headers")
    column = column if column.type == _HEADERS else column.cast(_HEADERS)
    headers = column.values
    keys = headers.field("key")
    if headers.null_count or keys.null_count:
        raise SourceRejected("a header has no key: column headers has a null, or one whose key is null")
    lists = _numbers(column.buffers()[1], np.int32) if len(column) else np.zeros(1, np.int32)
    return lists, _texts(keys, pa.string()), _texts(headers.field("value"), pa.binary())


def _texts(array: pa.Array, kind: pa.DataType) -> Texts:
    array = array if array.type == kind else array.cast(kind)
    assert array.offset == 0
    valid, ends, data = array.buffers()
    bits = valid if array.null_count else None
    return Texts(
        _numbers(bits, np.uint8),
        _numbers(ends, np.int32)[: len(array) + 1] if len(array) else np.zeros(1, np.int32),
        _numbers(data, np.uint8),
    )


def _nulls(rows: int) -> Texts:
    """A column without a value."""
    return Texts(np.zeros((rows + 7) // 8, np.uint8), np.zeros(rows + 1, np.int32), np.empty(0, np.uint8))


def _numbers(buffer: pa.Buffer | None, kind: Any) -> Any:
    return np.empty(0, kind) if buffer is None else np.frombuffer(buffer, kind)

"""Calls the transforms of a slice, which run in a child process: one batch at a time, each with a timeout.

A batch with which a transform fails is halved until single records are left: those with which it still fails are
reported as failed. A batch that takes too long or too much memory only as a whole succeeds in parts, and later batches
start at the size of such a part.

Records as Arrow batches, as transforms have them, and back.

Transforms of ours that need no process of their own: compiled, they end, fail with nothing, and take no more memory
than what they make. Whatever they leave out goes the way of all transforms.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.child_process import ending, with_socket
from bridge.kafka.record import arrow_columns
from bridge.kafka.record.arrow_columns import BrokenRecord, Fields, Texts
from bridge.kafka.record.columns import Records
from bridge.kafka.record.loops import Bytes
from bridge.model.copying import Copied, PipelineSpec, Transform
from bridge.pipeline.slices.transforming.child import HEAD, pack
from bridge.transforms.contract import SCHEMA
from bridge.transforms.ready import Compiled, compiled_masks

_HEADERS = SCHEMA.field("headers").type
_NO_TIMESTAMP = -1
_MASKS = "bridge.transforms.mask_fields"
_PARAMETERS = {"fields", "replacement", "column"}
TIMEOUT, MEMORY = "bridge.transform.timeout.ms", "bridge.transform.memory.bytes"
_START = 60.0
"""Seconds in which the process has to load its transforms."""
_MOST, _MOST_BYTES = 16_384, 4 * 1024 * 1024
"""Most records of a batch, and most bytes of their keys, values and headers."""


def as_batch(records: Records, topic: str, partition: int) -> pa.RecordBatch:
    """Raises BrokenRecord."""
    fields = arrow_columns.cut(records)
    rows, headers = records.count, len(fields.header_keys.ends) - 1
    has_timestamp = fields.timestamps != _NO_TIMESTAMP
    header = pa.StructArray.from_buffers(
        _HEADERS.value_type,
        headers,
        [None],
        children=[
            _array(pa.string(), headers, fields.header_keys),
            _array(pa.binary(), headers, fields.header_values),
        ],
    )
    columns = [
        pa.repeat(topic, rows),
        pa.repeat(pa.scalar(partition, pa.int32()), rows),
        pa.array(fields.offsets),
        pa.Array.from_buffers(
            SCHEMA.field("timestamp").type,
            rows,
            [
                None if has_timestamp.all() else _buffer(np.packbits(has_timestamp, bitorder="little")),
                _buffer(fields.timestamps),
            ],
        ),
        _array(pa.binary(), rows, fields.keys),
        _array(pa.binary(), rows, fields.values),
        pa.Array.from_buffers(_HEADERS, rows, [None, _buffer(fields.lists)], children=[header]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def by_topic(batch: pa.RecordBatch) -> dict[str, Records]:
    """The records of a batch as IPC reads it, by the topic that they go to."""
    topics = pc.unique(batch.column("topic")).to_pylist()
    if len(topics) == 1:
        return {topics[0]: as_records(batch)}
    return {topic: as_records(batch.filter(pc.equal(batch.column("topic"), topic))) for topic in topics}


def as_records(batch: pa.RecordBatch) -> Records:
    """Converts a batch to records. None of its arrays begins inside of its buffers: IPC and filters make none that
    does."""
    timestamps = batch.column("timestamp")
    lists = batch.column("headers")
    header = lists.values
    return arrow_columns.joined(
        Fields(
            batch.column("offset").to_numpy(),
            timestamps.cast(pa.int64()).fill_null(_NO_TIMESTAMP).to_numpy(),
            _texts(batch.column("key")),
            _texts(batch.column("value")),
            _numbers(lists.buffers()[1], np.int32) if len(lists) else np.zeros(1, np.int32),
            _texts(header.field("key")),
            _texts(header.field("value")),
        )
    )


def _array(kind: pa.DataType, rows: int, texts: Texts) -> pa.Array:
    validity = _buffer(texts.validity) if len(texts.validity) else None
    return pa.Array.from_buffers(kind, rows, [validity, _buffer(texts.ends), _buffer(texts.data)])


def _texts(array: pa.Array) -> Texts:
    assert array.offset == 0
    validity, ends, data = array.buffers()
    has_nulls = array.null_count > 0
    return Texts(
        _numbers(validity if has_nulls else None, np.uint8),
        _numbers(ends, np.int32) if len(array) else np.zeros(1, np.int32),
        _numbers(data, np.uint8),
    )


def _numbers(buffer: pa.Buffer | None, kind: Any) -> Any:
    return np.empty(0, kind) if buffer is None else np.frombuffer(buffer, kind)


def _buffer(array: Bytes | Any) -> pa.Buffer:
    return pa.py_buffer(array)


class Native(NamedTuple):
    masks: Compiled
    column: str


def native(transform: Transform) -> Native | None:
    """Returns the transform's compiled form; None for one that takes a process."""
    parameters = transform.parameters
    column = parameters.get("column", "value")
    if transform.function != _MASKS or parameters.keys() - _PARAMETERS or column not in ("key", "value"):
        return None
    try:
        masks = compiled_masks(parameters["fields"], parameters.get("replacement"))
    except (KeyError, ValueError):
        return None  # the process says what is wrong
    return None if masks is None else Native(masks, column)


def through(records: Records, chain: Sequence[Native]) -> Records | None:
    """Runs the whole chain over records; None where one of them has to go another way."""
    try:
        fields = arrow_columns.cut(records)
    except BrokenRecord:
        return None
    for transform in chain:
        masked = _masked(fields, transform)
        if masked is None:
            return None
        fields = masked
    return arrow_columns.joined(fields)


def _masked(fields: Fields, native: Native) -> Fields | None:
    texts = fields.keys if native.column == "key" else fields.values
    made = native.masks.apply(texts.validity, texts.ends, texts.data, len(fields.offsets))
    if made is None or made[2]:
        return None
    changed = texts._replace(ends=made[0], data=made[1])
    return fields._replace(keys=changed) if native.column == "key" else fields._replace(values=changed)


class TransformUnusable(Exception):
    """A transform that fails with every batch: it, or its process, can't be loaded, or it fails with an empty batch."""


class TransformFailed(Exception):
    """A transform that fails with these records; `limit`: it took too long or too much memory, or its
    process ended."""

    def __init__(self, message: str, *, limit: bool = False) -> None:
        super().__init__(message)
        self.limit = limit


class Outcome(NamedTuple):
    """The result for the records at offsets [first, end): the records to write, by target topic, or in `failed` why
    they can't be transformed."""

    first: int
    end: int
    records: Mapping[str, Records]
    failed: str = ""


class Calls:
    """The transforms of one slice. For use in one event loop."""

    def __init__(self, spec: PipelineSpec) -> None:
        self._transforms = spec.transforms
        self._timeout, self._memory = spec.transform_timeout, spec.transform_memory
        self._native = [native(transform) for transform in spec.transforms]
        self._process: _Process | None = None
        self._most = _MOST

    async def start(self) -> None:
        """Starts the process, unless no transform needs it. Raises TransformUnusable."""
        if not all(self._native):
            await self._started()

    async def _started(self) -> None:
        """Starts the process if there is none. Raises TransformUnusable."""
        if self._process is None:
            self._process = await _Process.started(self._transforms, self._memory)

    async def close(self) -> None:
        if self._process is not None:
            await self._process.end()
            self._process = None

    async def through(self, copied: Copied, records: Records) -> AsyncIterator[Outcome]:
        """Passes records through the partition's transforms; yields the outcomes of parts in order. Raises
        TransformUnusable."""
        waiting, chain = [records], self._chain(copied)
        while waiting:
            part = waiting.pop()
            if part.count > 1 and (part.count > self._most or part.size > _MOST_BYTES):
                waiting += reversed(part.halves())
                continue
            first, end = part.first, part.last + 1
            transformed = through(part, chain) if chain is not None else None
            if transformed is not None:
                yield Outcome(first, end, {copied.target_topic: transformed})
                continue
            try:
                yield Outcome(first, end, await self._call(copied, part))
                self._most = min(_MOST, self._most + self._most // 8 + 1)
            except TransformFailed as failed:
                if part.count > 1:
                    waiting += reversed(part.halves())
                    self._most = max(1, part.count // 2) if failed.limit else self._most
                else:
                    yield Outcome(first, end, {}, str(failed))

    def _chain(self, copied: Copied) -> list[Native] | None:
        """The partition's transforms if all of them are native, which need no process; else None."""
        chain = [self._native[number] for number in copied.transforms]
        native_ones = [transform for transform in chain if transform is not None]
        return native_ones if len(native_ones) == len(chain) else None

    async def _call(self, copied: Copied, records: Records) -> Mapping[str, Records]:
        await self._started()
        assert self._process is not None
        try:
            batch = as_batch(records, copied.target_topic, copied.source.partition)
        except BrokenRecord as broken:
            raise TransformFailed(
                f"the record can't be decoded, so no transform was called: {broken}"
            ) from None
        number = copied.transforms[0]  # until the process says which one it has begun
        try:
            await self._process.send({"chain": copied.transforms}, batch.serialize())
            while True:
                async with asyncio.timeout(self._timeout):
                    header, body = await self._process.receive()
                if "begin" in header:
                    number = header["begin"]
                elif "failed" in header:
                    raise self._failed(number, header)
                else:
                    return by_topic(pa.ipc.read_record_batch(pa.py_buffer(body), SCHEMA))
        except TimeoutError:
            await self.close()
            error = f"it took longer than {TIMEOUT} ({self._timeout * 1000:.0f}) allows"
            raise TransformFailed(self._named(number, error), limit=True) from None
        except (EOFError, ConnectionError):
            error = f"its process ended ({await self._process.end()})"
            self._process = None
            raise TransformFailed(self._named(number, error), limit=True) from None

    def _failed(self, number: int, header: dict[str, Any]) -> TransformFailed:
        error = header["failed"]
        if header["memory"]:
            error = f"it took more memory than {MEMORY} ({self._memory}) allows"
        return TransformFailed(self._named(number, error), limit=header["memory"])

    def _named(self, number: int, error: str) -> str:
        return f"transform {self._transforms[number].name}: {error}"


class _Process:
    """The process of the transforms, and the socket to it (see transforming.child)."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        channel.setblocking(False)
        self._process, self._channel = process, channel

    @classmethod
    async def started(cls, transforms: Sequence[Transform], memory: int) -> _Process:
        """Starts a process and has it load the transforms. Raises TransformUnusable."""
        # What a transform prints goes to the log of the executor. Other allocators reserve memory that is not used, and
        # that would count against the limit.
        arrow = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
        process = cls(*with_socket("bridge.pipeline.slices.transforming.child", logged=True, more=arrow))
        try:
            await process.send({"transforms": transforms, "memory": memory})
            async with asyncio.timeout(_START):
                header, _ = await process.receive()
        except (EOFError, ConnectionError, TimeoutError) as error:
            names = ", ".join(transform.name for transform in transforms)
            how = await process.end()
            slow = isinstance(error, TimeoutError)
            what = f"did not load them within {_START:.0f} s" if slow else f"ended while loading them ({how})"
            raise TransformUnusable(
                f"bridge.transforms: the process for {names} {what}; its log, on the executor, may say why"
            ) from None
        if "unusable" in header:
            await process.end()
            unusable = transforms[header["transform"]]
            name = f"{unusable.name} (python:{unusable.function})"
            raise TransformUnusable(f"bridge.transforms: {name}: {header['unusable']}")
        return process

    async def send(self, header: dict[str, object], body: Any = b"") -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._channel, pack(header, len(body)))
        if len(body):
            await loop.sock_sendall(self._channel, body)

    async def receive(self) -> tuple[dict[str, Any], bytearray]:
        header, body = HEAD.unpack(await self._exactly(HEAD.size))
        return json.loads(await self._exactly(header)), await self._exactly(body)

    async def _exactly(self, size: int) -> bytearray:
        loop, data, position = asyncio.get_running_loop(), bytearray(size), 0
        while position < size:
            got = await loop.sock_recv_into(self._channel, memoryview(data)[position:])
            if not got:
                raise EOFError
            position += got
        return data

    async def end(self) -> str:
        """Kills the process; returns how it ended, which may be from before."""
        self._channel.close()
        self._process.kill()
        return ending(await asyncio.to_thread(self._process.wait))

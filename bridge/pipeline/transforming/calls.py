"""The transforms of a slice: a process of their own, asked for one batch after the other, ended when it takes too long.

A record is at fault when a transform fails with it alone: a batch that fails is halved until that is found. So what is
slow or large only as a whole goes through in parts, and later batches are made as small.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from bridge.child_process import ending, python_command
from bridge.environment import for_child
from bridge.kafka.record.arrow_columns import BrokenRecord
from bridge.kafka.record.columns import Records
from bridge.model.copying import Copied, PipelineSpec, Transform
from bridge.pipeline.transforming.arrow import as_batch, by_topic
from bridge.pipeline.transforming.child import HEAD, pack
from bridge.pipeline.transforming.native import Native, native, through
from bridge.transforms.contract import SCHEMA

TIMEOUT, MEMORY = "bridge.transform.timeout.ms", "bridge.transform.memory.bytes"
_START = 60.0
"""Seconds in which the process has to have loaded its transforms."""
_MOST, _MOST_BYTES = 16_384, 4 * 1024 * 1024
"""Records of a batch, and bytes of their keys, values and headers."""


class TransformUnusable(Exception):
    """Not to be called at all, with whatever records: it can't be loaded, or fails with none."""


class TransformFailed(Exception):
    """With these records; `limit`: they took too long, or too much memory."""

    def __init__(self, said: str, *, limit: bool = False) -> None:
        super().__init__(said)
        self.limit = limit


class Outcome(NamedTuple):
    """What has become of the records at offsets [first, end): those that go on, by the topic that they go to, or why
    none does."""

    first: int
    end: int
    records: Mapping[str, Records]
    failed: str = ""


class Calls:
    """For use in one event loop."""

    def __init__(self, spec: PipelineSpec) -> None:
        self._transforms = spec.transforms
        self._timeout, self._memory = spec.transform_timeout, spec.transform_memory
        self._native = [native(each) for each in spec.transforms]
        self._process: _Process | None = None
        self._most = _MOST

    async def start(self) -> None:
        """Starts the process, unless it may never be needed. Raises TransformUnusable."""
        if not all(self._native):
            await self._started()

    async def _started(self) -> None:
        """Raises TransformUnusable."""
        if self._process is None:
            self._process = await _Process.started(self._transforms, self._memory)

    async def close(self) -> None:
        if self._process is not None:
            await self._process.end()
            self._process = None

    async def through(self, copied: Copied, records: Records) -> AsyncIterator[Outcome]:
        """What the partition's transforms make of the records, part by part, in order. Raises TransformUnusable."""
        waiting, chain = [records], self._chain(copied)
        while waiting:
            part = waiting.pop()
            if part.count > 1 and (part.count > self._most or part.size > _MOST_BYTES):
                waiting += reversed(part.halves())
                continue
            first, end = part.first, part.last + 1
            made = through(part, chain) if chain is not None else None
            if made is not None:
                yield Outcome(first, end, {copied.target_topic: made})
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
        """The partition's transforms, if none of them needs the process."""
        found = [self._native[number] for number in copied.transforms]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) else None

    async def _call(self, copied: Copied, records: Records) -> Mapping[str, Records]:
        await self._started()
        assert self._process is not None
        try:
            batch = as_batch(records, copied.target_topic, copied.source.partition)
        except BrokenRecord as broken:
            raise TransformFailed(f"it can't be decoded: {broken}") from None
        at = 0
        try:
            await self._process.send({"chain": copied.transforms}, batch.serialize())
            while True:
                async with asyncio.timeout(self._timeout):
                    header, body = await self._process.receive()
                if "begin" in header:
                    at = header["begin"]
                elif "failed" in header:
                    raise self._failed(at, header)
                else:
                    return by_topic(pa.ipc.read_record_batch(pa.py_buffer(body), SCHEMA))
        except TimeoutError:
            await self.close()
            said = f"it took longer than {TIMEOUT} ({self._timeout * 1000:.0f}) allows"
            raise TransformFailed(self._of(at, said), limit=True) from None
        except (EOFError, ConnectionError):
            said = f"its process ended ({await self._process.end()})"
            self._process = None
            raise TransformFailed(self._of(at, said), limit=True) from None

    def _failed(self, at: int, header: dict[str, Any]) -> TransformFailed:
        said = header["failed"]
        if header["memory"]:
            said = f"it took more memory than {MEMORY} ({self._memory}) allows"
        return TransformFailed(self._of(at, said), limit=header["memory"])

    def _of(self, number: int, said: str) -> str:
        return f"transform {self._transforms[number].name}: {said}"


class _Process:
    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process, self._channel = process, channel

    @classmethod
    async def started(cls, transforms: Sequence[Transform], memory: int) -> _Process:
        """Raises TransformUnusable."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = cls(_launched(theirs.fileno()), ours)
        ours.setblocking(False)
        try:
            await process.send({"transforms": transforms, "memory": memory})
            async with asyncio.timeout(_START):
                header, _ = await process.receive()
        except (EOFError, ConnectionError, TimeoutError):
            names = ", ".join(each.name for each in transforms)
            how = await process.end()
            raise TransformUnusable(
                f"bridge.transforms: the process for {names} did not start within {_START:.0f} s ({how}); its log, on "
                "the executor, may say why"
            ) from None
        if "unusable" in header:
            await process.end()
            unusable = transforms[header["transform"]]
            said = f"{unusable.name} (python:{unusable.function}): {header['unusable']}"
            raise TransformUnusable(f"bridge.transforms: {said}")
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
        loop, data, at = asyncio.get_running_loop(), bytearray(size), 0
        while at < size:
            got = await loop.sock_recv_into(self._channel, memoryview(data)[at:])
            if not got:
                raise EOFError
            at += got
        return data

    async def end(self) -> str:
        """Whatever it is at; how it ended."""
        self._channel.close()
        self._process.kill()
        return ending(await asyncio.to_thread(self._process.wait))


def _launched(channel: int) -> subprocess.Popen[bytes]:
    """With our search path. What a transform prints is for the log, beside what we say there."""
    # Memory that is only set aside would count, too.
    environment = for_child() | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    module = "bridge.pipeline.transforming.child"
    return subprocess.Popen(
        python_command(module, str(channel)),
        pass_fds=[channel],
        stdin=subprocess.DEVNULL,
        stdout=2,
        env=environment,
    )

"""Runs a proxy before a broker on which librdkafka's ApiVersions are answered with an array that has no length, which
ends its process; whatever else goes by is passed on."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from types import TracebackType
from typing import Self

from bridge.kafka.protocol.wire import ApiKeys

_HEAD = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
_NO_ARRAY = struct.pack(">hBiB", 0, 0, 0, 0)
"""Of ApiVersions v3: no error, no array, no throttling, no tags."""
_LIBRARY = b"confluent-kafka-python"
"""The software that the library says it is; aiokafka's connections do not say."""


class BadApiVersionsProxy:
    """A proxy between 127.0.0.1:PORT and HOST:BEHIND, in a thread of its own."""

    def __init__(self, port: int, behind: str) -> None:
        self._port, self._behind = port, behind
        self.passes_all = False
        """Whether everything is passed on."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends = asyncio.Event()
        self._listens = threading.Event()
        self._open: set[asyncio.StreamWriter] = set()
        self._ways: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="ApiVersions proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(60.0), "it can't listen"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._listens.set()
        await self._ends.wait()
        server.close()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._ways)

    def _connected(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        way = asyncio.create_task(self._pass_on(client_in, client_out))
        self._ways.add(way)
        way.add_done_callback(self._ways.discard)

    async def _pass_on(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        host, _, port = self._behind.rpartition(":")
        broker_in, broker_out = await asyncio.open_connection(host, int(port))
        ends = {client_out, broker_out}
        self._open |= ends
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await asyncio.gather(
                    self._requests(client_in, broker_out, client_out), _answers(broker_in, client_out)
                )
        finally:
            self._open -= ends
            for writer in ends:
                writer.transport.abort()

    async def _requests(
        self, client: asyncio.StreamReader, broker: asyncio.StreamWriter, answers: asyncio.StreamWriter
    ) -> None:
        while True:
            head = await client.readexactly(_HEAD.size)
            body = await client.readexactly(_HEAD.unpack(head)[0])
            api, _, correlation = _REQUEST.unpack_from(body)
            if api == ApiKeys.API_VERSIONS and _LIBRARY in body and not self.passes_all:
                answers.write(_HEAD.pack(_HEAD.size + len(_NO_ARRAY)) + _HEAD.pack(correlation) + _NO_ARRAY)
                await answers.drain()
            else:
                broker.write(head + body)
                await broker.drain()


async def _answers(broker: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    while data := await broker.read(65536):
        client.write(data)
        await client.drain()
    raise ConnectionResetError

"""A TCP proxy in front of a broker. In the middle of a request of one kind it breaks all connections, and for a moment
accepts none."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from enum import StrEnum

_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_AWAY = 0.2
"""Seconds for which the proxy accepts no connection."""
LATE = 1.5
"""Seconds by which the proxy holds a response back."""


class Cut(StrEnum):
    BEFORE = "before"
    """The broker never sees the request."""
    AFTER = "after"
    """The broker has handled the request, and its response is lost."""
    WITHIN = "within"
    """Half of the response arrives."""
    LATE = "late"
    """The response arrives when nobody waits for it any more, and no connection breaks."""


class Cutter:
    """Between 127.0.0.1:PORT and HOST:BEHIND, in the running event loop."""

    def __init__(self, port: int, host: str, behind: int) -> None:
        self._port, self._host, self._behind = port, host, behind
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._ways: set[asyncio.Task[None]] = set()
        self._armed: tuple[int, Cut] | None = None
        self.cuts = 0

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)

    def arm(self, api: int, cut: Cut) -> None:
        """Arms a cut for the next request of this API key."""
        self._armed = (api, cut)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._break()
        await asyncio.gather(*self._ways)

    def _break(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _cut(self) -> None:
        self.cuts += 1
        if self._server is not None:
            self._server.close()
        self._break()
        await asyncio.sleep(_AWAY)
        await self.listen()

    def _connected(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        way = asyncio.create_task(self._pass_on(client_in, client_out))
        self._ways.add(way)
        way.add_done_callback(self._ways.discard)

    async def _pass_on(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        try:
            broker_in, broker_out = await asyncio.open_connection(self._host, self._behind)
        except OSError:
            client_out.transport.abort()
            return
        self._open |= {client_out, broker_out}
        due: list[Cut] = []
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await asyncio.gather(
                self._requests(client_in, broker_out, due), self._answers(broker_in, client_out, due)
            )
        for writer in (client_out, broker_out):
            self._open.discard(writer)
            writer.transport.abort()

    async def _requests(
        self, client: asyncio.StreamReader, broker: asyncio.StreamWriter, due: list[Cut]
    ) -> None:
        while True:
            head = await client.readexactly(_INT32.size)
            body = await client.readexactly(_INT32.unpack(head)[0])
            if self._armed is not None and self._armed[0] == _INT16.unpack_from(body)[0]:
                cut, self._armed = self._armed[1], None
                if cut is Cut.BEFORE:
                    await self._cut()
                    return
                due.append(cut)
            broker.write(head + body)
            await broker.drain()

    async def _answers(
        self, broker: asyncio.StreamReader, client: asyncio.StreamWriter, due: list[Cut]
    ) -> None:
        while data := await broker.read(65536):
            cut = due.pop() if due else None
            if cut is Cut.LATE:
                self.cuts += 1
                await asyncio.sleep(LATE)
            elif cut is not None:
                if cut is Cut.WITHIN:
                    client.write(data[: len(data) // 2])
                    await client.drain()
                    await asyncio.sleep(0.01)  # so that it is read before the connection breaks
                await self._cut()
                return
            client.write(data)
            await client.drain()
        raise ConnectionResetError

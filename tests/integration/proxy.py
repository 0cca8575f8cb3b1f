"""A way to a server that takes its time: `python proxy.py PORT HOST:PORT MILLISECONDS [BYTES_PER_SECOND]`.

What arrives is passed on that much later, each way: distance. With a rate no more than that goes through, each way,
however many connections there are, and they take turns: narrowness. Of its own process, and of the standard library
alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

_PIECE, _NARROW_PIECE = 256 * 1024, 16 * 1024
_UNDER_WAY = 512
"""Pieces of one direction."""


class Way:
    """One direction, shared by all connections. `rate` in bytes per second, None for any."""

    def __init__(self, seconds: float, rate: float | None) -> None:
        self._seconds, self._rate = seconds, rate
        self._free = 0.0
        self.piece = _PIECE if rate is None else _NARROW_PIECE

    async def enters(self, size: int) -> float:
        """When so many bytes arrive, in the loop's time; answers once there is room behind them."""
        now = asyncio.get_running_loop().time()
        if self._rate is None:
            return now + self._seconds
        free = self._free = max(self._free, now) + size / self._rate
        await asyncio.sleep(free - now)
        return free + self._seconds


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)

    async def arrive() -> None:
        while True:
            at, data = await under_way.get()
            await asyncio.sleep(at - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()

    arriving = asyncio.create_task(arrive())
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(way.piece):
            await under_way.put((await way.enters(len(data)), data))
    with contextlib.suppress(ConnectionError):
        await under_way.put((await way.enters(0), b""))
        await arriving


async def serve(port: int, host: str, behind: int, seconds: float, rate: float | None) -> None:
    there, back = Way(seconds, rate), Way(seconds, rate)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection(host, behind, limit=_PIECE)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pass_on(reader, requests, there), pass_on(answers, writer, back))

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=_PIECE)
    await server.serve_forever()


if __name__ == "__main__":
    number, address, milliseconds, *narrow = sys.argv[1:]
    name, _, behind_ = address.rpartition(":")
    asyncio.run(
        serve(
            int(number),
            name,
            int(behind_),
            float(milliseconds) / 1000,
            float(narrow[0]) if narrow else None,
        )
    )

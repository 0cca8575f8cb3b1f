"""A way to a server that takes its time: `python proxy.py PORT HOST:PORT MILLISECONDS`.

What arrives is passed on that much later, each way, as much of it as there is: distance, not narrowness. Of its own
process, and of the standard library alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

_PIECE = 256 * 1024
_UNDER_WAY = 512
"""Pieces of one direction."""


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)

    async def arrive() -> None:
        while True:
            at, data = await way.get()
            await asyncio.sleep(at - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()

    arriving = asyncio.create_task(arrive())
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(_PIECE):
            await way.put((loop.time() + seconds, data))
    with contextlib.suppress(ConnectionError):
        await way.put((loop.time() + seconds, b""))
        await arriving


async def serve(port: int, host: str, behind: int, seconds: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, behind, limit=_PIECE)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pass_on(reader, back, seconds), pass_on(there, writer, seconds))

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=_PIECE)
    await server.serve_forever()


if __name__ == "__main__":
    number, address, milliseconds = sys.argv[1:]
    name, _, behind_ = address.rpartition(":")
    asyncio.run(serve(int(number), name, int(behind_), float(milliseconds) / 1000))

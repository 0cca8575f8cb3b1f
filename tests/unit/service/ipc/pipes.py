"""A pipe between the service and a process of its own."""

from __future__ import annotations

import asyncio

from bridge.service.ipc.messages import Frame, read_frame


class Pipe:
    """Keeps the frames that are written to it."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        await asyncio.sleep(0)

    async def frames(self) -> list[tuple[Frame, bytes]]:
        reader = asyncio.StreamReader()
        reader.feed_data(self.written)
        reader.feed_eof()
        collected = []
        while (read := await read_frame(reader)) is not None:
            collected.append(read)
        return collected

"""The rounds process: `python -m bridge.service.rounds.main FACTORY LOG_LEVEL`.

Frames come on standard input and go to standard output; lines of the log go to standard error, for the parent's own.
The end of the input is the end of the process: it never outlives the one that serves HTTP. Should its loop hang in a
client's C code, the kernel ends it (parent-death signal).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from asyncio.streams import FlowControlMixin

from bridge.logs.setup import ROUNDS, set_up_logs
from bridge.service.checks.context import RoundsContext, load_factory
from bridge.service.ipc.messages import Frame, read_frame, unpack_desired
from bridge.service.rounds.connector_runner import ConnectorRunner, not_running
from bridge.service.rounds.publisher import PipeWriter
from bridge.service.state.operations import unpack_operation

log = logging.getLogger("bridge.service.rounds.main")  # it is run as __main__

END_SECONDS = (
    12.0  # an instance takes two times CLOSE_SECONDS at most; the parent's own grace is the harder limit
)
PR_SET_PDEATHSIG = 1
_NICE = 5
"""Probes and polls are answered first: where cores are short, a full round must not make the other process wait."""


class Host:
    """All connectors of the rounds process."""

    def __init__(self, context: RoundsContext, pipe: PipeWriter) -> None:
        self._context = context
        self._pipe = pipe
        self._hosted: dict[str, tuple[ConnectorRunner, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def apply(self, payload: bytes) -> None:
        wished = {desired.name: desired for desired in unpack_desired(payload)}
        for name in [name for name in self._hosted if name not in wished]:
            hosted, task = self._hosted.pop(name)
            hosted.want(None)
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        for name, desired in wished.items():
            known = self._hosted.get(name)
            if known is not None and not known[1].done():
                known[0].want(desired)
                continue
            hosted = ConnectorRunner(desired, self._context, self._pipe)
            task = asyncio.create_task(hosted.run(), name=f"host of {name}")
            self._hosted[name] = (hosted, task)

    def operate(self, payload: bytes) -> None:
        order = unpack_operation(payload)
        known = self._hosted.get(order.name)
        if known is None or known[1].done():
            self._pipe.operated(order.number, not_running(order.name))
        else:
            known[0].operate(order)

    async def close(self) -> None:
        for hosted, _ in self._hosted.values():
            hosted.want(None)
        tasks = {task for _, task in self._hosted.values()} | self._ending
        if tasks:
            await asyncio.wait(tasks, timeout=END_SECONDS)
        await self._context.close()


async def serve_rounds(factory: str) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    reader, writer = await _pipes()
    pipe = PipeWriter(writer)
    host = Host(load_factory(factory)(), pipe)
    orders = asyncio.create_task(_follow_orders(reader, host, pipe), name="orders")
    sender = asyncio.create_task(pipe.send(), name="pipe")
    beat = asyncio.create_task(pipe.beat(), name="beat")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({orders, sender, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if orders.done():
            orders.result()
    finally:
        for task in (orders, sender, beat, stopped):
            task.cancel()
        await host.close()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(pipe.flush(), 1.0)


async def _follow_orders(reader: asyncio.StreamReader, host: Host, pipe: PipeWriter) -> None:
    while True:
        read = await read_frame(reader)
        if read is None or read[0] is Frame.STOP:
            return
        if read[0] is Frame.DESIRED:
            host.apply(read[1])
        elif read[0] is Frame.STORED_OFFSETS:
            pipe.asking.stored(read[1])
        elif read[0] is Frame.OPERATION:
            host.operate(read[1])


async def _pipes() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(0), "rb", 0))
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(os.dup(1), "wb", 0))
    os.dup2(2, 1)  # whatever prints must not write between frames
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _end_with_parent() -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    factory, level = sys.argv[1:3]
    _end_with_parent()
    os.nice(_NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes; the parent says when to end
    set_up_logs(ROUNDS, level, "json")
    try:
        asyncio.run(serve_rounds(factory))
    except Exception:
        log.exception("the rounds process ends on an unexpected error")
        sys.exit(1)


if __name__ == "__main__":
    main()

"""The rounds process: `python -m bridge.service.rounds.main FACTORY LOG_LEVEL`.

Reads frames from standard input, writes frames to standard output, and log lines to standard error, which the parent
writes to its own log. It ends with its input, so that it never outlives the HTTP process; should its event loop hang in
a client's C code, the kernel kills it (parent-death signal).
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


class ConnectorRunners:
    """Runs all connectors of the rounds process."""

    def __init__(self, context: RoundsContext, pipe: PipeWriter) -> None:
        self._context = context
        self._pipe = pipe
        self._runners: dict[str, tuple[ConnectorRunner, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def apply(self, payload: bytes) -> None:
        desired_by_name = {desired.name: desired for desired in unpack_desired(payload)}
        for name in [name for name in self._runners if name not in desired_by_name]:
            runner, task = self._runners.pop(name)
            runner.set_desired(None)
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        for name, desired in desired_by_name.items():
            current = self._runners.get(name)
            if current is not None and not current[1].done():
                current[0].set_desired(desired)
                continue
            runner = ConnectorRunner(desired, self._context, self._pipe)
            task = asyncio.create_task(runner.run(), name=f"runner of {name}")
            self._runners[name] = (runner, task)

    def operate(self, payload: bytes) -> None:
        request = unpack_operation(payload)
        current = self._runners.get(request.name)
        if current is None or current[1].done():
            self._pipe.operation_result(request.number, not_running(request.name))
        else:
            current[0].operate(request)

    async def close(self) -> None:
        for runner, _ in self._runners.values():
            runner.set_desired(None)
        tasks = {task for _, task in self._runners.values()} | self._ending
        if tasks:
            await asyncio.wait(tasks, timeout=END_SECONDS)
        await self._context.close()


async def serve_rounds(factory: str) -> None:
    reader, writer = await _pipes()
    pipe = PipeWriter(writer)
    runners = ConnectorRunners(load_factory(factory)(), pipe)
    frames = asyncio.create_task(_read_frames(reader, runners, pipe), name="reader")
    sender = asyncio.create_task(pipe.send(), name="sender")
    heartbeat = asyncio.create_task(pipe.heartbeat(), name="heartbeat")
    try:
        await asyncio.wait({frames, sender}, return_when=asyncio.FIRST_COMPLETED)
        if frames.done():
            frames.result()
    finally:
        for task in (frames, sender, heartbeat):
            task.cancel()
        await runners.close()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(pipe.flush(), 1.0)


async def _read_frames(reader: asyncio.StreamReader, runners: ConnectorRunners, pipe: PipeWriter) -> None:
    while True:
        read = await read_frame(reader)
        if read is None or read[0] is Frame.STOP:
            return
        if read[0] is Frame.DESIRED:
            runners.apply(read[1])
        elif read[0] is Frame.STORED_OFFSETS:
            pipe.offset_requests.received(read[1])
        elif read[0] is Frame.OPERATION:
            runners.operate(read[1])


async def _pipes() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(0), "rb", 0))
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(os.dup(1), "wb", 0))
    os.dup2(2, 1)  # what code prints must not end up between frames
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _end_with_parent() -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    factory, level = sys.argv[1:3]
    _end_with_parent()
    # Ctrl-C and a service manager's SIGTERM reach both processes. The parent decides when to end: it may still need
    # this one for its own end, and would restart it.
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)
    set_up_logs(ROUNDS, level, "json")
    try:
        asyncio.run(serve_rounds(factory))
    except Exception:
        log.exception("the rounds process exits on an unexpected error")
        sys.exit(1)


if __name__ == "__main__":
    main()

"""How quickly a service answers /health beside what else it does, told from what else the machine does.

`room`: the time that /health may take. A process that only works half a millisecond and sends a line back is asked in
turns with it (`echo`), so that a busy machine is no finding, and an event loop that is held up is one.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

HEALTH_MS = 10.0
"""What /health may take on a machine that has time for it."""
ECHOES = 3.0
"""How many times what the echo takes it may take on one that has none."""
_TIMES = 60
_RUNS = 3
"""What else runs on the machine may spoil a run, and not three of them."""


def room(echoed: Sequence[float], of: Callable[[list[float]], float] = statistics.median) -> float:
    """What /health may take, in ms, where the echo took these times; `of`: the median, or another quantile."""
    return max(HEALTH_MS, ECHOES * of(list(echoed)))


def assert_quick(health: Callable[[], object], echo_port: int) -> None:
    """`health` asks once."""
    for left in reversed(range(_RUNS)):
        took, echoed = _in_turns(health, echo_port)
        median, most = statistics.median(took), room(echoed)
        print(
            f"health: median {median:.1f} ms, longest {max(took):.1f}; echo: {statistics.median(echoed):.1f} ms"
        )
        if median < most or not left:
            assert median < most
            return


def _in_turns(health: Callable[[], object], echo_port: int) -> tuple[list[float], list[float]]:
    took: list[float] = []
    echoed: list[float] = []
    with socket.create_connection(("127.0.0.1", echo_port), 60) as connection:

        def ask_echo() -> None:
            connection.sendall(b"x\n")
            assert connection.recv(2) == b"x\n"

        for _ in range(_TIMES):
            for ask, times in ((health, took), (ask_echo, echoed)):
                began = time.perf_counter()
                ask()
                times.append((time.perf_counter() - began) * 1000)
    return took, echoed


ECHO = """
import asyncio, json
async def answer(reader, writer):
    while line := await reader.readline():
        for _ in range(80):  # about what an answer of the service takes
            json.loads(json.dumps({"session": line.decode(), "held_ms": 0.5, "records": [[1, 2, 3]] * 5}))
        writer.write(line)
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def echo() -> Iterator[int]:
    """A process that works for half a millisecond or more and sends a line back: how quick such an answer can be while
    others use the machine as well. One that does not work is woken and done at once however busy the machine is, and
    so tells nothing of it."""
    process = subprocess.Popen(
        [sys.executable, "-c", ECHO], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.stdout.close()
        process.wait()

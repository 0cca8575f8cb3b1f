"""How quickly a service answers /health beside what else it does, told from what else the machine does.

`room`: the time that /health may take. A process that only works half a millisecond and sends a line back is asked in
turns with it (`echo`), so that a busy machine is no finding, and an event loop that is held up is one.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

HEALTH_MS = 10.0
"""What /health may take on a machine that has time for it."""
ECHOES = 3.0
"""How many times what the echo takes it may take on one that has none."""


def room(echoed: Sequence[float], of: Callable[[list[float]], float] = statistics.median) -> float:
    """What /health may take, in ms, where the echo took these times; `of`: the median, or another quantile."""
    return max(HEALTH_MS, ECHOES * of(list(echoed)))


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

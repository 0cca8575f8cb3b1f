"""The driver process: `python -m bridge.pipeline.driver.main LOG_LEVEL`, one for each connector that copies.

It makes layouts, runs each as a Spark job, and tells what the state topics say (see frames). Killed at any moment,
another one goes on from what is committed: everything it knows is in Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bridge.backoff import Backoff
from bridge.logs.changes import Changes
from bridge.logs.setup import DRIVER, set_up_logs
from bridge.model.addresses import REMOTE
from bridge.model.copying import PipelineSpec, PipelineState, PipelineStatus
from bridge.model.partition_states import Skip
from bridge.pipeline.driver import submitting
from bridge.pipeline.driver.frames import (
    LONGEST,
    pack_alive,
    pack_samples,
    pack_status,
    read_line,
    unpack_assignment,
    unpack_gateway,
    unpack_spec,
)
from bridge.pipeline.driver.jobs import SparkJobs
from bridge.pipeline.driver.spark_problem import SparkProblem
from bridge.pipeline.driver.submitting import use
from bridge.pipeline.driver.supervisor import Supervisor

if TYPE_CHECKING:
    from bridge.pipeline.driver.connect_jobs import ConnectJobs

    AnyJobs = SparkJobs | ConnectJobs

log = logging.getLogger("bridge.pipeline.driver.main")  # it is run as __main__

TELL = 0.5
"""Seconds between two statuses; one that has not changed is not written again."""
_ALIVE_EVERY = 10
"""Looks at the status after which a line is written though nothing has changed: a driver without lines hangs."""
_CALM = 5.0
"""Seconds for which copying has to go well before the log says so: a layout that is made may break at once."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds between two attempts to reach a server of Spark."""
_COPYING = Changes(log, "interrupted, retrying", "resumed", calm=_CALM)


async def drive(reader: asyncio.StreamReader, output: int) -> None:
    """Runs the pipeline until the input ends, or has `stop`, or all is copied that was to be copied."""
    first = read_line(await reader.readline())
    if (gateway := unpack_gateway(first)) is not None:
        use(gateway)
        first = read_line(await reader.readline())
    spec = unpack_spec(first["spec"])
    jobs: AnyJobs | None = None
    supervisor, ended = Supervisor(spec), asyncio.Event()
    writing = asyncio.create_task(write_status(supervisor, output, ended))
    try:
        listening = asyncio.create_task(_listen(reader, supervisor))
        jobs = await _started(spec, supervisor, listening)
        if jobs is None:
            return  # nothing was copied yet: there is nothing to commit, and Spark would start for seconds more
        await supervisor.run(jobs)
        listening.cancel()
    finally:
        ended.set()
        with contextlib.suppress(OSError):  # whoever listened may be gone
            await writing
        if jobs is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(asyncio.to_thread(jobs.close), 5.0)


async def _started(
    spec: PipelineSpec, supervisor: Supervisor, listening: asyncio.Task[None]
) -> AnyJobs | None:
    """Spark, once it runs; a server that is away is tried again. None when the driver is to end before, or it can never
    be. Raises SparkProblem where this process has to end."""
    backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
    while True:
        starting = _start_spark(spec)
        either: set[asyncio.Future[Any]] = {starting, listening}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return None
        try:
            return starting.result()
        except SparkProblem as problem:
            if problem.ends:
                raise
            supervisor.could_not_start(str(problem), permanent=problem.permanent)
            if problem.permanent:
                return None
        await asyncio.wait({listening}, timeout=backoff.next())
        if listening.done():
            return None


def _start_spark(spec: PipelineSpec) -> asyncio.Future[AnyJobs]:
    """Starts Spark, or connects to it, in a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    started: asyncio.Future[AnyJobs] = loop.create_future()

    def start() -> None:
        try:
            jobs = _kind(spec)(spec.name, spec.props, [transform.function for transform in spec.transforms])
        except Exception as error:
            failed = error
            post(lambda: started.set_exception(failed))
        else:
            post(lambda: started.set_result(jobs))

    def post(call: Callable[[], None]) -> None:
        def settle() -> None:
            if not started.cancelled():  # the driver is to end
                call()

        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=start, name="start of Spark", daemon=True).start()
    return started


def _kind(spec: PipelineSpec) -> type[AnyJobs]:
    if REMOTE not in spec.props:
        return SparkJobs
    from bridge.pipeline.driver.connect_jobs import ConnectJobs

    return ConnectJobs


async def _listen(reader: asyncio.StreamReader, supervisor: Supervisor) -> None:
    while line := await reader.readline():
        message = read_line(line)
        if "assign" in message:
            supervisor.assign(unpack_assignment(message["assign"]))
        if "release" in message:
            supervisor.release(message["release"])
        if "skip" in message:
            supervisor.skip(Skip(*message["skip"]))
        if "stop" in message:
            break
    supervisor.stop()


async def write_status(supervisor: Supervisor, output: int, ended: asyncio.Event) -> None:
    """Writes the status when it has changed, an empty message now and then, and the status once
    more at the end. Nobody else writes: lines would get mixed up."""
    last: PipelineStatus | None = None
    for look in itertools.count():
        over, now = ended.is_set(), supervisor.status
        if samples := supervisor.drain_samples():
            await asyncio.to_thread(os.write, output, pack_samples(samples))
        if over or now != last:
            await asyncio.to_thread(os.write, output, pack_status(now))
            if now.failure is not None and (last is None or last.failure is None):
                log.error("copying has failed: %s", now.failure)
            last = now
        elif look % _ALIVE_EVERY == 0:
            await asyncio.to_thread(os.write, output, pack_alive())
        if now.state is PipelineState.RETRYING:
            _COPYING.failed("copying", now.errors[0] if now.errors else "the reason is not known yet")
        elif now.state is PipelineState.COPYING:
            _COPYING.succeeded("copying")
        if over:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), TELL)


async def run_driver(output: int) -> None:
    reader = asyncio.StreamReader(limit=LONGEST)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await drive(reader, output)


def main() -> None:
    # What Spark and its JVM print is for the log: only frames go to where the launcher reads.
    output = os.dup(1)
    os.dup2(2, 1)
    set_up_logs(DRIVER, sys.argv[1] if len(sys.argv) > 1 else "info", "json")
    submitting.leave_nothing_when_terminated()
    code = 0
    try:
        asyncio.run(run_driver(output))
    except SparkProblem as problem:
        log.error("%s: this driver process ends, and the next one starts Spark again", problem)
        code = 1
    except Exception:
        log.exception("the driver ends on an unexpected error")
        code = 1
    # Spark's JVM, and threads that wait for it, are not worth waiting for.
    submitting.leave_nothing()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

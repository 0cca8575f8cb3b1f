"""Pipelines as the source connector sees them: each a driver process of its own, started again when it dies.

Imports nothing of Spark: the process that holds the connectors stays small, and survives whatever Spark does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from bridge.backoff import Backoff
from bridge.environment import for_child
from bridge.logs.forward import Forward
from bridge.logs.setup import DRIVER
from bridge.model.copying import Copied, PipelineSpec, PipelineState, PipelineStatus
from bridge.pipeline.frames import LONGEST, pack_spec, pack_stop, pack_want, read_line, unpack_status
from bridge.pipeline.java import java_problem

log = logging.getLogger(__name__)

STOP_SECONDS = 15.0
"""A driver that was told to stop commits and ends; after this it is killed, and what was not committed not copied."""
NO_JAVA = "no_java"
DRIVER_MODULE = "bridge.pipeline.driver"
FIRST_BACKOFF, MOST_BACKOFF = 1.0, 60.0
_STEADY_SECONDS = 300.0


class DriverPipelines:
    """The Pipelines port. For use in one event loop."""

    def start(self, spec: PipelineSpec) -> DriverPipeline:
        return DriverPipeline(spec)


class DriverPipeline:
    def __init__(self, spec: PipelineSpec, module: str = DRIVER_MODULE) -> None:
        """`module`: what is run, and speaks as the driver does."""
        self._spec, self._module = spec, module
        self._wanted: Sequence[Copied] | None = None
        self._status = PipelineStatus()
        self._restarts = 0
        self._broken: str | None = None
        """How the last driver ended, until the next one copies."""
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False
        self._task = asyncio.create_task(self._supervise(), name=f"pipeline of {spec.name}")

    def want(self, partitions: Sequence[Copied]) -> None:
        wanted = tuple(partitions)
        if wanted != self._wanted:
            self._wanted = wanted
            self._tell(pack_want(wanted))

    @property
    def status(self) -> PipelineStatus:
        return replace(self._status, restarts=self._restarts + self._status.restarts)

    @property
    def pid(self) -> int | None:
        """Of the driver, None while there is none."""
        return self._process.pid if self._process is not None else None

    async def stop(self) -> None:
        self._stopping = True
        self._tell(pack_stop())
        try:
            await asyncio.wait({self._task}, timeout=STOP_SECONDS)
            if not self._task.done():
                log.warning(
                    "the driver did not end in time and is killed", extra={"connector": self._spec.name}
                )
        finally:
            # Whoever waits may have less patience than we have.
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _supervise(self) -> None:
        backoff = Backoff(FIRST_BACKOFF, MOST_BACKOFF)
        loop = asyncio.get_running_loop()
        while not self._stopping:
            if self._module == DRIVER_MODULE and (
                problem := await asyncio.to_thread(java_problem, os.environ)
            ):
                state = PipelineState.FAILED
                self._status = replace(self._status, state=state, failure=problem, failure_code=NO_JAVA)
                log.error("copying can't begin: %s", problem, extra={"connector": self._spec.name})
                return
            began = loop.time()
            ended = await self._one_life()
            if self._stopping or self._status.state in (PipelineState.FAILED, PipelineState.CAUGHT_UP):
                return
            if loop.time() - began > _STEADY_SECONDS:
                backoff.reset()
            self._restarts += 1
            said = f"the driver ended ({ended}) and is started again, {self._restarts} time(s) so far; see the log"
            self._broken = said
            self._status = replace(self._status, state=PipelineState.RETRYING, errors=[said])
            pause = backoff.next()
            log.error("%s in %.0f s", said, pause, extra={"connector": self._spec.name})
            await asyncio.sleep(pause)

    async def _one_life(self) -> str:
        """Why it is over."""
        lines = Forward(DRIVER, self._spec.name)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                self._module,
                logging.getLevelName(log.getEffectiveLevel()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=lines.fileno,
                # Ctrl-C is for whoever says when the driver ends: it would kill Spark before the last commit.
                start_new_session=True,
                # Python workers of Spark look for our modules where we found them.
                env=for_child(),
                limit=LONGEST,
            )
        except OSError as error:
            await lines.ended()
            return f"it could not be started: {error}"
        lines.started()
        self._process = process
        try:
            self._tell(pack_spec(self._spec))
            if self._wanted is not None:
                self._tell(pack_want(self._wanted))
            await self._listen(process)
            code = await process.wait()
            return f"exit code {code}" if code >= 0 else f"signal {-code}"
        finally:
            self._process = None
            if process.returncode is None:
                process.kill()
                await process.wait()
            await lines.ended()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            with contextlib.suppress(ValueError):
                said = read_line(line)
                if "status" in said:
                    self._status = self._still_broken(unpack_status(said["status"]))

    def _still_broken(self, status: PipelineStatus) -> PipelineStatus:
        """A driver that was started again counts as broken until it copies, or can say itself why it does not."""
        if self._broken is None or status.state is not PipelineState.STARTING:
            self._broken = None
            return status
        return replace(status, state=PipelineState.RETRYING, errors=[self._broken])

    def _tell(self, line: bytes) -> None:
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(line)

"""Starts pipelines for source connectors: each is a driver process, restarted when it ends.

Imports nothing of Spark, so that the rounds process stays small and survives whatever Spark does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import replace

from bridge.backoff import Backoff
from bridge.child_process import ChildProcess, python_command
from bridge.logs.setup import DRIVER
from bridge.model.copy_samples import CopySample, join
from bridge.model.copying import Copied, PipelineSpec, PipelineState, PipelineStatus
from bridge.model.values import TopicPartition
from bridge.pipeline.frames import (
    LONGEST,
    pack_assignment,
    pack_spec,
    pack_stop,
    read_line,
    unpack_samples,
    unpack_status,
)
from bridge.pipeline.java import java_problem

log = logging.getLogger(__name__)

STOP_SECONDS = 15.0
"""A driver that is asked to stop commits and ends; after this it is killed, and what was not committed not copied."""
NO_JAVA = "no_java"
DRIVER_MODULE = "bridge.pipeline.driver"
FIRST_BACKOFF, MOST_BACKOFF = 1.0, 60.0
STEADY_SECONDS = 300.0


class DriverPipelines:
    """Implements connectors.ports.Pipelines. For use in one event loop."""

    def start(self, spec: PipelineSpec) -> DriverPipeline:
        return DriverPipeline(spec)


class DriverPipeline:
    def __init__(self, spec: PipelineSpec, module: str = DRIVER_MODULE) -> None:
        """`module`: the driver, or what takes its place in tests."""
        self._spec = spec
        self._assigned: Sequence[Copied] | None = None
        self._status = PipelineStatus()
        self._samples: dict[TopicPartition, CopySample] = {}
        self._restarts = 0
        self._last_error: str | None = None
        """How the last driver ended, until the next one copies or has an error of its own."""
        self._driver = ChildProcess(
            "the driver",
            python_command(module, logging.getLevelName(log.getEffectiveLevel())),
            process=DRIVER,
            connector=spec.name,
            before_start=self._has_java if module == DRIVER_MODULE else None,
            started=self._started,
            read=self._read,
            ended=self._ended,
            backoff=Backoff(FIRST_BACKOFF, MOST_BACKOFF),
            steady_seconds=STEADY_SECONDS,
            limit=LONGEST,
            # Ctrl-C would kill Spark before the last commit; the driver ends when its parent asks it to.
            new_session=True,
        )
        self._driver.start()

    def assign(self, partitions: Sequence[Copied]) -> None:
        assigned = tuple(partitions)
        if assigned != self._assigned:
            self._assigned = assigned
            self._driver.send(pack_assignment(assigned))

    @property
    def status(self) -> PipelineStatus:
        return replace(self._status, restarts=self._restarts + self._status.restarts)

    def drain_samples(self) -> Sequence[CopySample]:
        samples, self._samples = self._samples, {}
        return list(samples.values())

    @property
    def pid(self) -> int | None:
        """The driver's process id, None while there is none."""
        return self._driver.pid

    async def stop(self) -> None:
        await self._driver.stop(pack_stop(), STOP_SECONDS)

    async def _has_java(self) -> bool:
        problem = await asyncio.to_thread(java_problem, os.environ)
        if problem is None:
            return True
        state = PipelineState.FAILED
        self._status = replace(self._status, state=state, failure=problem, failure_code=NO_JAVA)
        log.error("copying can't begin: %s", problem, extra={"connector": self._spec.name})
        return False

    def _started(self) -> None:
        self._driver.send(pack_spec(self._spec))
        if self._assigned is not None:
            self._driver.send(pack_assignment(self._assigned))

    async def _read(self, output: asyncio.StreamReader) -> None:
        while line := await output.readline():
            with contextlib.suppress(ValueError):
                message = read_line(line)
                if "status" in message:
                    self._status = self._retrying_until_it_copies(unpack_status(message["status"]))
                if "samples" in message:
                    join(self._samples, unpack_samples(message["samples"]))

    def _ended(self, how: str, pause: float) -> bool:
        if self._status.state in (PipelineState.FAILED, PipelineState.CAUGHT_UP):
            return False
        self._restarts += 1
        error = f"the driver ended ({how}) and is restarted, {self._restarts} time(s) so far; see the log"
        self._last_error = error
        self._status = replace(self._status, state=PipelineState.RETRYING, errors=[error])
        log.error("%s; next start in %.0f s", error, pause, extra={"connector": self._spec.name})
        return True

    def _retrying_until_it_copies(self, status: PipelineStatus) -> PipelineStatus:
        """A restarted driver counts as retrying until it copies, or has an error of its own."""
        if self._last_error is None or status.state is not PipelineState.STARTING:
            self._last_error = None
            return status
        return replace(status, state=PipelineState.RETRYING, errors=[self._last_error])

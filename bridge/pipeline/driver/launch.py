"""Starts pipelines for source connectors: each is a driver process, restarted when it ends.

Imports nothing of Spark, so that the rounds process stays small and survives whatever Spark does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from bridge.backoff import Backoff
from bridge.child_process import Callbacks, ChildProcess, Program, python_command
from bridge.logs.setup import DRIVER
from bridge.model.addresses import REMOTE
from bridge.model.copying import Copied, CopySample, PipelineSpec, PipelineState, PipelineStatus, join
from bridge.model.partition_states import Skip
from bridge.model.values import TopicPartition
from bridge.pipeline.driver.frames import (
    LONGEST,
    Gateway,
    pack_assignment,
    pack_gateway,
    pack_release,
    pack_skip,
    pack_spec,
    pack_stop,
    read_line,
    unpack_samples,
    unpack_status,
)
from bridge.pipeline.driver.shared_spark import SharedSpark, SharedSparks
from bridge.pipeline.driver.spark_problem import java_problem
from bridge.pipeline.driver.spark_settings import is_shared
from bridge.pipeline.driver.submitting import is_submitted

log = logging.getLogger(__name__)

STOP_SECONDS = 15.0
"""A driver that is asked to stop commits and ends; after this it is killed, and what was not committed not copied."""
NO_JAVA = "no_java"
SILENT_SECONDS, SILENT_START_SECONDS = 30.0, 120.0
"""Without a line of the driver, which sends one every few seconds; and before its first one, while Python loads it."""
_REPORTING = (PipelineState.STARTING, PipelineState.COPYING, PipelineState.RETRYING)
DRIVER_MODULE = "bridge.pipeline.driver.main"
FIRST_BACKOFF, MOST_BACKOFF = 1.0, 60.0
STEADY_SECONDS = 300.0


class DriverPipelines:
    """Implements connectors.ports.Pipelines. For use in one event loop."""

    def __init__(self) -> None:
        self._shared = SharedSparks()

    def start(self, spec: PipelineSpec) -> DriverPipeline:
        shared = is_shared(spec.props) and not is_submitted()
        return DriverPipeline(spec, sparks=self._shared if shared else None)


class DriverPipeline:
    def __init__(
        self,
        spec: PipelineSpec,
        module: str = DRIVER_MODULE,
        now: Callable[[], float] = time.monotonic,
        sparks: SharedSparks | None = None,
    ) -> None:
        """`module`: the driver, or what takes its place in tests. `now`: monotonic seconds. `sparks`: those that
        connectors share, if it is not to have one of its own."""
        self._spec, self._now, self._sparks = spec, now, sparks
        self._spark: SharedSpark | None = None
        self._gateway: Gateway | None = None
        self._heard_at, self._heard = now(), False
        """When the driver that runs now was started, or sent its last line; whether it has sent one."""
        self._assigned: Sequence[Copied] | None = None
        self._released: Sequence[str] = ()
        """What the driver that runs now was told to release."""
        self._status = PipelineStatus()
        self._samples: dict[TopicPartition, CopySample] = {}
        self._restarts = 0
        self._last_error: str | None = None
        """How the last driver ended, until the next one copies or has an error of its own."""
        program = Program(
            "the driver",
            python_command(module, logging.getLevelName(log.getEffectiveLevel())),
            process=DRIVER,
            connector=spec.name,
            steady_seconds=STEADY_SECONDS,
            limit=LONGEST,
            # Ctrl-C would kill Spark before the last commit; the driver ends when its parent asks it to.
            own_group=True,
        )
        before_start = self._has_spark if module == DRIVER_MODULE and _needs_java(spec) else None
        callbacks = Callbacks(self._started, self._read, self._ended, before_start)
        self._driver = ChildProcess(program, callbacks, Backoff(FIRST_BACKOFF, MOST_BACKOFF))
        self._driver.start()

    def assign(self, partitions: Sequence[Copied]) -> None:
        assigned = tuple(partitions)
        if assigned != self._assigned:
            self._assigned = assigned
            self._driver.send(pack_assignment(assigned))

    def release(self, topics: Sequence[str]) -> None:
        if (released := tuple(topics)) != self._released:
            self._released = released
            self._driver.send(pack_release(released))

    def skip(self, skip: Skip) -> None:
        self._driver.send(pack_skip(skip))

    @property
    def status(self) -> PipelineStatus:
        restarts = self._restarts + self._status.restarts
        silence = self._now() - self._heard_at
        longest = SILENT_SECONDS if self._heard else SILENT_START_SECONDS
        if self.pid is None and self._spark is not None and self._spark.problem:
            retrying = self._without_reports(PipelineState.RETRYING, self._spark.problem)
            return replace(retrying, restarts=restarts)
        if self.pid is None or silence <= longest or self._status.state not in _REPORTING:
            return replace(self._status, restarts=restarts)
        error = f"no report of the driver (process {self.pid}) for {silence:.0f} s: whether it copies is not known"
        return replace(self._without_reports(PipelineState.SILENT, error), restarts=restarts)

    def drain_samples(self) -> Sequence[CopySample]:
        samples, self._samples = self._samples, {}
        return list(samples.values())

    @property
    def pid(self) -> int | None:
        """The driver's process id, None while there is none."""
        return self._driver.pid

    async def stop(self) -> None:
        try:
            await self._driver.stop(pack_stop(), STOP_SECONDS)
        finally:
            if self._sparks is not None and self._spark is not None:
                spark, self._spark = self._spark, None
                await self._sparks.leave(self._spec.name, spark)

    async def _has_spark(self) -> bool:
        """Whether there is what the driver runs its jobs on, or starts."""
        if not await self._has_java():
            return False
        if self._sparks is not None:
            self._spark = self._spark or self._sparks.join(self._spec.name, self._spec.props)
            self._gateway = await self._spark.gateway()
        return True

    async def _has_java(self) -> bool:
        problem = await asyncio.to_thread(java_problem, os.environ)
        if problem is None:
            return True
        self._status = replace(
            self._without_reports(PipelineState.FAILED), failure=problem, failure_code=NO_JAVA
        )
        log.error("copying cannot start: %s", problem, extra={"connector": self._spec.name})
        return False

    def _without_reports(self, state: PipelineState, *errors: str) -> PipelineStatus:
        """The status while no driver reports: what was seen of clusters and slices is not known any more."""
        return replace(self._status, state=state, errors=list(errors), away=(), slices_running=False)

    def _started(self) -> None:
        self._heard_at, self._heard = self._now(), False
        if self._gateway is not None:
            self._driver.send(pack_gateway(self._gateway))
        self._driver.send(pack_spec(self._spec))
        self._released = ()
        if self._assigned is not None:
            self._driver.send(pack_assignment(self._assigned))

    async def _read(self, output: asyncio.StreamReader) -> None:
        while line := await output.readline():
            with contextlib.suppress(ValueError):
                message = read_line(line)
                self._heard_at, self._heard = self._now(), True
                if "status" in message:
                    self._status = self._retrying_until_it_copies(unpack_status(message["status"]))
                if "samples" in message:
                    join(self._samples, unpack_samples(message["samples"]))

    def _ended(self, how: str, pause: float) -> bool:
        if self._spark is not None:
            self._spark.cancel(self._spec.name)
        if self._status.state in (PipelineState.FAILED, PipelineState.CAUGHT_UP):
            return False
        self._restarts += 1
        error = f"the driver ended ({how}) and is restarted, {self._restarts} time(s) so far; see the log"
        self._last_error = error
        self._status = self._without_reports(PipelineState.RETRYING, error)
        log.error("%s; next start in %.0f s", error, pause, extra={"connector": self._spec.name})
        return True

    def _retrying_until_it_copies(self, status: PipelineStatus) -> PipelineStatus:
        """A restarted driver counts as retrying until it copies, or has an error of its own."""
        if self._last_error is None or status.state is not PipelineState.STARTING:
            self._last_error = None
            return status
        return replace(status, state=PipelineState.RETRYING, errors=[self._last_error])


def _needs_java(spec: PipelineSpec) -> bool:
    """Whether the driver starts a JVM: that of spark-submit runs already, that of a Connect server does elsewhere."""
    return not is_submitted() and REMOTE not in spec.props

"""Runs one connector in the rounds process: starts its instance, and restarts it when its configuration changes or when
it has failed."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from bridge.backoff import Backoff
from bridge.errors import BridgeError, ConfigRejected, NotAnswered
from bridge.mm2.java_regex import PatternTooSlow
from bridge.service.checks.context import RoundsContext
from bridge.service.ipc.messages import Desired, InstanceStatus
from bridge.service.rounds.publisher import PipePublisher, PipeWriter
from bridge.service.state.operations import OperationRequest
from connectors.base import Arguments, Instance, Summary

log = logging.getLogger(__name__)

FIRST_BACKOFF = 1.0
MOST_BACKOFF = 60.0
STEADY_SECONDS = 300.0
"""An instance that ran this long starts its back-off from the beginning."""
CLOSE_SECONDS = 5.0


class ConnectorRunner:
    """Keeps the instance of a connector in its desired state; `run` returns when that is None."""

    def __init__(self, desired: Desired, context: RoundsContext, pipe: PipeWriter) -> None:
        self._desired: Desired | None = desired
        self._context = context
        self._pipe = pipe
        self._changed = asyncio.Event()
        self._name = desired.name
        self._restarts = 0
        self._last_error = ""
        self._instance: tuple[int, Instance] | None = None
        """The running instance, with its generation."""
        self._operations: set[asyncio.Task[None]] = set()

    def set_desired(self, desired: Desired | None) -> None:
        """Sets the desired state; None ends the instance."""
        if desired != self._desired:
            self._desired = desired
            self._changed.set()

    def operate(self, request: OperationRequest) -> None:
        """Has the instance carry out an operation, and sends the result."""
        if self._instance is None or self._instance[0] != request.generation:
            self._pipe.operation_result(request.number, not_running(self._name))
            return
        work = self._operate(request, self._instance[1])
        task = asyncio.create_task(work, name=f"{request.operation} of {self._name}")
        self._operations.add(task)
        task.add_done_callback(self._operations.discard)

    async def _operate(self, request: OperationRequest, instance: Instance) -> None:
        try:
            result: Arguments | BridgeError = await instance.operate(request.operation, request.arguments)
        except BridgeError as error:
            result = error
        except asyncio.CancelledError:
            result = NotAnswered(
                f"connector {self._name} was restarted during the operation; send the request again"
            )
        except Exception:
            log.exception("operation %s failed", request.operation, extra={"connector": self._name})
            result = NotAnswered(
                f"operation {request.operation} of connector {self._name} failed; see the log of the service"
            )
        self._pipe.operation_result(request.number, result)

    async def run(self) -> None:
        backoff = Backoff(FIRST_BACKOFF, MOST_BACKOFF)
        while (desired := self._desired) is not None:
            loop = asyncio.get_running_loop()
            began = loop.time()
            error = await self._run_instance(desired)
            if error is None:
                backoff.reset()
                continue
            if loop.time() - began > STEADY_SECONDS:
                backoff.reset()
            self._restarts += 1
            pause = backoff.next()
            self._log_failure(error, pause)
            self._pipe.instance_status(
                InstanceStatus(self._name, desired.generation, _text(error), pause, self._restarts)
            )
            await self._pause(desired, pause)

    def _log_failure(self, error: Exception, pause: float) -> None:
        """Logs the traceback once, and one line while the same error repeats."""
        repeated = _text(error) == self._last_error
        self._last_error = _text(error)
        log.error(
            "connector instance failed, restarting it in %.0f s: %s",
            pause,
            _text(error),
            exc_info=None if repeated or isinstance(error, ConfigRejected | PatternTooSlow) else error,
            extra={"connector": self._name},
        )

    async def _run_instance(self, desired: Desired) -> Exception | None:
        """Creates an instance, runs it and closes it. Returns its error, or None when the desired state has changed."""
        publisher = PipePublisher(self._pipe, desired.name, desired.generation)
        context = self._context
        kind = context.kinds[desired.kind]
        try:
            await asyncio.to_thread(context.open_key_stores, desired.config)
            instance = kind.create(
                desired.name, desired.config, context.clusters, context.pipelines, publisher
            )
        except ConfigRejected as error:
            publisher.summary(Summary(failure=str(error), failure_code="bad_config"))
            return error
        except Exception as error:
            return error
        log.info("connector instance started", extra={"connector": self._name})
        self._pipe.instance_status(InstanceStatus(self._name, desired.generation, restarts=self._restarts))
        running: asyncio.Task[None] | None = None
        try:
            instance.assign(desired.assignment)
            self._instance = desired.generation, instance
            running = asyncio.create_task(instance.run(), name=f"rounds of {self._name}")
            return await self._follow(desired, instance, running)
        except Exception as error:
            return error
        finally:
            await self._end(instance, running)

    async def _follow(
        self, desired: Desired, instance: Instance, running: asyncio.Task[None]
    ) -> Exception | None:
        while True:
            changed = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait({running, changed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            if running.done():
                running.result()
                return RuntimeError("the instance stopped by itself")
            self._changed.clear()
            now = self._desired
            if now is None or now.generation != desired.generation:
                return None
            if now.assignment != desired.assignment:
                instance.assign(now.assignment)
            desired = now

    async def _end(self, instance: Instance, running: asyncio.Task[None] | None) -> None:
        self._instance = None
        for operation in self._operations:
            operation.cancel()
        if running is not None:
            running.cancel()
            await asyncio.wait({running}, timeout=CLOSE_SECONDS)
        try:
            await asyncio.wait_for(instance.close(), CLOSE_SECONDS)
        except Exception as error:
            log.warning("connector instance could not be closed: %r", error, extra={"connector": self._name})
        log.info("connector instance stopped", extra={"connector": self._name})

    async def _pause(self, desired: Desired, seconds: float) -> None:
        """Waits for the back-off to pass, or until the desired state is another generation or None."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._desired is not None and self._desired.generation == desired.generation:
                    await self._changed.wait()
                    self._changed.clear()


def not_running(name: str) -> NotAnswered:
    return NotAnswered(f"connector {name} is starting, or restarting after an error; send the request again")


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__

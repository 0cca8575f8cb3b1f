"""One connector in the rounds process: makes its instance, keeps it running, makes it anew when told or
when it broke."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from bridge.backoff import Backoff
from bridge.errors import BridgeError, ConfigRejected, NotAnswered
from bridge.mm2.java_regex import PatternTooSlow
from bridge.service.checks.context import RoundsContext
from bridge.service.ipc.desired_state import Desired
from bridge.service.ipc.messages import InstanceStatus
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
    """`want` says what is wished; `run` follows the wish until it is None."""

    def __init__(self, desired: Desired, context: RoundsContext, pipe: PipeWriter) -> None:
        self._desired: Desired | None = desired
        self._context = context
        self._pipe = pipe
        self._wished = asyncio.Event()
        self._name = desired.name
        self._restarts = 0
        self._last_error = ""
        self._instance: tuple[int, Instance] | None = None
        """The one that runs, with its generation."""
        self._operations: set[asyncio.Task[None]] = set()

    def want(self, desired: Desired | None) -> None:
        if desired != self._desired:
            self._desired = desired
            self._wished.set()

    def operate(self, order: OperationRequest) -> None:
        """Has the instance carry out an operation, and reports what comes of it."""
        if self._instance is None or self._instance[0] != order.generation:
            self._pipe.operated(order.number, not_running(self._name))
            return
        work = self._operate(order, self._instance[1])
        task = asyncio.create_task(work, name=f"{order.operation} of {self._name}")
        self._operations.add(task)
        task.add_done_callback(self._operations.discard)

    async def _operate(self, order: OperationRequest, instance: Instance) -> None:
        try:
            answer: Arguments | BridgeError = await instance.operate(order.operation, order.arguments)
        except BridgeError as error:
            answer = error
        except asyncio.CancelledError:
            answer = NotAnswered(
                f"connector {self._name} was made anew during the operation; ask for it again"
            )
        except Exception:
            log.exception("operation %s failed", order.operation, extra={"connector": self._name})
            answer = NotAnswered(
                f"operation {order.operation} of connector {self._name} failed; its log says why"
            )
        self._pipe.operated(order.number, answer)

    async def run(self) -> None:
        backoff = Backoff(FIRST_BACKOFF, MOST_BACKOFF)
        while (desired := self._desired) is not None:
            loop = asyncio.get_running_loop()
            began = loop.time()
            error = await self._one_life(desired)
            if error is None:
                backoff.reset()
                continue
            if loop.time() - began > STEADY_SECONDS:
                backoff.reset()
            self._restarts += 1
            pause = backoff.next()
            self._tell(error, pause)
            self._pipe.note(
                InstanceStatus(self._name, desired.generation, _words(error), pause, self._restarts)
            )
            await self._pause(desired, pause)

    def _tell(self, error: Exception, pause: float) -> None:
        """The traceback once; while the same goes on, one line."""
        same = _words(error) == self._last_error
        self._last_error = _words(error)
        log.error(
            "instance broke and is made anew in %.0f s: %s",
            pause,
            _words(error),
            exc_info=None if same or isinstance(error, ConfigRejected | PatternTooSlow) else error,
            extra={"connector": self._name},
        )

    async def _one_life(self, desired: Desired) -> Exception | None:
        """From making an instance to closing it; an error, or None when another one is wished."""
        publisher = PipePublisher(self._pipe, desired.name, desired.generation)
        context = self._context
        kind = context.kinds[desired.kind]
        try:
            instance = kind.create(
                desired.name, desired.config, context.clusters, context.pipelines, publisher
            )
        except ConfigRejected as error:
            publisher.summary(Summary(failure=str(error), failure_code="bad_config"))
            return error
        except Exception as error:
            return error
        log.info("instance started", extra={"connector": self._name})
        self._pipe.note(InstanceStatus(self._name, desired.generation, restarts=self._restarts))
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
            wished = asyncio.create_task(self._wished.wait())
            try:
                await asyncio.wait({running, wished}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                wished.cancel()
            if running.done():
                running.result()
                return RuntimeError("its rounds ended unasked")
            self._wished.clear()
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
            log.warning("instance did not close: %r", error, extra={"connector": self._name})
        log.info("instance ended", extra={"connector": self._name})

    async def _pause(self, desired: Desired, seconds: float) -> None:
        """The back-off; cut short when another generation, or none, is wished."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._desired is not None and self._desired.generation == desired.generation:
                    await self._wished.wait()
                    self._wished.clear()


def not_running(name: str) -> NotAnswered:
    return NotAnswered(f"connector {name} is just being started, or restarts after a fault; ask again")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__

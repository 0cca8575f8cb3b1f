"""The parent's end: starts the rounds process, tells it what is wished, keeps what it says, starts it again
when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from bridge.backoff import Backoff
from bridge.environment import for_child
from bridge.logs.forward import Forward
from bridge.logs.setup import ROUNDS
from bridge.service.ipc.checkpoint_records import Parcel, unpack_parcels
from bridge.service.ipc.desired_state import Desired
from bridge.service.ipc.messages import (
    Frame,
    frame,
    pack_desired,
    read_frame,
    unpack_backlog,
    unpack_groups,
    unpack_note,
    unpack_progress,
    unpack_summary,
)
from bridge.service.state.operations import OpenOperations, Order, pack_order
from bridge.service.state.rounds_state import SILENT_SECONDS, EngineState
from bridge.service.state.snapshots import Snapshots
from bridge.service.state.source_offsets import Row, pack_stored, unpack_asked
from connectors.base import Arguments, SourcePartition

log = logging.getLogger(__name__)

FIRST_BACKOFF = 0.5
MOST_BACKOFF = 30.0
STEADY_SECONDS = 60.0
HUNG_SECONDS = 120.0
"""No beat for this long: killed and started again."""


class Engine(Protocol):
    """What the HTTP process needs of whatever runs the rounds."""

    @property
    def state(self) -> EngineState: ...

    @property
    def restarts(self) -> int: ...

    async def start(self) -> None: ...

    def apply(self, desired: Sequence[Desired]) -> None: ...

    def stored(self, name: str, generation: int, rows: Sequence[Row]) -> None:
        """Source offsets that an instance has asked for."""

    async def operate(
        self, name: str, generation: int, operation: str, arguments: Arguments, seconds: float
    ) -> Arguments:
        """Has an instance carry out an operation; see OpenOperations."""

    async def close(self, grace: float) -> None: ...


class RoundsEngine:
    """The rounds in a process of their own. `failed` is called with a connector's name when a failure is new,
    `emitted` with name, generation and the records that are to be written, `asked` with the source partitions whose
    offsets an instance asks for."""

    def __init__(
        self,
        factory: str,
        snapshots: Snapshots,
        failed: Callable[[str], None],
        emitted: Callable[[str, int, list[Parcel]], None],
        asked: Callable[[str, int, list[SourcePartition]], None],
        log_level: str = "info",
    ) -> None:
        self._arguments = ("-P", "-m", "bridge.service.rounds.main", factory, log_level)
        self._snapshots = snapshots
        self._failed = failed
        self._emitted = emitted
        self._asked = asked
        self._desired: Sequence[Desired] = ()
        self._process: asyncio.subprocess.Process | None = None
        self._log: Forward | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._state = EngineState.STOPPED
        self._last_beat = 0.0
        self._operations = OpenOperations(self._order)
        self.restarts = 0

    @property
    def state(self) -> EngineState:
        if self._state is EngineState.RUNNING and self._silence() > SILENT_SECONDS:
            return EngineState.STALLED
        return self._state

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        self._state = EngineState.STARTING
        self._supervisor = asyncio.create_task(self._supervise(), name="supervisor")

    def apply(self, desired: Sequence[Desired]) -> None:
        self._desired = tuple(desired)
        self._send(frame(Frame.DESIRED, pack_desired(self._desired)))

    def stored(self, name: str, generation: int, rows: Sequence[Row]) -> None:
        self._send(frame(Frame.STORED, pack_stored(name, generation, rows)))

    async def operate(
        self, name: str, generation: int, operation: str, arguments: Arguments, seconds: float
    ) -> Arguments:
        return await self._operations.operate(name, generation, operation, arguments, seconds)

    async def close(self, grace: float) -> None:
        """Asks the process to end, and ends it when `grace` seconds have passed."""
        self._state = EngineState.STOPPED
        process, lines = self._process, self._log
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})
        if process is None or lines is None or process.returncode is not None:
            return
        self._send(frame(Frame.STOP))
        reader = asyncio.create_task(self._discard(process))
        try:
            await asyncio.wait_for(process.wait(), grace)
        except TimeoutError:
            log.warning("the rounds process did not end within %.1f s and is killed", grace)
            process.kill()
            await process.wait()
        reader.cancel()
        await lines.ended()

    # -- the supervisor ----------------------------------------------------------------------------

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        backoff = Backoff(FIRST_BACKOFF, MOST_BACKOFF)
        while True:
            began = loop.time()
            told = await self._one_life()
            if loop.time() - began > STEADY_SECONDS:
                backoff.reset()
            self._state = EngineState.RESTARTING
            self.restarts += 1
            log.error(
                "the rounds process ended (%s) and is started again in %.1f s", told, pause := backoff.next()
            )
            await asyncio.sleep(pause)

    async def _one_life(self) -> str:
        lines = Forward(ROUNDS)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=lines.fileno,
                env=for_child(),
                limit=1 << 20,
            )
        except OSError as error:
            await lines.ended()
            return f"it could not be started: {error}"
        lines.started()
        self._process, self._log = process, lines
        self._snapshots.restarted()
        self._last_beat = asyncio.get_running_loop().time()
        self._send(frame(Frame.DESIRED, pack_desired(self._desired)))
        watch = asyncio.create_task(self._watch(process), name="watch")
        ended = False
        try:
            await self._listen(process)
            code = await process.wait()
            ended = True
            return f"exit code {code}" if code >= 0 else f"signal {-code}"
        except ValueError as error:
            process.kill()
            await process.wait()
            ended = True
            return f"it said what can't be read: {error}"
        finally:
            watch.cancel()
            self._operations.lost()
            if ended:
                self._process = None
                await lines.ended()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            read = await read_frame(process.stdout)
            if read is None:
                return
            kind, payload = read
            self._last_beat = asyncio.get_running_loop().time()
            if self._state is not EngineState.RUNNING:
                self._state = EngineState.RUNNING
                log.info("the rounds process runs", extra={"pid": process.pid})
            if kind is Frame.GROUPS:
                self._snapshots.groups(*unpack_groups(payload))
                await asyncio.sleep(0)  # a whole round may wait in the pipe; requests go first
            elif kind is Frame.RECORDS:
                self._emitted(*unpack_parcels(payload))
                await asyncio.sleep(0)
            elif kind is Frame.SUMMARY:
                name, generation, summary = unpack_summary(payload)
                if self._snapshots.summary(name, generation, summary):
                    self._failed(name)
            elif kind is Frame.PROGRESS:
                self._snapshots.progress(*unpack_progress(payload))
                await asyncio.sleep(0)
            elif kind is Frame.BACKLOG:
                self._snapshots.missing(*unpack_backlog(payload))
                await asyncio.sleep(0)
            elif kind is Frame.OPERATED:
                self._operations.answered(payload)
            elif kind is Frame.ASKED:
                self._asked(*unpack_asked(payload))
            elif kind is Frame.INSTANCE:
                self._snapshots.note(unpack_note(payload))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self._silence() > HUNG_SECONDS:
                log.error("the rounds process has not turned for %.0f s and is killed", self._silence())
                process.kill()
                return

    async def _discard(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError):
            while await read_frame(process.stdout) is not None:
                pass

    def _order(self, order: Order) -> None:
        self._send(frame(Frame.OPERATE, pack_order(order)))

    def _send(self, data: bytes) -> None:
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(data)

    def _silence(self) -> float:
        return asyncio.get_running_loop().time() - self._last_beat

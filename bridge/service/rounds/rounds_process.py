"""The HTTP process's end of the rounds process: sends it the desired state, and keeps what it reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from bridge.backoff import Backoff
from bridge.child_process import Callbacks, ChildProcess, Program, python_command
from bridge.errors import TooLarge
from bridge.logs.setup import ROUNDS
from bridge.service.ipc.checkpoint_records import PackedRecord, unpack_records
from bridge.service.ipc.messages import (
    Desired,
    DesiredPacker,
    Frame,
    FrameTooLarge,
    frame,
    read_frame,
    unpack_backlog,
    unpack_groups,
    unpack_instance_status,
    unpack_progress,
    unpack_summary,
)
from bridge.service.state.operations import OpenOperations, OperationRequest, pack_operation
from bridge.service.state.snapshots import SILENT_SECONDS, RoundsState, Snapshots
from bridge.service.state.source_offsets import (
    SourcePartitionOffset,
    pack_stored_offsets,
    unpack_offset_request,
)
from connectors.base import Arguments, SourcePartition

log = logging.getLogger(__name__)

FIRST_BACKOFF = 0.5
MOST_BACKOFF = 30.0
STEADY_SECONDS = 60.0
HUNG_SECONDS = 120.0
"""A process that has sent no heartbeat for this long is killed, and restarted."""


class Rounds(Protocol):
    """The rounds as the HTTP process uses them."""

    @property
    def state(self) -> RoundsState: ...

    @property
    def restarts(self) -> int: ...

    async def start(self) -> None: ...

    def apply(self, desired: Sequence[Desired]) -> None: ...

    def stored_offsets(self, name: str, generation: int, rows: Sequence[SourcePartitionOffset]) -> None:
        """Sends an instance the source offsets that it has asked for."""

    async def operate(
        self, name: str, generation: int, operation: str, arguments: Arguments, seconds: float
    ) -> Arguments:
        """Has an instance carry out an operation; see OpenOperations."""

    async def close(self, grace: float) -> None: ...


class RoundsProcess:
    """Runs the rounds in a child process. It calls `failed` with the name of a connector that has a new failure,
    `emitted` with name, generation and the records that Connect is to write, and `asked` with the source partitions
    whose offsets an instance asks for."""

    def __init__(
        self,
        factory: str,
        snapshots: Snapshots,
        failed: Callable[[str], None],
        emitted: Callable[[str, int, list[PackedRecord]], None],
        asked: Callable[[str, int, list[SourcePartition]], None],
        log_level: str = "info",
    ) -> None:
        self._snapshots = snapshots
        self._failed = failed
        self._emitted = emitted
        self._asked = asked
        self._desired: Sequence[Desired] = ()
        self._packer = DesiredPacker()
        self._state = RoundsState.STOPPED
        self._last_heartbeat = 0.0
        self._operations = OpenOperations(self._send_operation)
        self._watchdog: asyncio.Task[None] | None = None
        self.restarts = 0
        program = Program(
            "the rounds process",
            python_command("bridge.service.rounds.main", factory, log_level),
            process=ROUNDS,
            steady_seconds=STEADY_SECONDS,
            limit=1 << 20,
        )
        callbacks = Callbacks(self._started, self._read, self._ended)
        self._child = ChildProcess(program, callbacks, Backoff(FIRST_BACKOFF, MOST_BACKOFF))

    @property
    def state(self) -> RoundsState:
        if self._state is RoundsState.RUNNING and self._silence() > SILENT_SECONDS:
            return RoundsState.STALLED
        return self._state

    @property
    def pid(self) -> int | None:
        return self._child.pid

    async def start(self) -> None:
        self._state = RoundsState.STARTING
        self._child.start()

    def apply(self, desired: Sequence[Desired]) -> None:
        self._desired = tuple(desired)
        self._send_desired()

    def stored_offsets(self, name: str, generation: int, rows: Sequence[SourcePartitionOffset]) -> None:
        """Raises FrameTooLarge for more than any offsets of Connect have."""
        self._child.send(frame(Frame.STORED_OFFSETS, pack_stored_offsets(name, generation, rows)))

    async def operate(
        self, name: str, generation: int, operation: str, arguments: Arguments, seconds: float
    ) -> Arguments:
        return await self._operations.operate(name, generation, operation, arguments, seconds)

    async def close(self, grace: float) -> None:
        """Asks the process to end, and kills it after `grace` seconds."""
        self._state = RoundsState.STOPPED
        self._operations.lost()
        self._stop_watchdog()
        await self._child.stop(frame(Frame.STOP), grace)

    # -- callbacks of the child process ------------------------------------------------------------

    def _started(self) -> None:
        self._snapshots.restarted()
        self._last_heartbeat = asyncio.get_running_loop().time()
        self._send_desired()
        self._watchdog = asyncio.create_task(self._kill_if_hung(), name="watchdog of the rounds process")

    def _ended(self, how: str, pause: float) -> bool:
        self._stop_watchdog()
        self._state = RoundsState.RESTARTING
        self.restarts += 1
        log.error("the rounds process ended (%s) and is restarted in %.1f s", how, pause)
        return True

    async def _read(self, output: asyncio.StreamReader) -> None:
        try:
            while (read := await read_frame(output)) is not None:
                if self._state is RoundsState.STOPPED:
                    continue  # read only so that the process can write, and end
                self._last_heartbeat = asyncio.get_running_loop().time()
                if self._state is not RoundsState.RUNNING:
                    self._state = RoundsState.RUNNING
                    log.info("the rounds process runs", extra={"pid": self.pid})
                await self._accept(*read)
        finally:
            self._operations.lost()

    async def _accept(self, kind: Frame, payload: bytes) -> None:
        if kind is Frame.GROUPS:
            self._snapshots.groups(*unpack_groups(payload))
            await asyncio.sleep(0)  # a whole round may be in the pipe; HTTP requests go first
        elif kind is Frame.RECORDS:
            self._emitted(*unpack_records(payload))
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
        elif kind is Frame.OPERATION_RESULT:
            self._operations.answered(payload)
        elif kind is Frame.OFFSET_REQUEST:
            self._asked(*unpack_offset_request(payload))
        elif kind is Frame.INSTANCE:
            self._snapshots.instance_status(unpack_instance_status(payload))

    async def _kill_if_hung(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self._silence() > HUNG_SECONDS:
                log.error("the rounds process has sent nothing for %.0f s and is killed", self._silence())
                self._child.kill()
                return

    def _stop_watchdog(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()

    def _send_desired(self) -> None:
        self._child.send(frame(Frame.DESIRED, self._packer.pack(self._desired)))

    def _send_operation(self, request: OperationRequest) -> None:
        try:
            data = frame(Frame.OPERATION, pack_operation(request))
        except FrameTooLarge as error:
            text = (
                f"connector {request.name} can't be asked to {request.operation}: {error}; name fewer groups"
            )
            raise TooLarge(text) from None
        self._child.send(data)

    def _silence(self) -> float:
        return asyncio.get_running_loop().time() - self._last_heartbeat

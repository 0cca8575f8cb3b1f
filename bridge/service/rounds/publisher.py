"""Sends what instances publish to the HTTP process: packed at once, coalesced, and written as fast as the pipe is read.

A slow reader neither blocks instances nor makes memory grow: per group, per record key and per connector only the
newest value waits.

Remembers what the rounds process could not send of an instance, so that its summaries have it as an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bridge.errors import BridgeError, TooLarge
from bridge.model.values import TopicPartition
from bridge.protocol.messages import GroupReport
from bridge.service.ipc.checkpoint_records import (
    KEY,
    PORTION,
    PackedRecord,
    pack,
    pack_records,
    record_size,
)
from bridge.service.ipc.messages import (
    BATCH,
    Backlog,
    Frame,
    FrameTooLarge,
    InstanceStatus,
    PackedGroup,
    frame,
    in_portions,
    pack_backlog,
    pack_fitting_report,
    pack_groups,
    pack_instance_status,
    pack_progress,
    pack_summary,
    packed_size,
)
from bridge.service.state.copy_progress import joined, portions
from bridge.service.state.operations import pack_operation_result
from bridge.service.state.source_offsets import OffsetRequests, pack_offset_request
from connectors.base import (
    Arguments,
    CopyReport,
    EmittedRecord,
    Missing,
    SourceOffset,
    SourcePartition,
    Summary,
)

log = logging.getLogger(__name__)


Of = tuple[str, int]
"""Name and generation of an instance."""
HEARTBEAT_SECONDS = 1.0
ROWS = 1_000
"""Partitions in one frame: the HTTP process handles it in about a millisecond."""


class SendErrors:
    """The errors of all instances, each until the next one of its name."""

    def __init__(self) -> None:
        self._errors: dict[str, tuple[int, dict[str, str]]] = {}
        """By name: generation, and the newest error of each kind of message."""

    def started(self, name: str, generation: int) -> None:
        """Forgets the errors of earlier instances."""
        if name in self._errors and self._errors[name][0] < generation:
            del self._errors[name]

    def add(self, of: Of, kind: str, error: str) -> None:
        name, generation = of
        self.started(name, generation)
        errors = self._errors.setdefault(name, (generation, {}))[1]
        if kind not in errors:
            log.error("%s", error, extra={"connector": name})
        errors[kind] = error

    def named(self, of: Of, summary: Summary) -> Summary:
        """The summary with these errors."""
        generation, errors = self._errors.get(of[0], (0, {}))
        if generation != of[1]:
            return summary
        return replace(summary, errors=(*errors.values(), *summary.errors))


class PipeWriter:
    """The rounds process's end of the pipe."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._instances: list[InstanceStatus] = []
        self._groups: dict[tuple[str, int], dict[str, PackedGroup]] = {}
        self._records: dict[tuple[str, int], dict[bytes, PackedRecord]] = {}
        self._progress: dict[tuple[str, int], CopyReport] = {}
        self._backlog: dict[tuple[str, int], dict[TopicPartition, Missing | None]] = {}
        self._summaries: dict[tuple[str, int], Summary] = {}
        self._offset_requests: dict[Of, bytes] = {}
        """Packed."""
        self._operation_results: list[tuple[int, Arguments | BridgeError]] = []
        self._send_errors = SendErrors()
        self._pending = asyncio.Event()
        self.offset_requests = OffsetRequests(self._request_offsets)

    def instance_status(self, status: InstanceStatus) -> None:
        self._instances.append(status)
        self._pending.set()

    def groups(self, name: str, generation: int, changed: Mapping[str, GroupReport | None]) -> None:
        waiting = self._groups.setdefault((name, generation), {})
        for group, report in changed.items():
            waiting[group] = pack_fitting_report(group, report)
        self._pending.set()

    def records(self, name: str, generation: int, records: Sequence[EmittedRecord]) -> None:
        waiting = self._records.setdefault((name, generation), {})
        for record in records:
            packed = pack(record)
            waiting[packed[KEY]] = packed
        self._pending.set()

    def progress(self, name: str, generation: int, report: CopyReport) -> None:
        waiting = self._progress.get((name, generation))
        self._progress[name, generation] = report if waiting is None else joined(waiting, report)
        self._pending.set()

    def backlog(self, name: str, generation: int, changed: Backlog) -> None:
        self._backlog.setdefault((name, generation), {}).update(changed)
        self._pending.set()

    def summary(self, name: str, generation: int, summary: Summary) -> None:
        self._summaries[name, generation] = summary
        self._pending.set()

    def operation_result(self, number: int, result: Arguments | BridgeError) -> None:
        """Sends the result of an operation, behind everything that was published before."""
        self._operation_results.append((number, result))
        self._pending.set()

    def _request_offsets(self, name: str, generation: int, partitions: Sequence[SourcePartition]) -> None:
        request = pack_offset_request(name, generation, partitions)
        self._offset_requests[name, generation] = frame(Frame.OFFSET_REQUEST, request)
        self._pending.set()

    async def send(self) -> None:
        """Writes frames until cancelled, or until the parent has exited (ConnectionError)."""
        while True:
            await self._pending.wait()
            self._pending.clear()
            await self.flush()

    async def flush(self) -> None:
        instances, self._instances = self._instances, []
        for status in instances:
            self._send_errors.started(status.name, status.generation)
            self._write(Frame.INSTANCE, pack_instance_status(status))
        # Summaries are read first and written last: a summary never overtakes the groups and records that were
        # published before it.
        results, self._operation_results = self._operation_results, []
        summaries, self._summaries = self._summaries, {}
        groups, self._groups = self._groups, {}
        records, self._records = self._records, {}
        progress, self._progress = self._progress, {}
        backlog, self._backlog = self._backlog, {}
        for of, changed in groups.items():
            for some in in_portions(changed.values(), BATCH, packed_size):
                await self._send_of(of, Frame.GROUPS, pack_groups(*of, some))
        for of, packed_records in records.items():
            for portion in in_portions(packed_records.values(), PORTION, record_size):
                await self._send_of(of, Frame.RECORDS, pack_records(*of, portion))
        for of, report in progress.items():
            for piece in portions(report):
                await self._send_of(of, Frame.PROGRESS, pack_progress(*of, piece))
        for of, rows in backlog.items():
            for part in in_portions(rows.items(), ROWS, _row_size):
                await self._send_of(of, Frame.BACKLOG, pack_backlog(*of, dict(part)))
        requests, self._offset_requests = self._offset_requests, {}
        for data in requests.values():
            self._writer.write(data)
        for of, summary in summaries.items():
            self._write_summary(of, summary)
        for number, result in results:
            self._write_result(number, result)
        await self._writer.drain()

    def _write(self, kind: Frame, payload: bytes) -> None:
        """Raises FrameTooLarge."""
        self._writer.write(frame(kind, payload))

    async def _send_of(self, of: Of, kind: Frame, payload: bytes) -> None:
        """Sends what an instance has published. Leaves it out where it is too large: the next summaries say so."""
        try:
            self._write(kind, payload)
        except FrameTooLarge as error:
            self._send_errors.add(of, kind.name, f"a report of the connector is left out, {error}")
        await self._writer.drain()

    def _write_summary(self, of: Of, summary: Summary) -> None:
        try:
            self._write(Frame.SUMMARY, pack_summary(*of, self._send_errors.named(of, summary)))
        except FrameTooLarge as error:
            self._send_errors.add(
                of, Frame.SUMMARY.name, f"most of the connector's summary is left out, {error}"
            )
            bare = replace(summary, errors=(), gaps=(), unreadable_records={}, other_tasks={}, reasons={})
            self._write(Frame.SUMMARY, pack_summary(*of, self._send_errors.named(of, bare)))

    def _write_result(self, number: int, result: Arguments | BridgeError) -> None:
        try:
            self._write(Frame.OPERATION_RESULT, pack_operation_result(number, result))
        except FrameTooLarge as error:
            failed = TooLarge(
                f"the operation was carried out, but its answer is too large, {error}; name fewer groups"
            )
            self._write(Frame.OPERATION_RESULT, pack_operation_result(number, failed))

    async def heartbeat(self) -> None:
        while True:
            self._writer.write(frame(Frame.HEARTBEAT))
            await asyncio.sleep(HEARTBEAT_SECONDS)


def _row_size(row: tuple[TopicPartition, Missing | None]) -> int:
    return 100 + 6 * len(row[0].topic)


class PipePublisher:
    """The `connectors.base.Publisher` of one instance."""

    def __init__(self, pipe: PipeWriter, name: str, generation: int) -> None:
        self._pipe = pipe
        self._name = name
        self._generation = generation

    def records(self, records: Sequence[EmittedRecord]) -> None:
        self._pipe.records(self._name, self._generation, records)

    def summary(self, summary: Summary) -> None:
        self._pipe.summary(self._name, self._generation, summary)

    def groups(self, changed: Mapping[str, GroupReport | None]) -> None:
        self._pipe.groups(self._name, self._generation, changed)

    def backlog(self, changed: Backlog) -> None:
        self._pipe.backlog(self._name, self._generation, changed)

    async def stored_offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        return await self._pipe.offset_requests.request(self._name, self._generation, partitions)

    def progress(self, report: CopyReport) -> None:
        self._pipe.progress(self._name, self._generation, report)

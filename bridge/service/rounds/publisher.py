"""Sends what instances publish to the HTTP process: packed at once, coalesced, and written as fast as the pipe is read.

A slow reader neither blocks instances nor makes memory grow: per group, per record key and per connector only the
newest value waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice

from bridge.errors import BridgeError
from bridge.model.values import TopicPartition
from bridge.protocol.messages import GroupReport
from bridge.service.ipc.checkpoint_records import KEY, PORTION, PackedRecord, pack, pack_records
from bridge.service.ipc.messages import (
    BATCH,
    Backlog,
    Frame,
    InstanceStatus,
    PackedGroup,
    frame,
    pack_backlog,
    pack_groups,
    pack_instance_status,
    pack_progress,
    pack_report,
    pack_summary,
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

HEARTBEAT_SECONDS = 1.0
ROWS = 1_000
"""Partitions in one frame: the HTTP process handles it in about a millisecond."""


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
        self._offset_requests: dict[tuple[str, int], Sequence[SourcePartition]] = {}
        self._operation_results: list[tuple[int, Arguments | BridgeError]] = []
        self._pending = asyncio.Event()
        self.offset_requests = OffsetRequests(self._request_offsets)

    def instance_status(self, status: InstanceStatus) -> None:
        self._instances.append(status)
        self._pending.set()

    def groups(self, name: str, generation: int, changed: Mapping[str, GroupReport | None]) -> None:
        waiting = self._groups.setdefault((name, generation), {})
        for group, report in changed.items():
            waiting[group] = pack_report(group, report)
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
        self._offset_requests[name, generation] = partitions
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
            self._writer.write(frame(Frame.INSTANCE, pack_instance_status(status)))
        # Summaries are read first and written last: a summary never overtakes the groups and records that were
        # published before it.
        results, self._operation_results = self._operation_results, []
        summaries, self._summaries = self._summaries, {}
        groups, self._groups = self._groups, {}
        records, self._records = self._records, {}
        progress, self._progress = self._progress, {}
        backlog, self._backlog = self._backlog, {}
        for (name, generation), changed in groups.items():
            packed = list(changed.values())
            for start in range(0, len(packed), BATCH):
                self._writer.write(
                    frame(Frame.GROUPS, pack_groups(name, generation, packed[start : start + BATCH]))
                )
                await self._writer.drain()
        for (name, generation), packed_records in records.items():
            left = iter(packed_records.values())
            while portion := list(islice(left, PORTION)):
                self._writer.write(frame(Frame.RECORDS, pack_records(name, generation, portion)))
                await self._writer.drain()
        for (name, generation), report in progress.items():
            for piece in portions(report):
                self._writer.write(frame(Frame.PROGRESS, pack_progress(name, generation, piece)))
                await self._writer.drain()
        for (name, generation), rows in backlog.items():
            rest = iter(rows.items())
            while some := dict(islice(rest, ROWS)):
                self._writer.write(frame(Frame.BACKLOG, pack_backlog(name, generation, some)))
                await self._writer.drain()
        requests, self._offset_requests = self._offset_requests, {}
        for (name, generation), partitions in requests.items():
            self._writer.write(frame(Frame.OFFSET_REQUEST, pack_offset_request(name, generation, partitions)))
        for (name, generation), summary in summaries.items():
            self._writer.write(frame(Frame.SUMMARY, pack_summary(name, generation, summary)))
        for number, result in results:
            self._writer.write(frame(Frame.OPERATION_RESULT, pack_operation_result(number, result)))
        await self._writer.drain()

    async def heartbeat(self) -> None:
        while True:
            self._writer.write(frame(Frame.HEARTBEAT))
            await asyncio.sleep(HEARTBEAT_SECONDS)


class PipePublisher:
    """`connectors.base.Publisher` of one instance."""

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

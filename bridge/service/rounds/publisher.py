"""The child's end of the pipe: what instances publish is packed at once, coalesced, and sent as the pipe
takes it.

A slow reader makes nothing block and nothing grow: per group, per record key and per connector only the newest word
waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice

from bridge.errors import BridgeError
from bridge.model.values import TopicPartition
from bridge.protocol.messages import GroupReport
from bridge.service.ipc.checkpoint_records import LINE, PORTION, PackedRecord, pack, pack_records
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

BEAT_SECONDS = 1.0
ROWS = 1_000
"""Partitions in one frame: the HTTP process handles it in about a millisecond."""


class PipeWriter:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._notes: list[InstanceStatus] = []
        self._groups: dict[tuple[str, int], dict[str, PackedGroup]] = {}
        self._records: dict[tuple[str, int], dict[bytes, PackedRecord]] = {}
        self._progress: dict[tuple[str, int], CopyReport] = {}
        self._backlog: dict[tuple[str, int], dict[TopicPartition, Missing | None]] = {}
        self._summaries: dict[tuple[str, int], Summary] = {}
        self._asked: dict[tuple[str, int], Sequence[SourcePartition]] = {}
        self._operated: list[tuple[int, Arguments | BridgeError]] = []
        self._said = asyncio.Event()
        self.asking = OffsetRequests(self._ask)

    def note(self, note: InstanceStatus) -> None:
        self._notes.append(note)
        self._said.set()

    def groups(self, name: str, generation: int, changed: Mapping[str, GroupReport | None]) -> None:
        waiting = self._groups.setdefault((name, generation), {})
        for group, report in changed.items():
            waiting[group] = pack_report(group, report)
        self._said.set()

    def records(self, name: str, generation: int, records: Sequence[EmittedRecord]) -> None:
        waiting = self._records.setdefault((name, generation), {})
        for record in records:
            parcel = pack(record)
            waiting[parcel[LINE]] = parcel
        self._said.set()

    def progress(self, name: str, generation: int, report: CopyReport) -> None:
        waiting = self._progress.get((name, generation))
        self._progress[name, generation] = report if waiting is None else joined(waiting, report)
        self._said.set()

    def backlog(self, name: str, generation: int, changed: Backlog) -> None:
        self._backlog.setdefault((name, generation), {}).update(changed)
        self._said.set()

    def summary(self, name: str, generation: int, summary: Summary) -> None:
        self._summaries[name, generation] = summary
        self._said.set()

    def operated(self, number: int, answer: Arguments | BridgeError) -> None:
        """What came of an operation; sent behind everything that was published before."""
        self._operated.append((number, answer))
        self._said.set()

    def _ask(self, name: str, generation: int, partitions: Sequence[SourcePartition]) -> None:
        self._asked[name, generation] = partitions
        self._said.set()

    async def send(self) -> None:
        """Until cancelled, or until the parent has gone (ConnectionError)."""
        while True:
            await self._said.wait()
            self._said.clear()
            await self.flush()

    async def flush(self) -> None:
        notes, self._notes = self._notes, []
        for note in notes:
            self._writer.write(frame(Frame.INSTANCE, pack_instance_status(note)))
        # Summaries are taken first and sent last: a summary never overtakes the groups and records that were
        # published before it.
        operated, self._operated = self._operated, []
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
        for (name, generation), parcels in records.items():
            left = iter(parcels.values())
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
        asked, self._asked = self._asked, {}
        for (name, generation), partitions in asked.items():
            self._writer.write(frame(Frame.OFFSET_REQUEST, pack_offset_request(name, generation, partitions)))
        for (name, generation), summary in summaries.items():
            self._writer.write(frame(Frame.SUMMARY, pack_summary(name, generation, summary)))
        for number, answer in operated:
            self._writer.write(frame(Frame.OPERATION_RESULT, pack_operation_result(number, answer)))
        await self._writer.drain()

    async def beat(self) -> None:
        while True:
            self._writer.write(frame(Frame.HEARTBEAT))
            await asyncio.sleep(BEAT_SECONDS)


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
        return await self._pipe.asking.ask(self._name, self._generation, partitions)

    def progress(self, report: CopyReport) -> None:
        self._pipe.progress(self._name, self._generation, report)

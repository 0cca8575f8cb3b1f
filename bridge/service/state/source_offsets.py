"""Reads source offsets from Connect's offset storage, for instances that continue a stock mirror: only a worker can
read them.

    instance  ─request─▶  rounds process  ─OFFSET_REQUEST─▶   HTTP process  ─answer to a poll─▶  shim
    instance  ◀─────────  rounds process  ◀─STORED_OFFSETS──  HTTP process  ◀──the next poll───  shim

A request stays open until it is answered, withdrawn or replaced by another one: what gets lost on the way is requested
again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bridge.protocol.messages import StoredOffset
from bridge.service.ipc.checkpoint_records import partition_digest
from connectors.base import SourceOffset, SourcePartition

AT_ONCE = 1_000
"""Partitions in one answer: with topic names as long as Kafka allows, half of max_body_bytes by default."""

REQUESTED = 10_000
"""Partitions in one request. A connector of more requests the next ones when these are answered."""

SourcePartitionOffset = tuple[SourcePartition, SourceOffset | None]


def pack_offset_request(name: str, generation: int, partitions: Sequence[SourcePartition]) -> bytes:
    return json.dumps([name, generation, partitions], ensure_ascii=False).encode()


def unpack_offset_request(payload: bytes) -> tuple[str, int, list[SourcePartition]]:
    name, generation, partitions = json.loads(payload)
    return name, generation, partitions


def pack_stored_offsets(name: str, generation: int, rows: Sequence[SourcePartitionOffset]) -> bytes:
    return json.dumps([name, generation, rows], ensure_ascii=False).encode()


@dataclass(slots=True)
class _Pending:
    missing: set[bytes]
    done: asyncio.Future[None]
    offsets: dict[bytes, SourceOffset | None] = field(default_factory=dict)


class OffsetRequests:
    """The requests of all instances, in the rounds process. `send` sends one to the HTTP process; without partitions it
    withdraws the last, and it raises FrameTooLarge."""

    def __init__(self, send: Callable[[str, int, Sequence[SourcePartition]], None]) -> None:
        self._send = send
        self._pending: dict[tuple[str, int], _Pending] = {}

    async def request(
        self, name: str, generation: int, partitions: Sequence[SourcePartition]
    ) -> list[SourceOffset | None]:
        """Waits for the offsets; see Publisher.stored_offsets. One request of an instance at a time. Raises
        FrameTooLarge."""
        offsets: list[SourceOffset | None] = []
        for start in range(0, len(partitions), REQUESTED):
            offsets += await self._portion(name, generation, partitions[start : start + REQUESTED])
        return offsets

    async def _portion(
        self, name: str, generation: int, partitions: Sequence[SourcePartition]
    ) -> list[SourceOffset | None]:
        digests = [partition_digest(partition) for partition in partitions]
        pending = _Pending(set(digests), asyncio.get_running_loop().create_future())
        self._pending[name, generation] = pending
        try:
            self._send(name, generation, partitions)
            await pending.done
        except asyncio.CancelledError:
            self._send(name, generation, ())
            raise
        finally:
            del self._pending[name, generation]
        return [pending.offsets[digest] for digest in digests]

    def received(self, payload: bytes) -> None:
        """Takes up an answer, whole or in part. An answer to an older request counts for what is still requested."""
        name, generation, rows = json.loads(payload)
        pending = self._pending.get((name, generation))
        if pending is None:
            return
        for partition, offset in rows:
            digest = partition_digest(partition)
            if digest in pending.missing:
                pending.missing.remove(digest)
                pending.offsets[digest] = offset
        if not pending.missing and not pending.done.done():
            pending.done.set_result(None)


@dataclass(frozen=True, slots=True)
class _Open:
    generation: int
    partitions: dict[bytes, SourcePartition]


class OpenOffsetRequests:
    """The open requests of all connectors, in the HTTP process."""

    def __init__(self, wake: Callable[[str], None]) -> None:
        """`wake` answers the held polls of a connector."""
        self._wake = wake
        self._open: dict[str, _Open] = {}

    def put(self, name: str, generation: int, partitions: Sequence[SourcePartition]) -> None:
        current = self._open.get(name)
        if current is not None and generation < current.generation:
            return
        self._open[name] = _Open(
            generation, {partition_digest(partition): partition for partition in partitions}
        )
        if partitions:
            self._wake(name)

    def next(self, name: str) -> list[SourcePartition]:
        """The source partitions that the next answer to a poll requests."""
        request = self._open.get(name)
        return [] if request is None else list(request.partitions.values())[:AT_ONCE]

    def answer(
        self, name: str, entries: Iterable[StoredOffset]
    ) -> tuple[int, list[SourcePartitionOffset]] | None:
        """Closes what the entries answer: the generation that requested it, and its offsets; None for nothing
        requested."""
        request = self._open.get(name)
        if request is None:
            return None
        rows: list[SourcePartitionOffset] = [
            (partition, entry.source_offset)
            for entry in entries
            if (partition := request.partitions.pop(partition_digest(entry.source_partition), None))
            is not None
        ]
        return (request.generation, rows) if rows else None

    def forget(self, name: str) -> None:
        self._open.pop(name, None)

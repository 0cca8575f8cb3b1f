"""Source offsets that Connect keeps, for instances that go on where others have stopped: only a worker can read them.

    instance  ─ask──▶  rounds process  ─ASKED──▶   HTTP process  ─answer of a poll─▶  shim
    instance  ◀──────  rounds process  ◀─STORED──  HTTP process  ◀──the next poll───  shim

A question stays open until it is answered, withdrawn, or another one takes its place: whatever gets lost on the way is
asked again.
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
"""Partitions in one answer: with names as long as Kafka allows half of what a body may have by default."""

SourcePartitionOffset = tuple[SourcePartition, SourceOffset | None]


def pack_offset_request(name: str, generation: int, partitions: Sequence[SourcePartition]) -> bytes:
    return json.dumps([name, generation, partitions]).encode()


def unpack_offset_request(payload: bytes) -> tuple[str, int, list[SourcePartition]]:
    name, generation, partitions = json.loads(payload)
    return name, generation, partitions


def pack_stored_offsets(name: str, generation: int, rows: Sequence[SourcePartitionOffset]) -> bytes:
    return json.dumps([name, generation, rows]).encode()


@dataclass(slots=True)
class _Waiting:
    missing: set[bytes]
    done: asyncio.Future[None]
    found: dict[bytes, SourceOffset | None] = field(default_factory=dict)


class OffsetRequests:
    """Of the rounds process. `tell` takes a question to the HTTP process; one without partitions withdraws the last."""

    def __init__(self, tell: Callable[[str, int, Sequence[SourcePartition]], None]) -> None:
        self._tell = tell
        self._waiting: dict[tuple[str, int], _Waiting] = {}

    async def ask(
        self, name: str, generation: int, partitions: Sequence[SourcePartition]
    ) -> list[SourceOffset | None]:
        """See Publisher.stored_offsets; one question of an instance at a time."""
        places = [partition_digest(each) for each in partitions]
        if not places:
            return []
        waiting = _Waiting(set(places), asyncio.get_running_loop().create_future())
        self._waiting[name, generation] = waiting
        self._tell(name, generation, partitions)
        try:
            await waiting.done
        except asyncio.CancelledError:
            self._tell(name, generation, ())
            raise
        finally:
            del self._waiting[name, generation]
        return [waiting.found[place] for place in places]

    def stored(self, payload: bytes) -> None:
        """An answer, whole or in part; one to an older question counts as far as it is asked again."""
        name, generation, rows = json.loads(payload)
        waiting = self._waiting.get((name, generation))
        if waiting is None:
            return
        for partition, offset in rows:
            place = partition_digest(partition)
            if place in waiting.missing:
                waiting.missing.remove(place)
                waiting.found[place] = offset
        if not waiting.missing and not waiting.done.done():
            waiting.done.set_result(None)


@dataclass(frozen=True, slots=True)
class _Open:
    generation: int
    partitions: dict[bytes, SourcePartition]


class OpenOffsetRequests:
    """Of the HTTP process: what shims are asked for, by connector."""

    def __init__(self, wake: Callable[[str], None]) -> None:
        """`wake` has the polls of a connector answered that are held."""
        self._wake = wake
        self._open: dict[str, _Open] = {}

    def asked(self, name: str, generation: int, partitions: Sequence[SourcePartition]) -> None:
        known = self._open.get(name)
        if known is not None and generation < known.generation:
            return
        self._open[name] = _Open(generation, {partition_digest(each): each for each in partitions})
        if partitions:
            self._wake(name)

    def next(self, name: str) -> list[SourcePartition]:
        """What the next answer to a poll asks for."""
        known = self._open.get(name)
        return [] if known is None else list(known.partitions.values())[:AT_ONCE]

    def answered(
        self, name: str, entries: Iterable[StoredOffset]
    ) -> tuple[int, list[SourcePartitionOffset]] | None:
        """The generation that has asked, and what of the answer it still waits for; None when that is nothing."""
        known = self._open.get(name)
        if known is None:
            return None
        rows: list[SourcePartitionOffset] = [
            (partition, entry.source_offset)
            for entry in entries
            if (partition := known.partitions.pop(partition_digest(entry.source_partition), None)) is not None
        ]
        return (known.generation, rows) if rows else None

    def forget(self, name: str) -> None:
        self._open.pop(name, None)

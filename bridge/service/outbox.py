"""Records on their way to Connect, per task and bounded. Group offsets have none; checkpoints and
heartbeats will."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from bridge.protocol.messages import Record

MOST_RECORDS = 10_000


class Outbox:
    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], deque[Record]] = {}

    def offer(self, name: str, task: int, records: Iterable[Record]) -> int:
        """How many were taken; the rest is to be offered again after the next poll."""
        queue = self._queues.setdefault((name, task), deque())
        taken = 0
        for record in records:
            if len(queue) >= MOST_RECORDS:
                break
            queue.append(record)
            taken += 1
        return taken

    def take(self, name: str, task: int, most: int) -> list[Record]:
        queue = self._queues.get((name, task))
        if queue is None:
            return []
        return [queue.popleft() for _ in range(min(most, len(queue)))]

    def forget(self, name: str) -> None:
        for key in [key for key in self._queues if key[0] == name]:
            del self._queues[key]

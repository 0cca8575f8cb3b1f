"""What a slice does when its copier ends before the lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.model.values import LogRecord
from bridge.pipeline.layouts.records import LayoutRecord, SliceReport, layout_key
from bridge.pipeline.layouts.slots import CAUGHT_UP, Slice
from bridge.pipeline.slices import lease, running
from bridge.pipeline.slices.resume import Disconnected
from tests.unit.pipeline.values import spec

LAYOUT = 7
SPEC = spec({"source.cluster.bootstrap.servers": "a:9092", "target.cluster.bootstrap.servers": "b:9092"})
LOST = "A connection to the target was lost"


class Idle:
    """A client, a tail or a producer of which nothing is asked."""

    def __init__(self, *_: object, **__: object) -> None:
        self.round_trip, self.most_decompressed = 0.0, 1

    async def read(self) -> None:
        await asyncio.Event().wait()

    async def start(self, *_: object, **__: object) -> None: ...

    async def close(self, **_: object) -> None: ...


class Attempts:
    """A slice whose connection to the target is lost `losses` times, `seconds` after it has begun to copy."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, losses: int, seconds: float) -> None:
        self.left, self.seconds = losses, seconds
        self.now = 0.0
        self.pauses = 0
        self.errors: list[str] = []
        attempts = self

        class Copier(Idle):
            async def run(self, settled: Callable[[], Awaitable[None]]) -> None:
                attempts.now += attempts.seconds
                if attempts.left:
                    attempts.left -= 1
                    raise Disconnected(LOST)
                await settled()

        class Reports(Idle):
            async def write(self, _: str, records: list[tuple[bytes, bytes]]) -> None:
                report = SliceReport.decode(records[0][1])
                assert report is not None
                attempts.errors.append(report.error)

        class Pauses(Idle):
            def next(self) -> float:
                attempts.pauses += 1
                return 0.0

            def reset(self) -> None: ...

        replaced: dict[str, Any] = {
            **dict.fromkeys(("NetworkClient", "TransactionalProducer"), Idle),
            "SyncProducer": Reports,
            "Copier": Copier,
            "Backoff": Pauses,
            "read_uncommitted": self._layouts,
            "read_committed": self._none,
            "take_over": self._none,
            "time": SimpleNamespace(monotonic=lambda: self.now, time=time.time),
        }
        for name, value in replaced.items():
            monkeypatch.setattr(running, name, value)
        monkeypatch.setattr(lease, "TopicTail", Idle)

    def run(self) -> str:
        return asyncio.run(running.copy_slice(Slice(SPEC, LAYOUT, 0, 3600.0, [], [])))

    async def _layouts(self, *_: object) -> list[LogRecord]:
        return [LogRecord(0, 0, layout_key(SPEC), LayoutRecord(LAYOUT, 1).value())]

    async def _none(self, *_: object, **__: object) -> list[LogRecord]:
        return []


def test_a_target_that_drops_connections_again_and_again_is_told_of_and_gets_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = Attempts(monkeypatch, losses=3, seconds=1)
    assert attempts.run() == CAUGHT_UP
    assert attempts.pauses == 3
    assert attempts.errors == [LOST, ""]


def test_a_lost_connection_now_and_then_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(monkeypatch, losses=3, seconds=600)
    assert attempts.run() == CAUGHT_UP
    assert not attempts.errors

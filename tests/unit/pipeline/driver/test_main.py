"""The driver process while Spark starts, which takes seconds."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import cast

import pytest

from bridge.model.copying import CopySample, PipelineState, PipelineStatus
from bridge.pipeline.driver import main as driver
from bridge.pipeline.driver.frames import LONGEST, pack_spec, pack_stop
from bridge.pipeline.driver.supervisor import Supervisor
from tests.unit.pipeline.values import spec


@pytest.mark.parametrize("end", [pack_stop(), b""], ids=["stop", "end of the input"])
def test_a_driver_that_is_to_end_does_not_wait_for_spark(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    """A node that gives its flow away, or ends, right after it has begun."""
    starting, released = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        starting.set()
        assert released.wait(60)

    async def run(output: int) -> None:
        reader = asyncio.StreamReader(limit=LONGEST)
        reader.feed_data(pack_spec(spec()))
        driving = asyncio.create_task(driver.drive(reader, output))
        assert await asyncio.to_thread(starting.wait, 60)
        reader.feed_data(end)
        reader.feed_eof()
        await driving

    monkeypatch.setattr(driver, "SparkJobs", slow)
    ours, theirs = os.pipe()
    try:
        asyncio.run(run(theirs))
        assert json.loads(os.read(ours, 65536).splitlines()[-1])["status"]["state"] == "starting"
    finally:
        released.set()
        os.close(ours)
        os.close(theirs)


class Unchanged:
    """A supervisor whose status stays the same."""

    status = PipelineStatus(PipelineState.COPYING)

    def drain_samples(self) -> list[CopySample]:
        return []


def test_a_driver_whose_status_stays_the_same_says_now_and_then_that_it_is_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its launcher could not tell an idle copy from a driver that hangs."""
    monkeypatch.setattr(driver, "TELL", 0.001)
    ours, theirs = os.pipe()
    lines: list[bytes] = []

    async def run() -> None:
        ended = asyncio.Event()
        writing = asyncio.create_task(driver.write_status(cast(Supervisor, Unchanged()), theirs, ended))
        with os.fdopen(ours, "rb") as output:
            lines.extend([await asyncio.to_thread(output.readline) for _ in range(4)])
            ended.set()
            await writing

    try:
        asyncio.run(run())
    finally:
        os.close(theirs)
    status, *rest = map(json.loads, lines)
    assert status["status"]["state"] == "copying"
    assert rest == [{}, {}, {}]

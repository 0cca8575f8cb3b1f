"""The driver process while Spark starts, which takes seconds."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time

import pytest

from bridge.pipeline import driver
from bridge.pipeline.frames import LONGEST, pack_spec, pack_stop
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
        began = time.monotonic()
        asyncio.run(run(theirs))
        assert time.monotonic() - began < 50
        assert json.loads(os.read(ours, 65536).splitlines()[-1])["status"]["state"] == "starting"
    finally:
        released.set()
        os.close(ours)
        os.close(theirs)

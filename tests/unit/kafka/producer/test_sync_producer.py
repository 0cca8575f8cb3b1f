"""The producer of offset syncs: how soon it tries again what was not written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import producer_settings
from bridge.kafka.producer import producer
from bridge.kafka.producer.producer import KeyValue, SyncProducer
from bridge.model.values import Side

FAILURES = 16


class Flaky(SyncProducer):
    """Fails every other write; while one succeeds, the next record comes."""

    def __init__(self) -> None:
        super().__init__(producer_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": "127.0.0.1:1"}))
        self.written: list[KeyValue] = []
        self.all_written = asyncio.Event()
        self._fails = False

    async def write(self, topic: str, records: Sequence[KeyValue]) -> None:
        self._fails = not self._fails
        if self._fails:
            raise KafkaFailure(KafkaFault.UNREACHABLE, "away")
        self.written += records
        if len(self.written) < FAILURES:
            self.send(topic, [(b"%d" % len(self.written), b"")])
        else:
            self.all_written.set()


def test_a_failure_after_a_success_is_tried_again_as_soon_as_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer, "RETRY_SECONDS", (0.001, 60.0))

    async def go() -> list[KeyValue]:
        syncs = Flaky()
        syncs.send("syncs", [(b"0", b"")])
        async with asyncio.timeout(10.0):  # pauses that go on doubling take a minute
            await syncs.all_written.wait()
        await syncs.close()
        assert syncs.failed is None
        return syncs.written

    assert asyncio.run(go()) == [(b"%d" % number, b"") for number in range(FAILURES)]

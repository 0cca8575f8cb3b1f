"""Writes, while a connector copies, a record of its task to the readiness topic: other services that know the connector
and run none of its tasks read there that it goes on elsewhere."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from bridge.errors import KafkaFailure
from bridge.model.state_records.readiness_records import RecordKey, TaskRecord, encode
from bridge.model.values import Side
from connectors.cluster_away import ClusterAway
from connectors.source.cluster_calls import Sides
from connectors.writer import PROCESS

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two records."""
AGAIN = 60.0
"""Seconds after an attempt that failed: where no group connector has made the topic, or a right is missing."""


class RunningRecord:
    """The record of one connector. `copies`: whether it copies now. Never makes the topic, which belongs to connectors
    of groups, and fails nothing: without the record other services answer as if the connector were stopped."""

    def __init__(self, connector: str, topic: str, sides: Sides, copies: Callable[[], bool]) -> None:
        self._key = RecordKey(connector, TaskRecord.kind, "0").encode()
        self._topic, self._sides, self._copies = topic, sides, copies

    async def repeat(self) -> None:
        """Writes the record again and again, until cancelled."""
        while True:
            pause = EVERY
            try:
                if self._copies() and not await self._write():
                    pause = AGAIN
            except (ClusterAway, KafkaFailure) as problem:
                log.debug("can't write that the connector copies, trying again later: %s", problem)
                pause = AGAIN
            await asyncio.sleep(pause)

    async def _write(self) -> bool:
        described, _ = await self._sides.topics(Side.TARGET, [self._topic])
        if described.get(self._topic) is None:
            return False
        value = encode(TaskRecord(int(time.time() * 1000), 1, int(EVERY * 1000), PROCESS))
        append = self._sides.cluster(Side.TARGET).append(self._topic, [(self._key, value)])
        await self._sides.ask(Side.TARGET, append)
        return True

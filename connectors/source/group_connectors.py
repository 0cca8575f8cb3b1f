"""Reads in the readiness topic which connectors follow the groups of the flow: a service that runs none of them knows
them so, and what they have written there of groups."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from bridge.errors import KafkaFault
from bridge.mm2.records import SchemaError
from bridge.model.state_records.readiness_records import TaskRecord, decode_key, decode_value, tell_all
from bridge.model.values import LogRecord, Side
from connectors.cluster_away import ClusterAway
from connectors.source.cluster_calls import Sides

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two looks."""


class GroupConnectors:
    """The connectors of one flow that follow groups, whichever service runs them. A record that can't be read counts
    for no connector: those who follow groups count and log it."""

    def __init__(self, topic: str, sides: Sides) -> None:
        self._topic, self._sides = topic, sides
        self._tail = sides.cluster(Side.TARGET).tail(topic)
        self._tasks: dict[str, dict[str, TaskRecord]] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        """By connector, the oldest time of its tasks (ms), and when that was seen first (monotonic ms)."""
        self.looked = False
        self.remark: str | None = None
        """Why the topic can't be read."""

    async def repeat(self) -> None:
        """Looks again and again, until cancelled."""
        while True:
            try:
                await self.look()
            except ClusterAway as away:
                log.debug("can't read which connectors follow groups, trying again: %s", away.failure)
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Reads what is new. Raises ClusterAway."""
        try:
            while True:
                part = await self._sides.ask(Side.TARGET, self._tail.read())
                if part.restarted:
                    self._tasks.clear()
                for record in part.records:
                    self._apply(record)
                if part.at_end:
                    break
            self.remark = None
        except ClusterAway as away:
            fault = away.failure.fault
            if fault not in (KafkaFault.UNKNOWN_TOPIC, KafkaFault.NOT_AUTHORIZED):
                raise
            self._tasks.clear()
            denied = fault is KafkaFault.NOT_AUTHORIZED
            self.remark = f"{self._topic} can't be read: {away.failure}" if denied else None
        self.looked = True
        now_ms, before = int(time.monotonic() * 1000), self._seen
        self._seen = {}
        for name, tasks in self._tasks.items():
            if tell_all(tasks):
                as_of_ms = min(task.as_of_ms for task in tasks.values())
                last = before.get(name)
                self._seen[name] = last if last is not None and last[0] == as_of_ms else (as_of_ms, now_ms)

    @property
    def known(self) -> Mapping[str, tuple[int, int, int]]:
        """Of each connector the time of its last round, its interval, and when that was seen first, by the monotonic
        clock (ms)."""
        return {
            name: (as_of_ms, max(record.interval_ms for record in self._tasks[name].values()), seen_ms)
            for name, (as_of_ms, seen_ms) in self._seen.items()
        }

    def _apply(self, record: LogRecord) -> None:
        try:
            key = decode_key(record.key)
            if key.kind != TaskRecord.kind:
                return
            tasks = self._tasks.setdefault(key.connector, {})
            tasks.pop(key.name, None)
            value = None if record.value is None else decode_value(key, record.value)
        except SchemaError as problem:
            log.debug("record %d of %s is left out: %s", record.offset, self._topic, problem)
            return
        if isinstance(value, TaskRecord):
            tasks[key.name] = value

"""Runs one connector of a flow at the service, by the messages of its HTTP contract: starts it with one task, polls,
writes what polls bring, acknowledges it.

That is what a Connect worker and the shim do for a connector (BridgeSourceTask, TaskSession). The service spreads
groups over tasks so that workers share them; here one node runs the whole flow.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from bridge import PROTOCOL, VERSION
from bridge.backoff import Backoff
from bridge.errors import BridgeError, ConfigRejected, Fenced, KafkaFailure, KafkaFault, NotFound
from bridge.protocol.messages import (
    PollRequest,
    PollResponse,
    Record,
    StartConnector,
    StartTask,
    StoredOffset,
)
from bridge.service.service import Service

log = logging.getLogger(__name__)

HOLD_MS = 1_000
TASK = 0
_EMPTY_SECONDS = 0.1
"""Between polls that the service answers at once and without records."""
_FIRST_PAUSE, _MOST_PAUSE = 0.2, 5.0
_STOP_SECONDS = 20.0
"""What is copied but not committed yet takes this long at most (bridge.pipeline.driver.launch)."""
_OVER = ("stopped", "failed", "caught_up")


class Writing(Protocol):
    async def write(self, records: Sequence[Record]) -> None: ...


class Offsets(Protocol):
    async def of(self, partitions: Sequence[Mapping[str, str | int]]) -> list[StoredOffset]: ...


class ConnectorRun:
    """Runs one connector of a flow. `fenced_seconds`: how long to wait after another node has fenced this one: by then
    the group has told this node."""

    def __init__(
        self,
        service: Service,
        name: str,
        kind: str,
        config: Mapping[str, str],
        writer: Writing,
        offsets: Offsets,
        fenced_seconds: float,
    ) -> None:
        self.name, self._kind = name, kind
        self._config: dict[str, str | None] = {**config, "name": name}
        self._service, self._writer, self._offsets = service, writer, offsets
        self._fenced_seconds = fenced_seconds
        self._began = time.monotonic()
        self._session: str | None = None
        self._backoff = Backoff(_FIRST_PAUSE, _MOST_PAUSE)
        self._failed = False
        self.problem: str | None = None
        """Why it does nothing; None while it works."""

    async def run(self) -> None:
        """Runs until cancelled; returns early only where the service rejects the configuration."""
        while True:
            try:
                await self._serve()
            except ConfigRejected as error:
                self._unwell(str(error))
                return
            except (NotFound, Fenced) as error:
                self._session = None
                log.info("session lost, starting a new one: %s", error, extra={"connector": self.name})
            except BridgeError as error:
                self._unwell(str(error))
            await asyncio.sleep(self._backoff.next())

    async def stop(self) -> None:
        """Ends the connector at the service, waits until its last copies are committed, and forgets it: records that
        wait would be written behind those of the next node, should the flow come back."""
        session, service = self._session, self._service
        if session is not None:
            with contextlib.suppress(NotFound, Fenced):
                service.stop_connector(self.name, session)
            with contextlib.suppress(NotFound, Fenced):
                service.stop_task(self.name, TASK, session)
        for _ in range(int(_STOP_SECONDS / _EMPTY_SECONDS)):
            if not self._copies():
                break
            await asyncio.sleep(_EMPTY_SECONDS)
        with contextlib.suppress(BridgeError):
            service.forget_connector(self.name)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _copies(self) -> bool:
        totals = self._service.snapshots.connector(self.name).copying.totals
        return totals is not None and totals.partitions > 0 and totals.state not in _OVER

    async def _serve(self) -> None:
        service = self._service
        if self._session is None:
            self._session = service.sessions.begin(int((time.monotonic() - self._began) * 1e6))
        session = self._session
        await service.start_connector(
            self.name,
            StartConnector(
                session=session, kind=self._kind, config=self._config, version=VERSION, protocol=PROTOCOL
            ),
        )
        await service.start_task(
            self.name,
            TASK,
            StartTask(
                session=session,
                kind=self._kind,
                task_count=1,
                config=self._config,
                version=VERSION,
                protocol=PROTOCOL,
            ),
        )
        request = PollRequest(session=session, wait_ms=HOLD_MS, offsets=[])
        while True:
            polled = await service.poll(self.name, TASK, request)
            answer = PollResponse.model_validate_json(polled.body)
            self._note(answer.failure)
            offsets = await self._stored(answer.offsets_of)
            if answer.records:
                await self._write(session, answer.records)
            elif polled.held_ms == 0 and not offsets:
                await asyncio.sleep(_EMPTY_SECONDS)
            request = PollRequest(session=session, wait_ms=HOLD_MS, batch=answer.batch, offsets=offsets)

    async def _stored(self, partitions: Sequence[Mapping[str, str | int]]) -> list[StoredOffset]:
        """Reads stored offsets; none where they can't be read now: the service asks again."""
        if not partitions:
            return []
        try:
            stored = await self._offsets.of(partitions)
        except KafkaFailure as failure:
            self._unwell(str(failure))
            await asyncio.sleep(self._backoff.next())
            return []
        self._well()
        return stored

    async def _write(self, session: str, records: Sequence[Record]) -> None:
        """Writes them, retrying until done. Renews the lease meanwhile: the connector is not paused."""
        while True:
            try:
                await self._writer.write(records)
                break
            except KafkaFailure as failure:
                self._unwell(str(failure))
                fenced = failure.fault is KafkaFault.FENCED
            # A node that was shut out has lost the flow, and is told so within the session timeout.
            pause = self._fenced_seconds if fenced else self._backoff.next()
            await asyncio.sleep(pause)
            await self._service.ack(self.name, TASK, session, [])
        self._well()
        last = {_text(record.source_partition): record for record in records}
        await self._service.ack(self.name, TASK, session, [_ack(record) for record in last.values()])

    def _note(self, failure: str | None) -> None:
        if failure is not None and not self._failed:
            log.error(
                "connector failed, and stays stopped until the flow is restarted: %s",
                failure,
                extra={"connector": self.name},
            )
        elif failure is None and self._failed:
            self._well()
        self._failed = failure is not None
        self.problem = failure or self.problem

    def _unwell(self, why: str) -> None:
        if self.problem is None:
            log.warning("connector failed, retrying: %s", why, extra={"connector": self.name})
        self.problem = why

    def _well(self) -> None:
        if self.problem is not None:
            log.info("connector recovered", extra={"connector": self.name})
        self.problem = None
        self._backoff.reset()


def _text(partition: Mapping[str, str | int]) -> str:
    return json.dumps(partition, sort_keys=True)


def _ack(record: Record) -> dict[str, object]:
    return {
        "source_partition": record.source_partition,
        "source_offset": record.source_offset,
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp,
    }

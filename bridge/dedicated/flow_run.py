"""Runs a flow on this node while it is this node's: all of its connectors, from when Kafka gives it until it takes it
away.

Runs one connector of a flow at the service, by the messages of its HTTP contract: starts it with one task, polls,
writes what polls bring, acknowledges it.

That is what a Connect worker and the shim do for a connector (BridgeSourceTask, TaskSession). The service spreads
groups over tasks so that workers share them; here one node runs the whole flow.

Writes the records of a flow's polls, checkpoints and heartbeats, to its target: all in-sync replicas, in order.

By transactions of one id for each flow: a node that takes the flow over shuts the one before out, so that a node that
was paused can't put an old checkpoint behind a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.cimpl import Message

from bridge import PROTOCOL, VERSION
from bridge.backoff import Backoff
from bridge.dedicated.config.plan import FlowPlan, WorkerSettings
from bridge.dedicated.membership import Members, Membership, TargetGroups
from bridge.dedicated.stock_offsets import StoredOffsets
from bridge.errors import BridgeError, ConfigRejected, Fenced, KafkaFailure, KafkaFault, NotFound
from bridge.kafka.config.sasl import Setting
from bridge.kafka.config.settings import RECONNECT, library_settings
from bridge.kafka.config.tokens import obtain_first
from bridge.kafka.protocol.errors import failure, not_allowed_to_write, of_exception
from bridge.model.values import Side
from bridge.protocol.messages import (
    FlowStatus,
    PollRequest,
    PollResponse,
    Record,
    StartConnector,
    StartTask,
    StoredOffset,
)
from bridge.service.answers.status import ELSEWHERE, RUNNING, WAITING
from bridge.service.service import Service

log = logging.getLogger(__name__)


HOLD_MS = 1_000
TASK = 0
_EMPTY_SECONDS = 0.1
"""Between polls that the service answers at once and without records."""
_FIRST_POLL_PAUSE, _MOST_POLL_PAUSE = 0.2, 5.0
_STOP_SECONDS = 20.0
"""What is copied but not committed yet takes this long at most (bridge.pipeline.driver.launch)."""
_OVER = ("stopped", "failed", "caught_up")
_LIBRARY = logging.getLogger("librdkafka")
_SECONDS = 30.0
"""For which a transaction may take; the broker ends one of a node that is gone after twice that."""
_DOING = "write checkpoints and heartbeats"
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_FIRST_PAUSE, _MOST_PAUSE = 1.0, 30.0
_UNOWNED_SECONDS = 60.0
"""A flow may be without a node for this long, while groups are joined and nodes taken over from, without an alarm."""


class Writing(Protocol):
    async def write(self, records: Sequence[Record]) -> None: ...


class Offsets(Protocol):
    async def read(self, partitions: Sequence[Mapping[str, str | int]]) -> list[StoredOffset]: ...


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
        self._backoff = Backoff(_FIRST_POLL_PAUSE, _MOST_POLL_PAUSE)
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
            stored = await self._offsets.read(partitions)
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


class RecordWriter:
    """Used by one flow; each call writes all its records, or none and raises KafkaFailure."""

    def __init__(self, settings: Mapping[str, Setting], transactional_id: str) -> None:
        self._settings: dict[str, Any] = {
            **RECONNECT,
            **settings,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(2 * _SECONDS * 1000),
            "message.timeout.ms": int(_SECONDS * 1000),
            "linger.ms": 0,
            "log_level": 2,
        }
        self._denied: set[str] = set()
        """Topics that may not be written to, as far as the transaction has come."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._producer: Producer | None = None

    async def write(self, records: Sequence[Record]) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._write, records)
        except (KafkaException, BufferError) as error:
            raise self._failure(error) from None

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
        self._thread.shutdown(wait=False)

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _write(self, records: Sequence[Record]) -> None:
        self._denied.clear()
        try:
            producer = self._ready()
            producer.begin_transaction()
            for record in records:
                producer.produce(
                    record.topic,
                    value=_bytes(record.value),
                    key=_bytes(record.key),
                    partition=-1 if record.partition is None else record.partition,
                    timestamp=record.timestamp or 0,
                    headers=[(header.key, _bytes(header.value)) for header in record.headers],
                    on_delivery=self._delivered,
                )
            producer.commit_transaction(_SECONDS)
        except (KafkaException, BufferError):
            # The next producer of this id ends what this one has begun.
            self._drop()
            raise

    def _ready(self) -> Producer:
        if self._producer is None:
            obtain_first(self._settings)
            producer = Producer(self._settings, logger=_LIBRARY)
            self._producer = producer
            producer.init_transactions(_SECONDS)
        return self._producer

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._denied.add(message.topic() or "")

    def _failure(self, error: BaseException) -> KafkaFailure:
        if self._denied:
            return not_allowed_to_write(self._denied, _DOING)
        cause = error.args[0] if isinstance(error, KafkaException) else None
        if isinstance(cause, KafkaError) and cause.code() in _FENCED:
            return failure(KafkaFault.FENCED, _DOING, "another node has taken the flow over")
        if isinstance(error, BufferError):
            return failure(KafkaFault.OTHER, _DOING, str(error))
        return of_exception(error, _DOING, f"WRITE on transactional id {self._settings['transactional.id']}")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def connector_names(flow: FlowPlan) -> list[str]:
    """Names at the service: stock's are the same in every flow."""
    return [f"{flow.name}.{connector.name}" for connector in flow.connectors]


def transactional_id(flow: FlowPlan) -> str:
    """Returns the transactional id for what is written beside the copies; below the prefix of rights on the copy's
    own. Another one where the flow has heartbeats alone: a node of another file may copy it."""
    alias = flow.source.replace("%", "%25").replace("-", "%2D")
    return f"mirror-bridge-{alias}-{flow.name}-{'records' if flow.copies else 'heartbeats'}"


class FlowRun:
    """One flow of the file on this node, its own or not. For use in one event loop."""

    def __init__(
        self, service: Service, flow: FlowPlan, worker: WorkerSettings, groups: TargetGroups, node: str
    ) -> None:
        self.flow, self._worker, self._groups, self._node = flow, worker, groups, node
        self._service = service
        props = flow.connectors[0].config
        self._reading = library_settings(Side.TARGET, "consumer", props)
        self._writing = library_settings(Side.TARGET, "producer", props)
        self._membership = Membership(flow.name, self._reading, worker, node, self)
        self._joining: asyncio.Task[None] | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._runs: Sequence[ConnectorRun] = ()
        self._changing = asyncio.Lock()
        self._own = False
        self._since_ms: int | None = None
        self._unowned_since: float | None = None
        self._kept_out: str | None = None
        self._counted = False
        """By the group, since this node has joined it."""
        self._lost = False
        """Whether the group may have given the flow away, and has not said so."""
        self._answered: float | None = None
        """Since then: when it was asked first and answered (monotonic seconds)."""
        self.members: Members | None = None
        """As the cluster said last; None while it has said nothing."""

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._joining = asyncio.create_task(self._join(), name=f"joining the group of {self.flow.name}")

    async def close(self) -> None:
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.wait({self._joining})
        await self._membership.leave()
        # A flow that was lost ends by itself, and nobody has waited for it.
        await self.released()

    def give_up(self) -> None:
        log.info("flow %s: leaving its group so that a node with fewer flows takes it", self.flow.name)
        self._membership.give_up()

    @property
    def own(self) -> bool:
        return self._own

    async def look(self) -> None:
        """Asks the cluster who runs the flow."""
        try:
            self.members = await self._groups.members(self._worker.group)
        except KafkaFailure:
            self.members = None
            return
        # A connection that was lost for a moment changes nothing in the group, and its members hear nothing.
        if self._node in self.members.nodes:
            self.joined()
        if self._lost and self._given_away(self.members):
            self._ending = asyncio.create_task(self.released(), name=f"end of {self.flow.name}")

    def _given_away(self, members: Members) -> bool:
        """Whether the group has given the flow to another node, or does not count this one although it could have come
        back by now."""
        now = time.monotonic()
        self._answered = now if self._answered is None else self._answered
        absent = self._node not in members.nodes and now - self._answered > self._worker.session_ms / 1000
        return absent or self._owner() is not None

    def status(self) -> FlowStatus:
        owner = self._owner()
        state = RUNNING if self._own else ELSEWHERE if owner is not None else WAITING
        problems = [run.problem for run in self._runs if run.problem is not None]
        detail = "; ".join(dict.fromkeys(problems)) if self._own and problems else None
        if not self._own and self._kept_out is not None:
            detail = f"this node can't take it over: {self._kept_out}"
        elif self._unowned(state) > _UNOWNED_SECONDS:
            detail = f"no node has run this flow for {_UNOWNED_SECONDS:.0f} s: see the nodes' logs"
        return FlowStatus(
            flow=self.flow.name,
            source=self.flow.source,
            target=self.flow.target,
            copies=self.flow.copies,
            state=state,
            node=self._node if self._own else owner,
            since_ms=self._since_ms if self._own else None,
            connectors=connector_names(self.flow),
            detail=detail,
        )

    def _unowned(self, state: str) -> float:
        """Seconds for which no node is known to run the flow."""
        if state != WAITING:
            self._unowned_since = None
            return 0.0
        now = time.monotonic()
        self._unowned_since = now if self._unowned_since is None else self._unowned_since
        return now - self._unowned_since

    # -- Candidate -----------------------------------------------------------------------------------------------------

    def acquired(self) -> None:
        self._lost = False
        if self._own:
            log.info("flow %s has stayed on this node", self.flow.name)
            return
        self._own, self._since_ms = True, int(time.time() * 1000)
        log.info("flow %s runs on this node from now on", self.flow.name)
        self._beginning = asyncio.create_task(self._begin(), name=f"beginning of {self.flow.name}")

    async def released(self) -> None:
        was, self._own, self._lost = self._own, False, False
        async with self._changing:
            running, self._running = self._running, None
            if running is None:
                return
            running.cancel()
            await asyncio.wait({running})
        if was:
            log.info("flow %s stopped on this node", self.flow.name)

    async def lost(self) -> None:
        """The flow goes on while the cluster does not answer: no other node gets it then, or it does and fences what
        this one writes. Who runs it once the cluster answers, the group says."""
        log.warning(
            "flow %s: this node was silent for the session timeout, and another one may run the flow by now",
            self.flow.name,
        )
        self._lost, self._answered = self._own, None
        await self.look()

    def joined(self) -> None:
        if self._kept_out is not None:
            log.info("flow %s: this node is in group %s again", self.flow.name, self._worker.group)
        self._kept_out, self._counted = None, True

    def kept_out(self, why: str) -> None:
        if self._kept_out is None:
            log.warning("flow %s: %s", self.flow.name, why)
        self._kept_out = why

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """Where the topic may not be made, joins too: somebody else may have made it. If nobody has, the right that is
        missing is waited for."""
        backoff, joining = Backoff(_FIRST_PAUSE, _MOST_PAUSE), False
        while not self._counted:
            try:
                await self._groups.create_topic(self._worker.topic, self._worker.topic_factor)
            except KafkaFailure as failure:
                self.kept_out(str(failure))
            else:
                if not joining:
                    self._membership.join()
                    joining = True
            await asyncio.sleep(backoff.next())

    async def _begin(self) -> None:
        async with self._changing:
            if self._own and self._running is None:
                self._running = asyncio.create_task(self._run(), name=f"flow {self.flow.name}")

    async def _run(self) -> None:
        backoff = Backoff(_FIRST_PAUSE, _MOST_PAUSE)
        while True:
            try:
                await self._run_connectors()
            except Exception:
                pause = backoff.next()
                log.exception(
                    "flow %s has ended on an unexpected error and starts again in %.0f s",
                    self.flow.name,
                    pause,
                )
                await asyncio.sleep(pause)

    async def _run_connectors(self) -> None:
        writer = RecordWriter(self._writing, transactional_id(self.flow))
        self._runs = [
            ConnectorRun(
                self._service,
                name,
                connector.kind,
                connector.config,
                writer,
                StoredOffsets(self._reading, self._worker.offsets_topic, connector.name),
                self._worker.session_ms / 1000,
            )
            for name, connector in zip(connector_names(self.flow), self.flow.connectors, strict=True)
        ]
        tasks = [asyncio.create_task(run.run(), name=run.name) for run in self._runs]
        try:
            await asyncio.gather(*tasks)
            await asyncio.Event().wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.gather(*(run.stop() for run in self._runs))
            self._runs = ()
            await writer.close()

    def _owner(self) -> str | None:
        """Returns the other node that runs the flow, as last known: the group may have given it the flow before this
        one was told."""
        owner = self.members.owner if self.members is not None else None
        return None if owner == self._node else owner

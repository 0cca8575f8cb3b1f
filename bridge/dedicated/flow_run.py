"""Runs a flow on this node while it is this node's: all of its connectors, from when Kafka gives it until it takes it
away."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from bridge.backoff import Backoff
from bridge.dedicated.config.plan import FlowPlan
from bridge.dedicated.config.worker_settings import WorkerSettings
from bridge.dedicated.connector_run import ConnectorRun
from bridge.dedicated.groups import TargetGroups
from bridge.dedicated.membership import Membership
from bridge.dedicated.record_writer import RecordWriter
from bridge.dedicated.sharing import Members
from bridge.dedicated.stored_offsets import StoredOffsets
from bridge.errors import KafkaFailure
from bridge.kafka.config.settings import library_settings
from bridge.model.values import Side
from bridge.protocol.messages import FlowStatus
from bridge.service.answers.status import ELSEWHERE, RUNNING, WAITING
from bridge.service.service import Service

log = logging.getLogger(__name__)

_FIRST_PAUSE, _MOST_PAUSE = 1.0, 30.0
_UNOWNED_SECONDS = 60.0
"""A flow may be without a node for this long, while groups are joined and nodes taken over from, without an alarm."""


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
        problems = [each.problem for each in self._runs if each.problem is not None]
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
        tasks = [asyncio.create_task(each.run(), name=each.name) for each in self._runs]
        try:
            await asyncio.gather(*tasks)
            await asyncio.Event().wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.gather(*(each.stop() for each in self._runs))
            self._runs = ()
            await writer.close()

    def _owner(self) -> str | None:
        """Returns the other node that runs the flow, as last known: the group may have given it the flow before this
        one was told."""
        owner = self.members.owner if self.members is not None else None
        return None if owner == self._node else owner

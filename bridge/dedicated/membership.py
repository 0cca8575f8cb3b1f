"""Makes this node a member of a flow's consumer group, by which Kafka gives the flow to one of the nodes.

The group follows a topic of one partition: whoever is assigned that one runs the flow. With cooperative-sticky a node
that joins takes nothing from one that runs. A node that leaves, or falls silent for the session timeout, loses the
partition to another one.

Decides which flow a node gives up so that nodes share them evenly. Pure.

Kafka's protocol alone says who runs a flow. But a node that comes later finds them all taken: so one that runs two
copying flows more than a member of one of their groups leaves that group for a moment, and the member gets the flow.

Asks a target cluster for the members of its flows' groups, and makes topics there.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from bridge.dedicated.config.plan import WorkerSettings
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.admin_client import AsyncAdminClient
from bridge.kafka.admin.topic_admin import create_compacted
from bridge.kafka.config.sasl import Setting
from bridge.kafka.config.settings import RECONNECT, ClientSettings
from bridge.kafka.config.tokens import obtain_first
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.error_codes import COORDINATOR_MOVED, Errors
from bridge.kafka.protocol.errors import failure, of_code
from bridge.kafka.protocol.group_requests import (
    CONSUMERS,
    DescribedGroup,
    describe_groups,
    read_described_groups,
)
from bridge.model.values import GroupState

log = logging.getLogger(__name__)


_LIBRARY = logging.getLogger("librdkafka")

LibrarySettings = Mapping[str, Setting]

_POLL_SECONDS = 0.5
_RELEASE_SHARE = 0.8
"""Of rebalance.timeout.ms, for which a rebalance waits for a flow to end: after all of it the group drops this node."""
REJOIN_SECONDS = 5.0
"""After the flow was given up: until then the group has given it to another member."""
_TOPIC = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART})
"""Errors of the topic, after which the client looks again in half a minute: a new one does at once."""
_PASSING = frozenset(
    {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT}
)
TIMEOUT_SECONDS = 20.0


class Candidate(Protocol):
    """Who would run the flow. All of it is called in the event loop."""

    def acquired(self) -> None:
        """Kafka has given the flow to this node."""

    async def released(self) -> None:
        """The flow goes to another node once this returns."""

    async def lost(self) -> None:
        """The group has not heard of this node for the session timeout: it may have given the flow away."""

    def joined(self) -> None:
        """The group counts this node, whether or not the flow is its own."""

    def kept_out(self, why: str) -> None:
        """The group can't be joined, or its coordinator does not answer."""


class Membership:
    """A thread of its own: the client's calls block. Makes no call of the event loop after `leave`."""

    def __init__(
        self, flow: str, settings: LibrarySettings, worker: WorkerSettings, node: str, candidate: Candidate
    ) -> None:
        self._flow, self._candidate = flow, candidate
        self._topic = worker.topic
        self._settings: dict[str, Any] = {
            **settings,
            "client.id": node,
            "group.id": worker.group,
            "session.timeout.ms": worker.session_ms,
            "heartbeat.interval.ms": worker.heartbeat_ms,
            "max.poll.interval.ms": worker.rebalance_ms,
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "latest",
            **RECONNECT,
            "topic.metadata.refresh.interval.ms": 30_000,
            # Below the level of its lines about brokers that are away, one per attempt.
            "log_level": 2,
            "error_cb": self._on_error,
        }
        self._release_seconds = _RELEASE_SHARE * worker.rebalance_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._ending, self._giving_up, self._anew = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"group of {flow}", daemon=True)

    def join(self) -> None:
        self._thread.start()

    def give_up(self) -> None:
        """Leaves the group, so that another member gets the flow, and joins it again."""
        self._giving_up.set()

    async def leave(self) -> None:
        """Releases the flow and leaves the group at once."""
        self._ending.set()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending.is_set():
            consumer = self._made()
            if consumer is None:
                self._ending.wait(REJOIN_SECONDS)
                continue
            try:
                consumer.subscribe(
                    [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
                )
                while not any(event.is_set() for event in (self._ending, self._giving_up, self._anew)):
                    message = consumer.poll(_POLL_SECONDS)
                    if message is not None and (error := message.error()) is not None:
                        self._on_error(error)
            except KafkaException as failed:
                self._on_error(failed.args[0])
            finally:
                consumer.close()
            if self._giving_up.is_set() or self._anew.is_set():
                self._giving_up.clear()
                self._anew.clear()
                self._ending.wait(REJOIN_SECONDS)

    def _made(self) -> Consumer | None:
        """Makes a consumer; None where there is no token to log in with."""
        try:
            obtain_first(self._settings)
            return Consumer(self._settings, logger=_LIBRARY)
        except KafkaFailure as failure:
            why = str(failure)
        except KafkaException as failed:
            why = failed.args[0].str()
        self._post(lambda: self._candidate.kept_out(why))
        return None

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._post(self._candidate.joined)
        for partition in partitions:
            partition.offset = OFFSET_END
        consumer.incremental_assign(partitions)
        if partitions:
            consumer.pause(partitions)  # nothing in the topic concerns us
        # Where somebody has made the topic with more partitions, only one of them stands for the flow.
        if any(partition.partition == 0 for partition in partitions):
            self._post(self._candidate.acquired)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if any(partition.partition == 0 for partition in partitions):
            done = asyncio.run_coroutine_threadsafe(self._candidate.released(), self._loop)
            try:
                done.result(self._release_seconds)
            except TimeoutError:
                log.warning(
                    "flow %s has not stopped within %.0f s of being revoked",
                    self._flow,
                    self._release_seconds,
                )
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Nobody waits: the group does not."""
        if any(partition.partition == 0 for partition in partitions):
            asyncio.run_coroutine_threadsafe(self._candidate.lost(), self._loop)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            why = (
                f"group {self._settings['group.id']} has members of another kind: a connect-mirror-maker.sh of this "
                "flow runs; stop it on all machines, and the flow goes on here where that one has stopped"
            )
        elif error.code() in _PASSING:
            why = f"the target cluster does not answer: {error.str()}"
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            why = f"{error.str()}: grant READ on group {self._settings['group.id']}"
        elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            why = f"there is no topic {self._topic}: grant CREATE on topic {self._topic}, or make it"
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            why = f"{error.str()}: grant READ on topic {self._topic}"
        else:
            why = error.str()
        if error.code() in _TOPIC:
            self._anew.set()
        self._post(lambda: self._candidate.kept_out(why))

    def _post(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(call)


class Members(NamedTuple):
    """The members of a flow's group: who has the flow, None for nobody, and the nodes that could have it."""

    owner: str | None
    nodes: frozenset[str]


def given_up(node: str, groups: Mapping[str, Members]) -> str | None:
    """Returns a flow of this node for another one to take; None where nobody has two less. `groups`: by flow, of all
    that copy."""
    load = Counter(group.owner for group in groups.values())
    for flow in sorted(groups):
        owner, nodes = groups[flow]
        if owner == node and any(load[other] + 2 <= load[node] for other in nodes):
            return flow
    return None


class TargetGroups:
    """One target cluster, with the login of its admin client."""

    def __init__(self, settings: ClientSettings) -> None:
        self._network = NetworkClient(settings.raw_admin)
        self._admin = AsyncAdminClient(settings.admin, self._network, TIMEOUT_SECONDS)

    async def close(self) -> None:
        await self._admin.close()
        await self._network.close()

    async def create_topic(self, topic: str, replication_factor: int, partitions: int = 1) -> None:
        """Creates a compacted topic where there is none. Raises KafkaFailure, but not where somebody else has to create
        it: whether it is there shows when the group is joined."""
        failed = await create_compacted(self._admin, topic, replication_factor, partitions)
        if failed is not None:
            raise failed

    async def members(self, group: str) -> Members:
        """Returns the nodes in a group. Raises KafkaFailure. A group that does not exist has none, nor has that of a
        connect-mirror-maker.sh: its members are workers of Connect, and their assignments no consumers'."""
        doing = f"describe group {group}"
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                described = await self._described(group, doing)
                if described.error in COORDINATOR_MOVED:
                    self._network.forget_coordinators([group])
                    described = await self._described(group, doing)
        except TimeoutError:
            raise failure(KafkaFault.TIMEOUT, doing, f"no answer within {TIMEOUT_SECONDS:g} s") from None
        failed = of_code(described.error, doing, f"DESCRIBE on group {group}")
        if failed is not None:
            raise failed
        if described.protocol_type != CONSUMERS:
            return Members(None, frozenset())
        owners = [member.client_id for member in described.members if member.has_partitions]
        nodes = frozenset(member.client_id for member in described.members)
        return Members(owners[0] if owners else None, nodes)

    async def _described(self, group: str, doing: str) -> DescribedGroup:
        nodes, errors = await self._network.coordinators([group])
        if group in errors:
            return DescribedGroup(errors[group], GroupState.UNKNOWN, (), 0)
        (coordinator,) = nodes
        try:
            response = await self._network.send(coordinator, describe_groups([group]), doing)
        except KafkaFailure:
            self._network.forget_coordinators([group])
            raise
        missing = DescribedGroup(Errors.UNKNOWN_SERVER_ERROR, GroupState.UNKNOWN, (), 0)
        return read_described_groups(response).get(group, missing)

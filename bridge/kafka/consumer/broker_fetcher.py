"""The fetching from one broker: one request at a time, which waits there for records when there are none."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.fetch_result import FetchPosition
from bridge.kafka.consumer.fetch_session import FetchSession
from bridge.kafka.errors import of_code
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.in_flight import Window
from bridge.kafka.network.round_trip import UNKNOWN, quickest, stretched
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.log_requests import FetchParams, FetchPartition, PartitionData
from bridge.model.values import TopicPartition

_HURRY = 0.01
"""Seconds for which a broker's other partitions wait while records of some are in hand: all are asked for together
when these are done soon, and without them, for as short a time, when not."""
PAUSE_SECONDS = (0.05, 2.0)
"""Seconds: the first pause before a partition is tried again, and the longest."""
_IDS_FROM = 13
"""Fetch version that names topics by id."""


class FetchConfig(NamedTuple):
    """Of fetches; sizes in bytes."""

    committed_only: bool
    max_wait_ms: int
    max_bytes: int
    partition_bytes: int


class Owner(Protocol):
    """Whoever knows the partitions of all brokers."""

    @property
    def names(self) -> dict[str, str]:
        """Topics by their ids; empty where fetches go by name."""

    @property
    def room(self) -> int:
        """Bytes that may be fetched now."""

    def rack(self, node: int) -> str:
        """What that node is told of where we are."""

    async def take(self, tp: TopicPartition, got: PartitionData) -> None: ...

    def node_failed(self, node: FetchNode, error: KafkaFailure) -> None: ...


class FetchNode:
    """Partitions that are fetched from one broker."""

    def __init__(self, client: NetworkClient, number: int, config: FetchConfig, owner: Owner) -> None:
        self._client, self._number, self._config, self._owner = client, number, config, owner
        self._session = FetchSession()
        self._in_hand: set[TopicPartition] = set()
        self._large: dict[TopicPartition, int] = {}
        """Bytes to ask for where a batch was larger than what was asked for, with room for larger ones: such a batch
        comes alone in an answer, and those of all other partitions not at all."""
        self._window = Window()
        """How much an answer may hold: what the broker has sent in time. One that is too large for the way here would
        be given up and asked for again, for ever."""
        self._round_trip = UNKNOWN
        """Seconds that the quickest answer took."""
        self._changed = asyncio.Event()
        self.tps: set[TopicPartition] = set()
        self.by_name = False
        """Whether the broker is too old to be asked by topic id."""

    def want(self, tp: TopicPartition, topic_id: str, offset: int, last_epoch: int) -> None:
        self.tps.add(tp)
        self._in_hand.discard(tp)
        size = stretched(self._config.partition_bytes, self._round_trip, self._config.max_bytes)
        size = max(size, self._large.get(tp, 0))
        self._session.want(tp, FetchPartition(topic_id, offset, size, last_epoch))
        self._changed.set()

    def hand_out(self, tp: TopicPartition) -> None:
        """Its records are worked on: not asked for again until `want`."""
        self._session.drop(tp)
        self._in_hand.add(tp)

    def drop(self, tp: TopicPartition) -> None:
        self._session.drop(tp)
        self._in_hand.discard(tp)
        self.tps.discard(tp)
        self._changed.set()

    def wake(self) -> None:
        """There is room again."""
        self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            if not self._session or self._owner.room <= 0:
                await self._changed.wait()
            elif self._in_hand and await happens(self._changed, _HURRY):
                continue
            else:
                await self._fetch()

    async def _fetch(self) -> None:
        config, doing = self._config, "fetch"
        plan = self._session.plan()
        rack, most = self._owner.rack(self._number), min(self._owner.room, self._window.size)
        wait_ms = int(_HURRY * 1000) if self._in_hand else config.max_wait_ms
        call = log_requests.fetch(
            plan.parts,
            committed_only=config.committed_only,
            by_id=bool(self._owner.names),
            params=FetchParams(wait_ms, most, plan.session, plan.epoch, plan.forgotten, rack),
        )
        began = time.monotonic()
        try:
            answer = await self._client.send_bulk(
                self._number,
                call,
                lambda reader: log_requests.read_fetch_response(reader, call.API_VERSION, self._owner.names),
                doing,
            )
            took = time.monotonic() - began
            self._round_trip = quickest(self._round_trip, took)
            self.by_name = call.API_VERSION < _IDS_FROM
            if not self._session.answered(answer.error, answer.session):
                return
            failed = of_code(answer.error, doing)
            if failed is not None:
                raise failed
        except KafkaFailure as error:
            if error.fault is KafkaFault.TIMEOUT:
                self._window.timed_out()
            self._session.reset()
            self._owner.node_failed(self, error)
            return
        size = sum(len(got.records) for got in answer.parts.values())
        self._window.answered(size, size, took, self._round_trip)
        for tp, got in answer.parts.items():
            told = self._session.told(tp)
            # What is set, dropped or in hand since the request was sent, the answer is not about.
            if told is not None and self._session.wanted(tp) is told:
                if len(got.records) > told.max_bytes:
                    self._large[tp] = 2 * len(got.records)
                await self._owner.take(tp, got)


@dataclass(eq=False, slots=True)
class PartitionState:
    """One partition that is fetched, wherever from."""

    topic_id: str
    offset: int
    last_epoch: int
    node: FetchNode | None = None
    in_hand: int = 0
    """Bytes that were fetched and are not done."""
    by_name: bool = False
    checked: FetchPosition | None = None  # at the last `check`
    backoff: Backoff = field(default_factory=lambda: Backoff(*PAUSE_SECONDS))
    """Before it is tried again."""
    doubted: float | None = None
    """Since when its topic seems to be gone, or another."""

    @property
    def position(self) -> FetchPosition:
        return FetchPosition(self.topic_id, self.offset, self.last_epoch)

    def healed(self) -> None:
        """Forgets the trouble that it had."""
        self.doubted = None
        self.backoff.reset()


async def happens(event: asyncio.Event, seconds: float) -> bool:
    """Whether it does within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True

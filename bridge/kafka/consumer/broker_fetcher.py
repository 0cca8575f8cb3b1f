"""Fetch requests to one broker: what each asks for, and how much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.fetch_session import FetchSession
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.in_flight import InFlightWindow
from bridge.kafka.network.round_trip import UNKNOWN, quickest, stretched
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.log_requests import FetchParams, FetchPartition, PartitionData
from bridge.model.values import TopicPartition

_BATCHING_SECONDS = 0.01
"""For which a broker's other partitions wait while records of some are in hand: all are asked for together when these
are done soon, and without them, for as short a time, when not."""
_TOPIC_IDS_FROM = 13
"""Fetch version that names topics by id."""


class FetchConfig(NamedTuple):
    """The settings of all fetches of a fetcher; sizes in bytes."""

    committed_only: bool
    max_wait_ms: int
    max_bytes: int
    partition_bytes: int


class BrokerFetcher:
    """Sends one fetch at a time: `ready`, then `fetch`. For use in one event loop."""

    def __init__(self, client: NetworkClient, node: int, config: FetchConfig) -> None:
        self._client, self.node, self._config = client, node, config
        self._session = FetchSession()
        self._in_hand: set[TopicPartition] = set()
        self._large: dict[TopicPartition, int] = {}
        """Bytes to ask for where a batch was larger than what was asked for, with room for larger ones: such a batch
        comes alone in a response, and those of all other partitions not at all."""
        self._window = InFlightWindow()
        """How much a response may hold: what the broker has sent in time. One that is too large for the network would
        time out and be asked for again, for ever."""
        self._round_trip = UNKNOWN
        """Seconds that the quickest response took."""
        self._changed = asyncio.Event()
        self.tps: set[TopicPartition] = set()
        """Those that are fetched from this broker, also while their records are in hand."""
        self.by_name = False
        """Whether the broker is too old to be asked by topic id."""

    def add(self, tp: TopicPartition, topic_id: str, offset: int, last_epoch: int) -> None:
        """Fetches the partition from there on."""
        self.tps.add(tp)
        self._in_hand.discard(tp)
        size = stretched(self._config.partition_bytes, self._round_trip, self._config.max_bytes)
        size = max(size, self._large.get(tp, 0))
        self._session.add(tp, FetchPartition(topic_id, offset, size, last_epoch))
        self._changed.set()

    def hand_out(self, tp: TopicPartition) -> None:
        """Its records are worked on: not asked for again until `add`."""
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

    async def ready(self, room: int) -> bool:
        """Whether to fetch now, with room for so many bytes. Else waits for a change, and is to be asked again."""
        self._changed.clear()
        if not self._session or room <= 0:
            await self._changed.wait()
            return False
        return not (self._in_hand and await happens(self._changed, _BATCHING_SECONDS))

    async def fetch(
        self, room: int, rack: str, topic_names: Mapping[str, str]
    ) -> Mapping[TopicPartition, PartitionData]:
        """Returns what the broker sends within `max_wait_ms`; nothing when it has lost the session. `topic_names`: by
        topic id; empty where fetches go by name. Raises KafkaFailure."""
        config, doing = self._config, "fetch"
        plan = self._session.plan()
        most = min(room, self._window.size)
        wait_ms = int(_BATCHING_SECONDS * 1000) if self._in_hand else config.max_wait_ms
        call = log_requests.fetch(
            plan.parts,
            committed_only=config.committed_only,
            by_id=bool(topic_names),
            params=FetchParams(wait_ms, most, plan.session, plan.epoch, plan.forgotten, rack),
        )
        began = time.monotonic()
        try:
            response = await self._client.send_bulk(
                self.node,
                call,
                lambda reader: log_requests.read_fetch_response(reader, call.API_VERSION, topic_names),
                doing,
            )
            took = time.monotonic() - began
            self._round_trip = quickest(self._round_trip, took)
            self.by_name = call.API_VERSION < _TOPIC_IDS_FROM
            if not self._session.answered(response.error, response.session):
                return {}
            failed = of_code(response.error, doing)
            if failed is not None:
                raise failed
        except KafkaFailure as error:
            if error.fault is KafkaFault.TIMEOUT:
                self._window.timed_out()
            self._session.reset()
            raise
        size = sum(len(data.records) for data in response.parts.values())
        self._window.acknowledged(size, size, took, self._round_trip)
        for tp, data in response.parts.items():
            sent = self._session.sent(tp)
            if sent is not None and len(data.records) > sent.max_bytes:
                self._large[tp] = 2 * len(data.records)
        return response.parts

    def is_current(self, tp: TopicPartition) -> bool:
        """Whether the last response is about what is fetched of a partition now: not if it was set, dropped or handed
        out since the request was sent."""
        sent = self._session.sent(tp)
        return sent is not None and self._session.partition(tp) is sent


async def happens(event: asyncio.Event, seconds: float) -> bool:
    """Whether it does within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True

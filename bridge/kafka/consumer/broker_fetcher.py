"""Fetch requests to one broker: what each asks for, and how much.

The incremental fetch session with one broker (KIP-227): requests that carry changes only.

Without one, a fetch of 1,000 idle partitions names them all, each time, and so does its response.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.in_flight import UNKNOWN, InFlightWindow, quickest, stretched
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.log_requests import FetchParams, FetchPartition, PartitionData
from bridge.model.values import TopicPartition

LAST_EPOCH = (1 << 31) - 1
_SESSION_LOST = {
    Errors.FETCH_SESSION_ID_NOT_FOUND,
    Errors.INVALID_FETCH_SESSION_EPOCH,
    Errors.FETCH_SESSION_TOPIC_ID_ERROR,
}
"""A new session is asked for."""
_BATCHING_SECONDS = 0.01
"""For which a broker's other partitions wait while records of some are in hand: all are asked for together when these
are done soon, and without them, for as short a time, when not."""
_TOPIC_IDS_FROM = 13
"""Fetch version that names topics by id."""


class SessionFetch(NamedTuple):
    """One request: partitions that are new or have moved, and those that are to be left out from now on."""

    session: int
    epoch: int
    parts: Mapping[TopicPartition, FetchPartition]
    forgotten: tuple[tuple[str, TopicPartition], ...]


class FetchSession:
    """One request at a time: `plan`, send, then `answered` or `reset`.

    A broker that has no room for a session answers id 0; every request to it names all partitions.
    """

    def __init__(self) -> None:
        self._id = self._epoch = 0
        self._partitions: dict[TopicPartition, FetchPartition] = {}
        self._sent: dict[TopicPartition, FetchPartition] = {}
        self._changed: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        """Whether there is a partition to fetch."""
        return bool(self._partitions)

    def add(self, tp: TopicPartition, part: FetchPartition) -> None:
        # Those that were served last come last in a full fetch, so that the first ones do not take all its bytes.
        self._partitions.pop(tp, None)
        self._partitions[tp] = part
        self._changed.add(tp)

    def drop(self, tp: TopicPartition) -> None:
        if self._partitions.pop(tp, None) is not None:
            self._changed.add(tp)

    def partition(self, tp: TopicPartition) -> FetchPartition | None:
        return self._partitions.get(tp)

    def sent(self, tp: TopicPartition) -> FetchPartition | None:
        """As the broker was asked last: what its responses are about."""
        return self._sent.get(tp)

    def plan(self) -> SessionFetch:
        if self._epoch == 0:
            self._sent = dict(self._partitions)
            self._changed.clear()
            return SessionFetch(0, 0, self._sent, ())
        parts, forgotten = {}, []
        for tp in self._changed:
            sent, part = self._sent.get(tp), self._partitions.get(tp)
            if sent is not None and (part is None or part.topic_id != sent.topic_id):
                forgotten.append((sent.topic_id, tp))
                del self._sent[tp]
            if part is not None:
                if part != sent:
                    parts[tp] = part
                # Also one that left and came back as it was: responses are about what is fetched now.
                self._sent[tp] = part
        self._changed.clear()
        return SessionFetch(self._id, self._epoch, parts, tuple(forgotten))

    def answered(self, error: int, session: int) -> bool:
        """Accepts the response's error and session id. False when the session is lost: the next request names all."""
        if error in _SESSION_LOST:
            self.reset()
            return False
        if self._epoch == 0:
            self._id, self._epoch = session, 1 if session else 0
        else:
            self._epoch = self._epoch + 1 if self._epoch < LAST_EPOCH else 1
        return True

    def reset(self) -> None:
        """The next request asks for a new session. Nobody closes the old one: the broker drops what is not used."""
        self._id = self._epoch = 0


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

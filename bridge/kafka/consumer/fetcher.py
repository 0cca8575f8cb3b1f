"""Raw batches of many partitions, as they arrive: a long poll to each leader, in an incremental session.

By topic id from Fetch v13 on. Older brokers know topics by name only: whoever copies from them calls `check` before it
counts on what it has, because a topic may have been deleted and made again between two fetches.

Which replica a partition is fetched from: the one that its leader names for our rack (KIP-392), else the leader.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure
from bridge.kafka.consumer.broker_fetcher import BrokerFetcher, FetchConfig, happens
from bridge.kafka.consumer.position_validation import (
    FetchError,
    FetchErrorKind,
    FetchPosition,
    errors_by_name,
    range_error,
    silence,
    topic_errors,
)
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.log_requests import PartitionData
from bridge.kafka.protocol.wire import BytesLike
from bridge.model.values import TopicPartition

__all__ = ["CompletedFetch", "FetchError", "FetchErrorKind", "FetchPosition", "Fetcher"]


_WITHOUT_RACK_SECONDS = 10.0
"""For which fetches from a leader carry no rack after a replica that it named has failed us. A leader that gets our
rack sends no records, but names the replica again, for as long as it takes it to be alive."""
UNKNOWN_TOPIC_SECONDS = 2.0
"""For which a broker may not know a topic (any more, or by this id) before we believe it: brokers learn of new topics
one after the other."""
RETRY_SECONDS = (0.05, 2.0)
"""The first pause before a partition is tried again, and the longest."""
SILENT_SECONDS = 10.0
"""After which a partition that stands still before the end of its log is asked for by itself."""
_SILENT_TIMES = 2
"""Times in a row that it comes empty until we believe it: a broker may give a slow disk, or tiered storage, up."""
_ASKED_AT_ONCE = 10
"""Partitions that are asked for by themselves: what they send counts for nothing."""


class _Preferred(NamedTuple):
    node: int
    until: float


class PreferredReplicas:
    """A preferred replica is kept for `lease` seconds, then the leader is asked again, as Java's consumer does each
    metadata.max.age.ms. Any error of a replica sends us back to the leader, which alone decides: a follower that lags
    knows less of the log, and may have an end below what was fetched."""

    def __init__(self, rack: str, lease: float, now: Callable[[], float]) -> None:
        self._rack, self._lease, self._now = rack, lease, now
        self._preferred: dict[TopicPartition, _Preferred] = {}
        self._failed: set[TopicPartition] = set()
        self._without_rack: dict[int, float] = {}
        """Until when, by leader."""

    def forget(self) -> None:
        self._preferred.clear()
        self._failed.clear()

    def rack(self, node: int) -> str:
        """Returns the rack that a fetch from the node carries."""
        return "" if self._now() < self._without_rack.get(node, 0.0) else self._rack

    def follow(self, tp: TopicPartition, node: int) -> None:
        """The leader has named the node."""
        self._preferred[tp] = _Preferred(node, self._now() + self._lease)

    def follows(self, tp: TopicPartition) -> bool:
        """Whether it is fetched from a replica that its leader has named."""
        return tp in self._preferred

    def fail(self, tp: TopicPartition) -> None:
        """Back to the leader, if it was fetched from another."""
        if self._preferred.pop(tp, None) is not None:
            self._failed.add(tp)

    def to_leader(self, tp: TopicPartition, leader: int) -> None:
        """It is fetched from its leader from now on."""
        self._preferred.pop(tp, None)
        if tp in self._failed:
            self._failed.discard(tp)
            self._without_rack[leader] = self._now() + _WITHOUT_RACK_SECONDS

    def expired(self) -> list[TopicPartition]:
        """Those whose leader is to be asked again."""
        now = self._now()
        return [tp for tp, preferred in self._preferred.items() if preferred.until <= now]

    @property
    def next_expiry(self) -> float:
        """When the next of them is."""
        return min((preferred.until for preferred in self._preferred.values()), default=float("inf"))


class CompletedFetch(NamedTuple):
    """One partition's share of a response, fetched at `offset`: complete batches, and perhaps the beginning of one
    more. `aborted`: (producer id, first offset) of aborted transactions, read_committed only. With `error` there are no
    records, and none come until the partition is assigned again."""

    tp: TopicPartition
    records: BytesLike
    offset: int
    aborted: Sequence[tuple[int, int]] = ()
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1
    error: FetchError | None = None


@dataclass(eq=False, slots=True)
class PartitionState:
    """One partition that is fetched, wherever from."""

    topic_id: str
    offset: int
    last_epoch: int
    broker: BrokerFetcher | None = None
    in_hand: int = 0
    """Bytes that were fetched and are not done."""
    by_name: bool = False
    checked: FetchPosition | None = None
    """The position at the last `check`."""
    backoff: Backoff = field(default_factory=lambda: Backoff(*RETRY_SECONDS))
    """Before it is tried again."""
    unknown_since: float | None = None
    """When brokers began not to know its topic, in monotonic time."""
    end: int = -1
    """Where what may be read of its log ended at the last response."""

    @property
    def behind(self) -> bool:
        """Whether more is to come, and nothing is in hand."""
        return self.broker is not None and not self.in_hand and self.offset < self.end

    @property
    def position(self) -> FetchPosition:
        return FetchPosition(self.topic_id, self.offset, self.last_epoch)

    def healed(self) -> None:
        """Forgets the errors before: the next one is tried again as soon as the first."""
        self.unknown_since = None
        self.backoff.reset()


class Fetcher:
    """Fetches the partitions that it is assigned.

    A partition whose records have come is fetched again when they are `done`; what has come and is not done stays below
    `max_bytes`, give or take a batch for each broker. `partition_bytes` are asked for near by, more over a distance.
    What time heals is tried again while other partitions go on; `errors` has the failure. For use in one event loop.
    """

    def __init__(
        self,
        client: NetworkClient,
        *,
        committed_only: bool,
        max_wait_ms: int = 500,
        max_bytes: int = 32 * 1024 * 1024,
        partition_bytes: int = 512 * 1024,  # twice as much costs a fifth more: memory is fresh then
    ) -> None:
        self._client = client
        self._config = FetchConfig(committed_only, max_wait_ms, max_bytes, partition_bytes)
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self._topic_names: dict[str, str] = {}
        """By topic id; empty where fetches go by name."""
        self._replicas = PreferredReplicas(client.rack, client.metadata_seconds, time.monotonic)
        self._brokers: dict[int, BrokerFetcher] = {}
        self._leaderless: dict[TopicPartition, float] = {}
        """When to look for the leader, in monotonic time."""
        self._leaderless_changed, self._completed_changed = asyncio.Event(), asyncio.Event()
        self._completed: list[CompletedFetch] = []
        self.bytes_in_hand, self._max_bytes = 0, max_bytes
        self._tasks: set[asyncio.Task[None]] = set()
        self._fatal: BaseException | None = None
        self.errors: dict[TopicPartition, KafkaFailure] = {}
        """Of partitions that are tried again."""

    async def start(self) -> None:
        self._run(self._look_for_leaders())
        self._run(self._look_for_silent())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def assign(self, partitions: Mapping[TopicPartition, FetchPosition]) -> None:
        """Fetches these from now on, and nothing else. What has come before and was not polled is dropped."""
        for tp in list(self._partitions):
            self._unassign_broker(tp)
        self._partitions = {tp: PartitionState(*start, checked=start) for tp, start in partitions.items()}
        names = {start.topic_id: tp.topic for tp, start in partitions.items()}
        self._topic_names = {} if "" in names else names
        self._leaderless = dict.fromkeys(partitions, 0.0)
        self._completed, self.bytes_in_hand = [], 0
        self._replicas.forget()
        self.errors.clear()
        self._leaderless_changed.set()

    def add(self, partitions: Mapping[TopicPartition, FetchPosition]) -> None:
        """Fetches these too from now on."""
        by_name = bool(self._partitions) and not self._topic_names
        self._partitions |= {tp: PartitionState(*start, checked=start) for tp, start in partitions.items()}
        names = {start.topic_id: tp.topic for tp, start in partitions.items()}
        self._topic_names = {} if by_name or "" in names else {**self._topic_names, **names}
        self._leaderless |= dict.fromkeys(partitions, 0.0)
        self._leaderless_changed.set()

    def limit(self, max_bytes: int) -> None:
        """Another `max_bytes` from now on."""
        full, self._max_bytes = self._room <= 0, max_bytes
        self._wake(full)

    async def poll(self, seconds: float) -> list[CompletedFetch]:
        """Returns completed fetches, waiting up to `seconds` for the first. Fetches without records say that the ends
        of the log have moved. Raises KafkaFailure for what time does not heal."""
        if not self._completed and self._fatal is None:
            self._completed_changed.clear()
            await happens(self._completed_changed, seconds)
        if self._fatal is not None:
            raise self._fatal
        completed, self._completed = self._completed, []
        return completed

    def done(self, fetch: CompletedFetch, next_offset: int, leader_epoch: int) -> None:
        """Releases a fetch and continues at `next_offset`. `leader_epoch`: of the last batch before it, -1 for unknown.
        Does nothing for a partition that has nothing in hand."""
        tp = fetch.tp
        partition = self._partitions.get(tp)
        # A fetch without records holds nothing: records of a later one may be in hand, and would be fetched twice.
        if partition is None or not partition.in_hand or not fetch.records:
            return
        full = self._room <= 0
        self.bytes_in_hand -= partition.in_hand
        partition.in_hand, partition.offset = 0, next_offset
        if leader_epoch >= 0:
            partition.last_epoch = leader_epoch
        if partition.broker is not None:
            partition.broker.add(tp, partition.topic_id, next_offset, partition.last_epoch)
        self._wake(full)

    def drop(self, tp: TopicPartition) -> None:
        """Fetches the partition no longer: what came last is not needed any more, nor is anything else of it."""
        full = self._room <= 0
        self._unassign_broker(tp)
        self._replicas.fail(tp)
        self._leaderless.pop(tp, None)
        self.errors.pop(tp, None)
        self.bytes_in_hand -= self._partitions.pop(tp).in_hand
        self._completed = [fetch for fetch in self._completed if fetch.tp != tp]
        self._wake(full)

    def resume(self, tp: TopicPartition, offset: int) -> None:
        """Fetches a partition that an error has ended, from that offset on."""
        partition = self._partitions[tp]
        partition.offset, partition.last_epoch = offset, -1
        partition.checked = partition.position
        self._leaderless[tp] = 0.0
        self._leaderless_changed.set()

    async def check(self) -> dict[TopicPartition, FetchError]:
        """Whether what was fetched by name is of the topics and logs that are there now; nothing is asked where fetches
        go by id. Raises KafkaFailure when that can't be known now."""
        by_name = {tp: partition for tp, partition in self._partitions.items() if partition.by_name}
        if not by_name:
            return {}
        before = {tp: state.checked for tp, state in by_name.items() if state.checked}
        now = {tp: state.position for tp, state in by_name.items()}
        errors = await errors_by_name(self._client, before, now)
        if not errors:
            for tp, state in by_name.items():
                state.checked = now[tp]
        return errors

    # -- fetches ---------------------------------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        """Bytes that one broker may send now."""
        return (self._max_bytes - self.bytes_in_hand) // max(1, len(self._brokers))

    def _wake(self, full: bool) -> None:
        """Has all brokers fetched from again if it was `full`, and is no longer."""
        if full and self._room > 0:
            for broker in self._brokers.values():
                broker.wake()

    async def _fetch_from(self, broker: BrokerFetcher) -> None:
        while True:
            if not await broker.ready(self._room):
                continue
            try:
                rack = self._replicas.rack(broker.node)
                partitions = await broker.fetch(self._room, rack, self._topic_names)
            except KafkaFailure as error:
                self._failed(list(broker.tps), error)
                continue
            for tp, data in partitions.items():
                if broker.is_current(tp):
                    await self._accept(tp, data)

    async def _accept(self, tp: TopicPartition, data: PartitionData) -> None:
        partition, name = self._partitions[tp], f"{tp.topic}-{tp.partition}"
        if self._replicas.follows(tp) and (data.error or data.diverged is not None):
            self._retry([tp], of_code(data.error, f"fetch {name} from a replica"))
        elif data.preferred >= 0:
            self._unassign_broker(tp)
            self._replicas.follow(tp, data.preferred)
            self._assign_broker(tp, data.preferred)
            self._leaderless_changed.set()
        elif data.diverged is not None:
            epoch, end_offset = data.diverged
            self._stop(tp, FetchError(FetchErrorKind.DIVERGED, epoch=epoch, end_offset=end_offset))
        elif data.error == Errors.TOPIC_AUTHORIZATION_FAILED:
            self._stop(tp, FetchError(FetchErrorKind.NOT_AUTHORIZED))
        elif data.error == Errors.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(tp, partition)
        elif data.error:
            self._retry([tp], of_code(data.error, f"fetch {name}"))
        else:
            partition.healed()
            self.errors.pop(tp, None)
            if data.records and partition.broker is not None:
                partition.broker.hand_out(tp)
                partition.by_name, partition.in_hand = partition.broker.by_name, len(data.records)
                self.bytes_in_hand += partition.in_hand
            partition.end = data.last_stable if self._config.committed_only else data.high_watermark
            ends = (data.high_watermark, data.last_stable, data.log_start)
            self._complete(CompletedFetch(tp, data.records, partition.offset, data.aborted, *ends))

    async def _out_of_range(self, tp: TopicPartition, partition: PartitionState) -> None:
        try:
            error = await range_error(self._client, tp, partition.offset)
        except KafkaFailure as failed:
            self._failed(self._unchanged({tp: partition}), failed)
            return
        for unchanged in self._unchanged({tp: partition}):
            if error is not None:
                self._stop(unchanged, error)
            else:
                doing = f"fetch {tp.topic}-{tp.partition}"
                self._retry([unchanged], of_code(Errors.OFFSET_OUT_OF_RANGE, doing))

    async def _look_for_silent(self) -> None:
        """Stops partitions of which the leader sends nothing any more, though their logs go on."""
        stood: dict[TopicPartition, FetchPosition] = {}
        times: dict[TopicPartition, int] = {}
        last_asked: dict[TopicPartition, int] = {}
        for look in itertools.count(1):
            await asyncio.sleep(SILENT_SECONDS)
            if self._room <= 0:  # nobody is asked for anything
                continue
            stand = {tp: partition.position for tp, partition in self._partitions.items() if partition.behind}
            still = [tp for tp, position in stand.items() if stood.get(tp) == position]
            last_asked = {tp: last_asked.get(tp, 0) for tp in still}
            # The rest in turns: many that are only slow must not hide one that is silent.
            still.sort(key=lambda tp: (tp not in times, last_asked[tp]))
            stood, before, times = stand, times, {}
            for tp in still[:_ASKED_AT_ONCE]:
                last_asked[tp] = look
                partition = self._partitions.get(tp)
                error = await self._silence(tp, stand[tp])
                if error is None or partition is None or not self._unchanged({tp: partition}):
                    continue
                times[tp] = before.get(tp, 0) + 1
                if times[tp] >= _SILENT_TIMES and partition.behind and partition.position == stand[tp]:
                    self._stop(tp, error)

    async def _silence(self, tp: TopicPartition, position: FetchPosition) -> FetchError | None:
        try:
            return await silence(self._client, tp, position, committed_only=self._config.committed_only)
        except KafkaFailure:
            return None

    # -- leaders, and what to do without one -----------------------------------------------------------------------

    async def _look_for_leaders(self) -> None:
        while True:
            for tp in self._replicas.expired():
                self._unassign_broker(tp)
                self._leaderless.setdefault(tp, 0.0)
            now = time.monotonic()
            due = [tp for tp, at in self._leaderless.items() if at <= now]
            self._leaderless_changed.clear()
            if due:
                await self._find_leaders(due)
            else:
                soon = (now + 3600, self._replicas.next_expiry, *self._leaderless.values())
                await happens(self._leaderless_changed, min(soon) - now)

    async def _find_leaders(self, tps: Sequence[TopicPartition]) -> None:
        states = {tp: self._partitions[tp] for tp in tps}
        try:
            positions = {tp: state.position for tp, state in states.items()}
            errors = await topic_errors(self._client, positions)
        except KafkaFailure as failed:
            self._failed(self._unchanged(states), failed)
            return
        for tp in self._unchanged(states):
            nodes, leaderless = self._client.by_leader([tp])
            if tp in errors:
                self._no_topic(tp, states[tp], errors[tp])
            elif leaderless:
                self._retry([tp], leaderless[tp])
            else:
                (leader,) = nodes
                del self._leaderless[tp]
                self._replicas.to_leader(tp, leader)
                self._assign_broker(tp, leader)

    def _unchanged(self, states: Mapping[TopicPartition, PartitionState]) -> list[TopicPartition]:
        """Those that were not assigned anew meanwhile."""
        return [tp for tp, state in states.items() if self._partitions.get(tp) is state]

    def _assign_broker(self, tp: TopicPartition, node: int) -> None:
        """Fetches the partition from that node from now on."""
        partition, broker = self._partitions[tp], self._brokers.get(node)
        if broker is None:
            broker = self._brokers[node] = BrokerFetcher(self._client, node, self._config)
            self._run(self._fetch_from(broker))
        partition.broker = broker
        if not partition.in_hand:
            broker.add(tp, partition.topic_id, partition.offset, partition.last_epoch)

    def _unassign_broker(self, tp: TopicPartition) -> None:
        partition = self._partitions[tp]
        if partition.broker is not None:
            partition.broker.drop(tp)
            partition.broker = None

    # -- errors ----------------------------------------------------------------------------------------------------

    def _failed(self, tps: Iterable[TopicPartition], failed: KafkaFailure) -> None:
        if failed.retriable:
            self._retry(tps, failed)
        else:
            self._fatal = failed
            self._completed_changed.set()

    def _no_topic(self, tp: TopicPartition, partition: PartitionState, error: FetchError) -> None:
        now = time.monotonic()
        partition.unknown_since = partition.unknown_since or now
        patient = now - partition.unknown_since < UNKNOWN_TOPIC_SECONDS
        if error.kind is FetchErrorKind.UNKNOWN_TOPIC_ID and patient:
            self._retry([tp], of_code(Errors.UNKNOWN_TOPIC_ID, f"fetch {tp.topic}-{tp.partition}"))
        else:
            self._stop(tp, error)

    def _retry(self, tps: Iterable[TopicPartition], failed: KafkaFailure | None) -> None:
        """After a pause, from the leader."""
        for tp in tps:
            self._unassign_broker(tp)
            self._replicas.fail(tp)
            self._leaderless[tp] = time.monotonic() + self._partitions[tp].backoff.next()
            if failed is not None:
                self.errors[tp] = failed
        self._leaderless_changed.set()

    def _stop(self, tp: TopicPartition, error: FetchError) -> None:
        """Stops fetching until the partition is assigned again."""
        self._unassign_broker(tp)
        self._replicas.fail(tp)
        self.errors.pop(tp, None)
        self._leaderless.pop(tp, None)
        self._complete(CompletedFetch(tp, b"", self._partitions[tp].offset, error=error))

    # -- tasks -----------------------------------------------------------------------------------------------------

    def _complete(self, fetch: CompletedFetch) -> None:
        self._completed.append(fetch)
        self._completed_changed.set()

    def _run(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tasks run until they are cancelled: what ends one is a defect, and `poll` raises it."""
        if not task.cancelled():
            self._fatal = task.exception()
            self._completed_changed.set()

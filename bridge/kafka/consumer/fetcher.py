"""Raw batches of many partitions, as they arrive: a long poll to each leader, in an incremental session.

By topic id from Fetch v13 on. Older brokers know topics by name only: whoever copies from them calls `check` before it
counts on what it has, because a topic may have been deleted and made again between two fetches.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence

from bridge.errors import KafkaFailure
from bridge.kafka.consumer.broker_fetcher import FetchConfig, FetchNode, PartitionState, happens
from bridge.kafka.consumer.fetch_result import (
    CompletedFetch,
    FetchError,
    FetchErrorKind,
    FetchPosition,
    errors_by_name,
    out_of_range,
    topic_errors,
)
from bridge.kafka.consumer.preferred_replica import Replicas
from bridge.kafka.errors import of_code
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.log_requests import PartitionData
from bridge.model.values import TopicPartition

__all__ = ["CompletedFetch", "FetchError", "FetchErrorKind", "FetchPosition", "Fetcher"]

DOUBT_SECONDS = 2.0
"""Seconds for which a broker may not know a topic (any more, or by this id) before we believe it: brokers learn of
new topics one after the other."""


class Fetcher:
    """Fetches a set of partitions until told another.

    A partition whose records have come is fetched again when they are `done`; what has come and is not done stays below
    `max_bytes`, give or take a batch for each broker. `partition_bytes` are asked for near by, more over a distance.
    What time heals is tried again while other partitions go on; `errors` says what it is. For use in one event loop.
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
        self._replicas = Replicas(client.rack, client.metadata_seconds, time.monotonic)
        self._nodes: dict[int, FetchNode] = {}
        self._homeless: dict[TopicPartition, float] = {}  # whose leader has to be looked for, and when
        self._lost, self._news = asyncio.Event(), asyncio.Event()
        self._arrived: list[CompletedFetch] = []
        self._held, self._max_bytes = 0, max_bytes
        self._tasks: set[asyncio.Task[None]] = set()
        self._fatal: BaseException | None = None
        self.names: dict[str, str] = {}
        self.errors: dict[TopicPartition, KafkaFailure] = {}  # of partitions that are tried again

    async def start(self) -> None:
        self._run(self._look_for_leaders())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def set(self, partitions: Mapping[TopicPartition, FetchPosition]) -> None:
        """Fetches these from now on, each from where it says; what has come before and was not handed out never is."""
        for tp in list(self._partitions):
            self._leave(tp)
        self._partitions = {tp: PartitionState(*start, checked=start) for tp, start in partitions.items()}
        ids = {start.topic_id: tp.topic for tp, start in partitions.items()}
        self.names = {} if "" in ids else ids
        self._homeless = dict.fromkeys(partitions, 0.0)
        self._arrived, self._held = [], 0
        self._replicas.forget()
        self.errors.clear()
        self._lost.set()

    def bound(self, max_bytes: int) -> None:
        """Another `max_bytes` from now on."""
        full, self._max_bytes = self.room <= 0, max_bytes
        self._wake(full)

    async def next(self, seconds: float) -> list[CompletedFetch]:
        """What has come, at once if anything has, else within `seconds`; parts without records tell of log ends that
        have moved. Raises KafkaFailure for what time does not heal."""
        if not self._arrived and self._fatal is None:
            self._news.clear()
            await happens(self._news, seconds)
        if self._fatal is not None:
            raise self._fatal
        arrived, self._arrived = self._arrived, []
        return arrived

    def done(self, tp: TopicPartition, next_offset: int, leader_epoch: int) -> None:
        """What came last is not needed any more: go on at `next_offset`. `leader_epoch`: of the last batch before it,
        -1 for unknown. Does nothing for a partition that has nothing in hand."""
        partition = self._partitions.get(tp)
        if partition is None or not partition.in_hand:
            return
        full = self.room <= 0
        self._held -= partition.in_hand
        partition.in_hand, partition.offset = 0, next_offset
        if leader_epoch >= 0:
            partition.last_epoch = leader_epoch
        if partition.node is not None:
            partition.node.want(tp, partition.topic_id, next_offset, partition.last_epoch)
        self._wake(full)

    def _wake(self, full: bool) -> None:
        """Has all nodes go on if it was `full`, and is no longer."""
        if full and self.room > 0:
            for node in self._nodes.values():
                node.wake()

    async def check(self) -> dict[TopicPartition, FetchError]:
        """Whether what was fetched by name is of the topics and logs that are there now; nothing is asked where fetches
        go by id. Raises KafkaFailure when that can't be known now."""
        asked = {tp: each for tp, each in self._partitions.items() if each.by_name}
        if not asked:
            return {}
        before = {tp: each.checked for tp, each in asked.items() if each.checked}
        now = {tp: each.position for tp, each in asked.items()}
        troubles = await errors_by_name(self._client, before, now)
        if not troubles:
            for tp, each in asked.items():
                each.checked = now[tp]
        return troubles

    # -- what nodes tell (fetch_node.Owner) ------------------------------------------------------------------------

    @property
    def room(self) -> int:
        return (self._max_bytes - self._held) // max(1, len(self._nodes))

    def rack(self, node: int) -> str:
        return self._replicas.rack(node)

    async def take(self, tp: TopicPartition, got: PartitionData) -> None:
        partition = self._partitions[tp]
        if self._replicas.follows(tp) and (got.error or got.diverged is not None):
            self._later([tp], of_code(got.error, f"fetch {tp.topic}-{tp.partition} from a replica"))
        elif got.preferred >= 0:
            self._leave(tp)
            self._replicas.follow(tp, got.preferred)
            self._settle(tp, got.preferred)
            self._lost.set()
        elif got.diverged is not None:
            epoch, end_offset = got.diverged
            self._park(tp, FetchError(FetchErrorKind.DIVERGED, epoch=epoch, end_offset=end_offset))
        elif got.error == Errors.TOPIC_AUTHORIZATION_FAILED:
            self._park(tp, FetchError(FetchErrorKind.NOT_AUTHORIZED))
        elif got.error == Errors.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(tp, partition)
        elif got.error:
            self._later([tp], of_code(got.error, f"fetch {tp.topic}-{tp.partition}"))
        else:
            partition.healed()
            self.errors.pop(tp, None)
            if got.records and partition.node is not None:
                partition.node.hand_out(tp)
                partition.by_name, partition.in_hand = partition.node.by_name, len(got.records)
                self._held += partition.in_hand
            self._tell(CompletedFetch.of(tp, partition.offset, got))

    def node_failed(self, node: FetchNode, error: KafkaFailure) -> None:
        self._failed(list(node.tps), error)

    # -- leaders, and what to do without one -----------------------------------------------------------------------

    async def _look_for_leaders(self) -> None:
        while True:
            for tp in self._replicas.over():
                self._leave(tp)
                self._homeless.setdefault(tp, 0.0)
            now = time.monotonic()
            due = [tp for tp, at in self._homeless.items() if at <= now]
            self._lost.clear()
            if due:
                await self._find(due)
            else:
                soon = (now + 3600, self._replicas.next_end, *self._homeless.values())
                await happens(self._lost, min(soon) - now)

    async def _find(self, tps: Sequence[TopicPartition]) -> None:
        wanted = {tp: self._partitions[tp] for tp in tps}
        try:
            positions = {tp: each.position for tp, each in wanted.items()}
            troubles = await topic_errors(self._client, positions)
        except KafkaFailure as error:
            self._failed(self._still(wanted), error)
            return
        for tp in self._still(wanted):
            partition, trouble = wanted[tp], troubles.get(tp)
            nodes, leaderless = self._client.by_leader([tp])
            if trouble is not None:
                self._doubt(tp, partition, trouble)
            elif leaderless:
                self._later([tp], leaderless[tp])
            else:
                (number,) = nodes
                del self._homeless[tp]
                self._replicas.to_leader(tp, number)
                self._settle(tp, number)

    def _settle(self, tp: TopicPartition, number: int) -> None:
        """To be fetched from that node from now on."""
        partition = self._partitions[tp]
        partition.node = self._node(number)
        if not partition.in_hand:
            partition.node.want(tp, partition.topic_id, partition.offset, partition.last_epoch)

    def _failed(self, tps: Iterable[TopicPartition], error: KafkaFailure) -> None:
        if error.retriable:
            self._later(tps, error)
        else:
            self._fatal = error
            self._news.set()

    def _still(self, wanted: Mapping[TopicPartition, PartitionState]) -> list[TopicPartition]:
        """Those that nobody has set anew meanwhile."""
        return [tp for tp, each in wanted.items() if self._partitions.get(tp) is each]

    def _node(self, number: int) -> FetchNode:
        node = self._nodes.get(number)
        if node is None:
            node = self._nodes[number] = FetchNode(self._client, number, self._config, self)
            self._run(node.run())
        return node

    async def _out_of_range(self, tp: TopicPartition, partition: PartitionState) -> None:
        try:
            trouble = await out_of_range(self._client, tp, partition.offset)
        except KafkaFailure as error:
            self._failed(self._still({tp: partition}), error)
            return
        for each in self._still({tp: partition}):
            if trouble is not None:
                self._park(each, trouble)
            else:
                self._later([each], of_code(Errors.OFFSET_OUT_OF_RANGE, f"fetch {tp.topic}-{tp.partition}"))

    def _doubt(self, tp: TopicPartition, partition: PartitionState, trouble: FetchError) -> None:
        now = time.monotonic()
        partition.doubted = partition.doubted or now
        if trouble.kind is FetchErrorKind.UNKNOWN_TOPIC_ID and now - partition.doubted < DOUBT_SECONDS:
            self._later([tp], of_code(Errors.UNKNOWN_TOPIC_ID, f"fetch {tp.topic}-{tp.partition}"))
        else:
            self._park(tp, trouble)

    def _later(self, tps: Iterable[TopicPartition], why: KafkaFailure | None) -> None:
        for tp in tps:
            self._leave(tp)
            self._replicas.fail(tp)
            self._homeless[tp] = time.monotonic() + self._partitions[tp].backoff.next()
            if why is not None:
                self.errors[tp] = why
        self._lost.set()

    def _park(self, tp: TopicPartition, trouble: FetchError) -> None:
        """Until the partition is set again."""
        self._leave(tp)
        self._replicas.fail(tp)
        self.errors.pop(tp, None)
        self._homeless.pop(tp, None)
        self._tell(CompletedFetch(tp, b"", self._partitions[tp].offset, error=trouble))

    def _leave(self, tp: TopicPartition) -> None:
        partition = self._partitions[tp]
        if partition.node is not None:
            partition.node.drop(tp)
            partition.node = None

    def _tell(self, part: CompletedFetch) -> None:
        self._arrived.append(part)
        self._news.set()

    def _run(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tasks run until they are cancelled: what ends one is a defect, and `next` raises it."""
        if not task.cancelled():
            self._fatal = task.exception()
            self._news.set()

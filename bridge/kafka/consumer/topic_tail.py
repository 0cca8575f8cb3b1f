"""An internal topic, read from its beginning and followed, as stock's KafkaBasedLog does; unlike it, this one notices
when the topic was made anew or its log cut back."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure, of_code
from bridge.kafka.protocol.log_requests import FetchPartition, PartitionData
from bridge.kafka.record.decoding import Decided, DecodedLog, OpenTransactions, decode_log
from bridge.model.values import LogRecord, TailPart, TopicPartition

T = TypeVar("T")
_BYTES = 1024 * 1024
"""Asked for at a time. The broker sends a larger batch whole, when it is the first."""
_TRIES = 3
"""Fetches within one read: a topic may be made anew between Metadata and Fetch."""
_NOT_LISTED = log_requests.ListedOffset(Errors.UNKNOWN_SERVER_ERROR, -1, -1)
_TOPIC_IDS_FROM = 13
"""Fetch version that names topics by id."""


class TopicTail:
    """Partition 0 of a topic. One reader at a time.

    Isolation is read_uncommitted, as that of stock's consumer: records of open and aborted transactions come too,
    control records never. With `committed_only` they don't: what stands behind the beginning of an open transaction is
    read too, and comes once it is decided (kafka.record.decoding), which of different keys may be in another order.

    What is read is `restarted` when a reader who begins now would not learn all that was read before, or learn other
    things; it comes from the log's start then, and what was read before no longer counts:
    - the topic was deleted and made again: another topic id (brokers before Fetch v13: asked after each fetch; before
      Metadata v10 there are none, and only the positions below notice it);
    - the log ends before our position, or diverged below it (last leader epoch, from Fetch v12 on): cut back by an
      unclean election or a lost disk, and perhaps filled again;
    - the log starts beyond our position, so records are gone that were never read; or exactly there, so all that was
      read is gone: DeleteRecords, or retention of a topic that is not only compacted.
    No restart: a log start below our position, because what is gone was read and the newest is still there. Nor
    compaction, which makes holes and leaves the log start alone. Nothing but another topic id is called restarted
    before anything was read: what was written to the old topic unseen is gone too.

    A failure loses nothing: the next read looks up the leader again and goes on at the same offset. Only a topic that
    is missing makes it begin anew. A batch whose checksum is right and that can't be decoded nevertheless is stepped
    over and counted; one with a wrong checksum is a failure.

    With `from_end` it begins where the log ends at the first read; a restart is read from its beginning all the same.
    `wait_ms`: how long a read at the end waits for more, on the connection for requests that may wait.
    """

    def __init__(
        self,
        client: NetworkClient,
        topic: str,
        *,
        from_end: bool = False,
        committed_only: bool = False,
        wait_ms: int = 0,
    ) -> None:
        self.topic = topic
        self._committed_only = committed_only
        self._params = log_requests.FetchParams(max_wait_ms=wait_ms)
        self._client = client
        self._tp = TopicPartition(topic, 0)
        self._topic_id = ""
        self._leader: int | None = None
        self._began = self._next = -1
        self._last_epoch = -1
        self._restarted = False
        self._begin_at = log_requests.LATEST if from_end else log_requests.EARLIEST
        self._open: OpenTransactions | None = None
        """While the log is read behind its last stable offset."""

    @property
    def undecided(self) -> Sequence[LogRecord]:
        """The records of transactions that are open, as far as the log was read; none without `committed_only`."""
        return [] if self._open is None else self._open.undecided

    @property
    def position(self) -> int:
        """The next offset to read; -1 before the first read, and when the log is to be read from its start."""
        return self._next

    async def begin(self) -> None:
        """Looks up the leader and where to read from; else the first read does."""
        await self._or_anew(self._begin())

    async def read(self) -> TailPart:
        return await self._or_anew(self._read())

    async def _or_anew(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except KafkaFailure as error:
            self._leader = None
            if error.fault is KafkaFault.UNKNOWN_TOPIC:
                self._begin_anew()
            raise

    async def _begin(self) -> int:
        """Returns the leader."""
        leader = await self._find_leader() if self._leader is None else self._leader
        if self._next < 0:
            self._began = self._next = await self._beginning(leader)
            self._begin_at = log_requests.EARLIEST
        return leader

    async def _read(self) -> TailPart:
        for _ in range(_TRIES):
            data = await self._fetch(await self._begin())
            if self._next < 0:
                continue
            if data.error in (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID):
                self._leader = None
            elif (
                data.error == Errors.OFFSET_OUT_OF_RANGE
                or data.diverged
                or data.log_start >= self._next > self._began
            ):
                self._begin_anew()
            else:
                return self._part(data)
        raise failure(
            KafkaFault.LEADER_MOVED,
            f"read {self.topic}",
            f"The topic or its log changed during each of {_TRIES} fetches",
        )

    def _begin_anew(self) -> None:
        self._restarted = self._restarted or self._next > self._began
        self._open = None
        self._began = self._next = self._last_epoch = -1

    async def _find_leader(self) -> int:
        """Raises UNKNOWN_TOPIC when there is no such topic."""
        meta = (await self._client.metadata([self.topic]))[self.topic]
        failed = of_code(meta.error, f"read {self.topic}", f"READ on topic {self.topic}")
        if failed is not None:
            raise failed
        if meta.topic_id != self._topic_id:
            self._restarted = self._restarted or bool(self._topic_id)
            self._begin_anew()
        self._topic_id = meta.topic_id
        nodes, leaderless = self._client.by_leader([self._tp])
        if leaderless:
            raise leaderless[self._tp]
        (self._leader,) = nodes
        return self._leader

    async def _beginning(self, leader: int) -> int:
        doing = f"find where to begin in {self.topic}"
        call = log_requests.list_offsets({self._tp: self._begin_at}, committed_only=self._committed_only)
        listed = log_requests.read_listed_offsets(await self._client.send(leader, call, doing))
        error, start, _ = listed.get(self._tp, _NOT_LISTED)
        failed = of_code(error, doing, f"READ on topic {self.topic}")
        if failed is not None:
            raise failed
        return start

    async def _fetch(self, leader: int) -> PartitionData:
        doing = f"read {self.topic} at {self._next}"
        part = FetchPartition(self._topic_id, self._next, _BYTES, self._last_epoch)
        committed_only = self._committed_only and self._open is None
        call = log_requests.fetch({self._tp: part}, committed_only=committed_only, params=self._params)
        response = await self._client.send(leader, call, doing, apart=self._params.max_wait_ms > 0)
        data = log_requests.read_fetched(response, call.API_VERSION, {self._topic_id: self.topic}).get(
            self._tp
        )
        if data is None:
            raise failure(KafkaFault.OTHER, doing, "The response does not contain the partition")
        if call.API_VERSION < _TOPIC_IDS_FROM:
            await self._find_leader()
        return data

    def _part(self, data: PartitionData) -> TailPart:
        doing = f"read {self.topic} at {self._next}"
        failed = of_code(data.error, doing, f"READ on topic {self.topic}")
        if failed is not None:
            raise failed
        most = self._client.most_decompressed
        log: Decided | DecodedLog | None
        if self._open is not None:
            log = self._open.read(data.records, self._next, most)
        else:
            log = decode_log(data.records, self._next, data.aborted, most)
        if log is None:
            raise failure(KafkaFault.OTHER, doing, "The checksum of a batch is wrong")
        if data.records and log.end == self._next:
            raise failure(KafkaFault.OTHER, doing, "The broker sent an incomplete batch")
        self._next = log.end
        if log.leader_epoch >= 0:
            self._last_epoch = log.leader_epoch
        restarted, self._restarted = self._restarted, False
        if self._committed_only:
            self._follow_open(data)
        at_end = self._next >= data.high_watermark  # not where it has just begun anew
        return TailPart(log.records, restarted, at_end, log.unreadable)

    def _follow_open(self, data: PartitionData) -> None:
        """Goes on behind the last stable offset, or again as a broker tells what is committed."""
        at_end = self._next >= data.high_watermark
        if self._open is None:
            if data.last_stable <= self._next < data.high_watermark:
                self._open = OpenTransactions()
        elif not self._open:
            self._open = None
        elif at_end and self._open.begin < data.last_stable:
            # It is decided, and compaction has taken its marker since the last read.
            self._begin_anew()

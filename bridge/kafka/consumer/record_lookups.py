"""Carrying out the needs of translation on one cluster, so that they share fetches.

A broker answers a fetch with one stretch for each partition, and batches are indivisible: offsets that lie in one
batch cost one fetch between them. Needs of a partition are sorted and cut into lanes; a lane reads the first offset
that nothing read so far covers, next to those of all other partitions in one request, until nothing is left.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.errors import failure, of_code
from bridge.kafka.expiring_cache import Aging
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.log_requests import FetchPartition, PartitionData
from bridge.kafka.record.decoding import opened
from bridge.model.lookups import FindTime, Need, Read, Window
from bridge.model.values import TopicPartition

Answer = Window | int | None | KafkaFailure

_LANES = 4
_PARTITIONS_A_FETCH = 64
_REMEMBERED = 600.0
"""Seconds for which it is known how large the batches of a partition are that nobody reads."""
_MOST_BATCH_BYTES = 64 * 1024 * 1024
_KEPT_BYTES = 4 * 1024 * 1024
"""Of what was fetched, how much is kept for later needs; decoded it takes about eight times as much."""
_EXPANDED = 4
"""How many times as large as it was fetched what is kept may be; what is larger counts for more."""


class _Known:
    """Windows of one partition, by start. `topic_id`: of the topic that they are of."""

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id
        self._starts: list[int] = []
        self._windows: list[Window] = []

    def add(self, found: Window) -> None:
        at = bisect_right(self._starts, found.start)
        self._starts.insert(at, found.start)
        self._windows.insert(at, found)

    def drop(self, found: Window) -> None:
        for at, known in enumerate(self._windows):
            if known is found:
                del self._starts[at], self._windows[at]
                return

    def covering(self, offset: int) -> Window | None:
        at = bisect_right(self._starts, offset)
        for found in self._windows[max(0, at - 2) : at][::-1]:
            if _covers(found, offset):
                return found
        return None


def _covers(found: Window, offset: int) -> bool:
    return found.start <= offset < found.end or offset == found.start == found.end


class Lookups:
    """Needs in, answers out; windows are kept until `forget` (once a round), so that later needs find them."""

    def __init__(self, client: NetworkClient, *, committed_only: bool) -> None:
        self._client, self._committed_only = client, committed_only
        self._known: dict[TopicPartition, _Known] = {}
        self._batch_bytes: Aging[TopicPartition, int] = Aging(_REMEMBERED)
        self._kept: deque[tuple[TopicPartition, Window, int]] = deque()
        self._kept_bytes = 0
        self.fetches = 0

    @property
    def remembered(self) -> int:
        """Partitions that it knows anything of."""
        return len(self._known) + len(self._batch_bytes)

    def forget(self) -> None:
        self._known.clear()
        self._kept.clear()
        self._kept_bytes = 0

    def _keep(self, partition: TopicPartition, found: Window, size: int) -> None:
        # Asked for again: while the answer was under way another connector's round may have ended and forgotten all.
        self._known_of(partition).add(found)
        self._kept.append((partition, found, size))
        self._kept_bytes += size
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            oldest, dropped, its_size = self._kept.popleft()
            if oldest in self._known:
                self._known[oldest].drop(dropped)
            self._kept_bytes -= its_size

    def _known_of(self, partition: TopicPartition) -> _Known:
        """What is known of a partition; nothing, when its topic is not the one any more that was read."""
        topic_id = self._client.topic_id(partition.topic)
        known = self._known.get(partition)
        if known is None or known.topic_id != topic_id:
            known = self._known[partition] = _Known(topic_id)
        return known

    async def answer(
        self, needs: Mapping[TopicPartition, Sequence[Need]]
    ) -> dict[TopicPartition, dict[Need, Answer]]:
        nodes, failed = self._client.by_leader(needs)
        answers: dict[TopicPartition, dict[Need, Answer]] = {part: {} for part in needs}
        for partition, error in failed.items():
            answers[partition] = dict.fromkeys(needs[partition], error)
        work = [
            job
            for node, partitions in nodes.items()
            for job in (
                self._read(node, partitions, needs, answers),
                self._find(node, partitions, needs, answers),
            )
        ]
        await asyncio.gather(*work)
        return answers

    # -- reads ------------------------------------------------------------------------------------------------------

    async def _read(
        self,
        node: int,
        partitions: Iterable[TopicPartition],
        needs: Mapping[TopicPartition, Sequence[Need]],
        answers: dict[TopicPartition, dict[Need, Answer]],
    ) -> None:
        lanes: list[dict[TopicPartition, list[Read]]] = [{} for _ in range(_LANES)]
        for partition in partitions:
            reads = sorted({n for n in needs[partition] if isinstance(n, Read)}, key=lambda read: read.offset)
            size = -(-len(reads) // _LANES)
            for lane, at in enumerate(range(0, len(reads), size or 1)):
                lanes[lane][partition] = reads[at : at + size]
        await asyncio.gather(*(self._lane(node, lane, answers) for lane in lanes if lane))

    async def _lane(
        self,
        node: int,
        lane: dict[TopicPartition, list[Read]],
        answers: dict[TopicPartition, dict[Need, Answer]],
    ) -> None:
        alone: set[tuple[TopicPartition, Read]] = set()
        while lane:
            wanted: dict[TopicPartition, Read] = {}
            for partition in list(lane):
                reads = self._drop_known(partition, lane[partition], answers)
                if not reads:
                    del lane[partition]
                elif len(wanted) < _PARTITIONS_A_FETCH and not (wanted and (partition, reads[0]) in alone):
                    wanted[partition] = reads[0]
                    if (partition, reads[0]) in alone:
                        break
            if wanted:
                await self._fetch(node, wanted, lane, alone, answers)

    def _drop_known(
        self, partition: TopicPartition, reads: list[Read], answers: dict[TopicPartition, dict[Need, Answer]]
    ) -> list[Read]:
        known = self._known_of(partition)
        while reads:
            found = answers[partition].get(reads[0]) or known.covering(reads[0].offset)
            if found is None:
                break
            answers[partition][reads.pop(0)] = found
        return reads

    async def _fetch(
        self,
        node: int,
        wanted: dict[TopicPartition, Read],
        lane: dict[TopicPartition, list[Read]],
        alone: set[tuple[TopicPartition, Read]],
        answers: dict[TopicPartition, dict[Need, Answer]],
    ) -> None:
        ids = {self._client.topic_id(partition.topic): partition.topic for partition in wanted}
        parts = {
            partition: FetchPartition(
                self._client.topic_id(partition.topic),
                read.offset,
                max(read.max_bytes, self._batch_bytes.get(partition) or 0),
            )
            for partition, read in wanted.items()
        }
        doing = "read " + ", ".join(f"{p.topic}-{p.partition}" for p in list(wanted)[:3])
        self.fetches += 1
        try:
            call = log_requests.fetch(parts, committed_only=self._committed_only)
            reader = await self._client.send(node, call, doing)
            fetched = log_requests.read_fetched(reader, call.API_VERSION, ids)
        except KafkaFailure as error:
            for partition in wanted:
                answers[partition] |= dict.fromkeys(lane.pop(partition), error)
            return
        for partition, read in wanted.items():
            got = fetched.get(partition)
            reading = f"read {partition.topic}-{partition.partition} at {read.offset}"
            code = Errors.UNKNOWN_SERVER_ERROR if got is None else got.error
            failed = of_code(code, reading, f"READ on topic {partition.topic}")
            if got is None or failed is not None:
                answers[partition][lane[partition].pop(0)] = failed or failure(
                    KafkaFault.OTHER, reading, "No answer"
                )
                continue
            try:
                found = self._take(partition, read, got, alone)
            except Exception as error:  # bytes that can't be decoded: each codec has exceptions of its own
                answers[partition][lane[partition].pop(0)] = failure(
                    KafkaFault.OTHER, reading, f"Unreadable batch: {error or type(error).__name__}"
                )
                continue
            if found is not None:
                # Answered at once: among large batches it may be dropped again before the lane's next turn.
                while lane[partition] and _covers(found, lane[partition][0].offset):
                    answers[partition][lane[partition].pop(0)] = found

    def _take(
        self,
        partition: TopicPartition,
        read: Read,
        got: PartitionData,
        alone: set[tuple[TopicPartition, Read]],
    ) -> Window | None:
        """The window that was fetched; None when the read has to be tried again, alone or with more bytes."""
        end = got.last_stable if self._committed_only else got.high_watermark
        if not got.records and read.offset < end and (partition, read) not in alone:
            # Nothing, or a first batch larger than was asked for: only the first partition of a request gets that one.
            alone.add((partition, read))
            return None
        found, size = opened(got.records, read.offset, end, got.aborted, self._client.most_decompressed)
        if found is None:
            if len(got.records) >= _MOST_BATCH_BYTES:
                raise ValueError(f"the broker sent {len(got.records)} bytes without the end of a batch")
            more = min(_MOST_BATCH_BYTES, max(len(got.records), read.max_bytes) * 2)
            self._batch_bytes.put(partition, more)
            alone.add((partition, read))
            return None
        if not _covers(found, read.offset):
            raise ValueError("the broker sent records of other offsets")
        if (partition, read) in alone:
            self._batch_bytes.put(partition, max(self._batch_bytes.get(partition) or 0, len(got.records)))
        self._keep(partition, found, max(len(got.records), size // _EXPANDED))
        return found

    # -- times ------------------------------------------------------------------------------------------------------

    async def _find(
        self,
        node: int,
        partitions: Iterable[TopicPartition],
        needs: Mapping[TopicPartition, Sequence[Need]],
        answers: dict[TopicPartition, dict[Need, Answer]],
    ) -> None:
        """ListOffsets takes one timestamp for a partition and request: as many requests as the most that one has."""
        rows = {
            p: sorted({n for n in needs[p] if isinstance(n, FindTime)}, key=lambda n: n.timestamp)
            for p in partitions
        }
        waves = [
            {partition: row[at] for partition, row in rows.items() if at < len(row)}
            for at in range(max(map(len, rows.values()), default=0))
        ]
        for at in range(0, len(waves), _LANES):
            await asyncio.gather(*(self._find_wave(node, wave, answers) for wave in waves[at : at + _LANES]))

    async def _find_wave(
        self,
        node: int,
        wave: dict[TopicPartition, FindTime],
        answers: dict[TopicPartition, dict[Need, Answer]],
    ) -> None:
        wanted = {partition: need.timestamp for partition, need in wave.items()}
        try:
            call = log_requests.list_offsets(wanted, committed_only=self._committed_only)
            listed = log_requests.read_listed_offsets(
                await self._client.send(node, call, "find offsets by timestamp")
            )
        except KafkaFailure as error:
            for partition, need in wave.items():
                answers[partition][need] = error
            return
        for partition, need in wave.items():
            got = listed.get(partition)
            code = got.error if got else Errors.UNKNOWN_SERVER_ERROR
            doing = f"find a timestamp in {partition.topic}-{partition.partition}"
            failed = of_code(code, doing, f"READ on topic {partition.topic}")
            answers[partition][need] = failed or (None if got is None or got.offset < 0 else got.offset)

"""Reads the records and looks up the timestamps that translation needs on one cluster, in shared fetches.

A broker answers a fetch with one stretch for each partition, and batches are indivisible: offsets that lie in one
batch cost one fetch between them. Needs of a partition are sorted and cut into lanes; a lane reads the first offset
that nothing read so far covers, next to those of all other partitions in one request, until nothing is left.

Batch headers of a log, read for the offsets that hold no data: nothing is decompressed, and nothing kept.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.expiring_cache import ExpiringCache
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure, of_code
from bridge.kafka.protocol.log_requests import FetchPartition, PartitionData
from bridge.kafka.record.batch import CorruptBatch, DataFilter, parse
from bridge.kafka.record.decoding import opened
from bridge.model.lookups import FindTime, Need, Read, Scan, Scanned, Window
from bridge.model.values import TopicPartition

Answer = Window | int | None | KafkaFailure

_LANES = 4
_PARTITIONS_A_FETCH = 64
_REMEMBERED = 600.0
"""Seconds before the batch size of a partition expires that nobody reads, and what is known of a topic that nobody asks
for."""
_MOST_BATCH_BYTES = 64 * 1024 * 1024
_KEPT_BYTES = 4 * 1024 * 1024
"""Of what was fetched, how much is kept for later needs; decoded it takes about eight times as much."""
_EXPANDED = 4
"""A window may be this many times as large as it was fetched; a larger one counts for more."""
_AT_ONCE = 4
"""Fetches in flight at a time: each may bring `max_bytes`, or one batch that is larger."""


class _Windows:
    """Windows of one partition, by start; `topic_id` is their topic's."""

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id
        self._starts: list[int] = []
        self._windows: list[Window] = []

    def add(self, window: Window) -> None:
        position = bisect_right(self._starts, window.start)
        self._starts.insert(position, window.start)
        self._windows.insert(position, window)

    def drop(self, window: Window) -> None:
        for index, kept in enumerate(self._windows):
            if kept is window:
                del self._starts[index], self._windows[index]
                return

    def covering(self, offset: int) -> Window | None:
        position = bisect_right(self._starts, offset)
        for window in self._windows[max(0, position - 2) : position][::-1]:
            if _covers(window, offset):
                return window
        return None


def _covers(window: Window, offset: int) -> bool:
    return window.start <= offset < window.end or offset == window.start == window.end


class Lookups:
    """Answers needs. Windows are kept until `forget` (once a round), for later needs."""

    def __init__(self, client: NetworkClient, *, committed_only: bool) -> None:
        self._client, self._committed_only = client, committed_only
        self._windows_by_tp: dict[TopicPartition, _Windows] = {}
        self._batch_bytes: ExpiringCache[TopicPartition, int] = ExpiringCache(_REMEMBERED)
        self._append_time: ExpiringCache[str, bool] = ExpiringCache(_REMEMBERED)
        """By topic id, whether brokers have overwritten timestamps of what was read last."""
        self._kept: deque[tuple[TopicPartition, Window, int]] = deque()
        self._kept_bytes = 0
        self.fetches = 0

    @property
    def remembered(self) -> int:
        """Partitions of which anything is cached."""
        return len(self._windows_by_tp) + len(self._batch_bytes) + len(self._append_time)

    def append_time(self, topic_id: str) -> bool | None:
        """Whether brokers have overwritten timestamps of the records that were read last of the topic (LogAppendTime);
        None where none was read lately."""
        return self._append_time.get(topic_id)

    def forget(self) -> None:
        self._windows_by_tp.clear()
        self._kept.clear()
        self._kept_bytes = 0

    def _keep(self, partition: TopicPartition, window: Window, size: int) -> None:
        # Asked for again: while the answer was in flight another connector's round may have ended and forgotten all.
        self._windows_of(partition).add(window)
        self._kept.append((partition, window, size))
        self._kept_bytes += size
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            oldest, dropped, its_size = self._kept.popleft()
            if oldest in self._windows_by_tp:
                self._windows_by_tp[oldest].drop(dropped)
            self._kept_bytes -= its_size

    def _windows_of(self, partition: TopicPartition) -> _Windows:
        """The windows of a partition; none when its topic was made anew since they were read."""
        topic_id = self._client.topic_id(partition.topic)
        windows = self._windows_by_tp.get(partition)
        if windows is None or windows.topic_id != topic_id:
            windows = self._windows_by_tp[partition] = _Windows(topic_id)
        return windows

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
            for lane, position in enumerate(range(0, len(reads), size or 1)):
                lanes[lane][partition] = reads[position : position + size]
        await asyncio.gather(*(self._lane(node, lane, answers) for lane in lanes if lane))

    async def _lane(
        self,
        node: int,
        lane: dict[TopicPartition, list[Read]],
        answers: dict[TopicPartition, dict[Need, Answer]],
    ) -> None:
        alone: set[tuple[TopicPartition, Read]] = set()
        while lane:
            parts: dict[TopicPartition, Read] = {}
            for partition in list(lane):
                reads = self._drop_cached(partition, lane[partition], answers)
                if not reads:
                    del lane[partition]
                elif len(parts) < _PARTITIONS_A_FETCH and not (parts and (partition, reads[0]) in alone):
                    parts[partition] = reads[0]
                    if (partition, reads[0]) in alone:
                        break
            if parts:
                await self._fetch(node, parts, lane, alone, answers)

    def _drop_cached(
        self, partition: TopicPartition, reads: list[Read], answers: dict[TopicPartition, dict[Need, Answer]]
    ) -> list[Read]:
        windows = self._windows_of(partition)
        while reads:
            window = answers[partition].get(reads[0]) or windows.covering(reads[0].offset)
            if window is None:
                break
            answers[partition][reads.pop(0)] = window
        return reads

    async def _fetch(
        self,
        node: int,
        reads: dict[TopicPartition, Read],
        lane: dict[TopicPartition, list[Read]],
        alone: set[tuple[TopicPartition, Read]],
        answers: dict[TopicPartition, dict[Need, Answer]],
    ) -> None:
        ids = {self._client.topic_id(partition.topic): partition.topic for partition in reads}
        parts = {
            partition: FetchPartition(
                self._client.topic_id(partition.topic),
                read.offset,
                max(read.max_bytes, self._batch_bytes.get(partition) or 0),
            )
            for partition, read in reads.items()
        }
        sending = "read " + ", ".join(f"{p.topic}-{p.partition}" for p in list(reads)[:3])
        self.fetches += 1
        try:
            call = log_requests.fetch(parts, committed_only=self._committed_only)
            reader = await self._client.send(node, call, sending)
            fetched = log_requests.read_fetched(reader, call.API_VERSION, ids)
        except KafkaFailure as error:
            for partition in reads:
                answers[partition] |= dict.fromkeys(lane.pop(partition), error)
            return
        for partition, read in reads.items():
            data = fetched.get(partition)
            doing = f"read {partition.topic}-{partition.partition} at {read.offset}"
            code = Errors.UNKNOWN_SERVER_ERROR if data is None else data.error
            failed = of_code(code, doing, f"READ on topic {partition.topic}")
            if data is None or failed is not None:
                missing = failure(KafkaFault.OTHER, doing, "The response does not contain the partition")
                answers[partition][lane[partition].pop(0)] = failed or missing
                continue
            try:
                window = self._window(partition, read, data, alone)
            except Exception as error:  # bytes that can't be decoded: each codec has exceptions of its own
                answers[partition][lane[partition].pop(0)] = failure(
                    KafkaFault.UNREADABLE_BATCH, doing, f"Unreadable batch: {error or type(error).__name__}"
                )
                continue
            if window is not None:
                # Answered at once: among large batches it may be dropped again before the lane's next turn.
                while lane[partition] and _covers(window, lane[partition][0].offset):
                    answers[partition][lane[partition].pop(0)] = window

    def _window(
        self,
        partition: TopicPartition,
        read: Read,
        data: PartitionData,
        alone: set[tuple[TopicPartition, Read]],
    ) -> Window | None:
        """The window that was fetched; None when the read has to be tried again, alone or with more bytes. Raises
        ValueError, and what codecs raise."""
        end = data.last_stable if self._committed_only else data.high_watermark
        if not data.records and read.offset < end and (partition, read) not in alone:
            # Nothing, or a first batch larger than was asked for: only the first partition of a request gets that one.
            alone.add((partition, read))
            return None
        window, size = opened(data.records, read.offset, end, data.aborted, self._client.most_decompressed)
        if window is None:
            if len(data.records) >= _MOST_BATCH_BYTES:
                raise ValueError(f"the broker sent {len(data.records)} bytes without the end of a batch")
            more = min(_MOST_BATCH_BYTES, max(len(data.records), read.max_bytes) * 2)
            self._batch_bytes.put(partition, more)
            alone.add((partition, read))
            return None
        if not _covers(window, read.offset):
            raise ValueError("the broker sent records of other offsets")
        if window.records:
            self._append_time.put(self._client.topic_id(partition.topic), window.append_time)
        if (partition, read) in alone:
            self._batch_bytes.put(partition, max(self._batch_bytes.get(partition) or 0, len(data.records)))
        self._keep(partition, window, max(len(data.records), size // _EXPANDED))
        return window

    # -- times ------------------------------------------------------------------------------------------------------

    async def _find(
        self,
        node: int,
        partitions: Iterable[TopicPartition],
        needs: Mapping[TopicPartition, Sequence[Need]],
        answers: dict[TopicPartition, dict[Need, Answer]],
    ) -> None:
        """ListOffsets takes one timestamp for a partition: as many requests as one partition has at most."""
        rows = {
            p: sorted({n for n in needs[p] if isinstance(n, FindTime)}, key=lambda n: n.timestamp)
            for p in partitions
        }
        waves = [
            {partition: row[position] for partition, row in rows.items() if position < len(row)}
            for position in range(max(map(len, rows.values()), default=0))
        ]
        for position in range(0, len(waves), _LANES):
            await asyncio.gather(
                *(self._find_wave(node, wave, answers) for wave in waves[position : position + _LANES])
            )

    async def _find_wave(
        self,
        node: int,
        wave: dict[TopicPartition, FindTime],
        answers: dict[TopicPartition, dict[Need, Answer]],
    ) -> None:
        timestamps = {partition: need.timestamp for partition, need in wave.items()}
        try:
            call = log_requests.list_offsets(timestamps, committed_only=self._committed_only)
            listed = log_requests.read_listed_offsets(
                await self._client.send(node, call, "find offsets by timestamp")
            )
        except KafkaFailure as error:
            for partition, need in wave.items():
                answers[partition][need] = error
            return
        for partition, need in wave.items():
            entry = listed.get(partition)
            code = entry.error if entry else Errors.UNKNOWN_SERVER_ERROR
            doing = f"find a timestamp in {partition.topic}-{partition.partition}"
            failed = of_code(code, doing, f"READ on topic {partition.topic}")
            answers[partition][need] = failed or (None if entry is None or entry.offset < 0 else entry.offset)


async def scan(
    client: NetworkClient, needs: Mapping[TopicPartition, Sequence[Need]], *, committed_only: bool
) -> dict[TopicPartition, dict[Need, Scanned | None]]:
    """Answers the Scans among `needs`. `committed_only`: offsets of aborted transactions count as without data, and a
    scan ends at the last stable offset."""
    answers: dict[TopicPartition, dict[Need, Scanned | None]] = {tp: {} for tp in needs}
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(node: int, tp: TopicPartition, need: Scan) -> None:
        async with room:
            answers[tp][need] = await _scan(client, node, tp, need, committed_only=committed_only)

    scans = {tp: {need for need in some if isinstance(need, Scan)} for tp, some in needs.items()}
    nodes, leaderless = client.by_leader(tp for tp, some in scans.items() if some)
    for tp in leaderless:
        answers[tp].update(dict.fromkeys(scans[tp]))
    work = [
        one(node, tp, need) for node, partitions in nodes.items() for tp in partitions for need in scans[tp]
    ]
    await asyncio.gather(*work)
    return answers


async def _scan(
    client: NetworkClient, node: int, tp: TopicPartition, need: Scan, *, committed_only: bool
) -> Scanned | None:
    topic_id = client.topic_id(tp.topic)
    part = FetchPartition(topic_id, need.offset, need.max_bytes)
    call = log_requests.fetch({tp: part}, committed_only=committed_only)
    try:
        reader = await client.send(node, call, f"read {tp.topic}-{tp.partition}")
        data = log_requests.read_fetched(reader, call.API_VERSION, {topic_id: tp.topic}).get(tp)
        return None if data is None or data.error else scanned(data, need, committed_only=committed_only)
    except (KafkaFailure, CorruptBatch):
        return None


def scanned(data: PartitionData, need: Scan, *, committed_only: bool) -> Scanned | None:
    data_filter = DataFilter(data.aborted)
    without: list[tuple[int, int]] = []
    end, epoch = need.offset, -1
    for batch in parse(data.records):
        end, epoch = max(end, batch.last_offset + 1), max(epoch, batch.leader_epoch)
        if not data_filter.is_data(batch):
            without.append((batch.base_offset, batch.last_offset + 1))
    if not data.records:
        # Nothing is there up to the end of what may be read: compaction took it.
        end = max(end, data.last_stable if committed_only else data.high_watermark)
    return Scanned(need.offset, end, without, len(data.records), epoch) if end > need.offset else None

"""Tails over a broker in memory: what no real broker does on demand."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Mapping, Sequence

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure
from bridge.kafka.protocol.log_requests import PartitionData, PartitionMetadata, TopicMetadata
from bridge.kafka.protocol.wire import Call, Reader
from bridge.kafka.record.batch import parse
from bridge.model.copying import MOST_BYTES
from bridge.model.values import TailPart, TopicPartition
from tests.unit.kafka.record.raw_batches import GZIP, Plain, batch, batch_of, marker, sealed

TP = TopicPartition("syncs", 0)


class MemoryClient:
    """One topic, or none, on one node. The next fetches answer the codes of `errors`, or raise `broken`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, newest_fetch: int = 13) -> None:
        self.topic_id = "a"
        self.leader, self.most_decompressed = 1, MOST_BYTES
        self.batches: list[bytes] = []
        self.start = self.end = 0
        self.errors: list[int] = []
        self.broken: KafkaFailure | None = None
        self.diverged = False
        self.sent: list[str] = []
        self.parts: Mapping[TopicPartition, log_requests.FetchPartition] = {}
        self.timestamp = 0
        self.committed_only = False
        self._newest_fetch = newest_fetch
        fetch = log_requests.fetch
        monkeypatch.setattr(
            log_requests, "fetch", lambda parts, **how: self._asked(parts, fetch(parts, **how), how)
        )
        monkeypatch.setattr(log_requests, "read_fetched", lambda *_: self.fetched())
        list_offsets = log_requests.list_offsets
        monkeypatch.setattr(
            log_requests,
            "list_offsets",
            lambda timestamps, **how: self._listing(timestamps, list_offsets(timestamps, **how)),
        )
        monkeypatch.setattr(log_requests, "read_listed_offsets", lambda _: self._listed())

    def append(self, *batches: bytes) -> None:
        self.batches += batches
        self.end = max(each.last_offset for each in parse(batches[-1])) + 1

    def _asked(
        self,
        parts: Mapping[TopicPartition, log_requests.FetchPartition],
        call: Call,
        how: Mapping[str, object],
    ) -> Call:
        self.parts, self.committed_only = parts, bool(how["committed_only"])
        return call

    def _listing(self, requested: Mapping[TopicPartition, int], call: Call) -> Call:
        self.timestamp = requested[TP]
        return call

    def _listed(self) -> dict[TopicPartition, log_requests.ListedOffset]:
        at = {log_requests.EARLIEST: self.start, log_requests.LATEST: self.end}[self.timestamp]
        return {TP: log_requests.ListedOffset(0, at, 0)}

    def fetched(self) -> dict[TopicPartition, PartitionData]:
        part = self.parts[TP]
        code = self.errors.pop() if self.errors else 0
        if part.topic_id != self.topic_id and self._newest_fetch >= 13:
            code = 100
        elif not self.start <= part.offset <= self.end and not code:
            code = 1
        diverged, self.diverged = (0, 0) if self.diverged else None, False
        data = b"".join(each for each in self.batches if next(parse(each)).last_offset >= part.offset)
        if diverged:
            data = b""
        return {TP: PartitionData(code, self.end, self.end, self.start, (), b"" if code else data, diverged)}

    async def metadata(self, topics: Sequence[str]) -> dict[str, TopicMetadata]:
        self.sent.append("metadata")
        if not self.topic_id:
            return {TP.topic: TopicMetadata(3, "", {})}
        return {TP.topic: TopicMetadata(0, self.topic_id, {0: PartitionMetadata(0, self.leader, 0)})}

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaFailure]]:
        if self.leader < 0:
            return {}, {TP: failure(KafkaFault.LEADER_MOVED, "read syncs", "Leader not available")}
        return {self.leader: list(partitions)}, {}

    async def send(self, node: int, call: Call, doing: str, *, apart: bool = False) -> Reader:
        assert node == self.leader
        if call.API_KEY == 1 and self.broken is not None:
            broken, self.broken = self.broken, None
            raise broken
        call.API_VERSION = self._newest_fetch
        self.sent.append("fetch" if call.API_KEY == 1 else "list")
        return Reader(b"", flexible=False)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MemoryClient:
    return MemoryClient(monkeypatch)


def tail(client: MemoryClient) -> TopicTail:
    return TopicTail(client, TP.topic)  # type: ignore[arg-type]


def read(log: TopicTail) -> TailPart:
    return asyncio.run(log.read())


def offsets(part: TailPart) -> list[int]:
    return [record.offset for record in part.records]


def fault(log: TopicTail) -> KafkaFault:
    with pytest.raises(KafkaFailure) as caught:
        read(log)
    assert caught.value.retriable
    assert TP.topic in str(caught.value)
    return caught.value.fault


def test_it_begins_at_the_log_start_and_follows(client: MemoryClient) -> None:
    client.start = 3
    client.append(batch(0, 3), batch(3, 3))
    log = tail(client)
    part = read(log)
    assert (offsets(part), len(part.records)) == ([3, 4, 5], 3)
    assert offsets(part) == [3, 4, 5], "they can be iterated again"
    assert (part.restarted, part.at_end, part.unreadable) == (False, True, 0)
    assert offsets(read(log)) == []
    client.append(batch(6, 1))
    client.sent.clear()
    assert offsets(read(log)) == [6]
    assert client.sent == ["fetch"]
    assert client.parts[TP].last_epoch == 5


def test_control_records_are_left_out_and_what_was_aborted_is_not(client: MemoryClient) -> None:
    client.append(batch(0, 2, producer=9), marker(2, 0, 9), batch(3, 1))
    part = read(tail(client))
    assert (offsets(part), part.at_end, part.restarted) == ([0, 1, 3], True, False)


def test_holes_of_compaction_are_no_restart(client: MemoryClient) -> None:
    client.append(batch(0, 4, without=[0, 2, 3]))
    log = tail(client)
    assert offsets(read(log)) == [1]
    client.append(batch(40, 3, without=[1]))
    part = read(log)
    assert (offsets(part), part.restarted, part.at_end) == ([40, 42], False, True)


def test_records_before_the_position_are_not_told_twice(client: MemoryClient) -> None:
    client.start = 2
    client.append(batch(0, 4))
    assert offsets(read(tail(client))) == [2, 3]


def test_a_batch_that_nobody_can_decode_is_stepped_over(client: MemoryClient) -> None:
    garbage = bytearray(batch(3, 3, codec=GZIP))
    garbage[61:70] = b"\xff" * 9
    client.append(batch(0, 3), sealed(garbage), batch(6, 2))
    part = read(tail(client))
    assert (offsets(part), part.unreadable, part.at_end) == ([0, 1, 2, 6, 7], 1, True)


def test_a_damaged_batch_is_a_failure_until_it_arrives_whole(client: MemoryClient) -> None:
    whole = batch(3, 3)
    client.append(batch(0, 3))
    log = tail(client)
    read(log)
    client.append(whole[:-1] + b"\0")
    assert fault(log) is KafkaFault.OTHER
    client.batches[-1] = whole
    part = read(log)
    assert (offsets(part), part.restarted) == ([3, 4, 5], False)


def test_an_incomplete_batch_is_a_failure(client: MemoryClient) -> None:
    client.append(batch(0, 3))
    client.batches = []
    log = tail(client)
    client.fetched = lambda: {TP: PartitionData(0, 3, 3, 0, (), batch(0, 3)[:-1])}  # type: ignore[method-assign]
    assert fault(log) is KafkaFault.OTHER


def test_a_log_that_went_another_way_below_the_position_is_a_restart(client: MemoryClient) -> None:
    client.append(batch(0, 3))
    log = tail(client)
    read(log)
    client.batches, client.diverged = [], True
    client.append(batch(0, 9, epoch=6))
    part = read(log)
    assert (offsets(part), part.restarted) == (list(range(9)), True)
    assert not read(log).restarted


@pytest.mark.parametrize("newest_fetch", [11, 13])
def test_a_topic_made_again_is_a_restart(monkeypatch: pytest.MonkeyPatch, newest_fetch: int) -> None:
    """By name, a fetch answers records of whatever topic has it now: the id is asked for after it."""
    client = MemoryClient(monkeypatch, newest_fetch=newest_fetch)
    client.append(batch(0, 3))
    log = tail(client)
    read(log)
    client.topic_id, client.batches = "b", []
    client.append(batch(0, 9))
    part = read(log)
    assert (offsets(part), part.restarted) == (list(range(9)), True)
    assert (offsets(read(log)), read(log).restarted) == ([], False)


def test_a_topic_made_again_while_it_was_away_is_a_restart_even_if_reads_fail_in_between(
    client: MemoryClient,
) -> None:
    client.append(batch(0, 3))
    log = tail(client)
    read(log)
    client.topic_id = ""
    client.errors = [Errors.UNKNOWN_TOPIC_ID]
    assert fault(log) is KafkaFault.UNKNOWN_TOPIC
    client.topic_id, client.leader = "b", -1
    assert fault(log) is KafkaFault.LEADER_MOVED
    client.leader = 2
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1, 2], True)


def test_a_topic_made_again_is_a_restart_even_if_nothing_was_read_of_it(client: MemoryClient) -> None:
    log = tail(client)
    assert not read(log).restarted
    client.topic_id = "b"
    client.append(batch(0, 3))
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1, 2], True)
    assert not read(log).restarted


def test_a_topic_that_came_late_was_not_restarted(client: MemoryClient) -> None:
    client.topic_id = ""
    log = tail(client)
    assert fault(log) is KafkaFault.UNKNOWN_TOPIC
    client.topic_id = "a"
    assert not read(log).restarted
    client.append(batch(0, 3))
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1, 2], False)


@pytest.mark.parametrize(
    ("start", "restarted"),
    [(2, False), (5, True), (6, True)],
    ids=["what is gone was read", "all that was read is gone", "unread records are gone"],
)
def test_a_log_start_that_moves(client: MemoryClient, start: int, restarted: bool) -> None:
    client.append(batch(0, 3), batch(3, 2))
    log = tail(client)
    read(log)
    client.append(batch(5, 4))
    client.start = start
    part = read(log)
    assert part.restarted is restarted
    assert offsets(part) == list(range(max(5, start), 9))
    assert not read(log).restarted


def test_a_log_that_ends_before_the_position_is_a_restart(client: MemoryClient) -> None:
    client.append(batch(0, 9))
    log = tail(client)
    read(log)
    client.batches = [batch(0, 3)]
    client.end = 3
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1, 2], True)


@pytest.mark.parametrize("code", [5, 6, 74, 75])
def test_a_leader_that_moves_costs_one_failure_and_no_record(client: MemoryClient, code: int) -> None:
    client.append(batch(0, 3))
    log = tail(client)
    read(log)
    client.append(batch(3, 3))
    client.errors = [code]
    assert fault(log) is KafkaFault.LEADER_MOVED
    client.leader = 2
    part = read(log)
    assert (offsets(part), part.restarted) == ([3, 4, 5], False)


def test_a_connection_that_breaks_costs_no_record(client: MemoryClient) -> None:
    client.append(batch(0, 3))
    log = tail(client)
    read(log)
    client.append(batch(3, 3))
    client.broken = failure(KafkaFault.UNREACHABLE, "read syncs", "Connection reset")
    assert fault(log) is KafkaFault.UNREACHABLE
    assert offsets(read(log)) == [3, 4, 5]


def test_a_leader_that_has_not_heard_of_the_topic_id_yet(client: MemoryClient) -> None:
    client.append(batch(0, 3))
    log = tail(client)
    read(log)
    client.append(batch(3, 3))
    client.errors = [Errors.UNKNOWN_TOPIC_ID, Errors.UNKNOWN_TOPIC_ID, Errors.UNKNOWN_TOPIC_ID]
    assert fault(log) is KafkaFault.LEADER_MOVED
    part = read(log)
    assert (offsets(part), part.restarted) == ([3, 4, 5], False)


def test_a_log_that_is_never_where_it_says_ends_the_read(client: MemoryClient) -> None:
    client.append(batch(0, 3))
    client.errors = [Errors.OFFSET_OUT_OF_RANGE, Errors.OFFSET_OUT_OF_RANGE, Errors.OFFSET_OUT_OF_RANGE]
    assert fault(tail(client)) is KafkaFault.LEADER_MOVED


def test_the_end_is_where_the_log_ended_when_asked(client: MemoryClient) -> None:
    client.append(batch(0, 3), batch(3, 3))
    last = client.batches.pop()
    log = tail(client)
    assert not read(log).at_end
    client.batches.append(last)
    assert read(log).at_end


def test_append_time_is_the_timestamp(client: MemoryClient) -> None:
    client.append(batch(0, 2, append_time=77))
    assert [record.timestamp for record in read(tail(client)).records] == [77, 77]


def test_old_formats(client: MemoryClient) -> None:
    """A batch of one message of format 1, as brokers before 0.11 wrote."""
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 20)
    builder.append(0, timestamp=7, key=b"k", value=b"v")
    data = bytes(builder.build())
    assert struct.unpack_from(">b", data, 16) == (1,)
    client.append(data)
    (record,) = read(tail(client)).records
    assert record == (0, 7, b"k", b"v")


def test_from_the_end_on(client: MemoryClient) -> None:
    """And what is restarted is read from its beginning all the same."""
    client.append(batch(0, 3))
    log = TopicTail(client, TP.topic, from_end=True)  # type: ignore[arg-type]
    part = read(log)
    assert (len(part.records), part.restarted, part.at_end) == (0, False, True)
    client.append(batch(3, 2))
    assert offsets(read(log)) == [3, 4]
    client.topic_id, client.batches = "b", []
    client.append(batch(0, 2))
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1], True)


class Transactions:
    """A log in which one transaction, of producer 9, is open from offset 2 on until it is ended."""

    def __init__(self, client: MemoryClient) -> None:
        self.client, self.last_stable = client, 2
        client.append(batch(0, 2), of(9, other_key(2)), of(8, batch(3, 1)), marker(4, 1, 8), batch(5, 1))
        client.fetched = self.fetched  # type: ignore[method-assign]
        self.committed_only = list[bool]()

    def fetched(self) -> dict[TopicPartition, PartitionData]:
        at, stable = self.client.parts[TP].offset, self.last_stable
        committed_only = self.client.committed_only
        self.committed_only.append(committed_only)
        end = stable if committed_only else self.client.end
        data = b"".join(each for each in self.client.batches if at <= next(parse(each)).last_offset < end)
        return {TP: PartitionData(0, self.client.end, stable, 0, (), data)}


def other_key(offset: int) -> bytes:
    made = bytearray(batch_of([Plain(1, b"other", b"value")]))
    made[0:8] = offset.to_bytes(8, "big")
    return sealed(made)


def of(producer: int, data: bytes) -> bytes:
    made = bytearray(data)
    made[22] |= 0x10
    made[43:51] = producer.to_bytes(8, "big")
    return sealed(made)


def all_of(log: TopicTail) -> tuple[list[int], bool]:
    """Reads to the end; whether it was restarted."""
    read_offsets, restarted = list[int](), False
    for _ in range(9):
        part = read(log)
        restarted = restarted or part.restarted
        read_offsets = [*([] if part.restarted else read_offsets), *offsets(part)]
        if part.at_end:
            return read_offsets, restarted
    pytest.fail("it never comes to the end")


def test_an_open_transaction_hides_none_of_others(client: MemoryClient) -> None:
    log = Transactions(client)
    followed = TopicTail(client, TP.topic, committed_only=True)  # type: ignore[arg-type]
    assert all_of(followed) == ([0, 1, 3, 5], False)
    assert [each.offset for each in followed.undecided] == [2]
    client.append(batch(6, 1))
    assert all_of(followed) == ([6], False)
    client.append(marker(7, 1, 9))
    log.last_stable = client.end
    assert all_of(followed) == ([2], False)
    assert not followed.undecided
    client.append(batch(8, 1))
    log.last_stable = client.end
    assert all_of(followed) == ([8], False)
    assert log.committed_only[-1], "by the broker again"


def test_a_marker_that_compaction_has_taken_makes_it_begin_anew(client: MemoryClient) -> None:
    log = Transactions(client)
    followed = TopicTail(client, TP.topic, committed_only=True)  # type: ignore[arg-type]
    all_of(followed)
    client.append(batch(8, 1))  # that was at 7
    log.last_stable = client.end
    assert all_of(followed) == ([0, 1, 2, 3, 5, 8], True), "one that reads to the end has it all"
    assert not followed.undecided


def test_without_committed_only_nothing_is_undecided(client: MemoryClient) -> None:
    Transactions(client)
    followed = tail(client)
    assert all_of(followed) == ([0, 1, 2, 3, 5], False)
    assert not followed.undecided

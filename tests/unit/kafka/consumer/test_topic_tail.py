"""Tails over a broker in memory: what no real broker does on demand."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Mapping, Sequence

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.kafka.errors import failure
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.log_requests import Fetched, PartitionMeta, TopicMeta
from bridge.kafka.protocol.wire import Call, Reader
from bridge.kafka.record.batch import parse
from bridge.model.batch_limits import MOST_BYTES
from bridge.model.values import TailPart, TopicPartition
from tests.support.raw_batches import GZIP, batch, marker, sealed

PLACE = TopicPartition("syncs", 0)


class MemoryLink:
    """One topic, or none, on one node. The next fetches answer the codes of `trouble`, or raise `broken`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, newest_fetch: int = 13) -> None:
        self.topic_id = "a"
        self.leader, self.most_decompressed = 1, MOST_BYTES
        self.batches: list[bytes] = []
        self.start = self.end = 0
        self.trouble: list[int] = []
        self.broken: KafkaFailure | None = None
        self.diverged = False
        self.sent: list[str] = []
        self.parts: Mapping[TopicPartition, log_requests.FetchPart] = {}
        self.wanted = 0
        self._newest_fetch = newest_fetch
        fetch = log_requests.fetch
        monkeypatch.setattr(
            log_requests, "fetch", lambda parts, **how: self._asked(parts, fetch(parts, **how))
        )
        monkeypatch.setattr(log_requests, "read_fetched", lambda *_: self._fetched())
        list_offsets = log_requests.list_offsets
        monkeypatch.setattr(
            log_requests,
            "list_offsets",
            lambda wanted, **how: self._listing(wanted, list_offsets(wanted, **how)),
        )
        monkeypatch.setattr(log_requests, "read_listed_offsets", lambda _: self._listed())

    def append(self, *batches: bytes) -> None:
        self.batches += batches
        self.end = max(each.last_offset for each in parse(batches[-1])) + 1

    def _asked(self, parts: Mapping[TopicPartition, log_requests.FetchPart], call: Call) -> Call:
        self.parts = parts
        return call

    def _listing(self, wanted: Mapping[TopicPartition, int], call: Call) -> Call:
        self.wanted = wanted[PLACE]
        return call

    def _listed(self) -> dict[TopicPartition, log_requests.ListedOffset]:
        at = {log_requests.EARLIEST: self.start, log_requests.LATEST: self.end}[self.wanted]
        return {PLACE: log_requests.ListedOffset(0, at, 0)}

    def _fetched(self) -> dict[TopicPartition, Fetched]:
        part = self.parts[PLACE]
        code = self.trouble.pop() if self.trouble else 0
        if part.topic_id != self.topic_id and self._newest_fetch >= 13:
            code = 100
        elif not self.start <= part.offset <= self.end and not code:
            code = 1
        diverged, self.diverged = (0, 0) if self.diverged else None, False
        data = b"".join(each for each in self.batches if next(parse(each)).last_offset >= part.offset)
        if diverged:
            data = b""
        return {PLACE: Fetched(code, self.end, self.end, self.start, (), b"" if code else data, diverged)}

    async def metadata(self, topics: Sequence[str]) -> dict[str, TopicMeta]:
        self.sent.append("metadata")
        if not self.topic_id:
            return {PLACE.topic: TopicMeta(3, "", {})}
        return {PLACE.topic: TopicMeta(0, self.topic_id, {0: PartitionMeta(0, self.leader, 0)})}

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaFailure]]:
        if self.leader < 0:
            return {}, {PLACE: failure(KafkaFault.LEADER_MOVED, "read syncs", "Leader not available")}
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
def link(monkeypatch: pytest.MonkeyPatch) -> MemoryLink:
    return MemoryLink(monkeypatch)


def tail(link: MemoryLink) -> TopicTail:
    return TopicTail(link, PLACE.topic)  # type: ignore[arg-type]


def read(log: TopicTail) -> TailPart:
    return asyncio.run(log.read())


def offsets(part: TailPart) -> list[int]:
    return [record.offset for record in part.records]


def fault(log: TopicTail) -> KafkaFault:
    with pytest.raises(KafkaFailure) as caught:
        read(log)
    assert caught.value.retriable
    assert PLACE.topic in str(caught.value)
    return caught.value.fault


def test_it_begins_at_the_log_start_and_follows(link: MemoryLink) -> None:
    link.start = 3
    link.append(batch(0, 3), batch(3, 3))
    log = tail(link)
    assert read(log) == TailPart(read(tail(link)).records, restarted=False, at_end=True)
    assert offsets(read(log)) == []
    link.append(batch(6, 1))
    link.sent.clear()
    assert offsets(read(log)) == [6]
    assert link.sent == ["fetch"]
    assert link.parts[PLACE].last_epoch == 5


def test_control_records_are_left_out_and_what_was_aborted_is_not(link: MemoryLink) -> None:
    link.append(batch(0, 2, producer=9), marker(2, 0, 9), batch(3, 1))
    part = read(tail(link))
    assert (offsets(part), part.at_end, part.restarted) == ([0, 1, 3], True, False)


def test_holes_of_compaction_are_no_restart(link: MemoryLink) -> None:
    link.append(batch(0, 4, without=[0, 2, 3]))
    log = tail(link)
    assert offsets(read(log)) == [1]
    link.append(batch(40, 3, without=[1]))
    part = read(log)
    assert (offsets(part), part.restarted, part.at_end) == ([40, 42], False, True)


def test_records_before_the_position_are_not_told_twice(link: MemoryLink) -> None:
    link.start = 2
    link.append(batch(0, 4))
    assert offsets(read(tail(link))) == [2, 3]


def test_a_batch_that_nobody_can_decode_is_stepped_over(link: MemoryLink) -> None:
    garbage = bytearray(batch(3, 3, codec=GZIP))
    garbage[61:70] = b"\xff" * 9
    link.append(batch(0, 3), sealed(garbage), batch(6, 2))
    part = read(tail(link))
    assert (offsets(part), part.unreadable, part.at_end) == ([0, 1, 2, 6, 7], 1, True)


def test_a_damaged_batch_is_a_failure_until_it_arrives_whole(link: MemoryLink) -> None:
    whole = batch(3, 3)
    link.append(batch(0, 3))
    log = tail(link)
    read(log)
    link.append(whole[:-1] + b"\0")
    assert fault(log) is KafkaFault.OTHER
    link.batches[-1] = whole
    part = read(log)
    assert (offsets(part), part.restarted) == ([3, 4, 5], False)


def test_an_incomplete_batch_is_a_failure(link: MemoryLink) -> None:
    link.append(batch(0, 3))
    link.batches = []
    log = tail(link)
    link._fetched = lambda: {PLACE: Fetched(0, 3, 3, 0, (), batch(0, 3)[:-1])}  # type: ignore[method-assign]
    assert fault(log) is KafkaFault.OTHER


def test_a_log_that_went_another_way_below_the_position_is_a_restart(link: MemoryLink) -> None:
    link.append(batch(0, 3))
    log = tail(link)
    read(log)
    link.batches, link.diverged = [], True
    link.append(batch(0, 9, epoch=6))
    part = read(log)
    assert (offsets(part), part.restarted) == (list(range(9)), True)
    assert not read(log).restarted


@pytest.mark.parametrize("newest_fetch", [11, 13])
def test_a_topic_made_again_is_a_restart(monkeypatch: pytest.MonkeyPatch, newest_fetch: int) -> None:
    """By name, a fetch answers records of whatever topic has it now: the id is asked for after it."""
    link = MemoryLink(monkeypatch, newest_fetch=newest_fetch)
    link.append(batch(0, 3))
    log = tail(link)
    read(log)
    link.topic_id, link.batches = "b", []
    link.append(batch(0, 9))
    part = read(log)
    assert (offsets(part), part.restarted) == (list(range(9)), True)
    assert (offsets(read(log)), read(log).restarted) == ([], False)


def test_a_topic_made_again_while_it_was_away_is_a_restart_even_if_reads_fail_in_between(
    link: MemoryLink,
) -> None:
    link.append(batch(0, 3))
    log = tail(link)
    read(log)
    link.topic_id = ""
    link.trouble = [100]
    assert fault(log) is KafkaFault.UNKNOWN_TOPIC
    link.topic_id, link.leader = "b", -1
    assert fault(log) is KafkaFault.LEADER_MOVED
    link.leader = 2
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1, 2], True)


def test_a_topic_made_again_is_a_restart_even_if_nothing_was_read_of_it(link: MemoryLink) -> None:
    log = tail(link)
    assert not read(log).restarted
    link.topic_id = "b"
    link.append(batch(0, 3))
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1, 2], True)
    assert not read(log).restarted


def test_a_topic_that_came_late_was_not_restarted(link: MemoryLink) -> None:
    link.topic_id = ""
    log = tail(link)
    assert fault(log) is KafkaFault.UNKNOWN_TOPIC
    link.topic_id = "a"
    assert not read(log).restarted
    link.append(batch(0, 3))
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1, 2], False)


@pytest.mark.parametrize(
    ("start", "restarted"),
    [(2, False), (5, True), (6, True)],
    ids=["what is gone was read", "all that was read is gone", "unread records are gone"],
)
def test_a_log_start_that_moves(link: MemoryLink, start: int, restarted: bool) -> None:
    link.append(batch(0, 3), batch(3, 2))
    log = tail(link)
    read(log)
    link.append(batch(5, 4))
    link.start = start
    part = read(log)
    assert part.restarted is restarted
    assert offsets(part) == list(range(max(5, start), 9))
    assert not read(log).restarted


def test_a_log_that_ends_before_the_position_is_a_restart(link: MemoryLink) -> None:
    link.append(batch(0, 9))
    log = tail(link)
    read(log)
    link.batches = [batch(0, 3)]
    link.end = 3
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1, 2], True)


@pytest.mark.parametrize("code", [5, 6, 74, 75])
def test_a_leader_that_moves_costs_one_failure_and_no_record(link: MemoryLink, code: int) -> None:
    link.append(batch(0, 3))
    log = tail(link)
    read(log)
    link.append(batch(3, 3))
    link.trouble = [code]
    assert fault(log) is KafkaFault.LEADER_MOVED
    link.leader = 2
    part = read(log)
    assert (offsets(part), part.restarted) == ([3, 4, 5], False)


def test_a_connection_that_breaks_costs_no_record(link: MemoryLink) -> None:
    link.append(batch(0, 3))
    log = tail(link)
    read(log)
    link.append(batch(3, 3))
    link.broken = failure(KafkaFault.UNREACHABLE, "read syncs", "Connection reset")
    assert fault(log) is KafkaFault.UNREACHABLE
    assert offsets(read(log)) == [3, 4, 5]


def test_a_leader_that_has_not_heard_of_the_topic_id_yet(link: MemoryLink) -> None:
    link.append(batch(0, 3))
    log = tail(link)
    read(log)
    link.append(batch(3, 3))
    link.trouble = [100, 100, 100]
    assert fault(log) is KafkaFault.LEADER_MOVED
    part = read(log)
    assert (offsets(part), part.restarted) == ([3, 4, 5], False)


def test_a_log_that_is_never_where_it_says_ends_the_read(link: MemoryLink) -> None:
    link.append(batch(0, 3))
    link.trouble = [1, 1, 1]
    assert fault(tail(link)) is KafkaFault.LEADER_MOVED


def test_the_end_is_where_the_log_ended_when_asked(link: MemoryLink) -> None:
    link.append(batch(0, 3), batch(3, 3))
    last = link.batches.pop()
    log = tail(link)
    assert not read(log).at_end
    link.batches.append(last)
    assert read(log).at_end


def test_append_time_is_the_timestamp(link: MemoryLink) -> None:
    link.append(batch(0, 2, append_time=77))
    assert [record.timestamp for record in read(tail(link)).records] == [77, 77]


def test_old_formats(link: MemoryLink) -> None:
    """A batch of one message of format 1, as brokers before 0.11 wrote."""
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 20)
    builder.append(0, timestamp=7, key=b"k", value=b"v")
    data = bytes(builder.build())
    assert struct.unpack_from(">b", data, 16) == (1,)
    link.append(data)
    (record,) = read(tail(link)).records
    assert record == (0, 7, b"k", b"v")


def test_from_the_end_on(link: MemoryLink) -> None:
    """And what is restarted is read from its beginning all the same."""
    link.append(batch(0, 3))
    log = TopicTail(link, PLACE.topic, from_end=True)  # type: ignore[arg-type]
    assert read(log) == TailPart([], restarted=False, at_end=True)
    link.append(batch(3, 2))
    assert offsets(read(log)) == [3, 4]
    link.topic_id, link.batches = "b", []
    link.append(batch(0, 2))
    part = read(log)
    assert (offsets(part), part.restarted) == ([0, 1], True)

"""Fetching from brokers in memory: what no one broker does on demand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer import broker_fetcher
from bridge.kafka.consumer import fetcher as consumer_fetcher
from bridge.kafka.consumer.fetcher import CompletedFetch, Fetcher, FetchError, FetchErrorKind, FetchPosition
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure
from bridge.kafka.protocol.log_requests import FetchPartition, PartitionMetadata, TopicMetadata
from bridge.kafka.protocol.wire import ApiKeys, Call, Reader, Writer
from bridge.model.values import TopicPartition

T = TypeVar("T")
ID = "11223344-5566-7788-99aa-bbccddeeff00"
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Answer(NamedTuple):
    """Of a partition."""

    error: int = 0
    records: bytes = b""
    diverged: tuple[int, int] | None = None
    preferred: int = -1


class MemoryClient:
    """Brokers by number; `leaders` of partitions, and what each fetch is answered by `serve`: node, partition, offset.
    A broker remembers sessions as real ones do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rack, self.metadata_seconds = "", 300.0
        self.racks: list[tuple[int, str]] = []
        """Node and rack of each fetch."""
        self.leaders = {A: 1, B: 1}
        self.topic = TopicMetadata(0, ID, {})
        self.serve: Callable[[int, TopicPartition, int], Answer | None] = lambda *_: None
        self.alone: list[Answer] = []
        """What comes of a partition that is asked for by itself, in this order; the last one again and again."""
        self.asked_alone: list[TopicPartition] = []
        self.silent: set[TopicPartition] = set()
        """Of which nothing comes even by itself."""
        self.broken: dict[int, KafkaFailure] = {}
        self.fetched: list[tuple[int, int, dict[TopicPartition, int]]] = []
        """Node, session epoch, partitions of the session with their offsets."""
        self.lose_sessions = False
        self.far = self._now = 0.0
        """Seconds until an answer; by a clock of its own, because a busy machine would pass for distance."""
        self.sizes: list[dict[TopicPartition, int]] = []
        """Bytes that were asked for, of the partitions that a request names."""
        self.gate, self.asked = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.most: list[int] = []
        """Bytes that an answer might hold."""
        self._sessions: dict[int, dict[TopicPartition, int]] = {}
        self._asked: Any = None
        fetch = log_requests.fetch

        def spy(parts: Mapping[TopicPartition, FetchPartition], **how: Any) -> Call:
            self._asked = (parts, how.get("params"))
            return fetch(parts, **how)

        monkeypatch.setattr(log_requests, "fetch", spy)
        monkeypatch.setattr(broker_fetcher, "time", SimpleNamespace(monotonic=lambda: self._now))

    async def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        partitions = {tp.partition: PartitionMetadata(0, node, 0) for tp, node in self.leaders.items()}
        return {name: self.topic._replace(partitions=partitions) for name in topics}

    def by_leader(
        self, tps: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaFailure]]:
        nodes: dict[int, list[TopicPartition]] = {}
        for tp in tps:
            nodes.setdefault(self.leaders[tp], []).append(tp)
        return nodes, {}

    async def send(self, node: int, call: Call, doing: str, *, apart: bool = False) -> Reader:
        if call.API_KEY != ApiKeys.FETCH:
            return self._listed(call)
        call.prepare({1: (4, 17)})
        (tp,) = self._asked[0]
        self.asked_alone.append(tp)
        if tp in self.silent:
            return self._answer(0, {tp: Answer()})
        return self._answer(0, {tp: self.alone.pop(0) if len(self.alone) > 1 else self.alone[0]})

    async def send_bulk(self, node: int, call: Call, read: Callable[[Reader], T], doing: str) -> T:
        call.prepare({1: (4, 17)})
        parts, params = self._asked
        self.most.append(params.max_bytes)
        self.sizes.append({tp: part.max_bytes for tp, part in parts.items()})
        self.asked.set()
        await asyncio.sleep(0)
        self._now += self.far
        await self.gate.wait()
        if node in self.broken:
            raise self.broken[node]
        error = 0
        if self.lose_sessions and params.epoch > 0:
            self.lose_sessions, error, parts = False, Errors.FETCH_SESSION_ID_NOT_FOUND, {}
        session = self._sessions[node] = {} if params.epoch == 0 else self._sessions[node]
        for _, tp in params.forgotten:
            del session[tp]
        session |= {tp: part.offset for tp, part in parts.items()}
        self.fetched.append((node, params.epoch, dict(session)))
        self.racks.append((node, params.rack))
        answers = {} if error else {tp: self.serve(node, tp, at) for tp, at in session.items()}
        return read(self._answer(error, {tp: each for tp, each in answers.items() if each is not None}))

    def _answer(self, error: int, answers: Mapping[TopicPartition, Answer]) -> Reader:
        writer = Writer(flexible=True)
        writer.int32(0)
        writer.int16(error)
        writer.int32(0 if error else 77)
        writer.array(len(answers))
        for tp, answer in answers.items():
            writer.uuid(ID)
            writer.array(1)
            writer.int32(tp.partition)
            writer.int16(answer.error)
            for offset in (100, 90, 3):
                writer.int64(offset)
            writer.array(0)
            writer.int32(answer.preferred)
            writer.blob(answer.records)
            if answer.diverged is None:
                writer.tags()
            else:
                for number in (1, 0, 13):  # one tagged field, its number and size
                    writer.varint(number)
                writer.int32(answer.diverged[0])
                writer.int64(answer.diverged[1])
                writer.tags()
            writer.tags()
        return Reader(writer.encode(), flexible=True)

    def _listed(self, call: Call) -> Reader:
        """Logs begin at 3 and end at 100."""
        call.prepare({2: (0, 7)})
        request = Reader(call.encode(), flexible=False)
        request.skip(4 + 1 + 4)
        topic = request.string()
        request.skip(4)
        number, _, timestamp = request.int32(), request.int32(), request.int64()
        writer = Writer(flexible=False)
        writer.int32(0)
        writer.array(1)
        writer.string(topic)
        writer.array(1)
        writer.int32(number)
        writer.int16(0)
        writer.int64(-1)
        writer.int64(100 if timestamp == log_requests.LATEST else 3)
        writer.int32(0)
        return Reader(writer.encode(), flexible=False)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MemoryClient:
    monkeypatch.setattr(consumer_fetcher, "RETRY_SECONDS", (0.005, 0.01))
    monkeypatch.setattr(consumer_fetcher, "UNKNOWN_TOPIC_SECONDS", 0.05)
    return MemoryClient(monkeypatch)


def fetch(client: MemoryClient, work: Callable[[Fetcher], Awaitable[T]]) -> T:
    async def go() -> T:
        fetcher = Fetcher(client, committed_only=True)  # type: ignore[arg-type]
        await fetcher.start()
        fetcher.assign({A: FetchPosition(ID, 5, 2), B: FetchPosition(ID, 6)})
        try:
            return await work(fetcher)
        finally:
            await fetcher.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(go())


async def until(fetcher: Fetcher, holds: Callable[[CompletedFetch], bool]) -> CompletedFetch:
    async with asyncio.timeout(5.0):
        while True:
            for part in await fetcher.poll(0.5):
                if holds(part):
                    return part


@pytest.mark.parametrize("error", [3, 5, 6, 74, 75, 78, 56, 103])
def test_a_partition_that_has_moved_is_found_again(client: MemoryClient, error: int) -> None:
    def serve(node: int, tp: TopicPartition, at: int) -> Answer | None:
        if node == 1 and tp == A:
            client.leaders[A] = 2
            return Answer(error)
        return Answer(records=b"x") if node == 2 else None

    client.serve = serve

    async def work(fetcher: Fetcher) -> None:
        part = await until(fetcher, lambda part: bool(part.records))
        assert (part.tp, part.offset, part.error) == (A, 5, None)
        assert not fetcher.errors

    fetch(client, work)
    # The broker that was left was asked to forget the partition, and not asked for the other one again.
    assert [session for node, _, session in client.fetched if node == 1][-1] == {B: 6}
    assert [epoch for node, epoch, _ in client.fetched if node == 1] == list(
        range(sum(node == 1 for node, _, _ in client.fetched))
    )


def test_a_broker_that_is_away_costs_the_others_nothing(client: MemoryClient) -> None:
    client.leaders[B] = 2
    client.broken[1] = failure(KafkaFault.UNREACHABLE, "fetch", "Connection refused")
    client.serve = lambda node, tp, at: Answer(records=b"x" * at)

    async def work(fetcher: Fetcher) -> None:
        for offset in range(6, 20):
            part = await until(fetcher, lambda part: bool(part.records))
            assert (part.tp, part.offset) == (B, offset)
            fetcher.done(part, offset + 1, 0)
        assert list(fetcher.errors) == [A]
        assert "Connection refused" in str(fetcher.errors[A])
        client.broken.clear()
        assert (await until(fetcher, lambda part: part.tp == A)).offset == 5
        assert not fetcher.errors

    fetch(client, work)


def test_a_lost_session_is_begun_anew_with_the_positions_of_now(client: MemoryClient) -> None:
    client.serve = lambda node, tp, at: Answer(records=b"x") if (tp, at) in ((A, 5), (A, 9)) else None

    async def work(fetcher: Fetcher) -> None:
        first = await until(fetcher, lambda part: part.offset == 5)
        client.lose_sessions = True
        fetcher.done(first, 9, 0)
        await until(fetcher, lambda part: part.offset == 9)

    fetch(client, work)
    assert [session for _, epoch, session in client.fetched if epoch == 0][-1] == {B: 6, A: 9}


def test_a_fetch_without_records_releases_nothing(client: MemoryClient) -> None:
    """Records of a later one may have come before it is done: they would be fetched twice."""
    client.serve = lambda node, tp, at: (
        Answer() if tp == A and len(client.fetched) < 3 else Answer(records=b"x")
    )

    async def work(fetcher: Fetcher) -> None:
        empty = await until(fetcher, lambda part: part.tp == A and not part.records)
        full = await until(fetcher, lambda part: part.tp == A and bool(part.records))
        fetcher.done(empty, 5, -1)
        assert fetcher.bytes_in_hand
        fetcher.done(full, 6, 0)
        assert (await until(fetcher, lambda part: part.tp == A)).offset == 6

    fetch(client, work)


def test_where_a_batch_is_larger_than_what_is_asked_for_more_is_asked_for(client: MemoryClient) -> None:
    """A broker sends such a batch alone, and nothing of other partitions: each would cost a round trip."""
    client.serve = lambda node, tp, at: Answer(records=bytes(1_000_000 if tp == A else 1000))

    async def work(fetcher: Fetcher) -> None:
        for _ in range(20):
            for part in await fetcher.poll(0.5):
                fetcher.done(part, part.offset + 1, 0)

    fetch(client, work)
    sizes = {tp: [each[tp] for each in client.sizes if tp in each] for tp in (A, B)}
    assert (sizes[A][0], set(sizes[A][1:])) == (512 * 1024, {2_000_000})
    assert set(sizes[B]) == {512 * 1024}


def test_more_is_asked_for_over_a_distance(client: MemoryClient) -> None:
    client.far = 0.05
    client.serve = lambda node, tp, at: Answer(records=b"x")

    def at(offset: int, part: CompletedFetch) -> bool:
        return (part.tp, part.offset) == (A, offset)

    async def work(fetcher: Fetcher) -> None:
        for offset in (5, 6):
            fetcher.done(await until(fetcher, partial(at, offset)), offset + 1, 0)

    fetch(client, work)
    first, second = [each[A] for each in client.sizes if A in each][:2]
    assert first == 512 * 1024
    assert second == 10 * first


def test_no_more_is_asked_for_than_comes_in_time(client: MemoryClient) -> None:
    client.far = 0.01
    client.broken = {1: failure(KafkaFault.TIMEOUT, "fetch", "No answer in time")}
    client.serve = lambda node, tp, at: Answer(records=bytes(200_000))

    async def work(fetcher: Fetcher) -> None:
        while len(client.most) < 4:
            await fetcher.poll(0.01)
        client.broken = {}
        while len(client.most) < 12:
            for part in await fetcher.poll(0.5):
                fetcher.done(part, part.offset + 1, 0)
        client.far = 4.0
        asked = len(client.most)
        while len(client.most) < asked + 3:
            for part in await fetcher.poll(0.5):
                fetcher.done(part, part.offset + 1, 0)

    fetch(client, work)
    assert client.most[:4] == [1 << 20, 1 << 19, 1 << 18, 1 << 17]
    assert max(client.most[4:12]) > 1 << 18
    assert client.most[-1] <= 110_000  # of 400 KB in four seconds a good quarter


def test_a_log_that_took_another_way(client: MemoryClient) -> None:
    client.serve = lambda node, tp, at: Answer(diverged=(1, 4)) if tp == A else Answer(records=b"x")

    async def work(fetcher: Fetcher) -> None:
        part = await until(fetcher, lambda part: part.error is not None)
        assert part == CompletedFetch(A, b"", 5, error=FetchError(FetchErrorKind.DIVERGED, -1, -1, 1, 4))
        asked = len(client.fetched)
        fetcher.done(CompletedFetch(B, b"x", 6), 7, 0)
        await until(fetcher, lambda part: part.offset == 7)
        assert all(A not in session for _, _, session in client.fetched[asked + 1 :])

    fetch(client, work)


def test_a_partition_that_is_dropped_is_not_fetched_and_takes_no_room(client: MemoryClient) -> None:
    client.serve = lambda node, tp, at: Answer(records=bytes(1000)) if tp == A else None

    async def work(fetcher: Fetcher) -> None:
        await until(fetcher, lambda part: part.tp == A)
        fetcher.drop(A)
        asked = len(client.fetched)
        client.serve = lambda node, tp, at: Answer(records=bytes(1000))
        for offset in range(6, 12):
            part = await until(fetcher, lambda part: bool(part.records))
            assert (part.tp, part.offset) == (B, offset)
            fetcher.done(part, offset + 1, 0)
        assert all(A not in session for _, _, session in client.fetched[asked + 1 :])
        assert fetcher.bytes_in_hand == 0

    fetch(client, work)


def test_a_partition_goes_on_elsewhere_after_an_error(client: MemoryClient) -> None:
    client.serve = lambda node, tp, at: (
        None if tp == B else Answer(diverged=(1, 4)) if at == 5 else Answer(records=b"x")
    )

    async def work(fetcher: Fetcher) -> None:
        assert (await until(fetcher, lambda part: part.error is not None)).tp == A
        fetcher.resume(A, 50)
        assert (await until(fetcher, lambda part: bool(part.records))).offset == 50

    fetch(client, work)


def test_an_offset_that_is_in_range_after_all_is_tried_again(client: MemoryClient) -> None:
    answers = iter(
        [Answer(Errors.OFFSET_OUT_OF_RANGE), Answer(Errors.OFFSET_OUT_OF_RANGE), Answer(records=b"x")]
    )
    client.serve = lambda node, tp, at: next(answers) if tp == A else None

    async def work(fetcher: Fetcher) -> None:
        part = await until(fetcher, lambda part: part.tp == A)
        assert part.records == b"x"

    fetch(client, work)


def test_an_offset_out_of_range_comes_with_where_the_log_is(client: MemoryClient) -> None:
    client.serve = lambda node, tp, at: Answer(Errors.OFFSET_OUT_OF_RANGE) if at == 2 else None

    async def work(fetcher: Fetcher) -> None:
        fetcher.assign({A: FetchPosition(ID, 2)})
        part = await until(fetcher, lambda part: part.tp == A)
        assert part.error == FetchError(FetchErrorKind.OUT_OF_RANGE, log_start=3, log_end=100)

    fetch(client, work)


@pytest.mark.parametrize("by", ["fetch", "metadata"])
def test_a_missing_right_is_told_at_once(client: MemoryClient, by: str) -> None:
    if by == "fetch":
        client.serve = lambda *_: Answer(Errors.TOPIC_AUTHORIZATION_FAILED)
    else:
        client.topic = client.topic._replace(error=Errors.TOPIC_AUTHORIZATION_FAILED)

    async def work(fetcher: Fetcher) -> None:
        part = await until(fetcher, lambda part: part.tp == A)
        assert part.error == FetchError(FetchErrorKind.NOT_AUTHORIZED)

    fetch(client, work)


@pytest.mark.parametrize(
    "metadata", [TopicMetadata(Errors.UNKNOWN_TOPIC_OR_PARTITION, "", {}), TopicMetadata(0, "another id", {})]
)
def test_a_topic_that_some_brokers_do_not_know_yet_is_not_gone(
    client: MemoryClient, metadata: TopicMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, client.topic = client.topic, metadata
    client.serve = lambda *_: Answer(records=b"x")
    doubt = consumer_fetcher.UNKNOWN_TOPIC_SECONDS
    monkeypatch.setattr(consumer_fetcher, "UNKNOWN_TOPIC_SECONDS", 60.0)

    async def work(fetcher: Fetcher) -> None:
        while set(fetcher.errors) != {A, B}:
            assert await fetcher.poll(0.01) == []
        client.topic = before
        # An answer from before may still be under way: it must not be believed.
        first = await until(fetcher, lambda part: part.tp == A)
        assert first.records == b"x"
        monkeypatch.setattr(consumer_fetcher, "UNKNOWN_TOPIC_SECONDS", doubt)
        client.topic = metadata
        client.serve = lambda *_: Answer(Errors.UNKNOWN_TOPIC_ID)
        fetcher.done(first, 9, 0)
        part = await until(fetcher, lambda part: part.tp == A and part.error is not None)
        assert part.offset == 9
        assert part.error == FetchError(FetchErrorKind.UNKNOWN_TOPIC_ID)

    fetch(client, work)


def test_an_error_after_a_success_is_tried_again_as_soon_as_the_first(
    client: MemoryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_fetcher, "RETRY_SECONDS", (0.001, 60.0))
    failed: set[int] = set()

    def serve(node: int, tp: TopicPartition, at: int) -> Answer | None:
        if tp != A:
            return None
        if at in failed:
            return Answer(records=b"x")
        failed.add(at)
        return Answer(Errors.NOT_LEADER_OR_FOLLOWER)

    client.serve = serve

    async def work(fetcher: Fetcher) -> None:
        async with asyncio.timeout(10.0):  # pauses that go on doubling take a minute
            for offset in range(5, 21):
                part = await until(fetcher, lambda part, offset=offset: (part.tp, part.offset) == (A, offset))  # type: ignore[misc]
                assert not fetcher.errors
                fetcher.done(part, offset + 1, 0)

    fetch(client, work)
    assert len(failed) >= 16


def test_what_was_asked_before_a_new_set_is_not_handed_out(client: MemoryClient) -> None:
    client.serve = lambda node, tp, at: Answer(records=b"%d" % at)

    async def work(fetcher: Fetcher) -> None:
        client.gate.clear()
        await client.asked.wait()
        fetcher.assign({A: FetchPosition(ID, 39)})
        assert await fetcher.poll(0.02) == []  # the leader is found meanwhile
        client.gate.set()
        part = await until(fetcher, lambda part: True)
        assert (part.tp, part.offset, part.records) == (A, 39, b"39")

    fetch(client, work)


def test_what_time_does_not_heal_is_raised(client: MemoryClient) -> None:
    client.broken[1] = failure(KafkaFault.CREDENTIALS, "fetch", "Authentication failed")

    async def work(fetcher: Fetcher) -> None:
        with pytest.raises(KafkaFailure, match="Authentication failed"):
            await until(fetcher, lambda part: True)

    fetch(client, work)


def test_a_defect_of_ours_is_no_silence(client: MemoryClient) -> None:
    def serve(node: int, tp: TopicPartition, at: int) -> Answer:
        raise ZeroDivisionError

    client.serve = serve

    async def work(fetcher: Fetcher) -> None:
        with pytest.raises(ZeroDivisionError):
            await until(fetcher, lambda part: True)

    fetch(client, work)


# -- the nearest replica -----------------------------------------------------------------------------------------------


def rack_aware(
    client: MemoryClient, *followers: Answer
) -> Callable[[int, TopicPartition, int], Answer | None]:
    """Node 1 leads A and names node 2 for our rack, which has these answers, one after the other; the last stays."""
    left = list(followers)
    client.rack = "r2"

    def serve(node: int, tp: TopicPartition, at: int) -> Answer | None:
        if tp != A:
            return None
        if node == 2:
            return left.pop(0) if len(left) > 1 else left[0]
        asked = client.racks[-1] if len(client.racks) == len(client.fetched) else (node, "")
        return Answer(preferred=2) if asked == (1, "r2") else Answer(records=b"leader")

    return serve


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that replicas and leases go by."""
    now = [1000.0]
    monkeypatch.setattr(
        consumer_fetcher, "time", SimpleNamespace(monotonic=lambda: now[0] + time.monotonic())
    )
    return now


def test_the_replica_that_the_leader_names_is_fetched_from(client: MemoryClient) -> None:
    client.serve = rack_aware(client, Answer(records=b"near"))

    async def work(fetcher: Fetcher) -> None:
        for offset in (5, 7, 9):
            part = await until(fetcher, lambda part: bool(part.records))
            assert (bytes(part.records), part.offset, part.error) == (b"near", offset, None)
            fetcher.done(part, offset + 2, 2)

    fetch(client, work)
    assert {rack for _, rack in client.racks} == {"r2"}
    assert sum(A in session for node, _, session in client.fetched if node == 1) == 1, (
        "the leader is asked once"
    )


def test_without_a_rack_no_leader_names_a_replica(client: MemoryClient) -> None:
    client.serve = rack_aware(client, Answer(records=b"near"))
    client.rack = ""
    part = fetch(client, lambda fetcher: until(fetcher, lambda part: bool(part.records)))
    assert bytes(part.records) == b"leader"


@pytest.mark.parametrize(
    "wrong",
    [
        Answer(Errors.OFFSET_OUT_OF_RANGE),
        Answer(Errors.OFFSET_NOT_AVAILABLE),
        Answer(Errors.NOT_LEADER_OR_FOLLOWER),
        Answer(Errors.REPLICA_NOT_AVAILABLE),
        Answer(Errors.KAFKA_STORAGE_ERROR),
        Answer(Errors.FENCED_LEADER_EPOCH),
        Answer(diverged=(1, 3)),
    ],
    ids=["out of range", "not available", "no replica", "replica gone", "storage", "fenced", "another way"],
)
def test_what_a_replica_says_of_the_log_is_no_trouble_and_the_leader_is_asked(
    client: MemoryClient, wrong: Answer
) -> None:
    """A follower that lags has an end below what was fetched: nothing was cut back."""
    client.serve = rack_aware(client, wrong)

    async def work(fetcher: Fetcher) -> None:
        part = await until(fetcher, lambda part: bool(part.records) or part.error is not None)
        assert (bytes(part.records), part.offset, part.error) == (b"leader", 5, None)
        assert not fetcher.errors

    fetch(client, work)
    assert client.racks[-1] == (1, ""), "it would name the replica again"


def test_a_replica_that_is_away_costs_a_pause(client: MemoryClient) -> None:
    client.serve = rack_aware(client, Answer(records=b"near"))
    client.broken[2] = failure(KafkaFault.UNREACHABLE, "fetch", "Connection refused")
    part = fetch(client, lambda fetcher: until(fetcher, lambda part: bool(part.records)))
    assert bytes(part.records) == b"leader"


def test_after_a_while_the_leader_is_told_our_rack_again(client: MemoryClient, clock: list[float]) -> None:
    client.serve = rack_aware(client, Answer(Errors.OFFSET_OUT_OF_RANGE), Answer(records=b"near"))

    async def work(fetcher: Fetcher) -> None:
        part = await until(fetcher, lambda part: bool(part.records))
        assert bytes(part.records) == b"leader"
        clock[0] += 11.0
        fetcher.done(part, 7, 2)
        part = await until(fetcher, lambda part: bool(part.records))
        assert (bytes(part.records), part.offset) == (b"near", 7)

    fetch(client, work)


def test_the_leader_is_asked_again_when_the_metadata_is_too_old(
    client: MemoryClient, clock: list[float]
) -> None:
    """Also for a partition that has no records, whose replica answers nothing."""
    client.serve = rack_aware(client, Answer())
    client.metadata_seconds = 0.2

    async def work(fetcher: Fetcher) -> None:
        async with asyncio.timeout(5.0):
            while sum(A in session for node, _, session in client.fetched if node == 1) < 3:
                await fetcher.poll(0.05)
        assert not fetcher.errors

    fetch(client, work)
    assert any(node == 2 and A in session for node, _, session in client.fetched)


def test_the_only_partition_of_a_broker_comes_back_to_it_where_it_was(client: MemoryClient) -> None:
    """From a replica that died, or after an error that has healed: the leader is asked for what it was asked before."""
    del client.leaders[B]
    client.serve = rack_aware(client, Answer(Errors.NOT_LEADER_OR_FOLLOWER))

    async def go() -> CompletedFetch:
        fetcher = Fetcher(client, committed_only=True)  # type: ignore[arg-type]
        await fetcher.start()
        fetcher.assign({A: FetchPosition(ID, 5, 2)})
        try:
            return await until(fetcher, lambda part: bool(part.records))
        finally:
            await fetcher.close()

    part = asyncio.run(go())
    assert (bytes(part.records), part.offset) == (b"leader", 5)


def one_empty_answer(client: MemoryClient) -> None:
    """A's log goes on, and nothing of it comes; a session does not tell that again."""
    answers = {A: Answer()}
    client.serve = lambda _, tp, __: answers.pop(tp, None)


def test_a_partition_of_which_the_leader_sends_nothing_is_stopped(
    client: MemoryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_fetcher, "SILENT_SECONDS", 0.01)
    one_empty_answer(client)
    client.alone = [Answer()]

    async def work(fetcher: Fetcher) -> None:
        part = await until(fetcher, lambda part: part.error is not None)
        assert (part.tp, part.offset) == (A, 5)
        assert part.error == FetchError(FetchErrorKind.SILENT, log_end=90)
        assert client.asked_alone == [A, A]

    fetch(client, work)


def test_many_that_are_only_slow_do_not_hide_one_that_is_silent(
    client: MemoryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_fetcher, "SILENT_SECONDS", 0.01)
    partitions = [TopicPartition("orders", number) for number in range(35)]
    client.leaders = dict.fromkeys(partitions, 1)
    client.alone, client.silent = [Answer(records=b"x")], {partitions[-1]}
    answers = dict.fromkeys(partitions, Answer())
    client.serve = lambda _, tp, __: answers.pop(tp, None)

    async def work(fetcher: Fetcher) -> None:
        fetcher.assign({tp: FetchPosition(ID, 5) for tp in partitions})
        part = await until(fetcher, lambda part: part.error is not None)
        assert part.tp == partitions[-1]
        assert part.error == FetchError(FetchErrorKind.SILENT, log_end=90)

    fetch(client, work)


@pytest.mark.parametrize(
    "answers",
    [
        [Answer(records=b"x")],
        [Answer(Errors.CORRUPT_MESSAGE)],
        [Answer(), Answer(records=b"x"), Answer(), Answer(records=b"x")],
    ],
)
def test_a_partition_that_is_only_slow_is_fetched_on(
    client: MemoryClient, monkeypatch: pytest.MonkeyPatch, answers: list[Answer]
) -> None:
    monkeypatch.setattr(consumer_fetcher, "SILENT_SECONDS", 0.01)
    one_empty_answer(client)
    client.alone = answers

    async def work(fetcher: Fetcher) -> None:
        while len(client.asked_alone) < 4:
            assert all(part.error is None for part in await fetcher.poll(0.01))
        client.serve = lambda _, tp, __: Answer(records=b"x") if tp == A else None
        await until(fetcher, lambda part: bool(part.records))

    fetch(client, work)

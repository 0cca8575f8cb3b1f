"""Ranges are read to their end, whatever becomes of the log meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.fetcher import CompletedFetch, FetchError, FetchErrorKind, FetchPosition
from bridge.model.values import TopicPartition
from bridge.spark import reading
from bridge.spark.offsets import OffsetRange
from bridge.spark.reading import Fetched, RangesReader
from bridge.spark.rejected import SourceRejected
from tests.unit.kafka.record.raw_batches import batch

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


class ScriptedFetcher:
    """Answers each poll with what is next in the script, and then with nothing; notes what it is asked to do."""

    def __init__(self, *_: object, **__: object) -> None:
        self.script: list[list[CompletedFetch]] = []
        self.calls: list[tuple[str, TopicPartition, int]] = []
        self.errors: dict[TopicPartition, KafkaFailure] = {}

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def assign(self, partitions: Mapping[TopicPartition, FetchPosition]) -> None: ...

    async def poll(self, seconds: float) -> list[CompletedFetch]:
        return self.script.pop(0) if self.script else []

    def done(self, fetch: CompletedFetch, offset: int, epoch: int) -> None:
        self.calls.append(("done", fetch.tp, offset))

    def drop(self, tp: TopicPartition) -> None:
        self.calls.append(("drop", tp, 0))

    def resume(self, tp: TopicPartition, offset: int) -> None:
        self.calls.append(("resume", tp, offset))


@pytest.fixture(autouse=True)
def fetcher(monkeypatch: pytest.MonkeyPatch) -> ScriptedFetcher:
    scripted = ScriptedFetcher()
    monkeypatch.setattr(reading, "Fetcher", lambda *_, **__: scripted)
    return scripted


def reader(*ranges: OffsetRange, fail: bool = True, patience: float = 60.0) -> RangesReader:
    client: Any = object()
    return RangesReader(client, ranges, committed_only=True, fail_on_data_loss=fail, patience=patience)


def whole(ranges_reader: RangesReader) -> list[Fetched]:
    """All that is read."""

    async def go() -> list[Fetched]:
        collected = list[Fetched]()
        await ranges_reader.start()
        while (some := await ranges_reader.next()) is not None:
            collected += some
        return collected

    return asyncio.run(go())


def part(tp: TopicPartition, start: int, end: int) -> OffsetRange:
    return OffsetRange(tp, "id", start, end)


def test_each_range_is_read_to_its_end(fetcher: ScriptedFetcher) -> None:
    fetcher.script = [
        [CompletedFetch(A, batch(8, 4) + batch(12, 4), 10), CompletedFetch(B, b"", 0)],
        [CompletedFetch(A, batch(16, 4) + batch(20, 4), 16), CompletedFetch(B, batch(0, 3), 0)],
    ]
    fetched = whole(reader(part(A, 10, 18), part(B, 0, 3)))
    bases = [(each.part.tp.partition, [one.base_offset for one in each.batches]) for each in fetched]
    assert bases == [(0, [8]), (0, [16]), (1, [0])], "neighbours are one"
    assert fetcher.calls == [("done", A, 16), ("drop", A, 0), ("drop", B, 0)]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            FetchError(FetchErrorKind.OUT_OF_RANGE, 7, 20),
            "orders-0 has no offset 5 any more: its log is from 7 to 20",
        ),
        (FetchError(FetchErrorKind.DIVERGED), "the log of orders-0 has changed below offset 5"),
        (FetchError(FetchErrorKind.UNKNOWN_TOPIC_ID), "topic orders was deleted, and perhaps made again"),
        (
            FetchError(FetchErrorKind.SILENT, log_end=20),
            "sends nothing of orders-0 from offset 5 on",
        ),
    ],
)
def test_what_is_gone_meanwhile_is_an_error_or_left_out(
    fetcher: ScriptedFetcher, error: FetchError, says: str
) -> None:
    lost = CompletedFetch(A, b"", 5, error=error)
    fetcher.script = [[lost]]
    with pytest.raises(SourceRejected, match=says):
        whole(reader(part(A, 5, 10)))
    fetcher.calls, fetcher.script = [], [[lost], [CompletedFetch(A, batch(7, 3), 7)]]
    fetched = whole(reader(part(A, 5, 10), fail=False))
    if error.kind is FetchErrorKind.OUT_OF_RANGE:
        assert fetcher.calls == [("resume", A, 7), ("drop", A, 0)]
        assert len(fetched) == 1
    else:
        assert fetcher.calls == [("drop", A, 0)]
        assert not fetched


def test_a_denied_topic_is_an_error_in_any_case(fetcher: ScriptedFetcher) -> None:
    fetcher.script = [[CompletedFetch(A, b"", 5, error=FetchError(FetchErrorKind.NOT_AUTHORIZED))]]
    with pytest.raises(KafkaFailure, match="READ on topic orders is denied"):
        whole(reader(part(A, 5, 10), fail=False))


def test_damaged_bytes_are_fetched_once_more(fetcher: ScriptedFetcher) -> None:
    sound = batch(0, 4)
    damaged = CompletedFetch(A, sound[:-1] + b"?", 0)
    fetcher.script = [[damaged], [CompletedFetch(A, sound, 0)]]
    assert len(whole(reader(part(A, 0, 4)))) == 1
    assert fetcher.calls == [("done", A, 0), ("drop", A, 0)]
    fetcher.script = [[damaged], [damaged]]
    with pytest.raises(KafkaFailure, match="orders-0: The checksum"):
        whole(reader(part(A, 0, 4)))


def test_what_does_not_come_is_not_waited_for_for_ever(
    fetcher: ScriptedFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "POLL_SECONDS", 0.0)
    with pytest.raises(KafkaFailure, match=r"no records of orders-0 have come for 0\.01 s"):
        whole(reader(part(A, 0, 9), patience=0.01))
    fetcher.errors[A] = KafkaFailure(KafkaFault.LEADER_MOVED, "no leader")
    with pytest.raises(KafkaFailure, match="no leader"):
        whole(reader(part(A, 0, 9), patience=0.01))

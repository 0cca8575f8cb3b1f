"""Asking a cluster: what is waited for, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.model.values import TopicPartition
from bridge.spark import planning
from bridge.spark.offsets import Log, OffsetRange, Where, resolved
from bridge.spark.options import for_batch, read_options
from bridge.spark.planning import client_of, patiently, planned, sampled
from bridge.spark.pushdown import Limits
from bridge.spark.rejected import SourceRejected

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def asked(*faults: KafkaFault, seconds: float = 30.0) -> int:
    """How often it is asked, with these failures first."""
    failures = list(faults)
    count = 0

    async def ask() -> int:
        nonlocal count
        count += 1
        if failures:
            raise KafkaFailure(failures.pop(0), "it failed")
        return count

    return asyncio.run(patiently(ask, seconds))


def test_what_time_heals_is_waited_for() -> None:
    assert asked(KafkaFault.LEADER_MOVED, KafkaFault.UNREACHABLE) == 3


@pytest.mark.parametrize(
    "fault", [KafkaFault.NOT_AUTHORIZED, KafkaFault.CREDENTIALS, KafkaFault.UNKNOWN_TOPIC]
)
def test_a_missing_right_is_named_at_once(fault: KafkaFault) -> None:
    with pytest.raises(KafkaFailure, match="it failed"):
        asked(fault)


def test_no_longer_than_so_many_seconds() -> None:
    with pytest.raises(KafkaFailure, match="it failed"):
        asked(KafkaFault.UNREACHABLE, seconds=0.0)


class Leaderless(NetworkClient):
    """Of a cluster whose partitions have no leaders."""

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaFailure]]:
        failed = KafkaFailure(KafkaFault.LEADER_MOVED, "Leader not available")
        return {}, dict.fromkeys(partitions, failed)


def test_how_an_epoch_of_a_stream_is_divided_is_not_guessed() -> None:
    options = read_options({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"})

    async def sizes(*, strict: bool) -> dict[TopicPartition, float]:
        client = Leaderless(client_of(options).settings)
        return await sampled(client, [OffsetRange(TopicPartition("orders", 0), "id", 0, 10)], strict=strict)

    assert asyncio.run(sizes(strict=False)) == {}
    with pytest.raises(KafkaFailure, match="Leader not available"):
        asyncio.run(sizes(strict=True))


def plan(
    monkeypatch: pytest.MonkeyPatch,
    logs: Mapping[TopicPartition, Log],
    options: Mapping[str, str],
    pattern: str = "",
) -> list[OffsetRange]:
    """What a batch reads of a cluster with these logs."""

    async def described(*_: object) -> Mapping[TopicPartition, Log]:
        return logs

    async def offsets_at(
        _: NetworkClient, where: Where, *__: object, **___: bool
    ) -> dict[TopicPartition, int]:
        return resolved(where, logs, {})

    monkeypatch.setattr(planning, "described", described)
    monkeypatch.setattr(planning, "offsets_at", offsets_at)
    read = for_batch({**SERVERS, **options}, pattern)
    assert read.start is not None
    return asyncio.run(planned(client_of(read), read, read.start, Limits()))


def test_an_end_before_the_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = {TopicPartition("orders", 0): Log("id", 0, 100)}
    options = {"subscribe": "orders", "startingOffsets": '{"orders": {"0": 9}}'}
    with pytest.raises(SourceRejected, match="begins at offset 9, behind its end at 5"):
        plan(monkeypatch, logs, {**options, "endingOffsets": '{"orders": {"0": 5}}'})
    assert len(plan(monkeypatch, logs, {**options, "endingOffsets": '{"orders": {"0": 10}}'})) == 1


def test_internal_topics_that_are_not_there_have_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    start = {"startingOffsets": "earliest"}
    assert plan(monkeypatch, {}, start, "mm2-offset-runs.*") == []
    with pytest.raises(SourceRejected, match=r"no topic on 127\.0\.0\.1:1 matches"):
        plan(monkeypatch, {}, {**start, "subscribePattern": "mm2-offset-runs.*"}, "mm2-offset-runs.*")

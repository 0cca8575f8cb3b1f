"""Asking a cluster: what is waited for, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.model.values import TopicPartition
from bridge.spark.offsets import OffsetRange
from bridge.spark.options import read_options
from bridge.spark.planning import client_of, patiently, sampled


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

"""What is said of a state topic that can't be written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.producer.producer import StateWriter
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure
from bridge.kafka.protocol.log_requests import TopicMetadata
from bridge.model.values import TopicPartition


class LeaderlessClient:
    """A cluster in which no partition has a leader that we know, and what it says of the topic."""

    def __init__(self, error: int) -> None:
        self._error = error

    async def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        return {topic: TopicMetadata(self._error, "", {}) for topic in topics}

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaFailure]]:
        return {}, {tp: failure(KafkaFault.UNKNOWN_TOPIC, "write", "no such topic") for tp in partitions}


@pytest.mark.parametrize(
    ("error", "fault", "words"),
    [
        (Errors.TOPIC_AUTHORIZATION_FAILED, KafkaFault.NOT_AUTHORIZED, "grant WRITE"),
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, KafkaFault.UNKNOWN_TOPIC, "no such topic"),
    ],
)
def test_a_topic_that_may_not_be_described_is_no_missing_one(
    error: int, fault: KafkaFault, words: str
) -> None:
    async def append() -> None:
        writer = StateWriter(LeaderlessClient(error), 5.0)  # type: ignore[arg-type]
        try:
            await writer.append("mm2-groups.A.internal", [(b"key", b"value")])
        finally:
            await writer.close()

    with pytest.raises(KafkaFailure, match=words) as caught:
        asyncio.run(append())
    assert caught.value.fault is fault

"""What a broker answers to a Produce request: where batches stand now, or why they do not."""

from __future__ import annotations

from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.errors import failure, not_allowed_to_write, of_code
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.wire import Reader
from bridge.model.values import TopicPartition


class Produced(NamedTuple):
    """`refused`: index within the batch and the broker's words, of records that spoilt it. `log_start`: where the
    partition's log begins, -1 when not told."""

    error: int
    offset: int
    refused: tuple[tuple[int, str], ...]
    said: str
    log_start: int = -1


NOT_ANSWERED = Produced(Errors.UNKNOWN_SERVER_ERROR, -1, (), "The broker answered for other partitions only")


def read_produced(answer: Reader) -> tuple[dict[TopicPartition, Produced], float]:
    """By partition; and for how many seconds the broker asks to send nothing more, because of a quota (KIP-219)."""
    produced = {}
    for _ in answer.array():
        topic = answer.string()
        for _ in answer.array():
            partition, error, offset = answer.int32(), answer.int16(), answer.int64()
            answer.skip(8)
            log_start = answer.int64()
            refused = tuple((answer.int32(), answer.string()) for _ in answer.array())
            produced[TopicPartition(topic, partition)] = Produced(
                error, offset, refused, answer.string(), log_start
            )
    return produced, answer.int32() / 1000


def refusal(got: Produced, tp: TopicPartition) -> KafkaFailure | None:
    """Why the batch of this partition was not written; None if it was."""
    doing = f"write to {tp.topic}-{tp.partition}"
    failed = of_code(got.error, doing)
    if got.error == Errors.TOPIC_AUTHORIZATION_FAILED:
        return not_allowed_to_write([tp.topic], doing)
    if failed is None:
        # A duplicate is answered without its offset when the broker has forgotten it.
        return None if got.offset >= 0 else failure(KafkaFault.OTHER, doing, "The broker told no offset")
    said = "; ".join(f"record {index} of the batch: {words}" for index, words in got.refused) or got.said
    return KafkaFailure(failed.fault, f"{failed}: {said}", retriable=failed.retriable) if said else failed

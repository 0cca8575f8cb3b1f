"""Responses to Produce: the base offset of each batch, or why it was not written."""

from __future__ import annotations

from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure, not_allowed_to_write, of_code
from bridge.kafka.protocol.wire import Reader
from bridge.model.values import TopicPartition


class Produced(NamedTuple):
    """A partition's answer to Produce. `refused`: index within the batch and the broker's words, of records that spoilt
    it. `log_start`: where the partition's log begins, -1 for unknown."""

    error: int
    offset: int
    refused: tuple[tuple[int, str], ...]
    message: str
    log_start: int = -1


_NAMED = 3
"""Records of a batch that an error names."""
NOT_ANSWERED = Produced(Errors.UNKNOWN_SERVER_ERROR, -1, (), "The response does not contain the partition")


def read_produced(response: Reader) -> tuple[dict[TopicPartition, Produced], float]:
    """Reads the answers by partition, and for how many seconds the broker asks to send nothing more, because of a quota
    (KIP-219)."""
    produced = {}
    for _ in response.array():
        topic = response.string()
        for _ in response.array():
            partition, error, offset = response.int32(), response.int16(), response.int64()
            response.skip(8)
            log_start = response.int64()
            refused = tuple((response.int32(), response.string()) for _ in response.array())
            produced[TopicPartition(topic, partition)] = Produced(
                error, offset, refused, response.string(), log_start
            )
    return produced, response.int32() / 1000


def refusal(produced: Produced, tp: TopicPartition) -> KafkaFailure | None:
    """Why the batch of this partition was not written; None if it was."""
    doing = f"write to {tp.topic}-{tp.partition}"
    failed = of_code(produced.error, doing)
    if produced.error == Errors.TOPIC_AUTHORIZATION_FAILED:
        return not_allowed_to_write([tp.topic], doing)
    if failed is None and produced.offset >= 0:
        return None
    if failed is None:
        # Of a duplicate that the broker has forgotten.
        return failure(KafkaFault.OTHER, doing, "The response has no base offset")
    named = {index: why or produced.message for index, why in produced.refused}
    text = "; ".join(f"record {index} of the batch: {why}" for index, why in list(named.items())[:_NAMED])
    text = text or produced.message
    if not text:
        return failed
    more = f"; and {len(named) - _NAMED} record(s) more" if len(named) > _NAMED else ""
    records = {index: f"{failed}: {why}" for index, why in named.items()}
    return KafkaFailure(failed.fault, f"{failed}: {text}{more}", retriable=failed.retriable, records=records)

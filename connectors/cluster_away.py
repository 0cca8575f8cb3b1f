"""Calls a cluster within a time limit, and names the reasons why it did not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import Reason, Side

T = TypeVar("T")

_REASONS = {
    (Side.SOURCE, KafkaFault.NOT_AUTHORIZED): Reason.SOURCE_NOT_AUTHORIZED,
    (Side.TARGET, KafkaFault.NOT_AUTHORIZED): Reason.TARGET_NOT_AUTHORIZED,
    (Side.SOURCE, KafkaFault.UNKNOWN_TOPIC): Reason.SOURCE_TOPIC_MISSING,
    (Side.TARGET, KafkaFault.UNKNOWN_TOPIC): Reason.TARGET_TOPIC_MISSING,
    (Side.SOURCE, KafkaFault.UNREADABLE_BATCH): Reason.SOURCE_BATCH_UNREADABLE,
    (Side.TARGET, KafkaFault.UNREADABLE_BATCH): Reason.TARGET_BATCH_UNREADABLE,
    (Side.SOURCE, KafkaFault.OUT_OF_RANGE): Reason.NOT_LOOKED_AT_YET,
    (Side.TARGET, KafkaFault.OUT_OF_RANGE): Reason.NOT_LOOKED_AT_YET,
}


class ClusterAway(Exception):
    """Raised when a cluster as a whole did not answer: the round ends, and is tried again soon."""

    def __init__(self, side: Side, failure: KafkaFailure) -> None:
        super().__init__(str(failure))
        self.side, self.failure = side, failure

    @property
    def on_source(self) -> bool:
        return self.side is Side.SOURCE

    def with_side(self) -> KafkaFailure:
        """Returns the failure with the cluster's side in its text."""
        failure = self.failure
        return KafkaFailure(
            failure.fault, f"{self.side.value} cluster: {failure}", retriable=failure.retriable
        )


def reason_of(side: Side, failure: KafkaFailure) -> Reason:
    """Returns why a partition is pending when a cluster refused or did not answer."""
    fallback = Reason.SOURCE_UNREACHABLE if side is Side.SOURCE else Reason.TARGET_UNREACHABLE
    return _REASONS.get((side, failure.fault), fallback)


async def ask(side: Side, work: Coroutine[Any, Any, T], timeout_ms: int) -> T:
    """Waits for a cluster's answer for `timeout_ms` (admin.timeout.ms): one that hangs must not stop the rounds for
    ever. Raises ClusterAway."""
    try:
        # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with the answer.
        async with asyncio.timeout(timeout_ms / 1000):
            return await work
    except TimeoutError:
        failure = KafkaFailure(KafkaFault.TIMEOUT, "no answer within admin.timeout.ms")
        raise ClusterAway(side, failure) from None
    except KafkaFailure as failed:
        raise ClusterAway(side, failed) from None

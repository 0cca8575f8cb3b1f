"""Calls a cluster within a time limit, and names the reasons why it did not answer.

Logs outages: one line when a cluster stops answering, however many connectors need it, one line for anything else
that fails, and one line when it is over.

Counts a cluster's failures in a row: when to try again, when they last, and when they are permanent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from bridge.backoff import Backoff
from bridge.errors import AWAY, KafkaFailure, KafkaFault
from bridge.logs.changes import Changes
from bridge.model.addresses import cluster_name
from bridge.model.values import Reason, Side

log = logging.getLogger(__name__)


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
ROUND = "round"
_CLUSTERS = Changes(log, "does not answer", "answers again")
_ROUNDS = Changes(log, "failed, retrying", "recovered")
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.5, 2.0
"""Seconds between a failure and the next try, doubling; the longest is how late it is seen that a cluster is back."""
_PERMANENT_AFTER = 3
"""Times that credentials must be refused in a row before that counts as permanent: one may be a rotation under way."""
_LASTING = 2


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


class Outages:
    """The outages that one connector notices; a cluster's outage is shared by all connectors of the process. `duty`
    names what the connector does again and again, such as its rounds."""

    def __init__(self, name: str, props: Mapping[str, str | None]) -> None:
        self._name = name
        self._clusters = {side: cluster_name(side, props) for side in Side}

    def cluster_failed(self, side: Side, failure: KafkaFailure, duty: str = ROUND) -> None:
        """Logs that a cluster as a whole refused or did not answer."""
        if failure.fault in AWAY:
            _CLUSTERS.failed(self._clusters[side], str(failure), self._who(duty), connector=self._name)
        else:
            self.failed(f"{self._clusters[side]}: {failure}", duty)

    def failed(self, why: str, duty: str = ROUND) -> None:
        _ROUNDS.failed(self._who(duty), why, connector=self._name)

    def well(self, duty: str = ROUND, sides: Sequence[Side] = tuple(Side)) -> None:
        """Logs the end of outages: the duty succeeded, and these clusters answered."""
        for side in sides:
            _CLUSTERS.succeeded(self._clusters[side], self._who(duty), connector=self._name)
        _ROUNDS.succeeded(self._who(duty), connector=self._name)

    def answered(self, side: Side, duty: str = ROUND) -> None:
        _CLUSTERS.succeeded(self._clusters[side], self._who(duty), connector=self._name)

    def left(self, duty: str = ROUND) -> None:
        """Forgets the duty: it is not done any more."""
        _CLUSTERS.forget(self._who(duty))

    def _who(self, duty: str) -> str:
        return f"{duty} of {self._name}"


class Failures:
    """The failures of one connector since its last success; true while there are any."""

    def __init__(self) -> None:
        self._backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        self._count = self._refused = 0
        self.pause = 0.0
        """Seconds from the last try to the next."""

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, failure: KafkaFailure) -> None:
        self._count += 1
        self.pause = self._backoff.next()
        self._refused = self._refused + 1 if failure.fault is KafkaFault.CREDENTIALS else 0

    def clear(self) -> None:
        self._count = self._refused = 0
        self._backoff.reset()

    @property
    def lasting(self) -> bool:
        return self._count >= _LASTING

    @property
    def permanent(self) -> bool:
        """Only credentials that stay wrong are (R6)."""
        return self._refused >= _PERMANENT_AFTER

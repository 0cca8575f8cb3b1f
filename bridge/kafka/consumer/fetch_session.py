"""The incremental fetch session with one broker (KIP-227): requests that carry changes only.

Without one, a fetch of 1,000 idle partitions names them all, each time, and so does its response.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.log_requests import FetchPartition
from bridge.model.values import TopicPartition

LAST_EPOCH = (1 << 31) - 1
_SESSION_LOST = {
    Errors.FETCH_SESSION_ID_NOT_FOUND,
    Errors.INVALID_FETCH_SESSION_EPOCH,
    Errors.FETCH_SESSION_TOPIC_ID_ERROR,
}
"""A new session is asked for."""


class SessionFetch(NamedTuple):
    """One request: partitions that are new or have moved, and those that are to be left out from now on."""

    session: int
    epoch: int
    parts: Mapping[TopicPartition, FetchPartition]
    forgotten: tuple[tuple[str, TopicPartition], ...]


class FetchSession:
    """One request at a time: `plan`, send, then `answered` or `reset`.

    A broker that has no room for a session answers id 0; every request to it names all partitions.
    """

    def __init__(self) -> None:
        self._id = self._epoch = 0
        self._partitions: dict[TopicPartition, FetchPartition] = {}
        self._sent: dict[TopicPartition, FetchPartition] = {}
        self._changed: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        """Whether there is a partition to fetch."""
        return bool(self._partitions)

    def add(self, tp: TopicPartition, part: FetchPartition) -> None:
        # Those that were served last come last in a full fetch, so that the first ones do not take all its bytes.
        self._partitions.pop(tp, None)
        self._partitions[tp] = part
        self._changed.add(tp)

    def drop(self, tp: TopicPartition) -> None:
        if self._partitions.pop(tp, None) is not None:
            self._changed.add(tp)

    def partition(self, tp: TopicPartition) -> FetchPartition | None:
        return self._partitions.get(tp)

    def sent(self, tp: TopicPartition) -> FetchPartition | None:
        """As the broker was asked last: what its responses are about."""
        return self._sent.get(tp)

    def plan(self) -> SessionFetch:
        if self._epoch == 0:
            self._sent = dict(self._partitions)
            self._changed.clear()
            return SessionFetch(0, 0, self._sent, ())
        parts, forgotten = {}, []
        for tp in self._changed:
            sent, part = self._sent.get(tp), self._partitions.get(tp)
            if sent is not None and (part is None or part.topic_id != sent.topic_id):
                forgotten.append((sent.topic_id, tp))
                del self._sent[tp]
            if part is not None:
                if part != sent:
                    parts[tp] = part
                # Also one that left and came back as it was: responses are about what is fetched now.
                self._sent[tp] = part
        self._changed.clear()
        return SessionFetch(self._id, self._epoch, parts, tuple(forgotten))

    def answered(self, error: int, session: int) -> bool:
        """Accepts the response's error and session id. False when the session is lost: the next request names all."""
        if error in _SESSION_LOST:
            self.reset()
            return False
        if self._epoch == 0:
            self._id, self._epoch = session, 1 if session else 0
        else:
            self._epoch = self._epoch + 1 if self._epoch < LAST_EPOCH else 1
        return True

    def reset(self) -> None:
        """The next request asks for a new session. Nobody closes the old one: the broker drops what is not used."""
        self._id = self._epoch = 0

"""Consumers that reads of a test share: one that is made anew for each read asks a broker for its versions, its
metadata and a coordinator before the first record, which costs both sides more than the read itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer

from tests.support.names import unique

_MOST_KEPT = 8
"""Idle consumers, of all clusters: those of a cluster that has ended would go on looking for it."""

_Key = tuple[str, bool, str]
_idle: OrderedDict[int, tuple[_Key, Consumer]] = OrderedDict()
_lock = threading.Lock()


@contextmanager
def reader(bootstrap: str, *, committed_only: bool = False, reset: str = "earliest") -> Iterator[Consumer]:
    """A consumer without group membership that nobody else uses during the block, and that tells where a partition
    ends. `reset`: what an offset outside of the log is, as `auto.offset.reset`. After an error it is closed: the next
    read has one that knows nothing of that."""
    key = (bootstrap, committed_only, reset)
    consumer = _taken(key) or _new(*key)
    try:
        yield consumer
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    for each in _given_back(key, consumer):
        each.close()


def _taken(key: _Key) -> Consumer | None:
    """Takes an idle consumer that has had no error meanwhile: a broker that was away would be an error of this read."""
    while True:
        with _lock:
            found = next((number for number in reversed(_idle) if _idle[number][0] == key), None)
            if found is None:
                return None
            _, consumer = _idle.pop(found)
        if consumer.poll(0) is None:
            return consumer
        consumer.close()


def _given_back(key: _Key, consumer: Consumer) -> list[Consumer]:
    """Those that were idle for longest and are too many now."""
    with _lock:
        _idle[id(consumer)] = (key, consumer)
        return [_idle.popitem(last=False)[1][1] for _ in range(len(_idle) - _MOST_KEPT)]


def _new(bootstrap: str, committed_only: bool, reset: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("reader"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": reset,
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            # A broker that was away is asked again as soon as it is back. While it is away there is nothing to say.
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )

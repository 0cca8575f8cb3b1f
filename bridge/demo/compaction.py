"""Compaction that happens now, and then not again: what has been counted must stay what it is."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from bridge.demo.cluster import Outgoing, producing, send, set_topic_config
from bridge.demo.errors import DemoFailed
from bridge.demo.logs import PartitionLog, Place, read_logs
from bridge.local import eventually

_COMPACT_SECONDS = 60.0
_STILL_SECONDS = 0.7
_STILL_TRIES = 30
_EAGER = {"segment.ms": "1", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
_CALM = {"segment.ms": None, "min.cleanable.dirty.ratio": "1", "delete.retention.ms": None}
"""No log is dirtier than 1, so that ratio is never reached. The target takes it over with the topic."""


def compact(client: AdminClient, bootstrap: str, topic: str, partitions: int, touch_ms: int) -> None:
    """Until the cleaner has removed more than half of every partition, and has come to rest.

    Only closed segments are compacted, and one closes when a record comes `segment.ms` after its first: that is
    what the touches are for, stamped from `touch_ms` on.
    """
    places = [(topic, number) for number in range(partitions)]
    before = {place: len(log.entries) for place, log in _read(bootstrap, places).items()}
    set_topic_config(client, topic, _EAGER)
    rounds = 0

    def compacted() -> bool:
        nonlocal rounds
        rounds += 1
        stamp = touch_ms + 2 * rounds
        with producing(bootstrap) as sink:
            value = b'{"touched":%d}' % rounds
            send(sink, topic, [Outgoing(number, b"profile-touched", value, stamp) for _, number in places])
        return all(len(log.entries) < before[place] // 2 for place, log in _read(bootstrap, places).items())

    eventually(compacted, _COMPACT_SECONDS, what=f"{topic} is compacted")
    set_topic_config(client, topic, _CALM)
    _wait_still(bootstrap, places)


def _wait_still(bootstrap: str, places: list[Place]) -> None:
    """A cleaning that had begun goes on to its end."""
    last: dict[Place, list[int]] = {}
    for _ in range(_STILL_TRIES):
        now = {place: log.offsets for place, log in _read(bootstrap, places).items()}
        if now == last:
            return
        last = now
        time.sleep(_STILL_SECONDS)
    raise DemoFailed(f"the cleaner of {bootstrap} does not come to rest")


def _read(bootstrap: str, places: list[Place]) -> Mapping[Place, PartitionLog]:
    return read_logs(bootstrap, places, committed_only=False)

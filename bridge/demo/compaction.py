"""Compacts a topic once: at once, and never again, so that what was counted stays true."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from bridge.demo.cluster import Outgoing, producing, send, set_topic_config
from bridge.demo.errors import DemoFailed
from bridge.demo.logs import PartitionLog, Tp, read_logs
from bridge.local import eventually

_COMPACT_SECONDS = 60.0
_STILL_SECONDS = 0.7
_STILL_TRIES = 30
_COMPACT_NOW = {"segment.ms": "1", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
_COMPACT_NO_MORE = {"segment.ms": None, "min.cleanable.dirty.ratio": "1", "delete.retention.ms": None}
"""No log's dirty ratio exceeds 1, so it is never compacted. The copy gets this configuration too."""


def compact(client: AdminClient, bootstrap: str, topic: str, partitions: int, touch_ms: int) -> None:
    """Waits until the log cleaner has removed more than half of every partition, and has finished.

    Only closed segments are compacted, and a segment is closed by a record that comes `segment.ms` after its first one:
    so this produces further records, with timestamps from `touch_ms` on.
    """
    tps = [(topic, number) for number in range(partitions)]
    before = {tp: len(log.entries) for tp, log in _read(bootstrap, tps).items()}
    set_topic_config(client, topic, _COMPACT_NOW)
    rounds = 0

    def compacted() -> bool:
        nonlocal rounds
        rounds += 1
        stamp = touch_ms + 2 * rounds
        with producing(bootstrap) as sink:
            value = b'{"touched":%d}' % rounds
            send(sink, topic, [Outgoing(number, b"profile-touched", value, stamp) for _, number in tps])
        return all(len(log.entries) < before[tp] // 2 for tp, log in _read(bootstrap, tps).items())

    eventually(compacted, _COMPACT_SECONDS, what=f"{topic} is compacted")
    set_topic_config(client, topic, _COMPACT_NO_MORE)
    _wait_still(bootstrap, tps)


def _wait_still(bootstrap: str, tps: list[Tp]) -> None:
    """Waits until the partitions no longer change: a cleaning that has begun goes on to its end."""
    last: dict[Tp, list[int]] = {}
    for _ in range(_STILL_TRIES):
        now = {tp: log.offsets for tp, log in _read(bootstrap, tps).items()}
        if now == last:
            return
        last = now
        time.sleep(_STILL_SECONDS)
    raise DemoFailed(
        f"the log cleaner of {bootstrap} does not finish within {_STILL_TRIES * _STILL_SECONDS:g} s"
    )


def _read(bootstrap: str, tps: list[Tp]) -> Mapping[Tp, PartitionLog]:
    return read_logs(bootstrap, tps, committed_only=False)

"""What stock MirrorCheckpointConnector tells of its own time.

Its scheduler logs how long each pass over the target's groups took. Emitting checkpoints (reading every group on the
source and translating) is not logged; but a group that moves all the time is in every pass, so the timestamps of its
checkpoints are one poll cycle apart: the emit interval, slept through first, and the pass.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from bridge.mm2.records import Checkpoint
from tests.support import bounds, unique

PASSES = {
    "refreshing idle consumers group offsets at target cluster": "refresh",
    "sync idle consumer group offset from source to target": "sync",
    "refreshing consumer groups": "groups",
}
_TOOK = re.compile(r"Scheduler: (.+) took (\d+) ms")


class SchedulerLog:
    """The passes that a worker's log tells of, from now on; `take` answers what came since it was last asked."""

    def __init__(self, log: Path) -> None:
        self._log, self._at = log, log.stat().st_size

    def take(self) -> dict[str, list[float]]:
        """Seconds by pass."""
        with self._log.open("rb") as opened:
            opened.seek(self._at)
            text = opened.read()
        self._at += len(text)
        result: dict[str, list[float]] = {name: [] for name in PASSES.values()}
        for line, took in _TOOK.findall(text.decode(errors="replace")):
            if line in PASSES:
                result[PASSES[line]].append(int(took) / 1000)
        return result


class Checkpoints:
    """When the checkpoints of one group and partition 0 were made, from now on."""

    def __init__(self, target: str, topic: str, group: str) -> None:
        self._target, self._topic, self._group = target, topic, group
        self._from = bounds(target, topic)[0][1]

    def cycles(self) -> Sequence[float]:
        """Seconds between two of them."""
        _, end = bounds(self._target, self._topic)[0]
        if end == self._from:
            return []
        consumer = Consumer(
            {"bootstrap.servers": self._target, "group.id": unique("reader"), "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(self._topic, 0, self._from)])
        made: list[float] = []
        offset = self._from
        while offset < end:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            at, key, value = message.offset(), message.key(), message.value()
            assert at is not None
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            offset = at + 1
            decoded = Checkpoint.decode(key, value)
            if decoded.group == self._group and decoded.topic_partition.partition == 0:
                made.append(message.timestamp()[1] / 1000)
        consumer.close()
        return [later - earlier for earlier, later in itertools.pairwise(made)]

"""A steady stream of records, and a reader that sees how old each is when it arrives."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.perf.threaded import Threaded
from tests.support import unique

_TICK = 0.01
"""Seconds between two handfuls of records."""
_PAD = b"x" * 80


class Arrival(NamedTuple):
    """Times in seconds since the epoch."""

    at: float
    written: float
    partition: int

    @property
    def age(self) -> float:
        return self.at - self.written


class Stream(Threaded):
    """`rate` records per second, evenly over the partitions; each says when it was written."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: int) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
        self._topic, self._partitions, self._rate = topic, partitions, rate
        self.written = 0

    def _run(self) -> None:
        began = time.monotonic()
        while not self._over.wait(_TICK):
            due = int((time.monotonic() - began) * self._rate)
            for number in range(self.written, due):
                self._producer.produce(
                    self._topic, b"%d " % time.time_ns() + _PAD, b"%d" % number, number % self._partitions
                )
            self.written = due
            self._producer.poll(0)
        assert self._producer.flush(30) == 0


class Reader(Threaded):
    """Reads a copy from now on as read_committed consumers do."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": unique("reader"),
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self.arrivals: list[Arrival] = []

    def _run(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(1000, 0.01):
                assert message.error() is None, message.error()
                value = message.value()
                assert isinstance(value, bytes)
                partition = message.partition()
                assert partition is not None
                self.arrivals.append(Arrival(time.time(), int(value.split(b" ", 1)[0]) / 1e9, partition))
        self._consumer.close()


def longest_gap(arrivals: list[Arrival], begin: float, end: float) -> float:
    """Seconds in which nothing of a partition arrived, at most: what the time begins and ends with counts too."""
    times: defaultdict[int, list[float]] = defaultdict(lambda: [begin])
    for each in arrivals:
        if begin <= each.at <= end:
            times[each.partition].append(each.at)
    return max(
        later - earlier for some in times.values() for earlier, later in itertools.pairwise([*some, end])
    )


def every(seconds: float, times: int, do: Callable[[], None]) -> list[float]:
    """Does it so often; answers when, in seconds since the epoch, and returns that long after the last."""
    done = []
    for _ in range(times):
        done.append(time.time())
        do()
        time.sleep(max(0.0, done[-1] + seconds - time.time()))
    return done

"""A source that is written to and a copy that is read, all the time, whatever happens to the clusters meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, suppress

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bridge.local import eventually
from tests.support.background import in_background
from tests.support.names import unique
from tests.support.records import FLUSH_SECONDS, position
from tests.support.topics import bounds
from tests.support.waits import WAIT

_CLIENT = {"reconnect.backoff.max.ms": 500, "log_level": 0}


class Writer:
    """Distinct records to all partitions of a topic in turn, some in transactions that are aborted in the end."""

    def __init__(self, bootstrap: str, topic: str, *, rate: int = 200) -> None:
        """`rate`: records a second."""
        self._bootstrap, self._topic, self._pause = bootstrap, topic, 10 / rate
        self._partitions = len(bounds(bootstrap, topic))
        self.written = 0

    def running(self) -> AbstractContextManager[None]:
        return in_background(self._write, "writer")

    def _write(self, end: threading.Event) -> None:
        common = {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, **_CLIENT}
        plain = Producer({**common, "linger.ms": 5})
        while not end.wait(self._pause):
            if self.written % 400 == 0:
                with suppress(KafkaException):  # the source may be gone: its coordinator aborts it then
                    self._abort_one(common)
            for _ in range(10):
                self._one(plain)
            plain.poll(0)
        for _ in range(self._partitions):
            self._one(plain, last=True)
        assert plain.flush(FLUSH_SECONDS) == 0

    def _one(self, sink: Producer, *, last: bool = False) -> None:
        number, self.written = self.written, self.written + 1
        sink.produce(
            self._topic,
            value=b"last" if last else b"value-%d" % number,
            key=b"key-%d" % number,
            headers=[("number", b"%d" % number)],
            partition=number % self._partitions,
        )

    def _abort_one(self, common: dict[str, object]) -> None:
        sink = Producer({**common, "transactional.id": unique("tx"), "transaction.timeout.ms": 5000})
        sink.init_transactions(2)
        sink.begin_transaction()
        sink.produce(self._topic, value=b"aborted", partition=self.written % self._partitions)
        sink.flush(2)
        sink.abort_transaction(2)


class Reader:
    """A read_committed reader of all partitions; how long it had nothing to read, at the longest."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._places = [TopicPartition(topic, number, 0) for number in range(partitions)]
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": unique("reader"),
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **_CLIENT,
        }
        self.values: dict[int, list[bytes | None]] = {number: [] for number in range(partitions)}
        self._back = 0.0
        self.longest = 0.0
        """Seconds without a record while both clusters were there; and when, by time.monotonic, they ended."""
        self.longest_at = 0.0

    def running(self) -> AbstractContextManager[None]:
        return in_background(self._read, "reader")

    def clusters_are_back(self) -> None:
        """Notes that the clusters are back: without them there was nothing to read."""
        self._back = time.monotonic()

    @property
    def count(self) -> int:
        return sum(map(len, self.values.values()))

    @property
    def done(self) -> bool:
        """Whether the last record of every partition has come."""
        return all(each[-1:] == [b"last"] for each in self.values.values())

    def wait_done(self) -> None:
        eventually(lambda: self.done, WAIT, what="all records are read")

    def wait_more(self, records: int = 200) -> None:
        most = self.count + records
        eventually(lambda: self.count >= most, WAIT, what=f"{records} more records are read")

    def _read(self, end: threading.Event) -> None:
        consumer = Consumer(self._settings)
        consumer.assign(self._places)
        last = time.monotonic()
        try:
            while not end.is_set() and not self.done:
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                now = time.monotonic()
                stall = now - max(last, self._back)
                if stall > self.longest:
                    self.longest, self.longest_at = stall, now
                last = now
                self.values[position(message)[0]].append(message.value())
        finally:
            consumer.close()

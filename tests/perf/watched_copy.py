"""A copy as it grows: from its first record to its last, and what processes have cost meanwhile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from tests.perf.processes import Meter
from tests.perf.threaded import Threaded

_MOVED = (KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION)
"""A broker that was too busy to say that it lives leads its partitions anew."""
_TRIES = 20


class Copy(NamedTuple):
    """Rates in records per second, times in processor seconds per million records."""

    rate: float
    mirror_cpu: float
    broker_cpu: float
    more: Mapping[str, object] = {}

    def row(self) -> dict[str, object]:
        return {
            "rate": round(self.rate),
            "mirror_cpu": round(self.mirror_cpu, 2),
            "broker_cpu": round(self.broker_cpu, 2),
            **self.more,
        }


def median(runs: Sequence[Copy]) -> Copy:
    """Of each figure by itself."""
    return Copy(
        statistics.median(each.rate for each in runs),
        statistics.median(each.mirror_cpu for each in runs),
        statistics.median(each.broker_cpu for each in runs),
        {**runs[-1].more, "rates": [round(each.rate) for each in runs]},
    )


class _Sample(NamedTuple):
    at: float
    offsets: int
    mirror: float
    brokers: float


class Watch(Threaded):
    """Asks for the ends of a topic's partitions, as read_committed readers see them, every `tick` seconds.

    Starting up does not count: figures are of the records between the first look that found some and the look that
    found the last ones. Begin it before the mirror begins: the first look has to find nothing.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        mirror: Callable[[], Iterable[int]],
        brokers: Sequence[int],
        tick: float = 0.05,
    ) -> None:
        super().__init__()
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._ask = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        self._meters = Meter(mirror), Meter(lambda: brokers)
        self._tick = tick
        self._samples: list[_Sample] = []

    def __enter__(self) -> Self:
        self._look()
        return super().__enter__()

    def _run(self) -> None:
        while not self._over.wait(self._tick) or not self._settled():
            self._look()

    def _look(self) -> None:
        offsets = self._ends()
        mirror, brokers = (meter.seconds() for meter in self._meters)
        self._samples.append(_Sample(time.monotonic(), offsets, mirror, brokers))

    def _settled(self) -> bool:
        """Whether readers saw all there is: brokers write markers after they have answered a commit."""
        return self.offsets == self._ends(IsolationLevel.READ_UNCOMMITTED)

    def _ends(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> int:
        """Of all partitions together."""
        for _ in range(_TRIES):
            result = self._admin.list_offsets(self._ask, isolation_level=isolation)
            try:
                return sum(future.result(30).offset for future in result.values())
            except KafkaException as error:
                if error.args[0].code() not in _MOVED:
                    raise
        raise AssertionError(f"partitions have no leader that stays, {_TRIES} times asked")

    @property
    def offsets(self) -> int:
        """Of all partitions together, transaction markers among them, when last asked."""
        return self._samples[-1].offsets

    def wait_grown(self, least: int, within: float, alive: Callable[[], None] | None = None) -> float:
        """Until so many offsets are there; answers when they were seen. `alive` is called every second or so, and may
        raise."""
        end, look = time.monotonic() + within, 0.0
        while not self._failed and self.offsets < least:
            now = time.monotonic()
            assert now < end, f"{self.offsets} of {least} offsets after {within:g} s"
            if alive is not None and now > look:
                alive()
                look = now + 1.0
            time.sleep(self._tick)
        if self._failed:
            raise self._failed[0]
        return next(each.at for each in self._samples if each.offsets >= least)

    def copied(self, records: int) -> Copy:
        """Once the block has ended: `records` are all in the copy by now."""
        at = next(number for number, each in enumerate(self._samples) if each.offsets)
        final = self._samples[-1].offsets
        assert final >= records, f"{final} offsets on the target for {records} records"
        if self._samples[at].offsets == final:
            at -= 1  # all at one look: since the one before
        first, last = self._samples[at], next(each for each in self._samples if each.offsets == final)
        # Transaction markers are among the offsets, as evenly as the records are.
        counted = records * (1 - first.offsets / final)
        return Copy(
            counted / (last.at - first.at),
            (last.mirror - first.mirror) * 1e6 / counted,
            (last.brokers - first.brokers) * 1e6 / counted,
        )

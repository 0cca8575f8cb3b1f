"""Records that come back to the partition that they were copied from, and records that only look like it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridge.kafka.record.batch import parse
from bridge.model.copying import MOST_BYTES
from bridge.model.values import TopicPartition
from bridge.pipeline.slices.cycles import CycleDetector
from tests.unit.kafka.record.raw_batches import NOW, ZSTD, Plain, batch_of

TP = TopicPartition("orders", 0)


class Log:
    """A partition that a slice copies: each append is fetched and committed by itself."""

    def __init__(self) -> None:
        self.detector, self.end = CycleDetector(lambda: 0.0), 0

    def copy(self, records: Sequence[Plain], *, append_time: int | None = None) -> bool:
        """Whether a cycle is seen in these records, which are at the log's end."""
        data = batch_of(records, self.end, codec=ZSTD, append_time=append_time)
        begin, self.end = self.end, self.end + len(records)
        found = self.fetch(data, begin)
        self.detector.commit()
        return found

    def fetch(self, data: bytes, begin: int) -> bool:
        return self.detector.goes_round(TP, list(parse(data)), begin, MOST_BYTES)


def written(count: int, start: int = 0) -> list[Plain]:
    return [
        Plain(NOW + n, b"key %d" % n, b"value %d" % n, (("n", b"%d" % n),))
        for n in range(start, start + count)
    ]


@pytest.mark.parametrize(("count", "most"), [(1, 1000), (10, 1000), (100, 1000), (5000, 30_000)])
def test_what_is_copied_back_is_a_cycle(count: int, most: int) -> None:
    log, records = Log(), written(count)
    while not log.copy(records):
        assert log.end < most
    assert log.copy(written(1, start=count)), "it is one until it is forgotten"
    log.detector.forget(TP)
    assert not log.copy(records)


def test_it_is_found_while_an_application_goes_on() -> None:
    """Every record that it writes goes round with the others."""
    log = Log()
    rounds = next(n for n in range(1, 100) if log.copy(written(n)))
    assert log.end < 1000, rounds


@pytest.mark.parametrize("times", [2, 3])
def test_a_file_that_is_read_in_again_is_none(times: int) -> None:
    log = Log()
    for _ in range(times):
        for start in range(0, 5000, 100):
            assert not log.copy(written(100, start))


def test_an_application_that_sends_again_what_got_no_answer_is_none() -> None:
    log = Log()
    for n in range(500):
        records = written(4, start=4 * n)
        for _ in range(4):
            assert not log.copy(records[:1])
        assert not log.copy(records[1:])


def test_what_is_the_same_in_one_transaction_or_at_other_times_is_none() -> None:
    log = Log()
    for n in range(500):
        assert not log.copy([Plain(NOW + n, None, b"ping")] * 20)


@pytest.mark.parametrize(("timestamp", "append_time"), [(-1, None), (NOW, NOW)])
def test_records_that_have_no_time_of_their_own_are_none(timestamp: int, append_time: int | None) -> None:
    log = Log()
    for _ in range(500):
        assert not log.copy([Plain(timestamp, None, b"ping")], append_time=append_time)


def test_what_is_fetched_once_more_has_not_come_back() -> None:
    log, data = Log(), batch_of(written(10))
    for _ in range(500):
        assert not log.fetch(data, 0)
        log.detector.commit()


def test_what_cannot_be_decoded_is_passed() -> None:
    log, data = Log(), bytearray(batch_of(written(10)))
    data[22] |= 7  # a codec that nobody knows
    assert not log.fetch(bytes(data), 0)


def test_no_more_than_a_share_of_the_time_is_spent() -> None:
    """A clock that stands still but for what is looked at."""
    ticks = iter(range(10_000))
    log = Log()
    log.detector = CycleDetector(lambda: float(next(ticks)))
    looked = 0
    for _ in range(100):
        before = next(ticks)
        log.copy(written(10))
        looked += next(ticks) - before > 3
    assert looked < 50

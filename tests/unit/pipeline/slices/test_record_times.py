"""How long records took, from the headers of the batches that hold them to the driver."""

from __future__ import annotations

import struct

import pytest

from bridge.kafka.record.batch import Chunk
from bridge.model.copying import Copied, CopySample, Latencies
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline.driver.progress_watcher import ProgressTable
from bridge.pipeline.slices.transaction import RecordTimes
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import OffsetRun, Segment, commit_times, decode_times, encode_times

TP = TopicPartition("orders", 0)
COPIED = Copied(TP, "s", "A.orders", "t")


def chunk(count: int, first: int, greatest: int) -> Chunk:
    data = bytearray(61)
    struct.pack_into(">qq", data, 27, first, greatest)
    return Chunk(data, count, ((0, count),), greatest, 0)


def times(*chunks: tuple[Chunk, int]) -> RecordTimes:
    times_ = RecordTimes()
    for each, fetched_ms in chunks:
        times_.add(each, fetched_ms)
    return times_


def test_records_count_as_spread_evenly_over_their_batch() -> None:
    spread = times((chunk(10, 1_000, 1_100), 1_200), (chunk(5, 1_150, 1_150), 1_250))
    assert decode_times(spread.encoded(1_300)) == (
        Latencies(15, 10 * 150 + 5 * 100, 100, 200),
        Latencies(15, 10 * 250 + 5 * 150, 150, 300),
    )


@pytest.mark.parametrize(
    ("first", "greatest", "expected"),
    [
        (-1, -1, None),
        (9_999, 1_100, (Latencies(2, 200, 100, 100), Latencies(2, 400, 200, 200))),
        (5_000, 6_000, (Latencies(2, 0, 0, 0), Latencies(2, 0, 0, 0))),
    ],
    ids=["no timestamp", "a delete horizon", "a clock that is ahead"],
)
def test_headers_of_all_kinds(first: int, greatest: int, expected: object) -> None:
    assert decode_times(times((chunk(2, first, greatest), 1_200)).encoded(1_300)) == expected


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\x80",
        b"\x01",
        b"\x00" * 7,
        b"\x01\x05\x02\x01\x05\x02\x01",
        b"\xff" * 30,
        b"\x80" * 30_000 + b"\x01",
        b"\x01" * 8,
    ],
    ids=lambda junk: f"{len(junk)} bytes",
)
def test_what_no_record_can_have_tells_nothing(junk: bytes) -> None:
    assert decode_times(junk) is None


def test_times_stand_behind_a_runs_value_and_no_reader_of_runs_sees_them() -> None:
    run = OffsetRun(TP, "s", "A.orders", "t", 0, 0, 0, 9, 0, 0, 1, 9, 1, 100)
    for each in (run, run._replace(holes=b"\x01\x09"), run._replace(again=True)):
        for stated in (b"", b"\x05times"):
            value = each.value(stated)
            assert OffsetRun.decode(each.key(), value) == each
            assert commit_times(value) == stated
    assert run.value(b"") == run.value()


def test_a_commit_tells_them_once() -> None:
    """A run that is written again, because its position moved or it was merged, tells of no new records."""
    runs, table, offset = PartitionRuns(), ProgressTable(0), 0

    def write(start: int, count: int, position: int, stated: bytes = b"") -> None:
        nonlocal offset
        segments = [Segment(start, start, start, count, 1, 900, 100)] if count else []
        for key, value in runs.commit(segments, position, COPIED, 0, stated):
            table.apply(LogRecord(offset, 1_000, key, value))
            offset += 1

    stated = encode_times(Latencies(10, 500, 10, 90), Latencies(10, 1_500, 110, 190))
    write(0, 0, 0)
    write(0, 10, 10, stated)
    write(0, 0, 12)
    (sample,) = table.drain_samples({COPIED.id})
    assert sample == CopySample(
        *TP,
        "A.orders",
        10,
        100,
        1_000,
        Latencies(10, 500, 10, 90, 0),
        Latencies(10, 1_500, 110, 190, 100),
    )
    write(0, 0, 14, stated)
    assert table.drain_samples({COPIED.id}) == []


def test_a_commit_of_an_older_version_has_the_last_records_latency() -> None:
    runs, table = PartitionRuns(), ProgressTable(0)
    for number, count in enumerate((0, 5)):
        segments = [Segment(0, 0, 0, count, 1, 900, 100)] if count else []
        for key, value in runs.commit(segments, count, COPIED):
            table.apply(LogRecord(number, 1_000, key, value))
    (sample,) = table.drain_samples({COPIED.id})
    assert (sample.records, sample.latency) == (5, Latencies(1, 100, 100, 100, 100))
    assert table.drain_samples({COPIED.id}) == []


def test_samples_of_other_connectors_are_dropped() -> None:
    runs, table = PartitionRuns(), ProgressTable(0)
    for number, count in enumerate((0, 5)):
        segments = [Segment(0, 0, 0, count, 1, 900, 100)] if count else []
        for key, value in runs.commit(segments, count, COPIED):
            table.apply(LogRecord(number, 1_000, key, value))
    assert table.drain_samples(set()) == []
    assert table.drain_samples({COPIED.id}) == []

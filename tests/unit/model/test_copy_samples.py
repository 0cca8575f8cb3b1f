"""Samples of what was copied: joined, nothing is lost but the times in between."""

from __future__ import annotations

import json

from bridge.model.copying import NO_LATENCIES, CopySample, Latencies, join
from bridge.model.values import TopicPartition

TP = TopicPartition("orders", 3)


def sample(records: int, latency: Latencies = NO_LATENCIES, target: str = "A.orders") -> CopySample:
    return CopySample(*TP, target, records, 100 * records, 1000 + records, latency, latency)


def test_latencies_are_joined_as_one_would_measure_them_at_once() -> None:
    older, newer = Latencies(10, 100, 1, 50, 7), Latencies(30, 60, 2, 2, 2)
    assert older.joined(newer) == Latencies(40, 160, 1, 50, 2)
    assert older.joined(NO_LATENCIES) == NO_LATENCIES.joined(older) == older


def test_a_sum_never_outgrows_what_java_reads() -> None:
    huge = Latencies(1, 2**62, 0, 2**62, 0)
    assert huge.joined(huge).total == 2**62


def test_samples_of_a_partition_are_joined_and_those_of_another_copy_take_their_place() -> None:
    waiting: dict[TopicPartition, CopySample] = {}
    join(waiting, [sample(3), sample(4, Latencies(4, 40, 10, 10, 10))])
    assert waiting == {
        TP: CopySample(
            *TP, "A.orders", 7, 700, 1004, Latencies(4, 40, 10, 10, 10), Latencies(4, 40, 10, 10, 10)
        )
    }
    join(waiting, [sample(1, target="B.orders")])
    assert waiting == {TP: sample(1, target="B.orders")}


def test_a_sample_goes_through_json() -> None:
    there = sample(5, Latencies(5, 50, 1, 20, 9))
    assert CopySample.from_row(json.loads(json.dumps(there))) == there

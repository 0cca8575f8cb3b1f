"""Partitions that wait while the others of their slice are copied."""

from __future__ import annotations

import pytest

from bridge.model.values import TopicPartition
from bridge.pipeline.slices.failed_partitions import FailedPartitions

ONE, TWO = TopicPartition("orders", 1), TopicPartition("orders", 2)


def test_one_is_tried_again_after_longer_and_longer_pauses_and_once_each_time() -> None:
    failed, now, pauses = FailedPartitions(), 100.0, list[float]()
    for _ in range(9):
        failed.fail(ONE, "damaged", now)
        began = now
        while not failed.take_due(now):
            now += 0.05
        assert failed.take_due(now + 1000) == []
        pauses.append(now - began)
    assert 0.3 < pauses[0] < 0.8
    assert 40 < pauses[-1] <= 61
    assert pauses[:7] == sorted(pauses[:7])


def test_three_tries_that_fail_alike_last() -> None:
    failed = FailedPartitions()
    seen = []
    for why in ("damaged", "damaged", "another", "another", "another"):
        failed.fail(ONE, why, 0.0)
        seen.append(failed.lasts(ONE))
    assert seen == [False, False, False, False, True]
    failed.heal(ONE)
    assert not failed.lasts(ONE)
    assert ONE not in failed


def test_what_is_wrong_is_told_when_it_changes() -> None:
    failed = FailedPartitions()
    assert not failed
    for _ in range(2):
        failed.fail(TWO, "damaged", 0.0)
    failed.fail(ONE, "gone", 0.0)
    assert failed.changed
    assert failed.tell() == "orders-1: gone; orders-2: damaged"
    failed.fail(ONE, "gone", 0.0)
    assert not failed.changed
    failed.heal(ONE)
    assert failed.changed
    assert failed.tell() == "orders-2: damaged"
    failed.heal(TWO)
    assert failed.tell() == ""


@pytest.mark.parametrize(("count", "said"), [(3, "x-2: gone"), (5, "and 2 partition(s) more")])
def test_a_report_names_a_few(count: int, said: str) -> None:
    failed = FailedPartitions()
    for number in range(count):
        failed.fail(TopicPartition("x", number), "gone", 0.0)
    assert failed.tell().endswith(said)

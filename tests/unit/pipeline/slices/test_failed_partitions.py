"""Partitions that wait while the others of their slice are copied."""

from __future__ import annotations

from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import TopicPartition
from bridge.pipeline.slices.lease import FailedPartitions

ONE, TWO = TopicPartition("orders", 1), TopicPartition("orders", 2)
WAITING, FAILED = PartitionState.WAITING, PartitionState.FAILED


def test_one_is_tried_again_after_longer_and_longer_pauses_and_once_each_time() -> None:
    failed, now, pauses = FailedPartitions(), 100.0, list[float]()
    for _ in range(9):
        failed.fail(ONE, "damaged", now, 0)
        began = now
        while not failed.take_due(now):
            now += 0.05
        assert failed.take_due(now + 1000) == []
        pauses.append(now - began)
    assert 0.3 < pauses[0] < 0.8
    assert 40 < pauses[-1] <= 61
    assert pauses[:7] == sorted(pauses[:7])


def test_three_tries_that_fail_alike_last_and_keep_the_time_of_the_first() -> None:
    failed = FailedPartitions()
    seen = []
    for now_ms, why in enumerate(("damaged", "damaged", "another", "another", "another")):
        failed.fail(ONE, why, 0.0, now_ms, way_out="skip it")
        (status,) = failed.take_statuses()
        assert status[:2] == ONE
        seen.append((status.state, status.since_ms, status.why, failed.lasts(ONE)))
    assert seen == [
        (WAITING, 0, "damaged", False),
        (WAITING, 0, "damaged", False),
        (WAITING, 2, "another", False),
        (WAITING, 2, "another", False),
        (FAILED, 2, "another", True),
    ]
    failed.heal(ONE)
    assert not failed.lasts(ONE)
    assert ONE not in failed


def test_what_time_heals_waits_and_never_lasts() -> None:
    failed = FailedPartitions()
    for _ in range(10):
        failed.fail(ONE, "no leader", 0.0, 0, heals=True)
    assert [each.state for each in failed.take_statuses()] == [WAITING]
    assert not failed.lasts(ONE)


def test_statuses_are_news_when_they_change() -> None:
    failed = FailedPartitions()
    for _ in range(2):
        failed.fail(TWO, "damaged", 0.0, 5)
    failed.fail(ONE, "gone", 0.0, 6)
    assert failed.changed
    assert [each.source for each in failed.take_statuses()] == [ONE, TWO]
    failed.fail(ONE, "gone", 0.0, 7)
    assert not failed.changed
    failed.fail(ONE, "gone", 0.0, 8)
    assert failed.changed, "it lasts by now"
    failed.heal(ONE)
    assert failed.changed
    failed.heal(TWO)
    assert failed.take_statuses() == []


def test_what_fails_as_it_did_before_a_restart_has_failed_since_then() -> None:
    failed = FailedPartitions()
    failed.recall(
        [PartitionStatus(*ONE, FAILED, 3, "damaged"), PartitionStatus(*TWO, WAITING, 4, "no leader")]
    )
    assert failed.take_statuses() == [], "until it is tried"
    failed.fail(ONE, "damaged", 0.0, 100)
    failed.fail(TWO, "damaged", 0.0, 100)
    one, two = failed.take_statuses()
    assert (one.state, one.since_ms) == (FAILED, 3)
    assert (two.state, two.since_ms) == (WAITING, 100), "another cause"
    failed.heal(ONE)
    failed.fail(ONE, "damaged", 0.0, 200)
    assert failed.take_statuses()[0].since_ms == 200, "it was well in between"


def test_what_could_not_be_opened_is_well_once_it_is_and_all_else_once_it_moves() -> None:
    failed = FailedPartitions()
    failed.fail(ONE, "no leader", 0.0, 5, heals=True, unopened=True)
    failed.fail(TWO, "not enough replicas", 0.0, 5, heals=True)
    for each in (ONE, TWO):
        failed.open(each)
    assert [each.source for each in failed.take_statuses()] == [TWO]
    failed.release(TWO)
    assert failed.take_due(0.0) == [TWO]


def test_a_try_that_ends_with_its_copier_is_made_again() -> None:
    failed = FailedPartitions()
    failed.fail(ONE, "damaged", 0.0, 5)
    failed.note(TWO, "no leader", 5)
    assert failed.take_due(10.0) == [ONE]
    failed.lose_tries(10.0)
    assert failed.take_due(10.0) == [], "what fails may have ended the copier"
    assert failed.take_due(15.0) == [ONE]
    failed.fail(ONE, "damaged", 20.0, 5)
    failed.lose_tries(20.0)
    assert failed.take_due(20.0) == []
    assert failed.take_due(25.0) == [ONE]


def test_what_is_tried_again_by_who_fetches_is_told_and_never_due() -> None:
    failed = FailedPartitions()
    failed.note(ONE, "no leader", 5)
    failed.note(ONE, "no leader", 6)
    failed.fail(TWO, "damaged", 0.0, 7)
    assert [(each.state, each.since_ms) for each in failed.take_statuses()] == [(WAITING, 5), (WAITING, 7)]
    assert failed.take_due(1e9) == [TWO]
    assert (failed.holds(ONE), failed.holds(TWO)) == (False, True)
    failed.heal(ONE)
    assert ONE not in failed

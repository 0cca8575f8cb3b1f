"""Who copies what, and the records that say so."""

from __future__ import annotations

import time
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.network.client import NetworkClient
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.slots import Slice, balance, transactional_id, unescaped_id
from bridge.pipeline.slices.lease import Lease
from tests.unit.pipeline.values import copied, spec


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(1, 8), st.randoms())
def test_every_partition_has_one_slot_and_none_is_much_heavier_than_it_must_be(
    loads: list[int], slots: int, random: Random
) -> None:
    partitions = [copied(number) for number in range(len(loads))]
    weights = {each.source: float(load) for each, load in zip(partitions, loads, strict=True)}
    shares = balance(partitions, slots, weights)
    assert sorted(each.source for share in shares for each in share) == [each.source for each in partitions]
    assert len(shares) == min(slots, len(partitions))
    shuffled = random.sample(partitions, len(partitions))
    assert balance(shuffled, slots, weights) == shares
    least = min((load for load in weights.values() if load > 0), default=1.0)
    weighed = [[max(weights[each.source], least) for each in share] for share in shares]
    totals = [sum(share) for share in weighed]
    # Longest first: the heaviest slot without its lightest partition is no heavier than any other.
    heaviest = totals.index(max(totals))
    assert totals[heaviest] - min(weighed[heaviest]) <= min(totals)


def test_partitions_that_nobody_has_measured_weigh_as_little_as_the_lightest() -> None:
    known = {TopicPartition("orders", 0): 100.0, TopicPartition("orders", 1): 10.0}
    shares = balance([copied(number) for number in range(6)], 2, known)
    assert [[each.source.partition for each in share] for share in shares] == [[0], [1, 2, 3, 4, 5]]


@pytest.mark.parametrize("ahead", [7200, -7200])
def test_a_slice_holds_for_its_time_whatever_time_of_day_its_machine_shows(
    monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """Spark runs it elsewhere than the driver that has made it."""
    work = Slice(spec(), 1, 0, 0.05, [], [])
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + ahead)
    lease = Lease(work, cast(NetworkClient, None))
    assert not lease.over()
    end = time.monotonic() + 5
    while not lease.over() and time.monotonic() < end:
        pass
    assert lease.ended == "deadline"


def test_without_partitions_there_is_no_slice() -> None:
    assert balance([], 4, {}) == []


def test_transactional_ids_are_of_one_connector_one_flow_and_one_slot() -> None:
    ids = {
        transactional_id(spec(name=name, source_alias=alias), slot)
        for name in ("one", "other")
        for alias in ("A", "B")
        for slot in range(3)
    }
    assert len(ids) == 12


@pytest.mark.parametrize("slot", [0, "driver"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("eu", "west-m"), ("eu-west", "m")),
        (("eu%2Dwest", "m"), ("eu-west", "m")),
    ],
)
def test_transactional_ids_of_names_with_dashes_differ(
    slot: int | str, one: tuple[str, str], other: tuple[str, str]
) -> None:
    ids = {
        transactional_id(spec(source_alias=alias, name=name), who)
        for alias, name in (one, other)
        for who in (slot, 1)
    }
    assert len(ids) == 4


def test_transactional_ids_of_names_without_dashes_are_those_of_version_0() -> None:
    plain = spec(source_alias="A", name="mirror")
    assert transactional_id(plain, 3) == unescaped_id(plain, 3) == "mirror-bridge-A-mirror-3"

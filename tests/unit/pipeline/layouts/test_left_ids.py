"""Transactional ids that slices have left: what is read of them, and which may be passed over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from bridge.kafka.protocol.produce_requests import DescribedTransaction, ProducerIdAndEpoch
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline.layouts import left_ids
from bridge.pipeline.layouts.left_ids import (
    PartitionsEnding,
    describe_passed_over,
    encode_left,
    free_numbers,
    left_key,
    read_left,
)
from bridge.pipeline.layouts.records import unreadable
from tests.support.pipeline_spec import SPEC

OTHER = replace(SPEC, name="other")
X = TopicPartition("x", 0)
HOLDER = ProducerIdAndEpoch(7, 3)


def records(*keys_and_values: tuple[bytes, bytes | None]) -> list[LogRecord]:
    return [LogRecord(offset, 0, key, value) for offset, (key, value) in enumerate(keys_and_values)]


def test_the_last_holder_that_has_left_an_id_counts() -> None:
    newer = ProducerIdAndEpoch(7, 5)
    written = records(
        (left_key(SPEC, 0), encode_left(HOLDER)),
        (left_key(SPEC, 2), encode_left(HOLDER)),
        (left_key(OTHER, 1), encode_left(HOLDER)),
        (left_key(SPEC, 0), encode_left(newer)),
    )
    assert read_left(written, SPEC) == {0: newer, 2: HOLDER}
    assert not any(unreadable(each.key, each.value) for each in written)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{}",
        b'{"producer_id": 7}',
        b'{"producer_id": "7", "epoch": 3}',
        b'{"producer_id": true, "epoch": 3}',
    ],
)
def test_a_record_that_tells_no_holder_is_no_record(value: bytes | None) -> None:
    key = left_key(SPEC, 0)
    assert read_left(records((key, value)), SPEC) == {}
    assert read_left(records((key, encode_left(HOLDER)), (key, value)), SPEC) == {}


def test_slots_take_the_first_ids_that_are_free() -> None:
    assert list(islice(free_numbers({0, 2}), 3)) == [1, 3, 4]
    assert list(islice(free_numbers(()), 2)) == [0, 1]


class Coordinators:
    """Describes the last transactions of ids."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **described: DescribedTransaction) -> None:
        self.described = described

        class One:
            def __init__(self, _client: object, transactional_id: str) -> None:
                self.transactional_id = transactional_id

            async def describe(self, _within: float) -> DescribedTransaction | None:
                return described.get("_" + self.transactional_id[-1])

        monkeypatch.setattr(left_ids, "Coordinator", One)


def transaction(state: str, epoch: int = 3, *partitions: TopicPartition) -> DescribedTransaction:
    return DescribedTransaction(0, state, 15_000, ProducerIdAndEpoch(7, epoch), set(partitions))


def test_an_id_may_be_passed_over_while_the_transaction_of_who_has_left_it_is_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Coordinators(
        monkeypatch,
        _0=transaction("PrepareCommit", 3, X),
        _1=transaction("PrepareAbort", 4, X),
        _2=transaction("CompleteCommit", 3),
        _3=transaction("Ongoing", 3, X),
    )
    client: Any = None
    left = dict.fromkeys(range(5), HOLDER)
    assert asyncio.run(describe_passed_over(client, SPEC, left)) == {0: {X}}


def test_partitions_without_a_marker_are_asked_for_until_they_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coordinators = Coordinators(monkeypatch, _0=transaction("PrepareCommit", 3, X))
    client: Any = None
    ending = PartitionsEnding(client, SPEC, [0])
    assert asyncio.run(ending.ask()) == {X}
    coordinators.described["_0"] = transaction("CompleteCommit")
    assert asyncio.run(ending.ask()) == set()
    coordinators.described["_0"] = transaction("PrepareCommit", 5, X)
    assert asyncio.run(ending.ask()) == set(), "that is of another layout"

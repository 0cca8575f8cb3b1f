"""States of single partitions: what a report of many says, and how it is packed."""

from __future__ import annotations

import json

import pytest

from bridge.model.copying import PipelineState, PipelineStatus
from bridge.model.partition_states import (
    PartitionState,
    PartitionStatus,
    pack,
    reasons,
    unpack,
    with_fewer_causes,
    with_since,
)
from tests.support.messages import message

WAITING, FAILED, GAP = PartitionState.WAITING, PartitionState.FAILED, PartitionState.GAP


def status(
    partition: int, why: str, state: PartitionState = WAITING, since_ms: int = 1, way_out: str = ""
) -> PartitionStatus:
    return PartitionStatus("orders", partition, state, since_ms, why, way_out)


def test_partitions_that_fail_alike_are_one_reason() -> None:
    told = reasons(
        [
            *(status(number, "gone", since_ms=10 - number) for number in range(5)),
            status(7, "damaged", FAILED, way_out="skip it"),
            status(8, "a record was left out", GAP),
        ]
    )
    first = message("partitions.alike", first="orders-0, orders-1, orders-2", more=2, why="gone")
    assert [(each.sentence, each.state, each.since_ms) for each in told] == [
        (first, WAITING, 6),
        ("orders-7: damaged; skip it", FAILED, 1),
    ]


def test_more_reasons_than_an_operator_reads_are_counted() -> None:
    told = reasons(
        status(number, f"cause {number}", FAILED if number == 90 else WAITING) for number in range(100)
    )
    assert len(told) == 21
    assert (told[-1].state, told[-1].total) == (FAILED, 80)
    assert "mirror-bridge progress" in told[-1].sentence


def test_a_state_that_goes_on_keeps_its_time() -> None:
    before = {each.source: each for each in (status(0, "no leader"), status(1, "no leader"))}
    now = [
        status(0, "no leader", since_ms=9),
        status(1, "damaged", since_ms=9),
        status(2, "gone", since_ms=9),
    ]
    assert [each.since_ms for each in with_since(now, before)] == [1, 9, 9]


def test_statuses_are_packed_once_for_what_they_share() -> None:
    statuses = [status(number, "no leader") for number in range(20_000)] + [status(0, "é", FAILED, 2, "skip")]
    statuses.append(status(3, "damaged", FAILED)._replace(offset=5, end=9))
    packed = json.dumps(pack(statuses))
    assert len(packed) < 200_000
    assert unpack(json.loads(packed)) == tuple(statuses)


@pytest.mark.parametrize(
    "packed",
    [
        1,
        [1],
        [["odd", 1, "", "", []]],
        [["failed", 1, "", [["t", [0]]]]],
        [["failed", 1, "", "", [[2, [0]]]]],
        [["failed", 1, "", "", [["t", ["0"]]]]],
        [["failed", -1, "", "", [["t", [0]]]]],
        [["failed", 1, None, "", [["t", [0]]]]],
        [["failed", 1, "", "", [["t", [1 << 31]]]]],
        [["failed", 1, "", "", [["t", [[0, -2, 5]]]]]],
        [["failed", 1 << 60, "", "", [["t", [0]]]]],
        [["failed", 1, "\ud800", "", [["t", [0]]]]],
        [["failed", 1, "", "", [["t", [[0, 1, 2, 3]]]]]],
    ],
    ids=str,
)
def test_nonsense_is_refused(packed: list[list[object]]) -> None:
    with pytest.raises((TypeError, ValueError)):
        unpack(packed)


def test_a_row_of_nothing_is_no_status() -> None:
    assert unpack([["failed", 1, "", "", [["t", [[]]]]]]) == ()


def test_of_very_many_causes_a_report_has_room_for_some() -> None:
    statuses = [status(number, f"cause {number}", since_ms=number) for number in range(30_000)]
    fewer = with_fewer_causes(statuses, 1000)
    assert [each.source for each in fewer] == [each.source for each in statuses]
    assert fewer[:1000] == statuses[:1000]
    assert {each[2:6] for each in fewer[1000:]} == {(WAITING, 1000, fewer[-1].why, "")}
    assert len(json.dumps(pack(fewer))) < 500_000
    assert with_fewer_causes(statuses[:1000], 1000) == statuses[:1000]


@pytest.mark.parametrize(
    ("state", "running", "usual"),
    [
        (PipelineState.STARTING, False, "waiting"),
        (PipelineState.RETRYING, False, "waiting"),
        (PipelineState.RETRYING, True, "copying"),
        (PipelineState.COPYING, True, "copying"),
        (PipelineState.SILENT, False, "waiting"),
        (PipelineState.CAUGHT_UP, False, "done"),
        (PipelineState.FAILED, False, "failed"),
        (PipelineState.STOPPED, False, "stopped"),
    ],
)
def test_a_partition_without_a_fault_is_as_its_connector(
    state: PipelineState, running: bool, usual: str
) -> None:
    states = PipelineStatus(
        state, slices_running=running, partitions=[status(0, "damaged", FAILED)]
    ).partition_states
    assert states.usual == usual
    assert bool(states.apart) is (usual != "stopped"), "nobody watches what was the matter before"

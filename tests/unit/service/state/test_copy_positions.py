"""How far partitions are copied, on its way to the task of a sink connector."""

from __future__ import annotations

import pytest

from bridge.protocol.messages import PollResponse, Position, Positions
from bridge.service.state import copy_progress
from bridge.service.state.copy_progress import CopySnapshot
from connectors.base import CopyReport
from tests.unit.service.service_fakes import session
from tests.unit.service.service_harness import TASK, ServiceHarness, run
from tests.unit.service.state.copy_reports import row, totals


def report(positions: dict[int, int], state: str = "copying", *, gone: int | None = None) -> CopyReport:
    rows = [row(partition)._replace(position=position) for partition, position in positions.items()]
    left = [] if gone is None else [row(gone).source]
    return CopyReport(totals().model_copy(update={"state": state}), rows, left)


class Reader:
    """A session of the shim that reads one connector's positions."""

    def __init__(self, snapshot: CopySnapshot, name: str = "s1") -> None:
        self.snapshot, self.name, self.seen = snapshot, name, 0

    def poll(self, *, lost: bool = False) -> dict[int, int]:
        self.snapshot.positions.begin(self.name)
        answer = self.snapshot.positions.next(self.seen)
        if answer is None or lost:
            return {}
        read = Positions.model_validate_json(answer)
        self.seen = read.number
        return {each.partition: each.position for each in read.partitions}


def test_a_session_reads_all_partitions_first_and_then_those_that_have_moved() -> None:
    snapshot = CopySnapshot()
    snapshot.update(report({0: 5, 1: 7}))
    reader = Reader(snapshot)
    assert reader.poll() == {0: 5, 1: 7}
    assert reader.poll() == {}
    snapshot.update(report({0: 5, 1: 8}))
    assert reader.poll() == {1: 8}
    assert Reader(snapshot, "s2").poll() == {0: 5, 1: 8}


def test_an_answer_that_got_lost_comes_again_and_what_moved_since_after_it() -> None:
    snapshot = CopySnapshot()
    snapshot.update(report({0: 5}))
    reader = Reader(snapshot)
    assert reader.poll(lost=True) == {}
    snapshot.update(report({0: 6}))
    assert reader.poll() == {0: 5}
    assert reader.poll() == {0: 6}


def test_many_come_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_progress, "MOST", 2)
    snapshot = CopySnapshot()
    snapshot.update(report({0: 1, 1: 1, 2: 1}))
    reader = Reader(snapshot)
    snapshot.positions.begin("s1")
    assert snapshot.positions.fills_an_answer
    assert [reader.poll(), reader.poll(), reader.poll()] == [{0: 1, 1: 1}, {2: 1}, {}]


def test_without_a_driver_nothing_is_known_as_an_operator_may_reset_it() -> None:
    snapshot = CopySnapshot()
    snapshot.update(report({0: 5, 1: 5, 2: 5}, gone=2))
    reader = Reader(snapshot)
    assert reader.poll(lost=True) == {}
    snapshot.update(report({0: 6}, "stopped"))
    assert reader.poll() == {}
    assert Reader(snapshot, "s2").poll() == {}
    snapshot.update(report({0: 0}, "copying"))
    assert Reader(snapshot, "s3").poll() == {0: 0}


def test_a_poll_that_asks_for_positions_gets_them() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        generation = at.service.table.connector("c").generation
        at.service.snapshots.progress("c", generation, report({0: 5}))
        poll = "/v1/connectors/c/tasks/0/poll"
        asked = {"session": session(1), "wait_ms": 0}
        assert "positions" not in (await at.client.post(poll, json=asked)).json()
        answer = await at.client.post(poll, json=asked | {"positions": 0})
        assert PollResponse.model_validate_json(answer.content).positions == Positions(
            number=1, partitions=[Position(topic="orders", partition=0, position=5)]
        )
        assert "positions" not in (await at.client.post(poll, json=asked | {"positions": 1})).json()

    run(test)

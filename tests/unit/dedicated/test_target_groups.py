"""Who is in a flow's group, as the coordinator says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.dedicated import membership
from bridge.dedicated.membership import Members, TargetGroups
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.group_requests import DescribedGroup, GroupMember
from bridge.kafka.protocol.wire import Call, Reader
from bridge.model.values import GroupState, Side

SETTINGS = client_settings(Side.TARGET, {"target.cluster.bootstrap.servers": "localhost:1"})
SHARED = DescribedGroup(
    0, GroupState.STABLE, [GroupMember("idle:1", b""), GroupMember("owner:2", b"\0\1\0\0\0\1")], 0
)


class Coordinators:
    """The coordinator of a group is always known; `answers` are its own, one after the other."""

    def __init__(self, answers: Sequence[DescribedGroup | KafkaFailure], lookup_error: int = 0) -> None:
        self._answers, self._lookup_error = list(answers), lookup_error
        self.forgotten = 0

    async def coordinators(self, names: Sequence[str]) -> tuple[dict[int, list[str]], dict[str, int]]:
        if self._lookup_error:
            return {}, dict.fromkeys(names, self._lookup_error)
        return {7: list(names)}, {}

    def forget_coordinators(self, _names: Sequence[str]) -> None:
        self.forgotten += 1

    async def send(self, node: int, _call: Call, _doing: str) -> Reader:
        assert node == 7
        if not self._answers:
            await asyncio.Event().wait()
        if isinstance(self._answers[0], KafkaFailure):
            raise self._answers.pop(0)  # type: ignore[misc]
        return Reader(b"", flexible=True)

    def read(self, _response: Reader) -> dict[str, DescribedGroup]:
        answer = self._answers.pop(0)
        assert isinstance(answer, DescribedGroup)
        return {"g": answer}


def members(monkeypatch: pytest.MonkeyPatch, coordinators: Coordinators) -> Members:
    for name in ("coordinators", "forget_coordinators", "send"):
        monkeypatch.setattr(NetworkClient, name, staticmethod(getattr(coordinators, name)))
    monkeypatch.setattr(membership, "read_described_groups", coordinators.read)

    async def go() -> Members:
        target = TargetGroups(SETTINGS)
        try:
            return await target.members("g")
        finally:
            await target.close()

    return asyncio.run(go())


def of(error: int) -> DescribedGroup:
    return DescribedGroup(error, GroupState.UNKNOWN, (), 0)


def test_the_owner_is_who_has_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert members(monkeypatch, Coordinators([SHARED])) == Members(
        "owner:2", frozenset({"idle:1", "owner:2"})
    )


def test_workers_of_a_connect_mirror_maker_are_no_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version, error and the length of the leader's name: as a consumer's, it would have 38 topics."""
    assignment = b"\0\2\0\0\0\x26"
    stock = DescribedGroup(0, GroupState.STABLE, [GroupMember("A->B", assignment)], 0, "connect")
    assert members(monkeypatch, Coordinators([stock])) == Members(None, frozenset())


def test_a_group_that_does_not_exist_has_no_members(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = DescribedGroup(0, GroupState.DEAD, (), 0)
    assert members(monkeypatch, Coordinators([dead])) == Members(None, frozenset())


def test_a_coordinator_that_has_moved_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinators = Coordinators([of(Errors.NOT_COORDINATOR), SHARED])
    assert members(monkeypatch, coordinators).owner == "owner:2"
    assert coordinators.forgotten == 1


def test_a_broker_that_goes_away_is_a_failure_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinators = Coordinators([KafkaFailure(KafkaFault.UNREACHABLE, "describe group g: connection lost")])
    with pytest.raises(KafkaFailure, match="connection lost"):
        members(monkeypatch, coordinators)
    assert coordinators.forgotten == 1


@pytest.mark.parametrize("where", ["answer", "look-up"])
def test_a_missing_right_is_named(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    denied = Errors.GROUP_AUTHORIZATION_FAILED
    coordinators = Coordinators([of(denied)]) if where == "answer" else Coordinators([], denied)
    with pytest.raises(KafkaFailure, match="DESCRIBE on group g"):
        members(monkeypatch, coordinators)


def test_a_broker_that_does_not_answer_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "TIMEOUT_SECONDS", 0.05)
    with pytest.raises(KafkaFailure, match=r"no answer within 0\.05 s"):
        members(monkeypatch, Coordinators([]))

"""What a node says of a flow, by what the group and the flow's connectors say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from bridge.dedicated.config.plan import ConnectorPlan, FlowPlan, worker_settings
from bridge.dedicated.flow_run import FlowRun
from bridge.dedicated.membership import Members, TargetGroups
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.model.values import Side
from bridge.protocol.messages import FlowStatus
from tests.unit.service.service_fakes import fake_service

ME, OTHER = "me:8900", "other:8900"
CONFIG = {
    "target.cluster.bootstrap.servers": "localhost:1",
    "source.cluster.bootstrap.servers": "localhost:2",
}
FLOW = FlowPlan(
    "A",
    "B",
    copies=True,
    heartbeats=True,
    connectors=(ConnectorPlan("MirrorSourceConnector", "source", CONFIG),),
    worker={},
)


class Groups(TargetGroups):
    """Answers what a test says."""

    def __init__(self) -> None:
        super().__init__(client_settings(Side.TARGET, CONFIG))
        self.answer: Members | KafkaFailure = Members(None, frozenset())

    async def members(self, group: str) -> Members:
        assert group == "A-mm2"
        if isinstance(self.answer, KafkaFailure):
            raise self.answer
        return self.answer


def status_after(steps: Callable[[FlowRun], None], members: Members | KafkaFailure) -> FlowStatus:
    async def go() -> FlowStatus:
        groups, service = Groups(), fake_service()
        run = FlowRun(service, FLOW, worker_settings(FLOW), groups, ME)
        steps(run)
        groups.answer = members
        await run.look()
        status = run.status()
        await run.close()
        service.pools.close()
        return status

    return asyncio.run(go())


def nothing(run: FlowRun) -> None:
    """The group has said nothing yet."""


def shut_out(run: FlowRun) -> None:
    run.kept_out("nobody there")


@pytest.mark.parametrize(
    ("members", "state", "node"),
    [
        (Members(OTHER, frozenset({OTHER, ME})), "elsewhere", OTHER),
        (Members(None, frozenset({ME})), "waiting", None),
        # It was given the flow, and has not heard of it yet; or has just given it back.
        (Members(ME, frozenset({ME})), "waiting", None),
        (KafkaFailure(KafkaFault.UNREACHABLE, "nobody there"), "waiting", None),
    ],
)
def test_a_flow_that_does_not_run_here(members: Members | KafkaFailure, state: str, node: str | None) -> None:
    status = status_after(nothing, members)
    assert (status.state, status.node, status.detail) == (state, node, None)
    assert status.connectors == ["A->B.MirrorSourceConnector"]


def test_a_node_that_is_kept_out_says_so() -> None:
    status = status_after(shut_out, Members(OTHER, frozenset({OTHER})))
    assert (status.state, status.detail) == ("elsewhere", "this node can't take it over: nobody there")


def test_a_connection_that_came_back_without_a_rebalance_is_no_alarm() -> None:
    status = status_after(shut_out, Members(OTHER, frozenset({OTHER, ME})))
    assert (status.state, status.detail) == ("elsewhere", None)


@pytest.mark.parametrize(
    ("members", "state"),
    [
        # Nobody else can have it: a cluster that comes back finds the flow as it was.
        (KafkaFailure(KafkaFault.TIMEOUT, "nobody there"), "running"),
        # The group has come back, and has not decided yet.
        (Members(None, frozenset({ME})), "running"),
        (Members(None, frozenset({ME, OTHER})), "running"),
        (Members(OTHER, frozenset({OTHER})), "elsewhere"),
        # A connect-mirror-maker.sh has the group, or it does not take this node any more.
        (Members(None, frozenset()), "waiting"),
    ],
)
def test_a_flow_that_may_be_lost_ends_where_the_group_says_so(
    members: Members | KafkaFailure, state: str
) -> None:
    async def go() -> None:
        groups, service = Groups(), fake_service()
        run = FlowRun(service, FLOW, replace(worker_settings(FLOW), session_ms=1), groups, ME)
        run.acquired()
        groups.answer = members
        await run.lost()
        await asyncio.sleep(0.01)
        await run.look()
        await asyncio.sleep(0)
        assert run.status().state == state
        if state == "running":
            run.acquired()
            groups.answer = Members(ME, frozenset({ME}))
            await run.look()
            assert run.status().state == state
        await run.close()
        service.pools.close()

    asyncio.run(go())

"""Flows of dedicated mode that run on another node, or on none: no yes, and no alarm where another node has them."""

from __future__ import annotations

import pytest

from bridge.protocol.messages import FlowStatus
from bridge.service.answers.flows import readiness_report
from bridge.service.answers.status import overall
from bridge.service.state.snapshots import RoundsState, Snapshots
from tests.support.messages import message
from tests.unit.service.service_harness import ServiceHarness, error, run


def flow(state: str, node: str | None = None, detail: str | None = None) -> FlowStatus:
    return FlowStatus(flow="A->B", source="A", target="B", copies=True, state=state, node=node, detail=detail)


@pytest.mark.parametrize(
    ("known", "reason", "detail"),
    [
        (flow("elsewhere", "node-2:8900"), "elsewhere", "another node runs the flow: ask node-2:8900"),
        # It is this node that runs it, and nobody is to be asked.
        (
            flow("running", "node-1:8900"),
            "not_looked_at_yet",
            message("health.this_node", flow="A->B"),
        ),
        (flow("waiting"), "connector_stopped", "no node runs flow A->B"),
        (
            flow("waiting", detail="the group can't be joined"),
            "connector_stopped",
            "the group can't be joined",
        ),
    ],
)
def test_what_is_not_known_here_is_not_ready(known: FlowStatus, reason: str, detail: str) -> None:
    report = readiness_report((), Snapshots(), {}, [known])
    assert report.readiness == "cannot_tell"
    (row,) = report.flows
    assert (row.source, row.target, row.readiness) == ("A", "B", "cannot_tell")
    assert [(each.reason, each.detail) for each in row.reasons] == [(reason, detail)]


def test_a_failover_of_a_flow_that_another_node_runs_names_that_node() -> None:
    async def test(at: ServiceHarness) -> None:
        at.service.flows = [flow("elsewhere", "node-2:8900")]
        for name, told in (("A-to-B", "ask node-2:8900"), ("B-to-A", "known flows: none")):
            asked = {"flow": name, "all": True}
            body = error(await at.client.post("/v1/failover", json=asked), 404, "unknown_connector")
            assert told in body.message

    run(test)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (flow("running", "node-1:8900"), "ok"),
        (flow("elsewhere", "node-2:8900"), "ok"),
        (flow("waiting"), "starting"),
        (flow("waiting", detail="the group can't be joined"), "degraded"),
        (flow("elsewhere", "node-2:8900", "this node can't take it over: no answer"), "degraded"),
        (flow("running", "node-1:8900", "checkpoints can't be written"), "degraded"),
    ],
)
def test_health(known: FlowStatus, expected: str) -> None:
    assert overall((), RoundsState.RUNNING, [known]) == expected

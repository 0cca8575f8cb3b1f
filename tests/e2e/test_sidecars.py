"""A service beside each worker: what the service of a connector is told, that of its tasks is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from bridge.local import LocalStack
from tests.e2e.control import aliased
from tests.e2e.copying import copying, fill
from tests.e2e.flow import Flow, Json, exactly
from tests.support import connector, create_topic, eventually, unique
from tests.support.groups import commit
from tests.support.messages import message
from tests.support.waits import WAIT

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def sides(stack: LocalStack) -> Iterator[list[Flow]]:
    """Two workers of one Connect cluster, each with a service of its own that an environment variable names."""
    group = unique("sidecars")
    providers = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    collected = []
    for number in range(2):
        service = stack.service(f"sidecar-{number}")
        worker = stack.worker(
            f"sidecar-worker-{number}",
            group_id=group,
            properties=providers,
            environment={"BRIDGE_URL": service.url},
        )
        collected.append(Flow(stack.source, stack.target, worker, service))
    yield collected
    for each in collected:
        each.worker.stop()


def _known(flow: Flow, name: str) -> Json:
    """What a service says of the connector; None where it knows none."""
    return next((each for each in flow.service.health()["connectors"] if each["name"] == name), None)


def _states(sides: list[Flow], name: str) -> list[tuple[str, list[str]]]:
    """Of each service: the connector's state and those of the tasks that it knows."""
    known = [_known(each, name) for each in sides]
    return [
        (each["state"], [task["state"] for task in each["tasks"]]) if each else ("", []) for each in known
    ]


def test_a_pause_is_seen_by_the_service_that_has_a_task_and_no_connector(sides: list[Flow]) -> None:
    flow = sides[0]
    config = flow.config(exactly(unique("nobody")), tasks_max=2) | {
        "bridge.url": "${env:BRIDGE_URL}",
        "bridge.task.lease.ms": "3600000",  # no lease ends while the test waits
    }
    with connector(flow.worker, config) as name:

        def spread() -> None:
            states = _states(sides, name)
            assert [tasks for _, tasks in states] == [["active"], ["active"]], states

        eventually(spread, WAIT, what="each service has one task", watched=flow.watched)
        flow.worker.rest.pause(name)

        def paused() -> None:
            states = _states(sides, name)
            assert [tasks for _, tasks in states] == [["lapsed"], ["lapsed"]], states

        eventually(paused, WAIT, what="both services see the pause", watched=flow.watched)
        result = [condition for each in sides for condition in _known(each, name)["conditions"]]
        assert {each["condition"] for each in result} == {"paused"}, result
        said = message("health.paused", connector=name)
        assert any(each["detail"] == said for each in result), result
        flow.worker.rest.resume(name)
        eventually(spread, WAIT, what="each service has its task again", watched=flow.watched)


def test_a_service_that_only_copies_answers_for_the_groups_that_another_one_follows(
    stack: LocalStack,
) -> None:
    """Both connectors run on one worker, and name a service each."""
    copies, follows = stack.service("copies"), stack.service("follows")
    worker = stack.worker("apart-worker", group_id=unique("apart"))
    here = aliased(Flow(stack.source, stack.target, worker, copies))
    there = replace(here, process=follows)
    topic, group = create_topic(stack.source.bootstrap, unique("apart"), 1), unique("group")
    fill(here, topic, 0, 20, 1)
    commit(stack.source.bootstrap, group, {(topic, 0): 12})
    try:
        with copying(here, topic):
            alone = eventually(partial(_flow, here), WAIT, what="the flow is named")
            assert (alone["readiness"], alone["groups"]) == ("cannot_tell", 0)
            with there.connector(exactly(group), topics=topic) as name:

                def same() -> None:
                    known = [_flows(each) for each in (here, there)]
                    assert [[flow["connector"] for flow in flows] for flows in known] == [[name], [name]]
                    assert [flow["readiness"] for flows in known for flow in flows] == ["ready", "ready"]
                    reports = [each.service.report(group, name) for each in (here, there)]
                    assert reports[0]["partitions"] == reports[1]["partitions"]
                    assert here.service.status(name)["state"] == "elsewhere"
                    assert here.service.health()["status"] == "ok"

                eventually(same, WAIT, what="both services answer alike", watched=here.watched)

            def ended() -> None:
                """It is no more known as one that runs."""
                assert _known(here, name) is None
                flow = _flow(here)
                assert flow["readiness"] == "cannot_tell"
                assert name in flow["reasons"][0]["detail"]

            eventually(ended, WAIT, what="nobody runs it any more")
    finally:
        worker.stop()


def _flow(flow: Flow) -> Json:
    (known,) = _flows(flow)
    return known


def _flows(flow: Flow) -> list[Json]:
    return list(flow.service.readiness()["flows"])

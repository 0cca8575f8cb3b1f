"""Health and Connect's own status on real clusters: what can't work is named, and what is permanent fails the task."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.local import LocalStack
from bridge.local.processes import ReservedPort
from tests.e2e.control import aliased
from tests.e2e.flow import Flow, Json, stays
from tests.e2e.mirrored_flow import OurFlow
from tests.support import eventually
from tests.support.waits import WAIT


def condition(flow: Flow, name: str, which: str) -> Json:
    """Waits until health has it."""

    def listed() -> Json:
        health = flow.service.health()
        (each,) = [each for each in health["connectors"] if each["name"] == name]
        named = {one["condition"]: one for one in each["conditions"]}
        assert which in named, (health["status"], each)
        assert health["status"] not in ("ok", "starting")
        return named[which]

    return eventually(listed, WAIT, what=f"health says {which} of {name}", watched=flow.watched)


@pytest.fixture
def without_java(flow: Flow, stack: LocalStack, tmp_path: Path) -> Flow:
    service = stack.service("no-java", environment={"JAVA_HOME": str(tmp_path)})
    return replace(flow, process=service)


def test_without_java_the_task_fails_in_connect_and_health_does_not_flap(
    without_java: Flow, tmp_path: Path
) -> None:
    flow = without_java
    mirrored_flow = OurFlow(aliased(flow))
    topic = mirrored_flow.topic("uncopied", shifted=False)
    mirrored_flow.produce(topic)
    with mirrored_flow.mirror() as name:

        def failed() -> str:
            (task,) = flow.worker.rest.status(name)["tasks"]
            assert task["state"] == "FAILED", task
            return str(task["trace"])

        trace = eventually(failed, WAIT, what="Connect's task is FAILED", watched=flow.watched)
        expected = f"there is no Java for Spark: {tmp_path}/bin/java can't be run (No such file or directory)"
        assert expected in trace.splitlines()[0]
        why = condition(flow, name, "no_java")
        assert why["detail"].startswith(expected)
        assert f"JAVA_HOME is {tmp_path}, PATH is " in why["detail"]
        stays(
            lambda: flow.service.health()["status"] not in ("ok", "starting"),
            5,
            what="health says that copying can't start",
        )
    log = flow.process.process.log.read_text()
    assert log.count("copying cannot start: ") == 1
    assert "the driver ended" not in log


def test_a_source_that_is_away_from_the_first_moment_is_named_with_since_when(flow: Flow) -> None:
    port = ReservedPort()
    try:
        mirrored_flow = OurFlow(aliased(flow), {"source_cluster_bootstrap_servers": port.address})
        began_ms = int(time.time() * 1000)
        with mirrored_flow.mirror() as name:

            def since() -> int:
                return int(condition(flow, name, "source_unreachable")["since_ms"])

            # Until the first round there is the answer of the validation, which has no time.
            result = eventually(since, WAIT, what="it says since when", watched=flow.watched)
            assert began_ms <= result <= began_ms + WAIT * 1000
            eventually(
                lambda: (
                    port.address.rpartition(":")[2] in condition(flow, name, "source_unreachable")["detail"]
                ),
                WAIT,
                what="the last error is named",
            )

            def running() -> bool:
                status = flow.worker.rest.status(name)
                return [each["state"] for each in (status["connector"], *status["tasks"])] == ["RUNNING"] * 2

            eventually(running, WAIT, what="Connect says that both run", watched=flow.watched)
            log = flow.process.process.log.read_text()
            assert log.count(f"({port.address}) does not answer: ") == 1
    finally:
        port.release()

"""Readiness on real clusters: whatever is killed, paused or taken away, no surface stays green, and each says why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import Broker, LocalStack
from tests.e2e.control import aliased
from tests.e2e.flows import MIRRORED, PARTITIONS, RECORDS, OurFlow, every
from tests.e2e.ground import WAIT, Ground, Json, forget_clients, standing
from tests.support import eventually, read, unique

PROMISED = 10.0
"""Seconds in which no surface is green any more."""
PAUSED = 3.0
"""Seconds in which a pause is seen: two, and one for a busy machine."""


@pytest.fixture(scope="module")
def backup(stack: LocalStack) -> Iterator[Broker]:
    """A target that holds Connect's own topics too, and may be killed."""
    broker = stack.broker("backup")
    yield broker
    if not broker.process.died():
        broker.stop()


@pytest.fixture(scope="module")
def own(stack: LocalStack, backup: Broker) -> Ground:
    return Ground(stack.source, backup, stack.worker("drill", on="backup"), stack.service("drill-service"))


@pytest.fixture(scope="module")
def flow(own: Ground) -> Iterator[OurFlow]:
    found = OurFlow(aliased(own))
    with ExitStack() as running:
        running.enter_context(found.mirror())
        running.enter_context(found.group_offsets(f"{found.mark}.*"))
        yield found


@pytest.fixture(scope="module")
def group(flow: OurFlow) -> str:
    """A group that is ready, in the middle of a topic."""
    topic, group = flow.topic("drill", shifted=False), flow.name("drill")
    flow.produce(topic)
    flow.wait_mirrored(topic)
    flow.commit(group, topic, every(7))
    ready(flow.ground, group)
    return group


def _connector(ground: Ground, kind: str) -> str:
    (found,) = [
        each["name"]
        for each in ground.service.health()["connectors"]
        if each["kind"] == kind and each["state"] != "idle"
    ]
    return str(found)


def ready(ground: Ground, group: str, timeout: float = MIRRORED) -> None:
    """Waits until every surface says yes."""

    def green() -> None:
        report = ground.service.report(group)
        assert (report["readiness"], report["ready"], report["reasons"]) == ("ready", True, []), report
        assert ground.service.get("/v1/readiness")["readiness"] == "ready"
        assert ground.service.health()["status"] == "ok", ground.service.health()
        assert _exit_status(ground) == 0

    eventually(green, timeout, what=f"{group} is ready", watched=ground.watched)


def _exit_status(ground: Ground) -> int:
    return CliRunner().invoke(app, ["readiness", "--url", ground.process.url]).exit_code


def not_green(ground: Ground, group: str, answer: str, reason: str, within: float) -> Json:
    """Waits until every surface says no, and says it in the same words; gives the reason back."""

    looked = [0.0]

    def said() -> Json:
        looked[0] = time.monotonic()
        report = ground.service.report(group)
        assert (report["readiness"], report["ready"]) == (answer, False), report
        (why,) = [each for each in report["reasons"] if each["reason"] == reason]
        (listed,) = ground.service.get(f"/v1/groups?group={group}&ready=false")["groups"]
        assert listed["reasons"] == report["reasons"]
        whole = ground.service.get("/v1/readiness")
        assert whole["readiness"] == answer, whole
        assert ground.service.health()["status"] != "ok"
        lines = ground.service.get(f"/v1/groups/{group}/explain")["lines"]
        assert any(why["detail"] in line for line in lines), lines
        metrics = httpx.get(f"{ground.process.url}/metrics", timeout=10).text
        name = report["connector"]
        assert f'groups_by_readiness{{connector="{name}",readiness="ready"}} 0.0' in metrics
        assert _exit_status(ground) == (1 if answer == "not_ready" else 3)
        return why

    began = time.monotonic()
    why = eventually(said, within + WAIT, what=f"{group} is {answer}: {reason}")
    assert looked[0] - began < within, f"seen after {looked[0] - began:.1f} s"
    return why


def test_a_group_is_not_ready_while_its_connector_is_paused_or_stopped(flow: OurFlow, group: str) -> None:
    ground, name = flow.ground, _connector(flow.ground, "group_offset")
    rest = ground.worker.rest
    rest.pause(name)
    rest.wait_state(name, "PAUSED")
    why = not_green(ground, group, "cannot_tell", "connector_stopped", PAUSED)
    assert why["detail"] == f"connector {name} is paused: resume it in Connect"
    rest.resume(name)
    ready(ground, group)
    rest.stop(name)
    rest.wait_state(name, "STOPPED", tasks=0)
    why = not_green(ground, group, "cannot_tell", "connector_stopped", PAUSED)
    assert why["detail"].startswith(f"connector {name} is stopped or deleted: start it in Connect")
    rest.resume(name)
    ready(ground, group)


def test_nothing_is_copied_while_the_source_connector_is_paused(flow: OurFlow, group: str) -> None:
    ground, name, topic = flow.ground, _connector(flow.ground, "source"), flow.name("drill")
    copy, rest = flow.remote(topic), ground.worker.rest
    rest.pause(name)
    rest.wait_state(name, "PAUSED")
    why = not_green(ground, group, "not_ready", "copying_stopped", PAUSED)
    assert why["detail"] == f"connector {name} is paused: resume it in Connect"
    before, before_ms = len(read(ground.target.bootstrap, copy)), int(time.time() * 1000)
    flow.produce(topic, start=10)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert len(read(ground.target.bootstrap, copy)) == before, "records were copied after the pause"

    def counted() -> None:
        report = ground.service.report(group)
        assert report["missing_records"] == RECORDS * PARTITIONS, report
        assert before_ms - 5_000 <= report["missing_since_ms"] <= report["as_of_ms"]
        (flow_,) = ground.service.get("/v1/readiness")["flows"]
        assert flow_["missing_records"] == report["missing_records"]

    eventually(counted, WAIT, what="what is missing is counted", watched=ground.watched)
    rest.resume(name)
    flow.wait_mirrored(topic)
    ready(ground, group)
    eventually(lambda: ground.service.report(group)["missing_records"] == 0, WAIT, what="nothing is missing")


def test_the_groups_of_a_deleted_connector_are_forgotten_with_it(flow: OurFlow, group: str) -> None:
    ground, other = flow.ground, unique("deleted")
    with flow.group_offsets(group) as name:
        eventually(lambda: ground.service.report(group, name)["ready"], WAIT, what="both say yes")
    report = _until_not_ready(ground, group, name)
    assert f"DELETE /v1/connectors/{name}" in report["reasons"][0]["detail"]
    assert httpx.delete(f"{ground.process.url}/v1/connectors/{name}", timeout=10).status_code == 204
    assert ground.service.report(group)["connector"] != name
    assert name not in httpx.get(f"{ground.process.url}/metrics", timeout=10).text
    ready(ground, group)
    assert httpx.delete(f"{ground.process.url}/v1/connectors/{other}", timeout=10).status_code == 404


def _until_not_ready(ground: Ground, group: str, name: str) -> Json:
    def said() -> Json:
        report = ground.service.report(group, name)
        assert report["readiness"] == "cannot_tell", report
        return report

    return eventually(said, PROMISED, what=f"the groups of {name} are not ready")


def test_a_dead_target_is_not_green_and_says_since_when(flow: OurFlow, group: str, backup: Broker) -> None:
    """It holds Connect's own topics too, so that its worker stops the tasks after a while."""
    ground = flow.ground
    at = standing(ground.target.bootstrap, group)
    killed_ms = int(time.time() * 1000)
    backup.kill()
    try:
        why = not_green(ground, group, "cannot_tell", "target_unreachable", PROMISED)
        assert why["detail"] == "the target cluster does not answer"
        assert 0 <= why["since_ms"] - killed_ms <= PROMISED * 1000
        _stays_so(ground, group, 25)
    finally:
        backup.start()
    ready(ground, group, 2 * MIRRORED)
    forget_clients()
    eventually(
        lambda: standing(ground.target.bootstrap, group) == at, WAIT, what=f"{group} stands where it did"
    )


def _stays_so(ground: Ground, group: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert ground.service.report(group)["readiness"] == "cannot_tell"
        assert ground.service.health()["status"] != "ok"
        time.sleep(0.2)

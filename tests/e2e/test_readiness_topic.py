"""What is known of groups survives the service on real clusters: started without the source it answers as before."""

from __future__ import annotations

import json
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
from tests.e2e.ground import WAIT, Ground, Json, forget_clients
from tests.support import eventually, read

_LONG = 2 * MIRRORED


@pytest.fixture(scope="module")
def origin(stack: LocalStack) -> Iterator[Broker]:
    """A source that may be killed."""
    broker = stack.broker("cold-origin")
    yield broker
    if not broker.process.died():
        broker.stop()


@pytest.fixture(scope="module")
def backup(stack: LocalStack) -> Iterator[Broker]:
    """A target that holds Connect's own topics too, and may be killed."""
    broker = stack.broker("cold-backup")
    yield broker
    if not broker.process.died():
        broker.stop()


@pytest.fixture(scope="module")
def flow(stack: LocalStack, origin: Broker, backup: Broker) -> Iterator[OurFlow]:
    worker, service = stack.worker("cold", on="cold-backup"), stack.service("cold-service")
    found = OurFlow(aliased(Ground(origin, backup, worker, service)))
    with ExitStack() as running:
        running.enter_context(found.mirror())
        running.enter_context(found.group_offsets(f"{found.mark}.*"))
        yield found


def _exit_status(ground: Ground) -> int:
    return CliRunner().invoke(app, ["readiness", "--url", ground.process.url]).exit_code


def _ready(ground: Ground, group: str, timeout: float) -> Json:
    def green() -> Json:
        report = ground.service.report(group)
        assert (report["readiness"], report["reasons"]) == ("ready", []), report
        assert _exit_status(ground) == 0
        return report

    return eventually(green, timeout, what=f"{group} is ready")


def _stored(ground: Ground) -> dict[tuple[str, str], Json]:
    """The newest values of the readiness topic, by kind and name."""
    topic = f"mm2-group-readiness.{ground.source.name}.internal"
    found: dict[tuple[str, str], Json] = {}
    for record in read(ground.target.bootstrap, topic):
        assert record.key is not None
        key = json.loads(record.key)
        found[key["kind"], key["name"]] = json.loads(record.value or b"{}")
    return found


def _restart(ground: Ground, meanwhile: Broker | None = None) -> None:
    """Kills the service, then the broker, and starts the service again."""
    ground.process.process.kill()
    if meanwhile is not None:
        meanwhile.kill()
    ground.process.process.start()
    eventually(
        lambda: httpx.get(f"{ground.process.url}/health/live", timeout=5).status_code == 200, WAIT, what="up"
    )


def _as_of(ground: Ground, group: str, before: Json, began: float) -> float:
    """Waits until the answer is that of before, with its time; seconds that it took."""

    def same() -> None:
        report = ground.service.report(group)
        assert (report["readiness"], report["ready"]) == ("ready_as_of", False), report
        (why,) = report["reasons"]
        assert why["reason"] == "source_unreachable"

    eventually(same, WAIT, what=f"{group} is ready as of a time")
    took = time.monotonic() - began
    report = ground.service.report(group)
    assert before["as_of_ms"] <= report["as_of_ms"] <= time.time() * 1000
    for name in ("missing_records", "missing_since_ms", "verdict", "bound", "source", "target", "task"):
        assert report[name] == before[name], name
    for old, new in zip(before["partitions"], report["partitions"], strict=True):
        assert new | {"detail": {}} == old | {"detail": {}}
    assert [each["group"] for each in ground.service.get("/v1/groups")["groups"]] == [group]
    lines = ground.service.get(f"/v1/groups/{group}/explain")["lines"]
    assert "was ready to fail over when the source answered last, as of" in lines[0]
    assert any(f"At most {before['missing_records']} records of" in line for line in lines), lines
    whole = ground.service.get("/v1/readiness")
    assert (whole["readiness"], whole["as_of_ms"]) == ("ready_as_of", report["as_of_ms"])
    assert _exit_status(ground) == 3
    assert ground.service.health()["status"] != "ok"
    return took


def _unknown(ground: Ground) -> None:
    def unknown() -> None:
        assert ground.service.get("/v1/readiness")["readiness"] == "cannot_tell"
        assert _exit_status(ground) == 3
        for each in ground.service.get("/v1/groups")["groups"]:
            assert (each["readiness"], each["ready"]) == ("cannot_tell", False)

    eventually(unknown, WAIT, what="nothing can be told")


def test_a_service_that_is_started_while_the_source_is_dead_answers_as_before(
    flow: OurFlow, origin: Broker, backup: Broker
) -> None:
    ground, rest = flow.ground, flow.ground.worker.rest
    topic, group = flow.topic("cold", shifted=False), flow.name("cold")
    flow.produce(topic)
    flow.wait_mirrored(topic)
    flow.commit(group, topic, every(7))
    _ready(ground, group, MIRRORED)
    (copying,) = [each["name"] for each in ground.service.health()["connectors"] if each["kind"] == "source"]
    rest.pause(copying)
    rest.wait_state(copying, "PAUSED")

    def stopped() -> None:
        (why,) = ground.service.report(group)["reasons"]
        assert why["reason"] == "copying_stopped"

    eventually(stopped, WAIT, what="nothing is copied any more", watched=ground.watched)
    flow.produce(topic, start=10)
    missing = RECORDS * PARTITIONS

    def kept() -> None:
        assert ground.service.report(group)["missing_records"] == missing
        rows = _stored(ground)["missing", topic]["partitions"]
        assert sum(records for _, records, _ in rows) == missing, rows

    eventually(kept, WAIT, what="what is missing is kept", watched=ground.watched)
    before = ground.service.report(group)

    # A restart with the source alive is green by its own round only.
    _restart(ground)
    report = eventually(lambda: ground.service.report(group), WAIT, what="the group is known again")
    assert report["ready"] is False or report["as_of_ms"] > before["as_of_ms"]
    _ready(ground, group, _LONG)
    stored_ms = _stored(ground)["task", "0"]["asOfMs"]

    def newer() -> None:
        assert _stored(ground)["task", "0"]["asOfMs"] > stored_ms

    eventually(newer, WAIT, what="the task is kept", watched=ground.watched)
    # Copying is not known to this service: it has never seen the connector at work.
    before = ground.service.report(group) | {"as_of_ms": _stored(ground)["task", "0"]["asOfMs"]}
    assert before["missing_records"] == missing

    began = time.monotonic()
    _restart(ground, origin)
    _as_of(ground, group, before, began)
    try:
        backup.kill()
        _unknown(ground)
        _restart(ground)
        _unknown(ground)
    finally:
        backup.start()
        forget_clients()
    _as_of(ground, group, before, began)
    origin.start()
    forget_clients()
    rest.resume(copying)
    _ready(ground, group, _LONG)
    flow.wait_mirrored(topic)
    eventually(lambda: ground.service.report(group)["missing_records"] == 0, _LONG, what="nothing is missing")

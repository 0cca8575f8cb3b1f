"""Readiness records survives the service on real clusters: started without the source it answers as before."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from pyspark.sql.datasource import InputPartition
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import NO_AUTHORITIES, Broker, LocalStack
from bridge.spark.internal_topics import MirrorGroups
from bridge.spark.tables import TABLES
from tests.e2e.control import aliased
from tests.e2e.flow import Flow, Json, forget_clients
from tests.e2e.mirrored_flow import PARTITIONS, RECORDS, OurFlow, every
from tests.support import eventually, read
from tests.support.brokers import RESTARTED
from tests.support.messages import message
from tests.support.waits import WAIT

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def origin(stack: LocalStack) -> Iterator[Broker]:
    """A source that may be killed."""
    broker = stack.broker("cold-origin", properties=RESTARTED)
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def backup(stack: LocalStack) -> Iterator[Broker]:
    """A target that holds Connect's own topics too, and may be killed."""
    broker = stack.broker("cold-backup", properties=RESTARTED)
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def mirrored_flow(stack: LocalStack, origin: Broker, backup: Broker) -> Iterator[OurFlow]:
    worker, service = stack.worker("cold", on="cold-backup"), stack.service("cold-service")
    flow = OurFlow(aliased(Flow(origin, backup, worker, service)))
    with ExitStack() as running:
        running.enter_context(flow.mirror())
        running.enter_context(flow.group_offsets(f"{flow.mark}.*"))
        yield flow


def _exit_status(flow: Flow) -> int:
    return CliRunner().invoke(app, ["readiness", "--url", flow.process.url]).exit_code


def _ready(flow: Flow, group: str, timeout: float) -> Json:
    def green() -> Json:
        report = flow.service.report(group)
        assert (report["readiness"], report["reasons"]) == ("ready", []), report
        assert _exit_status(flow) == 0
        return report

    return eventually(green, timeout, what=f"{group} is ready")


def _stored(flow: Flow) -> dict[tuple[str, str], Json]:
    """The newest values of the readiness topic, by kind and name."""
    topic = f"mm2-group-readiness.{flow.source.name}.internal"
    collected: dict[tuple[str, str], Json] = {}
    for record in read(flow.target.bootstrap, topic):
        assert record.key is not None
        key = json.loads(record.key)
        collected[key["kind"], key["name"]] = json.loads(record.value or b"{}")
    return collected


def _restart(flow: Flow, meanwhile: Broker | None = None) -> None:
    """Kills the service, then the broker, and starts the service again."""
    flow.process.process.kill()
    if meanwhile is not None:
        meanwhile.kill()
    flow.process.process.start()
    eventually(
        lambda: (
            httpx.get(f"{flow.process.url}/health/live", timeout=5, verify=NO_AUTHORITIES).status_code == 200
        ),
        WAIT,
        what="up",
    )


def _as_of(flow: Flow, group: str, before: Json, began: float) -> float:
    """Waits until the answer is that of before, with its time; seconds that it took."""

    def same() -> None:
        report = flow.service.report(group)
        assert (report["readiness"], report["ready"]) == ("ready_as_of", False), report
        (why,) = report["reasons"]
        assert why["reason"] == "source_unreachable"

    eventually(same, WAIT, what=f"{group} is ready as of a time")
    took = time.monotonic() - began
    report = flow.service.report(group)
    assert before["as_of_ms"] <= report["as_of_ms"] <= time.time() * 1000
    for name in ("missing_records", "missing_since_ms", "verdict", "bound", "source", "target", "task"):
        assert report[name] == before[name], name
    for old, new in zip(before["partitions"], report["partitions"], strict=True):
        assert new | {"detail": {}} == old | {"detail": {}}
    assert [each["group"] for each in flow.service.get("/v1/groups")["groups"]] == [group]
    lines = flow.service.get(f"/v1/groups/{group}/explain")["lines"]
    assert message("health.ready_as_of") in lines[0]
    assert any(f"At most {before['missing_records']} records of" in line for line in lines), lines
    whole = flow.service.get("/v1/readiness")
    assert (whole["readiness"], whole["as_of_ms"]) == ("ready_as_of", report["as_of_ms"])
    assert _exit_status(flow) == 3
    assert flow.service.health()["status"] != "ok"
    return took


def _in_a_table(flow: Flow, group: str, before: Json, file: Path) -> None:
    """A look from Spark goes on from what is stored, as the service does."""
    file.write_text(json.dumps(flow.worker.rest.config(before["connector"])))
    schema = TABLES["mirror-groups"].schema
    reader = MirrorGroups({"config": str(file)}).reader(schema)
    rows = [dict(zip(schema.names, row, strict=True)) for row in reader.read(InputPartition(0))]
    assert len(rows) == len(before["partitions"])
    for row, old in zip(rows, before["partitions"], strict=True):
        assert (row["group"], row["fresh"], row["lag"]) == (group, False, None)
        assert (row["offset"], row["committed"]) == (old["committed"], old["written"])
        assert [row[name] for name in ("target_offset", "verdict", "bound", "evidence")] == [
            old[name] for name in ("target_offset", "verdict", "bound", "evidence")
        ]
        assert row["reason"] == "source_unreachable"
        assert row["as_of"].timestamp() * 1000 == pytest.approx(_stored(flow)["task", "0"]["asOfMs"], abs=1)


def _unknown(flow: Flow) -> None:
    def unknown() -> None:
        assert flow.service.get("/v1/readiness")["readiness"] == "cannot_tell"
        assert _exit_status(flow) == 3
        for each in flow.service.get("/v1/groups")["groups"]:
            assert (each["readiness"], each["ready"]) == ("cannot_tell", False)

    eventually(unknown, WAIT, what="nothing can be told")


def test_a_service_that_is_started_while_the_source_is_dead_answers_as_before(
    mirrored_flow: OurFlow, origin: Broker, backup: Broker, tmp_path: Path
) -> None:
    flow, rest = mirrored_flow.flow, mirrored_flow.flow.worker.rest
    topic, group = mirrored_flow.topic("cold", shifted=False), mirrored_flow.name("cold")
    mirrored_flow.produce(topic)
    mirrored_flow.wait_mirrored(topic)
    mirrored_flow.commit(group, topic, every(7))
    _ready(flow, group, WAIT)
    (copying,) = [each["name"] for each in flow.service.health()["connectors"] if each["kind"] == "source"]
    rest.pause(copying)
    rest.wait_state(copying, "PAUSED")

    def stopped() -> None:
        (why,) = flow.service.report(group)["reasons"]
        assert why["reason"] == "copying_stopped"

    eventually(stopped, WAIT, what="nothing is copied any more", watched=flow.watched)
    flow.wait_copying_stopped(copying)
    mirrored_flow.produce(topic, start=10)
    missing = RECORDS * PARTITIONS

    def kept() -> None:
        assert flow.service.report(group)["missing_records"] == missing
        rows = _stored(flow)["missing", topic]["partitions"]
        assert sum(records for _, records, _ in rows) == missing, rows

    eventually(kept, WAIT, what="what is missing is kept", watched=flow.watched)
    before = flow.service.report(group)

    # A restart with the source alive is green by its own round only.
    _restart(flow)
    report = eventually(lambda: flow.service.report(group), WAIT, what="the group is known again")
    assert report["ready"] is False or report["as_of_ms"] > before["as_of_ms"]
    _ready(flow, group, WAIT)
    stored_ms = _stored(flow)["task", "0"]["asOfMs"]

    def newer() -> None:
        assert _stored(flow)["task", "0"]["asOfMs"] > stored_ms

    eventually(newer, WAIT, what="the task is kept", watched=flow.watched)
    # Copying is not known to this service: it has never seen the connector at work.
    before = flow.service.report(group) | {"as_of_ms": _stored(flow)["task", "0"]["asOfMs"]}
    assert before["missing_records"] == missing

    began = time.monotonic()
    _restart(flow, origin)
    _as_of(flow, group, before, began)
    _in_a_table(flow, group, before, tmp_path / "groups.json")
    try:
        backup.kill()
        _unknown(flow)
        _restart(flow)
        _unknown(flow)
    finally:
        backup.start()
        forget_clients()
    _as_of(flow, group, before, began)
    origin.start()
    forget_clients()
    rest.resume(copying)
    _ready(flow, group, WAIT)
    mirrored_flow.wait_mirrored(topic)
    eventually(lambda: flow.service.report(group)["missing_records"] == 0, WAIT, what="nothing is missing")

"""Readiness on real clusters: whatever is killed, paused or taken away, no surface stays green, and each says why."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import NO_AUTHORITIES, Broker, ConnectWorker, LocalStack
from bridge.spark.internal_topics import MirrorGroups
from bridge.spark.tables import TABLES
from tests.e2e.control import aliased
from tests.e2e.flow import Flow, Json, committed_offsets, forget_clients, stays
from tests.e2e.mirrored_flow import PARTITIONS, RECORDS, OurFlow, every
from tests.support import bounds, eventually, read, unique
from tests.support.brokers import RESTARTED
from tests.support.forms import mostly_long
from tests.support.messages import message
from tests.support.waits import WAIT

BUSY = 45.0
"""Seconds that a busy machine may add."""
PROMISED = 10.0 + BUSY
"""Seconds in which no surface is green any more."""
PAUSED = 2.0 + BUSY
"""Seconds in which a pause is seen."""


@pytest.fixture(scope="module")
def backup(stack: LocalStack) -> Iterator[Broker]:
    """A target that may be killed."""
    broker = stack.broker("backup", properties=RESTARTED)
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def own(stack: LocalStack, backup: Broker, worker: ConnectWorker, request: pytest.FixtureRequest) -> Flow:
    """With the parameter True, its worker has Connect's own topics on the target, and stops the tasks a while after
    that has died."""
    drill = stack.worker("drill", on="backup") if getattr(request, "param", False) else worker
    # Its own each time: an earlier one knows connectors that are gone, and can't tell of their groups.
    return Flow(stack.source, backup, drill, stack.service(unique("drill")))


@pytest.fixture(scope="module")
def mirrored_flow(own: Flow) -> Iterator[OurFlow]:
    flow = OurFlow(aliased(own))
    with ExitStack() as running:
        running.enter_context(flow.mirror())
        running.enter_context(flow.group_offsets(f"{flow.mark}.*"))
        yield flow


@pytest.fixture(scope="module")
def group(mirrored_flow: OurFlow) -> str:
    """A group that is ready, in the middle of a topic."""
    topic, group = mirrored_flow.topic("drill", shifted=False), mirrored_flow.name("drill")
    mirrored_flow.produce(topic)
    mirrored_flow.wait_mirrored(topic)
    mirrored_flow.commit(group, topic, every(7))
    ready(mirrored_flow.flow, group)
    return group


def _connector(flow: Flow, kind: str) -> str:
    (result,) = [
        each["name"]
        for each in flow.service.health()["connectors"]
        if each["kind"] == kind and each["state"] != "idle"
    ]
    return str(result)


def ready(flow: Flow, group: str, timeout: float = WAIT) -> None:
    """Waits until every surface says yes."""

    def green() -> None:
        report = flow.service.report(group)
        assert (report["readiness"], report["ready"], report["reasons"]) == ("ready", True, []), report
        assert flow.service.get("/v1/readiness")["readiness"] == "ready"
        assert flow.service.health()["status"] == "ok", flow.service.health()
        assert _exit_status(flow) == 0

    eventually(green, timeout, what=f"{group} is ready", watched=flow.watched)


def _exit_status(flow: Flow) -> int:
    return CliRunner().invoke(app, ["readiness", "--url", flow.process.url]).exit_code


def not_green(flow: Flow, group: str, answer: str, reason: str, within: float | None = None) -> Json:
    """Waits until every surface says no, in the same words; returns the reason. `within`: seconds in which
    it has to be seen."""

    looked = [0.0]

    def reported() -> Json:
        looked[0] = time.monotonic()
        report = flow.service.report(group)
        assert (report["readiness"], report["ready"]) == (answer, False), report
        (why,) = [each for each in report["reasons"] if each["reason"] == reason]
        (listed,) = flow.service.get(f"/v1/groups?group={group}&ready=false")["groups"]
        assert listed["reasons"] == report["reasons"]
        whole = flow.service.get("/v1/readiness")
        assert whole["readiness"] == answer, whole
        assert flow.service.health()["status"] != "ok"
        lines = flow.service.get(f"/v1/groups/{group}/explain")["lines"]
        assert any(why["detail"] in line for line in lines), lines
        metrics = httpx.get(f"{flow.process.url}/metrics", timeout=60, verify=NO_AUTHORITIES).text
        name = report["connector"]
        assert f'groups_by_readiness{{connector="{name}",readiness="ready"}} 0.0' in metrics
        assert _exit_status(flow) == (1 if answer == "not_ready" else 3)
        return why

    began = time.monotonic()
    why = eventually(reported, (within or 0.0) + WAIT, what=f"{group} is {answer}: {reason}")
    if within is not None:
        assert looked[0] - began < within, f"seen after {looked[0] - began:.1f} s"
    return why


@pytest.mark.long
def test_tables_of_groups_have_the_verdicts_of_the_service(
    mirrored_flow: OurFlow, group: str, tmp_path: Path
) -> None:
    """As they are looked at, and as the service has stored them."""
    flow, file = mirrored_flow.flow, tmp_path / "groups.json"
    file.write_text(json.dumps(flow.worker.rest.config(_connector(flow, "group_offset"))))
    stored = {
        "kafka.bootstrap.servers": flow.target.bootstrap,
        "subscribe": f"mm2-group-readiness.{flow.source.name}.internal",
    }
    schema, began = TABLES["mirror-groups"].schema, datetime.now(UTC)
    report = flow.service.report(group)
    for options, fresh in (({"config": str(file)}, True), (stored, False)):
        reader = MirrorGroups(options).reader(schema)
        read_now = [
            dict(zip(schema.names, each, strict=True))
            for part in reader.partitions()
            for each in reader.read(part)
        ]
        rows = [row for row in read_now if row["group"] == group]
        assert len(rows) == len(report["partitions"]) == PARTITIONS
        ends = bounds(flow.source.bootstrap, rows[0]["topic"])
        for row, said in zip(rows, report["partitions"], strict=True):
            for column, field in (
                *(
                    (name, name)
                    for name in ("topic", "partition", "target_topic", "target_offset", "verdict")
                ),
                *((name, name) for name in ("bound", "evidence", "reason", "flags")),
                *(("offset", "committed"), ("committed", "written")),
            ):
                assert row[column] == said[field], column
            assert row["lag"] == (ends[row["partition"]][1] - row["offset"] if fresh else None)
            assert (row["connector"], row["fresh"]) == (report["connector"], fresh)
            # The service notes the time of a round every 5 s.
            oldest = began - timedelta(seconds=1 if fresh else 5 + BUSY)
            assert oldest <= row["as_of"] <= datetime.now(UTC)


@pytest.mark.long
def test_a_group_is_not_ready_while_its_connector_is_paused_or_stopped(
    mirrored_flow: OurFlow, group: str
) -> None:
    flow, name = mirrored_flow.flow, _connector(mirrored_flow.flow, "group_offset")
    rest = flow.worker.rest
    rest.pause(name)
    rest.wait_state(name, "PAUSED")
    why = not_green(flow, group, "cannot_tell", "connector_stopped", PAUSED)
    assert why["detail"] == message("health.connector_paused", connector=name)
    rest.resume(name)
    ready(flow, group)
    rest.stop(name)
    rest.wait_state(name, "STOPPED", tasks=0)
    why = not_green(flow, group, "cannot_tell", "connector_stopped", PAUSED)
    assert why["detail"].startswith(f"connector {name} is stopped or deleted: start it in Connect")
    rest.resume(name)
    ready(flow, group)


@pytest.mark.long
def test_nothing_is_copied_while_the_source_connector_is_paused(mirrored_flow: OurFlow, group: str) -> None:
    flow, name, topic = (
        mirrored_flow.flow,
        _connector(mirrored_flow.flow, "source"),
        mirrored_flow.name("drill"),
    )
    copy, rest = mirrored_flow.remote(topic), flow.worker.rest
    rest.pause(name)
    rest.wait_state(name, "PAUSED")
    why = not_green(flow, group, "not_ready", "copying_stopped", PAUSED)
    assert why["detail"] == message("health.connector_paused", connector=name)
    flow.wait_copying_stopped(name)
    before, before_ms = len(read(flow.target.bootstrap, copy)), int(time.time() * 1000)
    mirrored_flow.produce(topic, start=10)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert len(read(flow.target.bootstrap, copy)) == before, "records were copied after the pause"

    def counted() -> None:
        report = flow.service.report(group)
        assert report["missing_records"] == RECORDS * PARTITIONS, report
        assert before_ms - 5_000 <= report["missing_since_ms"] <= report["as_of_ms"]
        (flow_,) = flow.service.get("/v1/readiness")["flows"]
        assert flow_["missing_records"] == report["missing_records"]

    eventually(counted, WAIT, what="what is missing is counted", watched=flow.watched)
    rest.resume(name)
    mirrored_flow.wait_mirrored(topic)
    ready(flow, group)
    eventually(lambda: flow.service.report(group)["missing_records"] == 0, WAIT, what="nothing is missing")


@pytest.mark.long
def test_the_groups_of_a_deleted_connector_are_forgotten_with_it(mirrored_flow: OurFlow, group: str) -> None:
    flow, other = mirrored_flow.flow, unique("deleted")
    with mirrored_flow.group_offsets(group) as name:
        eventually(lambda: flow.service.report(group, name)["ready"], WAIT, what="both say yes")
    eventually(
        lambda: f"mirror-bridge forget {name}" in _not_ready(flow, group, name)["reasons"][0]["detail"],
        PROMISED,
        what=f"the service says how to forget {name}",
    )
    assert (
        httpx.delete(
            f"{flow.process.url}/v1/connectors/{name}", timeout=60, verify=NO_AUTHORITIES
        ).status_code
        == 204
    )
    assert flow.service.report(group)["connector"] != name
    assert name not in httpx.get(f"{flow.process.url}/metrics", timeout=60, verify=NO_AUTHORITIES).text
    ready(flow, group)
    assert (
        httpx.delete(
            f"{flow.process.url}/v1/connectors/{other}", timeout=60, verify=NO_AUTHORITIES
        ).status_code
        == 404
    )


def _not_ready(flow: Flow, group: str, name: str) -> Json:
    report = flow.service.report(group, name)
    assert report["readiness"] == "cannot_tell", report
    return report


@pytest.mark.parametrize(
    ("own", "timed"),
    mostly_long([(False, False), (True, True)]),
    ids=["at last", "with Connect's topics, in time and for long"],
    indirect=["own"],
)
def test_a_dead_target_is_not_green_and_says_since_when(
    mirrored_flow: OurFlow, group: str, backup: Broker, timed: bool
) -> None:
    flow = mirrored_flow.flow
    at = committed_offsets(flow.target.bootstrap, group)
    killed_ms = int(time.time() * 1000)
    backup.kill()
    try:
        why = not_green(flow, group, "cannot_tell", "target_unreachable", PROMISED if timed else None)
        assert why["detail"].startswith("the target cluster does not answer")
        assert why["since_ms"] >= killed_ms
        if timed:
            assert why["since_ms"] - killed_ms <= PROMISED * 1000
            stays(
                lambda: (
                    flow.service.report(group)["readiness"] == "cannot_tell"
                    and flow.service.health()["status"] != "ok"
                ),
                25,
                what="no surface says yes",
            )
    finally:
        backup.start()
    ready(flow, group, WAIT)
    forget_clients()
    eventually(
        lambda: committed_offsets(flow.target.bootstrap, group) == at,
        WAIT,
        what=f"{group} stands where it did",
    )

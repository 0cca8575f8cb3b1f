"""Doctor for connectors that a service has, by command, beside a real worker."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from bridge.cli import app
from tests.e2e.flow import Flow
from tests.support import connector, eventually, unique
from tests.support.waits import WAIT

Findings = list[dict[str, str]]


def examined(flow: Flow, name: str) -> tuple[int, Findings]:
    where = ["--url", flow.process.url, "--connect-url", flow.worker.url]
    ran = CliRunner().invoke(app, ["doctor", "--connector", name, "--output", "json", *where])
    assert ran.exit_code in (0, 1, 3), ran.output
    return ran.exit_code, json.loads(ran.stdout)["findings"]


def of(findings: Findings, severity: str) -> list[tuple[str, str]]:
    return [(each["check"], each["found"]) for each in findings if each["severity"] == severity]


def test_a_connector_that_runs_well_has_no_problem(flow: Flow) -> None:
    topic = flow.topic()
    more = {"topics": topic, "group-readiness_topic_replication_factor": "1"}
    with flow.connector(unique("group"), **more) as name:
        eventually(lambda: flow.service.get(f"/v1/connectors/{name}/status"), WAIT, what=f"{name} is known")
        status, findings = examined(flow, name)
        assert (status, of(findings, "problem"), of(findings, "not_checked")) == (0, [], [])
        assert {check for check, _ in of(findings, "skipped")} == set()


def test_a_connector_on_the_worker_of_another_cluster_is_named(flow: Flow) -> None:
    config = {
        "connector.class": "BridgeMirrorHeartbeatConnector",
        "source.cluster.alias": unique("b"),
        "target.cluster.alias": unique("a"),
        "target.cluster.bootstrap.servers": flow.source.bootstrap,
        "heartbeats.topic.replication.factor": "3",
        "bridge.url": flow.process.url,
    }
    with connector(flow.worker, config, unique("beats")) as name:
        eventually(lambda: flow.service.get(f"/v1/connectors/{name}/status"), WAIT, what=f"{name} is known")
        status, findings = examined(flow, name)
        problems = dict(of(findings, "problem"))
        assert (status, set(problems)) == (1, {"worker", "replication"})
        assert problems["worker"].startswith("the worker writes records to cluster ")

"""Doctor against real brokers: each thing that it is to find, and nothing where all is well."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local.clusters import Cluster
from bridge.model.copying import Copied
from bridge.model.state_records.claims import Claim
from bridge.model.values import TopicPartition
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import Segment
from connectors.registry import KINDS
from tests.integration.copy_flow import COMPACTED, topic_id
from tests.support import (
    Record,
    allow,
    commit,
    create_topic,
    delete_group,
    delete_topic,
    numbered,
    produce,
    unique,
)
from tests.support.brokers import USERS, Secured
from tests.support.forms import mostly_long
from tests.support.messages import message, message_pattern
from tests.support.records import read

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
Findings = list[dict[str, str]]


class Flow:
    """A topic with its copy and a group, under an alias of its own."""

    def __init__(self, source: str, target: str, tmp: Path, partitions: int = 2, **copy: str) -> None:
        self.source, self.target, self.alias, self._tmp = source, target, unique("a"), tmp
        self.topic = create_topic(source, unique("doctored"), 2)
        self.copy = create_topic(target, f"{self.alias}.{self.topic}", partitions, copy)
        produce(source, self.topic, numbered(3))
        commit(source, self.topic, {(self.topic, 0): 1})

    def config(self, kind: str, **more: str) -> dict[str, str]:
        definition = KINDS[kind].definition.keys
        given = {
            "connector.class": KINDS[kind].connector_class,
            "source.cluster.alias": self.alias,
            "target.cluster.alias": f"{self.alias}-backup",
            "source.cluster.bootstrap.servers": self.source,
            "target.cluster.bootstrap.servers": self.target,
            "topics": self.topic,
            "groups": self.topic,
            **{key: "1" for key in definition if key.endswith("replication.factor")},
        }
        own = {key: value for key, value in given.items() if key in definition or key == "connector.class"}
        return own | {key.replace("_", "."): value for key, value in more.items()}

    def examined(self, kind: str = "group_offset", *options: str, **more: str) -> tuple[int, Findings]:
        path = self._tmp / f"{unique('doctor')}.json"
        path.write_text(json.dumps({"name": "doctored", "config": self.config(kind, **more)}))
        ran = CliRunner().invoke(app, ["doctor", "--config", str(path), "--output", "json", *options])
        assert ran.exit_code in (0, 1, 3), ran.output
        return ran.exit_code, json.loads(ran.stdout)["findings"]

    def remove(self) -> None:
        delete_topic(self.source, self.topic)
        delete_topic(self.target, self.copy)
        delete_group(self.source, self.topic)


@pytest.fixture
def flow(source: Cluster, target: Cluster, tmp_path: Path) -> Iterator[Flow]:
    made = Flow(source.bootstrap, target.bootstrap, tmp_path)
    yield made
    made.remove()


def of(findings: Sequence[dict[str, str]], severity: str = "problem") -> list[tuple[str, str]]:
    return [(each["check"], each["found"]) for each in findings if each["severity"] == severity]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found_where_all_is_well(flow: Flow, kind: str) -> None:
    status, findings = flow.examined(kind)
    assert (of(findings), of(findings, "not_checked"), of(findings, "warning"), status) == ([], [], [], 0)
    assert any("of Kafka 4.1 or newer" in text for _, text in of(findings, "ok"))
    assert [each["remedy"] for each in findings if each["severity"] == "skipped"][-1:] != [""]


def test_a_cluster_that_is_away_is_a_problem_and_what_needs_it_is_not_checked(flow: Flow) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{bound.getsockname()[1]}"
        status, findings = flow.examined(source_cluster_bootstrap_servers=away)
    assert status == 1
    ((check, text),) = of(findings)
    assert check == "reachability"
    assert f"{away} refuses connections" in text
    everything_away, _ = flow.examined(
        "heartbeat", target_cluster_bootstrap_servers=away, heartbeats_topic_replication_factor="3"
    )
    assert everything_away == 1


def test_a_replication_factor_above_the_brokers_is_named_by_its_key(flow: Flow) -> None:
    config = {"replication_factor": "3", "bridge_validate_reachability": "off"}
    status, findings = flow.examined("source", **config)
    text = message("doctor.replication", key="replication.factor", factor=3, brokers=1)
    assert (status, of(findings)) == (1, [("replication", text)])
    assert "set replication.factor=1" in next(
        each["remedy"] for each in findings if each["severity"] == "problem"
    )


def test_a_misspelt_key_and_a_key_store_that_is_not_there_are_named(flow: Flow) -> None:
    status, findings = flow.examined(groupz="x", source_cluster_security_protocol="SSL",
                                  source_cluster_ssl_truststore_location="/no/where.jks")  # fmt: skip
    assert status == 1
    texts = [text for check, text in of(findings) if check == "configuration"]
    assert message("config.misspelt", key="groupz", meant="groups") in texts
    assert any("/no/where.jks" in text for text in texts)
    assert ("rights", message("doctor.rights_unchecked")) in of(findings, "not_checked")


def test_copies_with_other_partitions_or_timestamps_are_named(
    source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    made = Flow(
        source.bootstrap, target.bootstrap, tmp_path, 1, **{"message.timestamp.type": "LogAppendTime"}
    )
    try:
        status, findings = made.examined()
        assert status == 1
        assert dict(of(findings)) == {
            "partitions": f"{made.topic} has 2 partitions, its copy {made.copy} 1",
            "timestamps": f"the target overwrites the timestamps of {made.copy}: "
            "copies can't be found by timestamp",
        }
        assert dict(of(made.examined("source")[1], "warning"))["partitions"].startswith(made.topic)
    finally:
        made.remove()


def test_another_connectors_claim_and_a_stock_mirrors_syncs_are_named(flow: Flow) -> None:
    syncs = create_topic(flow.source, f"mm2-offset-syncs.{flow.alias}-backup.internal")
    try:
        status, findings = flow.examined("source")
        assert (status, [check for check, _ in of(findings, "warning")]) == (0, ["second mirror"])
        layouts = create_topic(flow.target, f"mm2-layout.{flow.alias}.internal")
        try:
            claim = Claim(flow.topic, flow.copy, "first")
            produce(flow.target, layouts, [Record(claim.value(), key=claim.key())])
            status, findings = flow.examined("source")
            assert (status, of(findings)) == (
                1,
                [("second mirror", f"connector first copies {flow.topic} already")],
            )
            mine = Claim(flow.topic, flow.copy, "doctored")
            produce(
                flow.target, layouts, [Record(None, key=claim.key()), Record(mine.value(), key=mine.key())]
            )
            assert of(flow.examined("source")[1]) == []
        finally:
            delete_topic(flow.target, layouts)
    finally:
        delete_topic(flow.source, syncs)


@pytest.mark.parametrize("ended", mostly_long([True, False]))
def test_copies_that_another_mirror_makes_beside_ours_are_named(flow: Flow, ended: bool) -> None:
    """A mirror that has left out a record of 20 minutes ago copies no more: it is told, and is no problem."""
    if ended:
        produce(flow.source, flow.topic, [Record(b"x", timestamp=int((time.time() - 1200) * 1000))])
    original = read(flow.source, flow.topic, 0)
    produce(flow.target, flow.copy, [replace(record, partition=0) for record in original])
    ids = [topic_id(flow.source, flow.topic), topic_id(flow.target, flow.copy)]
    copied = Copied(TopicPartition(flow.topic, 0), ids[0], flow.copy, ids[1])
    count = len(original)
    changes = PartitionRuns().commit([Segment(0, 0, 0, count)], count, copied)
    runs = create_topic(flow.target, f"mm2-offset-runs.{flow.alias}.internal", 1, COMPACTED)
    try:
        produce(flow.target, runs, [Record(value, key=key) for key, value in changes])
        assert of(flow.examined("source")[1]) == []
        produce(flow.target, flow.copy, [replace(original[2 if ended else 1], partition=0)])
        status, findings = flow.examined("source")
        told = of(findings, "warning" if ended else "problem")
        assert (status, [check for check, _ in told]) == (0 if ended else 1, ["second mirror"])
        assert flow.topic in told[0][1]
    finally:
        delete_topic(flow.target, runs)


def test_records_from_the_future_are_named(flow: Flow) -> None:
    produce(flow.source, flow.topic, [Record(b"x", timestamp=int((time.time() + 3600) * 1000))])
    status, findings = flow.examined()
    assert status == 0
    ((check, text),) = of(findings, "warning")
    assert (check, flow.topic in text) == ("clocks", True)


def test_a_worker_that_does_not_answer_is_not_checked(flow: Flow) -> None:
    status, findings = flow.examined(
        "checkpoint", "--connect-url", "http://127.0.0.1:1", "--url", "http://127.0.0.1:1"
    )
    assert status == 3
    assert {check for check, _ in of(findings, "not_checked")} == {"worker", "clocks"}


# -- rights ------------------------------------------------------------------------------------------------------------


USER = "doctor"


def test_missing_rights_are_named_by_operation_and_resource(secured: Secured, tmp_path: Path) -> None:
    flow = Flow(secured.bootstrap, secured.bootstrap, tmp_path)
    login = {
        f"{side}_cluster_{key}": value
        for side in ("source", "target")
        for key, value in {
            "bootstrap_servers": secured.address("SASL_PLAINTEXT"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_jaas_config": f'{SCRAM} required username="{USER}" password="{USERS[USER]}";',
        }.items()
    }

    def grant(name: str, *operations: str, kind: str = "TOPIC") -> None:
        for operation in operations:
            allow(secured.bootstrap, f"User:{USER}", name, operation, kind)

    grant(flow.topic, "DESCRIBE", "DESCRIBE_CONFIGS")
    grant(flow.copy, "DESCRIBE", "READ", "DESCRIBE_CONFIGS")
    grant(flow.topic, "DESCRIBE", kind="GROUP")
    login["bridge_same_cluster"] = "true"
    status, findings = flow.examined(**login)
    assert USERS[USER] not in json.dumps(findings)
    lacking = (
        (f"READ on topic {flow.topic}", "source", "to compare records at the groups' offsets"),
        (f"READ on group {flow.topic}", "target", "to commit their offsets"),
    )
    expected = [
        ("rights", message("doctor.missing", right=right, side=side, reason=reason))
        for right, side, reason in lacking
    ]
    assert (status, of(findings)) == (1, expected)
    grant(flow.topic, "READ")
    grant(flow.topic, "READ", kind="GROUP")
    status, findings = flow.examined(**login)
    assert (status, of(findings), of(findings, "not_checked")) == (0, [], [])
    _, findings = flow.examined("source", **login)
    texts = [text for check, text in of(findings) if check == "rights"]
    assert f"WRITE on topic {flow.copy} is missing on the target, to write copies" in texts
    assert any(text.startswith("CREATE is missing for mm2-") for text in texts)
    alter = message_pattern("doctor.missing", right="ALTER on the cluster", side="target")
    assert any(re.match(alter, text) for text in texts)

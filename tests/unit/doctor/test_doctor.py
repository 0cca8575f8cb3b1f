"""Doctor's checks, each alone: what it finds, what it leaves alone, and what it says could not be checked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.commands.doctor import together
from bridge.doctor.checks import CHECKS, examine
from bridge.doctor.collecting import collect, machine
from bridge.doctor.facts import (
    ClusterFacts,
    CopiesBeside,
    Facts,
    Finding,
    MachineFacts,
    Need,
    Other,
    Pair,
    Replication,
    Severity,
    TopicFacts,
    Unknown,
    exit_status,
    unknown,
)
from bridge.doctor.needs import MARKS, PAGES, RIGHTS, with_tables
from bridge.doctor.plan import Plan
from bridge.kafka.config.settings import StaticClientCheck
from bridge.model.values import Side
from bridge.protocol.messages import ErrorBody
from bridge.protocol.operators import DoctorFinding, DoctorReport
from bridge.service.checks.context import CheckContext, Naming
from bridge.service.checks.validation import Checker
from bridge.service.http.app import create_app
from bridge.service.service import Service
from connectors.base import COPYING_KINDS, Kind
from connectors.registry import KINDS
from tests.support.messages import message
from tests.unit.connectors.configs import CONFIGS
from tests.unit.mock_http import serve
from tests.unit.service.service_fakes import fake_service

A, B = Side.SOURCE, Side.TARGET
ALL = frozenset({"READ", "WRITE", "CREATE", "ALTER", "DESCRIBE"})
CLUSTER = ClusterFacts("id-of-cluster", {1: "b:9092"}, ALL, 17, 9)
TOPIC = TopicFacts(2, ALL, append_time=False)
WELL = Facts(
    kind="source",
    name="mine",
    clusters={A: CLUSTER, B: replace(CLUSTER, cluster_id="id-of-target")},
    topics={A: {"orders": TOPIC}, B: {"A.orders": TOPIC}},
    groups={A: {"g": ALL}, B: {"g": ALL}},
    needs=[Need(A, "READ", "topic", "orders", "to copy"), Need(B, "WRITE", "topic", "A.orders", "to copy")],
    replications=[Replication("replication.factor", 1, B)],
    pairs=[Pair("orders", "A.orders")],
    worker_cluster_id="id-of-target",
    others=[Other("other", "Default", ".")],
    policy="Default",
    separator=".",
    ahead={A: [], B: []},
    service_skew=0.3,
    machine=MachineFacts(17, "/jdk", "4.1.0"),
)


def findings(check: str, **changes: Any) -> list[tuple[str, str]]:
    """Severity and text of what the check finds, without what is well."""
    facts = replace(WELL, **changes)
    return [
        (each.severity.value, each.found)
        for each in examine(facts)
        if each.check == check and each.severity is not Severity.OK
    ]


def one(check: str, severity: str, words: str, **changes: Any) -> None:
    ((there, text),) = findings(check, **changes)
    assert (there, words in text) == (severity, True), text


def topics(side: Side, name: str, topic: TopicFacts | None) -> Mapping[Side, Any]:
    there = WELL.topics[side]
    assert not isinstance(there, Unknown)
    changed: dict[str, TopicFacts | None] = {**there, name: topic}
    return {**WELL.topics, side: {key: value for key, value in changed.items() if value is not None}}


def test_where_all_is_well_each_check_says_so() -> None:
    for kind in KINDS:
        worker = "id-of-cluster" if kind == "sink" else WELL.worker_cluster_id
        findings = examine(replace(WELL, kind=kind, worker_cluster_id=worker))
        assert {each.severity for each in findings} == {Severity.OK}
        assert {each.check for each in findings} == {check.name for check in CHECKS}
        assert exit_status(findings) == 0


def test_each_finding_but_those_that_are_well_says_what_to_do() -> None:
    bad = Facts(
        "source", "mine", [("groupz", "Unknown")], [("linger.ms", "none")], {A: Unknown("gone"), B: CLUSTER}
    )
    for each in examine(bad):
        assert each.severity is Severity.OK or each.remedy, each


def test_the_exit_status_is_that_of_the_worst() -> None:
    some = {each: Finding("x", each, "y") for each in Severity}
    assert exit_status([some[Severity.OK], some[Severity.WARNING], some[Severity.SKIPPED]]) == 0
    assert exit_status([some[Severity.NOT_CHECKED], some[Severity.WARNING]]) == 3
    assert exit_status(some.values()) == 1


def test_settings() -> None:
    one("configuration", "problem", "did you mean 'groups'", errors=[("groupz", "did you mean 'groups'?")])
    one("ignored", "warning", "owner does nothing: nobody's", ignored=[("owner", "nobody's")])


def test_reachability() -> None:
    one(
        "reachability",
        "problem",
        "the source cluster can't be reached: refused",
        clusters={A: Unknown("refused"), B: CLUSTER},
    )
    why = Unknown("the configuration has errors")
    one("reachability", "not_checked", why.why, clusters={A: why}, planned=why)
    one("reachability", "problem", "both have the id id-of-cluster", clusters={A: CLUSTER, B: CLUSTER})
    assert findings("reachability", clusters={A: CLUSTER, B: CLUSTER}, one_cluster=True) == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_was_not_looked_at_is_said_to_be_well(kind: str) -> None:
    """Of a configuration with errors, and of clusters that are away."""
    config = {**CONFIGS[kind], "groupz": "x", "topicz": "x", "emit.heartbeat.enabled": "x"}
    wrong = asyncio.run(collect(KINDS[kind], "c", config, StaticClientCheck()))
    away = {f"{side}.cluster.bootstrap.servers": "127.0.0.1:1" for side in Side}
    gone = asyncio.run(collect(KINDS[kind], "c", {**CONFIGS[kind], **away}, StaticClientCheck()))
    for facts in (wrong, gone):
        examined = examine(facts)
        well = {each.check for each in examined if each.severity is Severity.OK}
        looked_at = {"configuration", "ignored", "machine"}
        # What these kinds have nothing to do with.
        if kind not in COPYING_KINDS:
            looked_at |= {"second mirror"}
        if kind in ("source", "group_offset"):
            looked_at |= {"worker"}
        if kind == "heartbeat":
            looked_at |= {"rights"}
        assert well <= looked_at, [each for each in examined if each.check in well - looked_at]
        assert exit_status(examined) == 1


@pytest.mark.parametrize(("fetch", "offsets", "kind", "wrong"), [
    (12, 7, "checkpoint", True), (12, 8, "checkpoint", False), (12, 7, "source", False), (10, 5, "source", True),
    (99, 99, "source", False),
])  # fmt: skip
def test_versions(fetch: int, offsets: int, kind: str, wrong: bool) -> None:
    old = replace(CLUSTER, fetch_version=fetch, offsets_version=offsets)
    assert bool(findings("versions", clusters={A: CLUSTER, B: old}, kind=kind)) is wrong


def test_versions_that_are_not_known() -> None:
    one(
        "versions",
        "not_checked",
        "no answer",
        clusters={A: replace(CLUSTER, fetch_version=Unknown("no answer"))},
    )


def test_rights_by_operation_and_resource() -> None:
    some = replace(TOPIC, allowed=frozenset({"READ"}))
    one(
        "rights",
        "problem",
        "WRITE on topic A.orders is missing on the target, to copy",
        topics=topics(B, "A.orders", some),
    )
    needs = [Need(A, "DESCRIBE", "group", "g", "to read"), Need(B, "READ", "group", "g", "to commit")]
    one(
        "rights",
        "problem",
        "READ on group g is missing on the target",
        needs=needs,
        groups={A: {"g": ALL}, B: {"g": frozenset()}},
    )
    acls = [Need(B, "ALTER", "cluster", "", "to write ACLs")]
    none = replace(CLUSTER, allowed=frozenset[str]())
    one(
        "rights",
        "problem",
        "ALTER on the cluster is missing on the target",
        needs=acls,
        clusters={A: CLUSTER, B: none},
    )
    optional = [Need(B, "WRITE", "topic", "A.orders", "to keep", optional=True)]
    one("rights", "warning", "WRITE on topic A.orders", needs=optional, topics=topics(B, "A.orders", some))


def test_rights_of_many_topics_are_one_finding() -> None:
    names = [f"t{number}" for number in range(9)]
    needs = [Need(A, "READ", "topic", name, "to copy") for name in names]
    denied = {name: replace(TOPIC, allowed=frozenset[str]()) for name in names}
    one(
        "rights",
        "problem",
        "READ on topic t0, t1, t2, t3, t4 and 4 more",
        needs=needs,
        topics={A: denied, B: {}},
    )


def test_rights_that_nobody_tells_are_not_checked() -> None:
    one(
        "rights",
        "not_checked",
        "the broker does not say",
        topics=topics(A, "orders", replace(TOPIC, allowed=None)),
    )
    one("rights", "not_checked", "it was not described", topics=topics(A, "orders", None))
    one("rights", "not_checked", "no answer", topics={**WELL.topics, A: Unknown("no answer")})
    assert findings("rights", clusters={A: Unknown("gone"), B: CLUSTER}) == [
        ("not_checked", message("doctor.no_answer", topic="orders"))
    ]


def test_a_topic_that_is_to_be_made_takes_create() -> None:
    missing, needs = (
        topics(B, "A.orders", TopicFacts(0, None)),
        [Need(B, "CREATE", "topic", "A.orders", "to make it")],
    )
    assert findings("rights", topics=missing, needs=needs) == []
    none = {A: CLUSTER, B: replace(CLUSTER, allowed=frozenset({"DESCRIBE"}))}
    one("rights", "problem", "CREATE is missing for A.orders", topics=missing, clusters=none, needs=needs)
    optional = [replace(needs[0], optional=True)]
    one("rights", "warning", "CREATE is missing for A.orders", topics=missing, clusters=none, needs=optional)
    own = topics(B, "A.orders", TopicFacts(0, frozenset({"CREATE", "WRITE"})))
    assert findings("rights", topics=own, clusters=none, needs=[*WELL.needs, *needs]) == []
    only = topics(B, "A.orders", TopicFacts(0, frozenset({"CREATE"})))
    one("rights", "problem", "WRITE on topic A.orders is missing", topics=only, clusters=none)


def test_a_transactional_id_takes_write() -> None:
    needs = [Need(B, "WRITE", "transactional id", "mirror-bridge-A-m-0", "to copy")]
    rights = {"mirror-bridge-A-m-0": frozenset({"WRITE"})}
    assert findings("rights", needs=needs, ids=rights) == []
    denied = dict.fromkeys(rights, frozenset[str]())
    one(
        "rights",
        "problem",
        "WRITE on transactional id mirror-bridge-A-m-0 is missing",
        needs=needs,
        ids=denied,
    )
    one("rights", "not_checked", "no answer", needs=needs, ids=Unknown("no answer"))


def test_replication() -> None:
    one("replication", "problem", "x.replication.factor is 3, and the target cluster has 1 broker(s)",
        replications=[Replication("x.replication.factor", 3, B)])  # fmt: skip
    assert findings("replication", replications=[Replication("x", -1, B)]) == []
    one(
        "replication",
        "not_checked",
        "x: not checked",
        replications=[Replication("x", 3, B)],
        clusters={B: Unknown("-")},
    )


def test_the_workers_cluster() -> None:
    one(
        "worker",
        "problem",
        "the worker writes records to cluster other",
        kind="checkpoint",
        worker_cluster_id="other",
    )
    one(
        "worker",
        "skipped",
        "not checked",
        kind="checkpoint",
        worker_cluster_id=Unknown("--connect-url", skipped=True),
    )
    one("worker", "not_checked", "no answer", kind="checkpoint", worker_cluster_id=Unknown("no answer"))
    assert findings("worker", kind="source", worker_cluster_id="other") == []
    one(
        "worker",
        "problem",
        "the worker commits the group's offsets on cluster id-of-target, and the source is id-of-cluster",
        kind="sink",
    )


def test_a_second_mirror() -> None:
    one("second mirror", "problem", "connector first copies orders", claims={("orders", "A.orders"): "first"})
    assert findings("second mirror", claims={("orders", "A.orders"): "mine", ("x", "A.x"): "first"}) == []
    one("second mirror", "warning", "a stock mirror", stock_syncs=True)
    beside = CopiesBeside(["orders"])
    one("second mirror", "problem", "another mirror copies orders too", copied_beside=beside)
    one(
        "second mirror", "warning", "between the copies of orders", copied_beside=CopiesBeside([], ["orders"])
    )
    ended = CopiesBeside(ended={"orders": 1_700_000_000_000})
    one("second mirror", "warning", "since 2023-11-14T22:13:20", copied_beside=ended)
    one("second mirror", "not_checked", "no answer", copied_beside=Unknown("no answer"))
    one("second mirror", "not_checked", "no answer", claims=Unknown("no answer"))
    assert findings("second mirror", kind="checkpoint", claims={("orders", "A.orders"): "first"}) == []
    same = [Other("other", "Default", ".", same_groups=12)]
    one(
        "second mirror",
        "warning",
        "connector other commits the offsets of 12",
        kind="group_offset",
        others=same,
    )
    one("second mirror", "skipped", "not checked", kind="checkpoint", others=Unknown("--url", skipped=True))


def test_timestamps() -> None:
    one(
        "timestamps",
        "problem",
        "timestamps of A.orders",
        topics=topics(B, "A.orders", replace(TOPIC, append_time=True)),
    )
    one(
        "timestamps",
        "not_checked",
        "DESCRIBE_CONFIGS",
        topics=topics(B, "A.orders", replace(TOPIC, append_time=None)),
    )
    assert findings("timestamps", topics=topics(B, "A.orders", TopicFacts(0, None))) == []


@pytest.mark.parametrize(("kind", "copies", "severity"), [
    ("checkpoint", 1, "problem"), ("source", 1, "warning"), ("checkpoint", 3, "warning"),
])  # fmt: skip
def test_partitions(kind: str, copies: int, severity: str) -> None:
    other = topics(B, "A.orders", replace(TOPIC, partitions=copies))
    one(
        "partitions",
        severity,
        f"orders has 2 partitions, its copy A.orders {copies}",
        topics=other,
        kind=kind,
    )


def test_policies() -> None:
    one("policies", "problem", "'.', and '-' in connector other", others=[Other("other", "Default", "-")])
    one("policies", "problem", "'Default', and 'Identity'", others=[Other("other", "Identity", ".")])
    stock = "org.apache.kafka.connect.mirror.Default"
    assert findings("policies", others=[Other("other", stock, ".")]) == []
    one("policies", "skipped", "not checked", others=Unknown("--url", skipped=True))


def test_clocks() -> None:
    one("clocks", "warning", "records of orders on the source", ahead={A: ["orders"]})
    one("clocks", "warning", "5 s behind", service_skew=-5.0)
    one("clocks", "not_checked", "no answer", ahead={A: Unknown("no answer")})


def test_java_and_spark() -> None:
    one("machine", "problem", "JAVA_HOME is /jdk", machine=MachineFacts(Unknown("no java"), "/jdk", "4"))
    one("machine", "problem", "JAVA_HOME is not set", machine=MachineFacts(Unknown("no java"), "", "4"))
    one("machine", "problem", "Java is 11", machine=MachineFacts(11, "", "4"))
    one(
        "machine",
        "problem",
        "pyspark is not",
        machine=MachineFacts(17, "", Unknown("pyspark is not installed")),
    )
    assert findings("machine", kind="checkpoint", machine=Unknown("none")) == []


def test_java_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = machine()
    assert isinstance(here.java, int)
    assert isinstance(here.spark, str)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    away = machine()
    assert isinstance(away.java, Unknown)
    assert f"{tmp_path}/bin/java can't be run" in away.java.why


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_names_the_needs_of_its_kind(kind: str) -> None:
    plan = Plan.make(KINDS[kind], CONFIGS[kind])
    pairs = plan.pairs(["orders", "__consumer_offsets"])
    needs = {(need.side, need.operation, need.resource) for need in plan.needs(pairs, ["g"], frozenset())}
    assert ((B, "WRITE", "topic") in needs) is (kind != "heartbeat")
    assert ((B, "CREATE", "topic") in needs) is True
    assert ((B, "WRITE", "transactional id") in needs) is (kind in COPYING_KINDS)
    assert ((A, "DESCRIBE", "group") in needs) is (kind in ("checkpoint", "group_offset"))
    assert ((B, "READ", "group") in needs) is (kind == "group_offset")
    assert [each.source for each in pairs] == ([] if kind == "heartbeat" else ["orders"])
    assert all(each.key.endswith("replication.factor") for each in plan.replications())


def test_settings_spare_the_rights_that_the_page_says_they_spare() -> None:
    def needs(kind: str, **settings: str) -> set[tuple[Side, str, str, str]]:
        synced = {"sync.group.offsets.enabled": "true"} if kind == "checkpoint" else {}
        changed = {key.replace("_", "."): value for key, value in settings.items()}
        plan = Plan.make(KINDS[kind], {**CONFIGS[kind], "name": "m", **synced, **changed})
        all_there = [name for some in plan.asked_by_name.values() for name in some]
        needed = plan.needs([Pair("orders", "A.orders")], ["g"], frozenset(all_there))
        return {(need.side, need.operation, need.resource, need.name) for need in needed}

    for right in RIGHTS:
        for kind in right.kinds:
            for key, value in right.without:
                if key in KINDS[kind].definition.keys and not right.by_connect:
                    assert needs(kind) - needs(kind, **{key.replace(".", "_"): value}), (right, key)
            for key, value in right.only:
                assert needs(kind, **{key.replace(".", "_"): value}) - needs(kind), (right, key)
    ids = {name for *_, name in needs("source", bridge_take_over_from="old")}
    alias = CONFIGS["source"]["source.cluster.alias"]
    assert {f"mirror-bridge-{alias}-{name}-{who}" for name in ("m", "old") for who in ("driver", 0)} <= ids


def test_on_the_way_home_the_topic_that_a_copy_is_of_is_its_counterpart() -> None:
    aliases = {"source.cluster.alias": "B", "target.cluster.alias": "A"}
    there = ["A.orders", "B.orders", "heartbeats", "mine", "mm2-layout.A.internal"]
    chosen = {"topics": r"A\.orders,mine,mm2-layout.*", "topics.exclude": "x"}
    for kind in ("group_offset", "checkpoint"):
        config = {**CONFIGS[kind], **aliases, **chosen}
        assert Plan.make(KINDS[kind], config).pairs(there) == [Pair("mine", "B.mine")]
        home = Plan.make(KINDS[kind], {**config, "reverse.checkpointing.enabled": "true"})
        assert home.pairs(there) == [Pair("A.orders", "orders"), Pair("mine", "B.mine")]


def test_names_that_are_no_patterns_are_asked_for() -> None:
    plan = Plan.make(
        KINDS["checkpoint"], {**CONFIGS["checkpoint"], "topics": "orders,a.b,x.*", "groups": "g,h+"}
    )
    assert (plan.named("topics"), plan.named("groups", "group")) == (["orders", "a.b"], ["g"])
    assert plan.asked_by_name[A][-2:] == ["orders", "a.b"]
    assert plan.asked_by_name[B] == [plan.policy.offset_runs_topic(plan.aliases[0])]


@pytest.mark.parametrize("page", PAGES)
def test_the_documentation_has_the_table_of_rights(page: str) -> None:
    text = (Path(__file__).parents[3] / page).read_text("utf-8")
    assert all(mark in text for mark in MARKS)
    assert text == with_tables(page, text), "run: mirror-bridge definitions"


def test_a_plan_leaves_out_what_is_switched_off() -> None:
    def keys(kind: str, **off: str) -> set[str]:
        given = {**CONFIGS[kind], **{key.replace("_", "."): value for key, value in off.items()}}
        return {each.key for each in Plan.make(KINDS[kind], given).replications()}

    assert keys("heartbeat") - keys("heartbeat", emit_heartbeats_enabled="false") == {
        "heartbeats.topic.replication.factor"
    }
    assert keys("checkpoint") - keys("checkpoint", emit_checkpoints_enabled="false") == {
        "checkpoints.topic.replication.factor"
    }
    dry = Plan.make(KINDS["group_offset"], {**CONFIGS["group_offset"], "dry.run": "true"})
    assert not any(
        need.operation == "READ" and need.resource == "group" for need in dry.needs([], ["g"], frozenset())
    )
    home = Plan.make(
        KINDS["group_offset"], {**CONFIGS["group_offset"], "reverse.checkpointing.enabled": "true"}
    )
    there = frozenset({"mm2-group-readiness.B.internal"})
    assert (A, "READ", *there) in {
        (each.side, each.operation, each.name) for each in home.needs([], [], there)
    }
    off = {**CONFIGS["group_offset"], "emit.group-readiness.enabled": "false"}
    silent = Plan.make(KINDS["group_offset"], off)
    readiness = silent.policy.readiness_topic(silent.aliases[0])
    assert readiness in silent.asked_by_name[B], "it may tell of groups that were moved before"
    for present in (frozenset[str](), frozenset({readiness})):
        operations = {each.operation for each in silent.needs([], [], present) if each.name == readiness}
        assert operations == ({"READ"} if present else set())
    beats = {**CONFIGS["source"], "topics": "orders", "topics.exclude": "x"}
    assert [each.source for each in Plan.make(KINDS["source"], beats).pairs(["heartbeats", "orders"])] == [
        "heartbeats",
        "orders",
    ]
    without = Plan.make(KINDS["source"], {**beats, "heartbeats.replication.enabled": "false"})
    assert [each.source for each in without.pairs(["heartbeats", "orders"])] == ["orders"]


def test_a_configuration_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    for config, words in (
        ({"connector.class": "x.Y"}, "connector.class is 'x.Y'"),
        ({"connector.class": "MirrorGroupOffset", "topics": "${file:/x:y}"}, "config providers"),
    ):
        path.write_text(json.dumps(config))
        ran = CliRunner().invoke(app, ["doctor", "--config", str(path)])
        assert ran.exit_code == 2
        assert words in ran.stderr
    assert CliRunner().invoke(app, ["doctor", "--config", str(tmp_path / "none.json")]).exit_code == 2
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 2


def test_the_documentation_has_the_table_of_checks() -> None:
    page = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text("utf-8")
    rows = "".join(f"| {check.name} | {check.finds} | {check.remedy} |\n" for check in CHECKS)
    assert f"| Check | Finds | Remedy |\n|{' --- |' * 3}\n{rows}" in page


# -- of a connector of the service -------------------------------------------------------------------------------------

SECRET = "wonderland-9137"
SESSION = "1795230000123-9b2f0c5e"


class Examined:
    """A Doctor that finds a secret, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Mapping[str, str], Sequence[Naming], str | None]] = []

    def __call__(
        self,
        kind: Kind,
        name: str,
        props: Mapping[str, str],
        others: Sequence[Naming],
        worker_cluster_id: str | None,
    ) -> DoctorReport:
        self.asked.append((props, others, worker_cluster_id))
        finding = DoctorFinding(check="x", severity="problem", found=f"not {SECRET}", remedy=f"no {SECRET}")
        return DoctorReport(name=name, findings=[finding])


def service_with(doctor: Examined | None) -> Service:
    service = fake_service()
    service.checker = Checker(CheckContext(KINDS, StaticClientCheck(), None, doctor), service.pools)
    flow = {"source.cluster.alias": "A", "target.cluster.alias": "B"}
    for name, kind, more in (
        ("one", "group_offset", {"bridge.auth.token": SECRET, "bridge.task.index": "0"}),
        ("two", "source", {**flow, "replication.policy.separator": "-"}),
        ("beats", "heartbeat", {**flow, "replication.policy.separator": "-"}),
        ("elsewhere", "source", {"source.cluster.alias": "C"}),
    ):
        service.table.start_connector(name, SESSION, kind, {**CONFIGS[kind], **more})
    return service


def get(service: Service, path: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://bridge") as client:
            return await client.get(path)

    return asyncio.run(ask())


def test_a_connector_of_the_service_is_examined_with_the_others_of_its_flow() -> None:
    doctor = Examined()
    service = service_with(doctor)
    answer = get(service, "/v1/connectors/one/doctor?worker_cluster_id=w")
    assert answer.status_code == 200
    assert answer.json() == {
        "name": "one",
        "findings": [{"check": "x", "severity": "problem", "found": "not [hidden]", "remedy": "no [hidden]"}],
    }
    ((props, others, worker),) = doctor.asked
    policy = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
    assert (list(others), worker) == ([Naming("two", policy, "-")], "w")
    assert (props["name"], "bridge.task.index" in props) == ("one", False)


def test_a_connector_that_is_not_there_is_404_and_so_is_a_service_without_doctor() -> None:
    assert get(service_with(Examined()), "/v1/connectors/x/doctor").status_code == 404
    assert get(service_with(None), "/v1/connectors/one/doctor").status_code == 404


def test_what_one_cause_keeps_from_being_checked_is_one_line() -> None:
    away = Unknown("the source cluster did not answer")
    found = [
        Finding("reachability", Severity.PROBLEM, "the source is away"),
        Finding("rights", *unknown("rights on orders", away)),
        Finding("replication", *unknown("replication factors", away)),
        Finding("clocks", *unknown("clocks", Unknown("something else"))),
    ]
    first, both, other = together(found)
    assert (first, other) == (found[0], found[3])
    what, _, why = both.found.partition(": not checked, ")
    assert (what, why) == ("rights on orders, replication factors", away.why)
    assert both.remedy == found[1].remedy


def test_the_command_shows_what_the_service_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/a%2Fb/doctor") or request.url.raw_path.startswith(
            b"/v1/connectors/a%2Fb/"
        ):
            shown = [
                DoctorFinding(check="worker", severity="skipped", found="not checked", remedy="--connect-url")
            ]
            return httpx.Response(200, content=DoctorReport(name="a/b", findings=shown).model_dump_json())
        return httpx.Response(404, content=ErrorBody(error_code="x", message="none").model_dump_json())

    serve(monkeypatch, answer)
    ran = CliRunner().invoke(app, ["doctor", "--connector", "a/b"])
    assert (ran.exit_code, ran.stdout.split()) == (
        0,
        ["skipped", "worker", "not", "checked", "->", "--connect-url"],
    )
    ran = CliRunner().invoke(app, ["doctor", "--connector", "other"])
    assert (ran.exit_code, "none" in ran.stderr) == (3, True)
    both = ["doctor", "--connector", "x", "--config", "y"]
    assert CliRunner().invoke(app, both).exit_code == 2

"""Each right of the table, on real brokers: with exactly those everything runs; each that is taken away is named by
operation and resource, stops what it is for and nothing else, and what it stopped goes on when it is given back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.audit.report import AuditVerdict
from bridge.cli import app
from bridge.doctor.needs import RIGHTS, On, Right
from bridge.local import LocalStack
from bridge.model.values import Side
from tests.e2e.rights_of_others import (
    AUDITOR,
    INDEXER,
    audit_cases,
    index_cases,
    run_audit,
    run_index,
)
from tests.e2e.rights_of_sinks import SinkRights
from tests.e2e.rights_scenario import GROUPS, LATER, NAME, TOPICS, Case, RightsScenario, prepare
from tests.support import (
    Record,
    add_partitions,
    bounds,
    create_topic,
    delete_records,
    produce,
    read,
    set_topic_config,
)
from tests.support.indexing import InProcess
from tests.support.messages import message
from tests.support.spark import spark_session

FIRST = ("source", "group_offset", "checkpoint", "heartbeat")
"""Roles that run from the beginning; the others come where they have something to do."""
AT_THE_START = {"CREATE", "DESCRIBE_CONFIGS"}
"""What is asked of internal topics while they are made."""
ELSEWHERE: dict[tuple[str, On], str] = {
    (
        "DESCRIBE_CONFIGS",
        On.COPIES,
    ): "of the copy, with sync.topic.configs.enabled=false: by the take-over below",
    ("WRITE", On.OTHERS_IDS): "by the take-over below",
    ("DESCRIBE", On.TOPICS): "by offset syncs alone, below",
    ("DESCRIBE", On.COPIES): "by offset syncs alone, below",
    ("READ", On.COPIES): "of the copy: tests/integration/test_pipeline_faults.py",
    ("READ", On.OTHER_FLOWS): "tests/unit/connectors/group_offset/test_merged_sources.py",
    ("READ", On.OPPOSITE_LAYOUT): "tests/unit/pipeline/layouts/test_claims.py",
}


(_WRITING,) = (right for right in RIGHTS if (right.operation, right.on) == ("WRITE", On.COPIES))
_READING = RIGHTS[0]


@pytest.fixture(scope="module")
def scenario(stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RightsScenario]:
    made = RightsScenario.of(stack, tmp_path_factory.mktemp("tls"), [INDEXER, AUDITOR])
    prepare(made)
    yield made
    made.end()


def internal(case: Case) -> bool:
    return case.right.on not in (On.TOPICS, On.COPIES, On.GROUPS, On.CLUSTER, On.IDS)


@pytest.mark.long
def test_with_exactly_these_rights_everything_runs(scenario: RightsScenario) -> None:
    """From the start, when internal topics are missing and may not be made yet, and where stock has stopped."""
    scenario.stock_copies_first()
    late = [case for role in FIRST for case in scenario.cases(role) if internal(case)]
    late = [case for case in late if case.right.operation in AT_THE_START]
    for role in FIRST:
        scenario.grant(case for case in scenario.cases(role) if case not in late)
        scenario.start(role)
    making = [case for case in late if case.right.operation == "CREATE"]
    shared = [case for case in making if case.right.on is On.READINESS]
    for case in shared:
        scenario.until(partial(scenario.named, case), case.label)
    scenario.grant(shared)

    def named_now(case: Case) -> bool:
        scenario.refresh(case.role)
        return scenario.named(case)

    for case in sorted(making, key=lambda case: case.right.on is On.SYNCS):  # these are made last
        if case not in shared:
            scenario.until(partial(named_now, case), case.label)
            scenario.grant([case])
    scenario.copied("orders")
    for role in ("group_offset", "checkpoint"):
        for group, topic in zip(GROUPS[role], TOPICS, strict=True):
            scenario.synced(role, group, topic)
    log = scenario.service.process.log.read_text()
    for case in late:
        if case.right.operation == "DESCRIBE_CONFIGS":
            assert message("topics.not_checked", topic=case.name) in log, case.label
            assert case.in_line(scenario.doctor(case.role)), case.label
    scenario.grant(late)
    for role in FIRST:
        assert scenario.doctor(role) == []
        scenario.until(partial(scenario.well, role), f"{role} is well")
    scenario.until(scenario.ready, "the flow is ready")
    copies = Counter(each.value for each in read(scenario.target.bootstrap, "A.orders", committed_only=True))
    assert set(copies.values()) == {1}, "ours went on where stock stopped"


@pytest.mark.long
def test_groups_are_moved_and_set_back_with_these_rights(scenario: RightsScenario) -> None:
    groups = GROUPS["group_offset"]
    for command in ("failover", "rollback"):
        status, output = moving(scenario, command, *groups)
        assert status == 0, output
    for group, topic in zip(groups, TOPICS, strict=True):
        scenario.synced("group_offset", group, topic)


@pytest.mark.long
def test_dry_runs_and_the_flow_back_run_with_exactly_their_rights(scenario: RightsScenario) -> None:
    for group, topic in zip(GROUPS["back"], TOPICS, strict=True):
        scenario.synced("group_offset", group, topic)
    status, output = moving(scenario, "failover", *GROUPS["back"])
    assert status == 0, output
    for role in ("dry", "back"):
        scenario.grant(scenario.cases(role))
        scenario.start(role)
    for role in ("dry", "back"):
        scenario.until(partial(scenario.well, role), f"{role} is well")
        for group, topic in zip(GROUPS[role], TOPICS, strict=True):
            scenario.synced(role, group, topic)
        assert scenario.doctor(role) == []


@pytest.mark.long
def test_by_offset_syncs_alone_no_record_is_read(scenario: RightsScenario) -> None:
    """DESCRIBE on topics and copies is enough where nothing is committed, and is missed."""
    role, group, topic = "syncs", GROUPS["syncs"][1], TOPICS[1]
    cases = scenario.cases(role)
    seen = [case for case in cases if case.right.on in (On.TOPICS, On.COPIES) and not case.right.optional]
    assert {case.right.operation for case in seen} == {"DESCRIBE"}
    scenario.grant(cases)
    scenario.start(role)
    scenario.until(partial(scenario.well, role), f"{role} is well")
    scenario.translated(role, group, topic)
    assert scenario.doctor(role) == []
    for case in (case for case in seen if case.name.endswith(topic)):
        scenario.take(case)
        # What other connectors need there, and includes DESCRIBE.
        reading = case._replace(right=replace(case.right, operation="READ"))
        scenario.until(partial(scenario.named, reading), case.label)
        assert case.in_line(scenario.doctor(role)), scenario.doctor(role)
        scenario.grant([case])
        scenario.translated(role, group, topic)
        scenario.until(partial(scenario.well, role), f"healed: {case.label}")


def moving(scenario: RightsScenario, command: str, *arguments: str) -> tuple[int, str]:
    """Exit status and output of a command that moves groups."""
    given = [command, "--flow", "A-to-B", "--url", scenario.service.url, *arguments]
    done = CliRunner().invoke(app, given)
    return done.exit_code, done.output


@pytest.mark.long
def test_each_right_that_is_taken_away_is_named_and_the_rest_goes_on(scenario: RightsScenario) -> None:
    """The connectors at once: none of them has anything to do with the rights of another one."""
    walks = [Walk(scenario, role) for role in (*FIRST, "dry", "back")]
    with ThreadPoolExecutor(len(walks)) as pool:
        list(pool.map(Walk.all, walks))
    failed = [line for walk in walks for line in walk.failed]
    assert not failed, "\n\n".join(failed)
    taken = {right for walk in walks for right in walk.taken}
    assert [right for right in RIGHTS if right not in taken and not _elsewhere(right)] == []


def _elsewhere(right: Right) -> bool:
    if right.kinds == ("sink",):
        return True  # by the sink below
    made = right.operation in AT_THE_START and right.on.resource == "topic"
    return made or (right.operation, right.on) in ELSEWHERE


class Walk:
    """Through the rights of one connector."""

    def __init__(self, scenario: RightsScenario, role: str) -> None:
        self.scenario, self.role = scenario, role
        self.first, self.second = GROUPS.get(role, ("", ""))
        self.taken: set[Right] = set()
        self.failed: list[str] = []
        self.took: list[str] = []

    def all(self) -> None:
        for case in self.scenario.cases(self.role):
            if not self._walked(case):
                continue
            began = time.monotonic()
            try:
                self.one(case)
            except Exception as error:
                self.failed.append(f"{case.label}: {str(error)[:2000]}")
                self.scenario.grant([case])
            self.taken.add(case.right)
            self.took.append(f"{time.monotonic() - began:5.1f} s {case.label}")

    def _walked(self, case: Case) -> bool:
        right, scenario = case.right, self.scenario
        (topic, *_), (copy, *_) = (scenario.names(self.role, on, TOPICS) for on in (On.TOPICS, On.COPIES))
        names = {On.TOPICS: topic, On.COPIES: copy, On.GROUPS: self.first}
        if case.name != names.get(right.on, case.name):
            return False
        if self.role == "dry":  # the others are those of group_offset
            return (right.operation, right.side, right.on) == ("DESCRIBE", Side.TARGET, On.GROUPS)
        if self.role == "back" and right.optional:
            return False
        made = internal(case) and right.operation in AT_THE_START
        return not made and not (self.role == "source" and (right.operation, right.on) == ("READ", On.COPIES))

    def one(self, case: Case) -> None:
        scenario = self.scenario
        if (case.right.operation, case.right.on) == ("CREATE", On.COPIES):
            case = self._of_new(LATER, case.right)
        begun = scenario.service.process.log.stat().st_size
        scenario.take(case)
        self.stir(case)
        if case.right.by_connect:
            scenario.until(lambda: scenario.failed(case), case.label)
            scenario.grant([case])
            scenario.worker.rest.restart_task(NAME[self.role], 0)
            scenario.worker.rest.wait_running(NAME[self.role])
        else:
            named = scenario.logged if case.right.on in (On.RUNS, On.HEARTBEATS) else scenario.named
            if (case.right.operation, case.right.on) != ("DESCRIBE_CONFIGS", On.COPIES):
                scenario.until(lambda: named(case, begun), case.label)
            assert case.in_line(scenario.doctor(self.role)), scenario.doctor(self.role)
            if self.role == "group_offset" and not case.right.optional:
                scenario.until(lambda: not scenario.ready_group(self.role, self.first), f"a no: {case.label}")
            self.rest(case)
            scenario.grant([case])
        self.healed(case)

    def _of_new(self, topic: str, right: Right) -> Case:
        """With all rights for a topic that is not there yet."""
        cases = [case for case in self.scenario.cases("source", [topic]) if not internal(case)]
        self.scenario.grant(cases)
        return next(case for case in cases if case.right is right)

    def stir(self, case: Case) -> None:
        """What needs the right."""
        source = self.scenario.source.bootstrap
        match case.right.operation, case.right.on:
            case "CREATE", On.COPIES:
                create_topic(source, LATER)
            case "ALTER", On.COPIES:
                add_partitions(source, "orders", 2)
            case "ALTER_CONFIGS", On.COPIES:
                set_topic_config(source, "orders", {"retention.ms": "864000000"})
            case "WRITE", On.STATE if "gaps" in case.name:
                self._gap()
            case "WRITE", On.STATE if "layout" in case.name:
                fresh = f"{LATER}-and-another"
                self._of_new(fresh, _WRITING)
                create_topic(source, fresh)
            case _ if self.role == "source":
                produce(source, "orders", [Record(b"stirred", key=b"s")])
            case "DESCRIBE", On.HEARTBEATS:
                # A restart finds the topic known.
                other = self.scenario.config(self.role) | {"emit.heartbeats.interval.seconds": "2"}
                self.scenario.worker.rest.put(NAME[self.role], other)
            case _ if self.role in GROUPS:
                self.scenario.commit(self.role, self.first, "orders")

    def _gap(self) -> None:
        """Records go before they are copied."""
        source, reading = self.scenario.source.bootstrap, self._of_new(LATER, _READING)
        self.scenario.take(reading)
        produce(source, LATER, [Record(b"lost", key=b"s")] * 3)
        self.scenario.until(lambda: self.scenario.named(reading), "nothing is copied")
        _, end = bounds(source, LATER)[0]
        produce(source, LATER, [Record(b"kept", key=b"s")])
        delete_records(source, LATER, {0: end})
        self.scenario.grant([reading])

    def rest(self, case: Case) -> None:
        """What goes on without the right."""
        if self.role == "heartbeat":
            target = self.scenario.target.bootstrap
            _, before = bounds(target, "heartbeats")[0]
            self.scenario.until(lambda: bounds(target, "heartbeats")[0][1] > before + 1, "heartbeats go on")
        if self.role == "back":
            status, output = moving(self.scenario, "failover", "--back", "--dry-run", self.first)
            assert status in (1, 3), output
        if self.role in GROUPS and case.right.on is not On.OPPOSITE:
            self.scenario.synced(self.role, self.second, "payments")
            if self.role == "back":
                status, output = moving(self.scenario, "failover", "--back", "--dry-run", self.second)
                assert status == 0, output
        elif self.role == "source" and case.right.on not in (On.STATE, On.IDS):
            self.scenario.copied("payments")

    def healed(self, case: Case) -> None:
        if self.role in GROUPS:
            self.scenario.synced(self.role, self.first, "orders")
        elif self.role == "source":
            self.scenario.copied(LATER if case.name.endswith(LATER) else "orders")
        self.scenario.until(lambda: self.scenario.well(self.role), f"healed: {case.label}")


@pytest.mark.long
def test_groups_come_home_with_these_rights(scenario: RightsScenario) -> None:
    groups = GROUPS["back"]
    status, output = moving(scenario, "failover", "--back", *groups)
    assert status == 0, output

    def home() -> None:
        reports = [scenario.client.report(group, NAME["group_offset"]) for group in groups]
        assert all(each["ready"] for each in reports), reports

    scenario.until(home, "the groups are the first flow's again")


@pytest.mark.long
def test_a_take_over_waits_for_the_ids_of_the_connector_before_it(scenario: RightsScenario) -> None:
    """Which goes on meanwhile. When it is done nobody needs them any more."""
    cases = scenario.cases("heir")
    (ids,) = (case for case in cases if case.right.on is On.OTHERS_IDS)
    (sizes,) = (
        case
        for case in cases
        if (case.right.operation, case.right.on, case.name) == ("DESCRIBE_CONFIGS", On.COPIES, "A.orders")
    )
    scenario.grant(case for case in cases if case not in (ids, sizes))
    scenario.start("heir")
    scenario.until(partial(scenario.named, ids), ids.label)
    findings = scenario.doctor("heir")
    assert ids.in_line(findings), findings
    assert sizes.in_line(findings), findings
    scenario.copied("orders")
    scenario.grant([ids])
    scenario.until(partial(scenario.well, "heir"), "the take-over is done")
    scenario.worker.rest.stop(NAME["source"])
    scenario.take(ids)
    add_partitions(scenario.source.bootstrap, "payments", 2)
    for topic in TOPICS:
        scenario.copied(topic)
    assert scenario.well("heir")
    findings = scenario.doctor("heir")
    assert sizes.in_line(findings), findings
    scenario.grant([ids, sizes])
    assert scenario.doctor("heir") == []


@pytest.mark.long
@pytest.mark.soak
def test_a_sink_runs_with_exactly_its_rights(scenario: RightsScenario) -> None:
    """Those of Connect's clients are taken away; of the copy they are the source connector's, and are taken above."""
    rights = SinkRights.of(scenario)
    rights.start()
    rights.runs()
    assert scenario.doctor("sink") == []
    rights.a_topic_that_is_not_there_needs_its_right()
    assert rights.each_of_connects_is_named() == {each for each in RIGHTS if each.kinds == ("sink",)}


@pytest.mark.long
def test_an_index_needs_exactly_its_rights(
    scenario: RightsScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Spark, which has nothing to do with clusters but by the tasks."""
    monkeypatch.setattr("bridge.pipeline.driver.jobs.SparkJobs", lambda *_: InProcess())
    cases = index_cases(scenario)
    scenario.grant(cases)
    *others, making = sorted(cases, key=lambda case: case.right.operation == "CREATE")
    for missed in (making, *others):
        scenario.take(missed)
        status, output = run_index(scenario, tmp_path)
        assert status == 1, (missed.label, output)
        assert missed.in_line(output.splitlines()), (missed.label, output)
        scenario.grant([missed])
    status, output = run_index(scenario, tmp_path)
    assert status == 0, output


@pytest.mark.long
def test_an_audit_needs_exactly_its_rights(scenario: RightsScenario, tmp_path: Path) -> None:
    cases = audit_cases(scenario)
    scenario.grant(cases)
    with spark_session(tmp_path) as spark:
        for missed in cases:
            scenario.take(missed)
            verdict, failures = run_audit(scenario, spark)
            assert verdict is AuditVerdict.NOT_KNOWN, (missed.label, failures)
            assert missed.in_line(failures), (missed.label, failures)
            scenario.grant([missed])
        assert run_audit(scenario, spark) == (AuditVerdict.EQUAL, [])

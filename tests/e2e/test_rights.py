"""Each right of the table, on real brokers: with exactly those everything runs; each that is taken away is named by
operation and resource, stops what it is for and nothing else, and what it stopped goes on when it is given back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.doctor.needs import RIGHTS, On, Right
from bridge.local import LocalStack
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

KINDS = tuple(NAME)
AT_THE_START = {"CREATE", "DESCRIBE_CONFIGS"}
"""What is asked of internal topics while they are made."""
ELSEWHERE: dict[tuple[str, On], str] = {
    (
        "DESCRIBE_CONFIGS",
        On.COPIES,
    ): "of the copy, with sync.topic.configs.enabled=false: the doctor's unit tests",
    ("DESCRIBE", On.GROUPS): "dry.run=true: as READ, which includes it",
    ("READ", On.COPIES): "of the copy: tests/integration/test_pipeline_faults.py",
    ("DESCRIBE", On.HEARTBEATS): "at the start: without it nobody could tell that the topic is missing",
}


(_WRITING,) = (right for right in RIGHTS if (right.operation, right.on) == ("WRITE", On.COPIES))
_READING = RIGHTS[0]


@pytest.fixture(scope="module")
def scenario(stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RightsScenario]:
    made = RightsScenario.of(stack, tmp_path_factory.mktemp("tls"))
    prepare(made)
    yield made
    made.end()


def internal(case: Case) -> bool:
    return case.right.on not in (On.TOPICS, On.COPIES, On.GROUPS, On.CLUSTER, On.IDS)


def test_with_exactly_these_rights_everything_runs(scenario: RightsScenario) -> None:
    """From the start, when internal topics are missing and may not be made yet, and where stock has stopped."""
    scenario.stock_copies_first()
    late = [case for kind in KINDS for case in scenario.cases(kind) if internal(case)]
    late = [case for case in late if case.right.operation in AT_THE_START]
    for kind in KINDS:
        scenario.grant(case for case in scenario.cases(kind) if case not in late)
        scenario.start(kind)
    making = [case for case in late if case.right.operation == "CREATE"]
    shared = [case for case in making if case.right.on is On.READINESS]
    for case in shared:
        scenario.until(partial(scenario.named, case), case.said)
    scenario.grant(shared)

    def named_now(case: Case) -> bool:
        scenario.refresh(case.kind)
        return scenario.named(case)

    for case in sorted(making, key=lambda case: case.right.on is On.SYNCS):  # these are made last
        if case not in shared:
            scenario.until(partial(named_now, case), case.said)
            scenario.grant([case])
    scenario.copied("orders")
    for kind, (first, second) in GROUPS.items():
        scenario.synced(kind, first, "orders")
        scenario.synced(kind, second, "payments")
    log = scenario.service.process.log.read_text()
    for case in late:
        if case.right.operation == "DESCRIBE_CONFIGS":
            assert f"can't verify that the cleanup.policy of topic {case.name} is compact" in log, case.said
            assert case.in_line(scenario.doctor(case.kind)), case.said
    scenario.grant(late)
    for kind in KINDS:
        assert scenario.doctor(kind) == []
        scenario.until(partial(scenario.well, kind), f"{kind} is well")
    copies = Counter(each.value for each in read(scenario.target.bootstrap, "A.orders", committed_only=True))
    assert set(copies.values()) == {1}, "ours went on where stock stopped"


def test_groups_are_moved_and_set_back_with_these_rights(scenario: RightsScenario) -> None:
    groups = GROUPS["group_offset"]
    for command in ("failover", "rollback"):
        done = CliRunner().invoke(app, [command, "--flow", "A-to-B", "--url", scenario.service.url, *groups])
        assert done.exit_code == 0, done.output
    for group, topic in zip(groups, TOPICS, strict=True):
        scenario.synced("group_offset", group, topic)


@pytest.mark.timeout(900)
def test_each_right_that_is_taken_away_is_named_and_the_rest_goes_on(scenario: RightsScenario) -> None:
    """The connectors at once: none of them has anything to do with the rights of another one."""
    walks = [Walk(scenario, kind) for kind in KINDS]
    with ThreadPoolExecutor(len(walks)) as pool:
        list(pool.map(Walk.all, walks))
    failed = [line for walk in walks for line in walk.failed]
    assert not failed, "\n\n".join(failed)
    taken = {right for walk in walks for right in walk.taken}
    assert [right for right in RIGHTS if right not in taken and not _elsewhere(right)] == []


def _elsewhere(right: Right) -> bool:
    made = right.operation in AT_THE_START and right.on.resource == "topic"
    return made or (right.operation, right.on) in ELSEWHERE or right.on is On.OTHERS_IDS


class Walk:
    """Through the rights of one connector."""

    def __init__(self, scenario: RightsScenario, kind: str) -> None:
        self.scenario, self.kind = scenario, kind
        self.first, self.second = GROUPS.get(kind, ("", ""))
        self.taken: set[Right] = set()
        self.failed: list[str] = []
        self.took: list[str] = []

    def all(self) -> None:
        names = {On.TOPICS: "orders", On.COPIES: "A.orders", On.GROUPS: self.first}
        for case in self.scenario.cases(self.kind):
            of_copy = self.kind == "source" and (case.right.operation, case.right.on) == ("READ", On.COPIES)
            if case.name != names.get(case.right.on, case.name) or of_copy or self._at_the_start(case):
                continue
            began = time.monotonic()
            try:
                self.one(case)
            except Exception as error:
                self.failed.append(f"{case.said}: {str(error)[:2000]}")
                self.scenario.grant([case])
            self.taken.add(case.right)
            self.took.append(f"{time.monotonic() - began:5.1f} s {case.said}")

    def _at_the_start(self, case: Case) -> bool:
        made = internal(case) and case.right.operation in AT_THE_START
        return made or (case.right.operation, case.right.on) == ("DESCRIBE", On.HEARTBEATS)

    def one(self, case: Case) -> None:
        scenario = self.scenario
        if (case.right.operation, case.right.on) == ("CREATE", On.COPIES):
            case = self._of_new(LATER, case.right)
        begun = scenario.service.process.log.stat().st_size
        scenario.take(case)
        self.stir(case)
        if case.right.by_connect:
            scenario.until(lambda: scenario.failed(case), case.said)
            scenario.grant([case])
            scenario.worker.rest.restart_task(NAME[self.kind], 0)
            scenario.worker.rest.wait_running(NAME[self.kind])
        else:
            named = scenario.logged if case.right.on is On.RUNS else scenario.named
            if (case.right.operation, case.right.on) != ("DESCRIBE_CONFIGS", On.COPIES):
                scenario.until(lambda: named(case, begun), case.said)
            assert case.in_line(scenario.doctor(self.kind)), scenario.doctor(self.kind)
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
            case _ if self.kind == "source":
                produce(source, "orders", [Record(b"stirred", key=b"s")])
            case _ if self.kind in GROUPS:
                self.scenario.commit(self.first, "orders")

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
        if self.kind in GROUPS and case.right.on is not On.OPPOSITE:
            self.scenario.synced(self.kind, self.second, "payments")
        elif self.kind == "source" and case.right.on not in (On.STATE, On.IDS):
            self.scenario.copied("payments")

    def healed(self, case: Case) -> None:
        if self.kind in GROUPS:
            self.scenario.synced(self.kind, self.first, "orders")
        elif self.kind == "source":
            self.scenario.copied(LATER if case.name.endswith(LATER) else "orders")
        self.scenario.until(lambda: self.scenario.well(self.kind), f"healed: {case.said}")

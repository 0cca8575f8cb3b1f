"""The rights of a sink connector, on the clusters of the scenario of rights: its own, and those of Connect's consumer
and admin client, each with a user of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from bridge.doctor.needs import By, On, Right
from bridge.local import ConnectFailed
from tests.e2e.flow import committed_offsets
from tests.e2e.rights_scenario import NAME, SUNK, Case, RightsScenario
from tests.support import bounds, create_topic

SINK = "sink"
FIRST, _, MISSING = SUNK
"""One that is copied, and one that the key topics names and nobody has made."""


@dataclass(frozen=True)
class SinkRights:
    scenario: RightsScenario
    cases: Sequence[Case]

    @staticmethod
    def of(scenario: RightsScenario) -> SinkRights:
        """Makes its topics."""
        for topic in SUNK:
            if topic != MISSING:
                create_topic(scenario.source.bootstrap, topic)
        return SinkRights(scenario, scenario.cases(SINK, SUNK))

    def start(self) -> None:
        self.scenario.grant(self.cases)
        self.scenario.start(SINK)

    def runs(self) -> None:
        """A record is copied, and Connect's group is committed at the end of the log."""
        scenario = self.scenario
        scenario.copied(FIRST)
        _, end = bounds(scenario.source.bootstrap, FIRST)[0]

        def committed() -> None:
            (group,) = scenario.names(SINK, On.CONNECTS_GROUP, ())
            assert committed_offsets(scenario.source.bootstrap, group)[FIRST, 0] == end

        scenario.until(committed, "Connect's group is committed where the copy is")
        scenario.until(lambda: scenario.well(SINK), "the sink is well")

    def a_topic_that_is_not_there_needs_its_right(self) -> None:
        """The connector names it, and copies the others."""
        (case,) = (
            each
            for each in self.cases
            if each.name == MISSING
            and each.right.by is By.OURSELVES
            and (each.right.operation, each.right.on) == ("READ", On.TOPICS)
        )
        self.scenario.take(case)
        self.scenario.until(lambda: self.scenario.named(case), case.label)
        assert case.in_line(self.scenario.doctor(SINK)), self.scenario.doctor(SINK)
        self.scenario.copied(FIRST)
        self.scenario.grant([case])
        self.scenario.until(lambda: self.scenario.well(SINK), f"healed: {case.label}")

    def each_of_connects_is_named(self) -> set[Right]:
        """Takes away those of Connect's clients: the task, or the change of offsets, fails, and goes on when it has the
        right again. Returns the rights that were taken."""
        ours = [each for each in self.cases if each.right.by_connect and each.name in (FIRST, self._group)]
        for case in ours:
            if case.right.by is By.CONSUMER:
                self._fails_the_task(case)
        self.runs()
        rest, name = self.scenario.rest(SINK), NAME[SINK]
        rest.stop(name)
        rest.wait_state(name, "STOPPED", tasks=0)
        for case in ours:
            if case.right.by is By.ADMIN:
                self._refuses_a_change(case)
        rest.resume(name)
        rest.wait_running(name)
        self.runs()
        return {case.right for case in ours}

    @property
    def _group(self) -> str:
        (group,) = self.scenario.names(SINK, On.CONNECTS_GROUP, ())
        return group

    def _fails_the_task(self, case: Case) -> None:
        rest, name = self.scenario.rest(SINK), NAME[SINK]
        self.scenario.take(case)
        self.scenario.until(lambda: self.scenario.failed(case), case.label)
        self.scenario.grant([case])
        rest.restart_task(name, 0)
        rest.wait_running(name)

    def _refuses_a_change(self, case: Case) -> None:
        worker = self.scenario.sinks_worker
        name, log = NAME[SINK], worker.process.log

        def change() -> None:
            if case.right.operation == "DELETE":
                worker.rest.call("DELETE", f"/connectors/{name}/offsets")
            else:
                start, _ = bounds(self.scenario.source.bootstrap, FIRST)[0]
                place = {"kafka_topic": FIRST, "kafka_partition": 0}
                worker.rest.alter_offsets(name, [(place, {"kafka_offset": start})])

        change()
        begun = log.stat().st_size
        self.scenario.take(case)
        with pytest.raises(ConnectFailed, match=rf"Failed to .* consumer group .*{name}"):
            change()
        cause = f"{case.right.on.resource.capitalize()}AuthorizationException"
        assert cause in log.read_bytes()[begun:].decode(), case.label
        self.scenario.grant([case])
        change()

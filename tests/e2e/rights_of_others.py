"""Who needs rights of their own beside connectors, on the clusters of the scenario of rights: nodes of dedicated mode,
and the commands index and audit. Each has a user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from bridge.audit.report import AuditVerdict
from bridge.cli import app
from bridge.dedicated.stock_offsets import OffsetWriter
from bridge.doctor.needs import AUDIT, DEDICATED, INDEX, RIGHTS, By, On, Right
from bridge.errors import KafkaFailure
from bridge.local import NO_AUTHORITIES, MirrorNode
from bridge.mm2.records import Heartbeat
from bridge.spark.auditing.options import read_options
from bridge.spark.auditing.running import audited
from connectors.registry import KINDS
from tests.e2e.dedicated import FAST, health, mm2, running, runs, some, wait_values
from tests.e2e.flow import committed_offsets
from tests.e2e.rights_scenario import A, B, Case, RightsScenario
from tests.support import bounds, commit, create_topic, eventually, numbered, produce, read
from tests.support.waits import WAIT

NODE, INDEXER, AUDITOR = "node", "indexer", "auditor"
FLOW, TOPIC, COPY, GROUP = "near->far", "node-orders", "near.node-orders", "node-readers"
TIME = 1_700_000_000_000
LEFT = 5
"""Records that a stock mirror has copied."""
NODES_NAMES: Mapping[On, Sequence[str]] = {
    On.CLUSTER: ["kafka-cluster"],
    On.TOPICS: [TOPIC],
    On.COPIES: [COPY],
    On.GROUPS: [GROUP],
    On.IDS: ["mirror-bridge-near-near->far.MirrorSourceConnector-"],
    On.OTHERS_IDS: [],
    On.STATE: ["mm2-offset-runs.near.internal", "mm2-layout.near.internal", "mm2-gaps.near.internal"],
    On.RUNS: ["mm2-offset-runs.near.internal"],
    On.READINESS: ["mm2-group-readiness.near.internal"],
    On.SYNCS: ["mm2-offset-syncs.far.internal"],
    On.CHECKPOINTS: ["near.checkpoints.internal"],
    On.OTHER_FLOWS: [],
    On.HEARTBEATS: ["heartbeats"],
    On.NODES: ["near-mm2"],
    On.CONFIGS: ["mm2-configs.near.internal"],
    On.OFFSETS: ["mm2-offsets.near.internal"],
    On.RECORDS_ID: ["mirror-bridge-near-near->far-records"],
}
_FILE = {
    "topics": TOPIC,
    "groups": GROUP,
    "heartbeats.replication.enabled": "false",
    "far->near.emit.heartbeats.enabled": "false",
    "emit.heartbeats.interval.seconds": "1",
}


def _cases(user: str, rights: Sequence[Right], names: Mapping[On, Sequence[str]]) -> list[Case]:
    return [Case(user, right, name) for right in rights for name in names[right.on]]


def _of_the_flow() -> list[Right]:
    """What a node needs with this file: of the flow's connectors, and its own. It is Connect's producer too."""

    def needed(right: Right, kind: str) -> bool:
        keys, given = KINDS[kind].definition.keys, FAST | _FILE
        return right.needed(lambda key: given.get(key, keys[key].default_text) if key in keys else None)

    kinds = ("source", "checkpoint", "heartbeat")
    return [
        *(
            replace(right, by=By.OURSELVES)
            for right in RIGHTS
            if any(kind in right.kinds and needed(right, kind) for kind in kinds)
        ),
        *(right for right in DEDICATED if right.by is By.OURSELVES),
    ]


@dataclass(frozen=True)
class DedicatedScenario:
    """A flow of dedicated mode, whose nodes have one user."""

    scenario: RightsScenario
    file: Path
    cases: Sequence[Case]
    _values: list[bytes | None] = field(default_factory=list)

    @staticmethod
    def of(scenario: RightsScenario, directory: Path) -> DedicatedScenario:
        logins = {
            **scenario.login("near", A, NODE),
            **scenario.login("far", B, NODE),
        }
        clusters = {"near": scenario.source, "far": scenario.target}
        file = mm2(directory / "mm2.properties", clusters, [FLOW], _FILE | logins)
        # Connectors need some of them for reasons of their own: the user has each once.
        cases = {
            (case.cluster, case.right.operation, case.right.on.resource, case.name): case
            for case in _cases(NODE, _of_the_flow(), NODES_NAMES)
        }
        return DedicatedScenario(scenario, file, list(cases.values()))

    def stock_was_here(self) -> None:
        """Some records are copied, and the offset of the last one is where stock's workers would have it."""
        source, target = self.scenario.source.bootstrap, self.scenario.target.bootstrap
        for bootstrap, topic in ((source, TOPIC), (target, COPY)):
            create_topic(bootstrap, topic)
            produce(bootstrap, topic, some(LEFT))
        (offsets,) = NODES_NAMES[On.OFFSETS]
        create_topic(target, offsets, 1, {"cleanup.policy": "compact"})
        writer = OffsetWriter({"bootstrap.servers": target}, offsets, "MirrorSourceConnector")
        writer.write([({"cluster": "near", "partition": 0, "topic": TOPIC}, LEFT - 1)])
        self._values.extend(each.value for each in some(LEFT))

    @contextmanager
    def node(self, name: str) -> Iterator[MirrorNode]:
        self.scenario.grant(case for case in self.cases if case not in self._own)
        with running(self.file.parent, self.file, name=name) as node:
            yield node

    @property
    def _own(self) -> list[Case]:
        """What only dedicated mode needs, in the order in which it is missed."""
        order = [
            ("READ", On.CONFIGS),
            ("CREATE", On.CONFIGS),
            ("READ", On.NODES),
            ("WRITE", On.RECORDS_ID),
            ("READ", On.OFFSETS),
        ]
        own = {(case.right.operation, case.right.on): case for case in self.cases if case.right in DEDICATED}
        assert own.keys() == set(order)
        return [own[key] for key in order]

    def each_is_named_before_it_is_granted(self, node: MirrorNode) -> None:
        for case in self._own:
            self._named(node, case)
            self.scenario.grant([case])

    def _named(self, node: MirrorNode, case: Case) -> None:
        def named() -> None:
            found = health(node)
            lines = [each["detail"] or "" for each in found["flows"]]
            lines += [error for each in found["connectors"] for error in each["errors"]]
            assert case.in_line(lines), lines

        eventually(named, WAIT, what=case.label, watched=[node.process])

    def each_is_taken_from_the_running_flow(self, node: MirrorNode) -> None:
        """And is named; the flow goes on when it is given back. Where stock has stopped is read at the start alone."""
        for case in self._own:
            if case.right.on is not On.OFFSETS and case.right.operation != "CREATE":
                self.scenario.take(case)
                self._named(node, case)
                self.scenario.grant([case])
                self.runs_on(node)

    def another_takes_over(self) -> None:
        """A node that is killed loses the flow to the second one, which needs no other rights."""
        with self.node("second") as second, self.node("third") as third:
            eventually(
                lambda: runs(second) == {FLOW}, WAIT, what="the second has it", watched=[second.process]
            )
            second.kill()
            eventually(lambda: runs(third) == {FLOW}, WAIT, what="the third has it", watched=[third.process])
            self.runs_on(third)

    def _well(self, node: MirrorNode) -> None:
        def well() -> None:
            """A gap that is none is told of for a day: what stock has copied stands in no run."""
            found = health(node)
            (flow,) = found["flows"]
            assert (flow["state"], flow["detail"]) == ("running", None), flow
            errors = [error for each in found["connectors"] for error in each["errors"]]
            assert all("target_not_empty" in error for error in errors), errors

        eventually(well, WAIT, what="all is well", watched=[node.process])

    def runs_on(self, node: MirrorNode) -> None:
        """Records are copied once, the group follows, and checkpoints and heartbeats are written."""
        source, target = self.scenario.source.bootstrap, self.scenario.target.bootstrap
        start = len(self._values)
        produce(source, TOPIC, some(5, start=start))
        self._values.extend(each.value for each in some(5, start=start))
        wait_values(self.scenario.target, COPY, self._values, node)
        # A flow that starts again leaves a marker between the copies.
        there = read(target, COPY, committed_only=True)[start + 2].offset
        # Before the group moves: its checkpoint may be written as soon as it has.
        before = self._beats(), bounds(target, "near.checkpoints.internal")[0][1]
        commit(source, GROUP, {(TOPIC, 0): start + 2})

        def goes_on() -> None:
            at = committed_offsets(target, GROUP)
            assert at == {(COPY, 0): there}, (at, there, self._report(node))
            after = self._beats(), bounds(target, "near.checkpoints.internal")[0][1]
            assert after[0] > before[0], "no heartbeat"
            assert after[1] > before[1], ("no checkpoint", self._report(node), health(node))

        eventually(goes_on, WAIT, what=f"the flow goes on, on {node.name}", watched=[node.process])
        self._well(node)

    def _report(self, node: MirrorNode) -> object:
        return httpx.get(f"{node.url}/v1/groups/{GROUP}", timeout=30, verify=NO_AUTHORITIES).json()

    def _beats(self) -> int:
        records = read(self.scenario.target.bootstrap, "heartbeats", committed_only=True)
        beats = (Heartbeat.decode(each.key, each.value) for each in records)
        return sum(each.source_alias == "near" for each in beats)


# -- commands ----------------------------------------------------------------------------------------------------------


def index_cases(scenario: RightsScenario) -> list[Case]:
    """With a topic that somebody else has copied."""
    _copied_by_others(scenario, "indexed", "S")
    names = {
        On.TOPICS: ["indexed"],
        On.COPIES: ["S.indexed"],
        On.LAYOUT: ["mm2-layout.S.internal"],
        On.RUNS: ["mm2-offset-runs.S.internal"],
        On.INDEX_ID: ["mirror-bridge-S-index of S-driver"],
    }
    return _cases(INDEXER, INDEX, names)


def run_index(scenario: RightsScenario, directory: Path) -> tuple[int, str]:
    """In this process."""
    file = directory / "connector.json"
    file.write_text(json.dumps(_config(scenario, INDEXER, "S", "indexed")))
    done = CliRunner().invoke(app, ["index", "--config", str(file), "--output", "json"])
    return done.exit_code, done.output


def audit_cases(scenario: RightsScenario) -> list[Case]:
    """With a topic that somebody else has copied."""
    _copied_by_others(scenario, "audited", "T")
    names = {
        On.TOPICS: ["audited"],
        On.COPIES: ["T.audited"],
        On.RUNS: ["mm2-offset-runs.T.internal"],
    }
    return _cases(AUDITOR, AUDIT, names)


def run_audit(scenario: RightsScenario, spark: SparkSession) -> tuple[AuditVerdict, list[str]]:
    """The verdict, and what could not be compared."""
    options = read_options(_config(scenario, AUDITOR, "T", "audited"))
    try:
        report = audited(spark, options)
    except KafkaFailure as failure:
        return AuditVerdict.NOT_KNOWN, [str(failure)]
    failures = [*report.failures, *(text for part in report.partitions for text in part.failures)]
    return report.verdict, failures


def _copied_by_others(scenario: RightsScenario, topic: str, alias: str) -> None:
    for cluster, name in ((scenario.source, topic), (scenario.target, f"{alias}.{topic}")):
        create_topic(cluster.bootstrap, name)
        produce(cluster.bootstrap, name, numbered(20, timestamp=TIME))


def _config(scenario: RightsScenario, user: str, alias: str, topic: str) -> dict[str, str]:
    return {
        "name": "mirror",
        "connector.class": "BridgeMirrorSourceConnector",
        "source.cluster.alias": alias,
        "target.cluster.alias": "B",
        "topics": topic,
        "offset-syncs.topic.replication.factor": "1",
        "replication.factor": "1",
        "spark.master": "local[1]",
        **scenario.login("source.cluster", A, user),
        **scenario.login("target.cluster", B, user),
    }

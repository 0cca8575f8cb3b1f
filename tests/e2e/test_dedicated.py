"""Dedicated mode between three real clusters by one command: in a ring; both ways with a fan-out and a fan-in; as a
diamond. And by another one, for one of the clusters only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.client import heartbeat_topics, translate_offsets, upstream_clusters
from bridge.local import Cluster, MirrorNode
from bridge.model.values import TopicPartition
from tests.e2e.dedicated import dedicated_stack, health, mm2, running, some, wait_heartbeats, wait_values
from tests.e2e.flow import committed_offsets
from tests.support import admin, commit, create_topic, eventually, produce, unique
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

COUNT = 100


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Cluster]]:
    with dedicated_stack(tmp_path_factory.mktemp("dedicated")) as stack:
        stack.start_clusters()
        yield {name: stack.cluster(name) for name in ("A", "B", "C")}


@dataclass(frozen=True)
class Running:
    """A node, and the clusters by alias."""

    node: MirrorNode
    clusters: Mapping[str, Cluster]

    def bootstrap(self, alias: str) -> str:
        return self.clusters[alias].bootstrap

    def filled(self, alias: str, what: str) -> str:
        """A topic with records on that cluster."""
        topic = create_topic(self.bootstrap(alias), unique(what))
        produce(self.bootstrap(alias), topic, some(COUNT))
        return topic

    def wait_copied(self, alias: str, topic: str) -> None:
        expected = [each.value for each in some(COUNT)]
        eventually(
            lambda: topic in self.topics(alias), WAIT, what=f"{topic} on {alias}", watched=[self.node.process]
        )
        wait_values(self.clusters[alias], topic, expected, self.node)

    def topics(self, alias: str) -> set[str]:
        return set(admin(self.bootstrap(alias)).list_topics(timeout=60).topics)

    def wait_group(self, alias: str, group: str, expected: dict[tuple[str, int], int]) -> None:
        def stands() -> None:
            current = committed_offsets(self.bootstrap(alias), group)
            assert current == expected, f"{group} stands at {current}"

        eventually(stands, WAIT, what=f"{group} at {expected} on {alias}", watched=[self.node.process])

    def wait_checkpoint(self, alias: str, source: str, group: str, topic: str, offset: int) -> None:
        """Until the checkpoints of `source` say this of the group, whatever is committed for it."""
        props, expected = {"bootstrap.servers": self.bootstrap(alias)}, {TopicPartition(topic, 0): offset}

        def stands() -> None:
            found = translate_offsets(props, source, group, 30.0)
            assert {tp: each.offset for tp, each in found.items()} == expected, found

        eventually(stands, WAIT, what=f"checkpoints of {group}", watched=[self.node.process])


RING = ("A->B", "B->C", "C->A")
WEB = ("A->B", "B->A", "A->C", "B->C")
"""A and B both ways, and both to C."""
DIAMOND = ("A->B", "A->C", "two->four", "three->four")
"""From A to four by B and by C. On their second leg these are `two` and `three`, and four is the cluster of A again:
names and flows are all that counts."""


@pytest.fixture(scope="module")
def mirror(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One node for all three, which share the Spark drivers of their flows. Topics say which of the three they are in
    by what their names begin with."""
    directory = tmp_path_factory.mktemp("mirror")
    aliases = {**clusters, "two": clusters["B"], "three": clusters["C"], "four": clusters["A"]}
    patterns: dict[str, list[str]] = {}
    for flows, pattern in ((RING, r".*ring-.*"), (WEB, "web-.*"), (DIAMOND[:2], "diamond-.*")):
        for flow in flows:
            patterns.setdefault(flow, []).append(pattern)
    beating = {f"{flow}.emit.heartbeats.enabled": "true" for flow in patterns}
    apart = {"emit.heartbeats.enabled": "false"}
    for flow in DIAMOND[2:]:
        patterns[flow] = [r"A\.diamond-.*"]
        apart[f"{flow}.heartbeats.replication.enabled"] = "false"
    topics = {f"{flow}.topics": ",".join(some) for flow, some in patterns.items()}
    file = mm2(directory / "mm2.properties", aliases, [*patterns], topics | beating | apart)
    with running(directory, file) as node:
        yield Running(node, aliases)


class TestRing:
    def test_a_chain_goes_on_from_cluster_to_cluster(self, mirror: Running) -> None:
        topic = mirror.filled("A", "ring-chain")
        mirror.wait_copied("B", f"A.{topic}")
        mirror.wait_copied("C", f"B.A.{topic}")

    def test_no_topic_comes_home(self, mirror: Running) -> None:
        topics = {alias: mirror.filled(alias, f"ring-home-{alias}") for alias in ("A", "B", "C")}
        mirror.wait_copied("B", f"A.{topics['A']}")
        mirror.wait_copied("C", f"B.A.{topics['A']}")
        mirror.wait_copied("A", f"C.B.{topics['B']}")
        mirror.wait_copied("B", f"A.C.{topics['C']}")
        # Each flow has found what it copies of all three: what would come home would be there by now.
        for alias in ("A", "B", "C"):
            copies = [each.split(".") for each in mirror.topics(alias)]
            assert not [each for each in copies if alias in each[:-1] and each[-1].startswith("ring-")]

    def test_a_group_follows_the_chain(self, mirror: Running) -> None:
        topic, group = mirror.filled("A", "ring-group"), unique("group")
        mirror.wait_copied("B", f"A.{topic}")
        commit(mirror.bootstrap("A"), group, {(topic, 0): 40})
        mirror.wait_group("B", group, {(f"A.{topic}", 0): 40})
        mirror.wait_group("C", group, {(f"B.A.{topic}", 0): 40})

    def test_health_names_the_flows_and_their_connectors(self, mirror: Running) -> None:
        waiting = {f"{flow}.MirrorSourceConnector" for flow in {*WEB, *DIAMOND} - {*RING}}

        def well() -> None:
            # What these copy other tests make.
            conditions = [
                (each["name"], condition)
                for each in health(mirror.node)["connectors"]
                for condition in each["conditions"]
                if (condition["condition"], each["name"] in waiting) != ("not_begun", True)
            ]
            assert conditions == []

        eventually(well, WAIT, what="all is well", watched=[mirror.node.process])
        found = health(mirror.node)
        flows = {each["flow"]: each for each in found["flows"]}
        assert {name for name, each in flows.items() if each["copies"]} == {*RING, *WEB, *DIAMOND}
        assert {each["state"] for each in flows.values()} == {"running"}
        assert {each["node"].rpartition(":")[2] for each in flows.values()} == {str(mirror.node.port)}
        known = {each["name"] for each in found["connectors"]}
        assert {"A->B.MirrorSourceConnector", "C->A.MirrorCheckpointConnector"} <= known
        assert known == {name for each in flows.values() for name in each["connectors"]}


class TestWeb:
    def test_active_active(self, mirror: Running) -> None:
        there, back = mirror.filled("A", "web-A"), mirror.filled("B", "web-B")
        mirror.wait_copied("B", f"A.{there}")
        mirror.wait_copied("A", f"B.{back}")
        groups = {alias: unique(f"group-{alias}") for alias in ("A", "B")}
        commit(mirror.bootstrap("A"), groups["A"], {(there, 0): 70})
        commit(mirror.bootstrap("B"), groups["B"], {(back, 0): 30})
        mirror.wait_group("B", groups["A"], {(f"A.{there}", 0): 70})
        mirror.wait_group("A", groups["B"], {(f"B.{back}", 0): 30})
        mirror.wait_checkpoint("B", "A", groups["A"], f"A.{there}", 70)
        mirror.wait_checkpoint("A", "B", groups["B"], f"B.{back}", 30)

    def test_fan_out(self, mirror: Running) -> None:
        topic = mirror.filled("A", "web-out")
        mirror.wait_copied("B", f"A.{topic}")
        mirror.wait_copied("C", f"A.{topic}")

    def test_fan_in(self, mirror: Running) -> None:
        name = unique("web-in")
        for alias in ("A", "B"):
            create_topic(mirror.bootstrap(alias), name)
            produce(mirror.bootstrap(alias), name, some(COUNT))
        for alias in ("A", "B"):
            mirror.wait_copied("C", f"{alias}.{name}")

    def test_heartbeats_come_from_each_source(self, mirror: Running) -> None:
        props = {"bootstrap.servers": mirror.bootstrap("C")}

        def arrive() -> None:
            assert {"A.heartbeats", "B.heartbeats"} <= set(heartbeat_topics(props))
            assert {"A", "B"} <= set(upstream_clusters(props))

        eventually(arrive, WAIT, what="heartbeats", watched=[mirror.node.process])
        # Written into A itself by the flow B->A, and copied from there.
        written = wait_heartbeats(mirror.clusters["A"], "heartbeats", ("B", "A"), mirror.node)
        copied = wait_heartbeats(mirror.clusters["B"], "A.heartbeats", ("B", "A"), mirror.node)
        assert copied == written


class TestDiamond:
    def test_both_copies_arrive_under_their_names_and_a_group_has_offsets_in_both(
        self, mirror: Running
    ) -> None:
        topic, group = mirror.filled("A", "diamond"), unique("group")
        for alias in ("two", "three"):
            mirror.wait_copied(alias, f"A.{topic}")
            mirror.wait_copied("four", f"{alias}.A.{topic}")
        commit(mirror.bootstrap("A"), group, {(topic, 0): 60})
        expected = {(f"{alias}.A.{topic}", 0): 60 for alias in ("two", "three")}
        mirror.wait_group("four", group, {(topic, 0): 60} | expected)


def test_one_cluster_only(clusters: Mapping[str, Cluster], tmp_path: Path) -> None:
    """--clusters: flows into it, and the heartbeats of their sources. SIGTERM drains, and ends with 0."""
    aliases = {"near": clusters["B"], "far": clusters["A"]}
    properties = {
        "topics": "only-.*,heartbeats",
        "heartbeats.replication.enabled": "false",
        "plugin.path": "/plugins",
        "near.bootstrap.server": "elsewhere:9092",
    }
    file = mm2(tmp_path / "mm2.properties", aliases, ["far->near", "near->far"], properties)
    with running(tmp_path, file, "--clusters", "near") as node:
        there = Running(node, aliases)
        topic = there.filled("far", "only-there")
        there.filled("near", "only-back")
        there.wait_copied("near", f"far.{topic}")
        eventually(
            lambda: "far.heartbeats" in there.topics("near"),
            WAIT,
            what="heartbeats of the source",
            watched=[node.process],
        )
        flows = {each["flow"]: each["copies"] for each in health(node)["flows"]}
        assert flows == {"far->near": True, "near->far": False}
        assert not any(each.startswith("near.only") for each in there.topics("far"))
        node.stop()
        assert node.process.exit_status == 0
        log = node.process.log.read_text()
        assert "Traceback" not in log
        assert "shutdown complete" in log
        # Once each, and from the start.
        unused = [line for line in log.splitlines() if "ignored in dedicated mode: " in line]
        assert len([line for line in unused if "plugin.path" in line]) == 1, unused
        (doubt,) = [line for line in log.splitlines() if "did you mean" in line]
        assert "'near.bootstrap.server'" in doubt
        assert "'near.bootstrap.servers'" in doubt

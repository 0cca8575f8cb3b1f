"""Dedicated mode between three real clusters, by one command each: in a ring; both ways with a fan-out and a
fan-in; as a diamond."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.client import heartbeat_topics, upstream_clusters
from bridge.local import Cluster, MirrorNode
from tests.e2e.dedicated import WAIT, dedicated_stack, health, mm2, running, some, wait_values
from tests.e2e.flow import committed_offsets
from tests.support import admin, commit, create_topic, eventually, produce, unique

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
            found = committed_offsets(self.bootstrap(alias), group)
            assert found == expected, f"{group} stands at {found}"

        eventually(stands, WAIT, what=f"{group} at {expected} on {alias}", watched=[self.node.process])


@pytest.fixture(scope="module")
def ring(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("ring")
    flows = ["A->B", "B->C", "C->A"]
    file = mm2(directory / "mm2.properties", clusters, flows, {"topics": ".*ring-.*"})
    with running(directory, file) as node:
        yield Running(node, clusters)


class TestRing:
    def test_a_chain_goes_on_from_cluster_to_cluster(self, ring: Running) -> None:
        topic = ring.filled("A", "ring-chain")
        ring.wait_copied("B", f"A.{topic}")
        ring.wait_copied("C", f"B.A.{topic}")

    def test_no_topic_comes_home(self, ring: Running) -> None:
        topics = {alias: ring.filled(alias, f"ring-home-{alias}") for alias in ("A", "B", "C")}
        ring.wait_copied("B", f"A.{topics['A']}")
        ring.wait_copied("C", f"B.A.{topics['A']}")
        ring.wait_copied("A", f"C.B.{topics['B']}")
        ring.wait_copied("B", f"A.C.{topics['C']}")
        # Each flow has found what it copies of all three: what would come home would be there by now.
        for alias in ("A", "B", "C"):
            home = {each for each in ring.topics(alias) if alias in each.split(".")[:-1]}
            assert home == set()

    def test_a_group_follows_the_chain(self, ring: Running) -> None:
        topic, group = ring.filled("A", "ring-group"), unique("group")
        ring.wait_copied("B", f"A.{topic}")
        commit(ring.bootstrap("A"), group, {(topic, 0): 40})
        ring.wait_group("B", group, {(f"A.{topic}", 0): 40})
        ring.wait_group("C", group, {(f"B.A.{topic}", 0): 40})

    def test_health_names_the_flows_and_their_connectors(self, ring: Running) -> None:
        def well() -> None:
            found = health(ring.node)
            assert found["status"] == "ok", found

        eventually(well, WAIT, what="all is well", watched=[ring.node.process])
        found = health(ring.node)
        flows = {each["flow"]: each for each in found["flows"]}
        assert {name for name, each in flows.items() if each["copies"]} == {"A->B", "B->C", "C->A"}
        assert {each["state"] for each in flows.values()} == {"running"}
        assert {each["node"].rpartition(":")[2] for each in flows.values()} == {str(ring.node.port)}
        known = {each["name"] for each in found["connectors"]}
        assert {"A->B.MirrorSourceConnector", "C->A.MirrorCheckpointConnector"} <= known
        assert known == {name for each in flows.values() for name in each["connectors"]}


@pytest.fixture(scope="module")
def web(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A and B both ways, A to C too, and B to C."""
    directory = tmp_path_factory.mktemp("web")
    aliases = {"east": clusters["A"], "west": clusters["B"], "hub": clusters["C"]}
    flows = ["east->west", "west->east", "east->hub", "west->hub"]
    # The ring's heartbeats are in these clusters too, under aliases that this file does not know.
    apart = {"topics": "web-.*,heartbeats", "heartbeats.replication.enabled": "false"}
    file = mm2(directory / "mm2.properties", aliases, flows, apart)
    with running(directory, file) as node:
        yield Running(node, aliases)


class TestWeb:
    def test_active_active(self, web: Running) -> None:
        there, back = web.filled("east", "web-east"), web.filled("west", "web-west")
        web.wait_copied("west", f"east.{there}")
        web.wait_copied("east", f"west.{back}")
        groups = {alias: unique(f"group-{alias}") for alias in ("east", "west")}
        commit(web.bootstrap("east"), groups["east"], {(there, 0): 70})
        commit(web.bootstrap("west"), groups["west"], {(back, 0): 30})
        web.wait_group("west", groups["east"], {(f"east.{there}", 0): 70})
        web.wait_group("east", groups["west"], {(f"west.{back}", 0): 30})

    def test_fan_out(self, web: Running) -> None:
        topic = web.filled("east", "web-out")
        web.wait_copied("west", f"east.{topic}")
        web.wait_copied("hub", f"east.{topic}")

    def test_fan_in(self, web: Running) -> None:
        name = unique("web-in")
        for alias in ("east", "west"):
            create_topic(web.bootstrap(alias), name)
            produce(web.bootstrap(alias), name, some(COUNT))
        for alias in ("east", "west"):
            web.wait_copied("hub", f"{alias}.{name}")

    def test_heartbeats_come_from_each_source(self, web: Running) -> None:
        props = {"bootstrap.servers": web.bootstrap("hub")}

        def arrive() -> None:
            assert {"east.heartbeats", "west.heartbeats"} <= set(heartbeat_topics(props))
            assert {"east", "west"} <= set(upstream_clusters(props))

        eventually(arrive, WAIT, what="heartbeats", watched=[web.node.process])


@pytest.fixture(scope="module")
def diamond(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """From one to four by two and by three. Four is the cluster of one again: names and flows are all that counts."""
    directory = tmp_path_factory.mktemp("diamond")
    aliases = {
        "one": clusters["A"],
        "two": clusters["B"],
        "three": clusters["C"],
        "four": clusters["A"],
    }
    flows = ["one->two", "one->three", "two->four", "three->four"]
    topics = {
        f"{flow}.topics": "diamond-.*" if flow.startswith("one") else r"one\.diamond-.*" for flow in flows
    }
    apart = {"heartbeats.replication.enabled": "false", "emit.heartbeats.enabled": "false"}
    file = mm2(directory / "mm2.properties", aliases, flows, topics | apart)
    with running(directory, file) as node:
        yield Running(node, aliases)


class TestDiamond:
    def test_both_copies_arrive_under_their_names_and_a_group_has_offsets_in_both(
        self, diamond: Running
    ) -> None:
        topic, group = diamond.filled("one", "diamond"), unique("group")
        for alias in ("two", "three"):
            diamond.wait_copied(alias, f"one.{topic}")
            diamond.wait_copied("four", f"{alias}.one.{topic}")
        commit(diamond.bootstrap("one"), group, {(topic, 0): 60})
        expected = {(f"{alias}.one.{topic}", 0): 60 for alias in ("two", "three")}
        diamond.wait_group("four", group, {(topic, 0): 60} | expected)


def test_one_cluster_only(clusters: Mapping[str, Cluster], tmp_path: Path) -> None:
    """--clusters: flows into it, and the heartbeats of their sources. SIGTERM drains, and ends with 0."""
    aliases = {"near": clusters["B"], "far": clusters["A"]}
    properties = {"topics": "only-.*,heartbeats", "heartbeats.replication.enabled": "false"}
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

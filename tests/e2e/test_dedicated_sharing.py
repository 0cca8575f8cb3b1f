"""Two nodes of dedicated mode with the same file: they share its flows, and each takes over from the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, Cluster, MirrorNode
from tests.e2e.dedicated import (
    HEARTBEAT_MS,
    SESSION_MS,
    dedicated_stack,
    health,
    mm2,
    running,
    runs,
    some,
    states,
    values,
    wait_values,
)
from tests.support import create_topic, eventually, produce, unique
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

FLOWS = ("A->B", "B->A")
TAKEN_OVER = (SESSION_MS + 2 * HEARTBEAT_MS) / 1000 + 15.0
"""Seconds: members that are left hear of a loss with their next heartbeat."""
COPIED = TAKEN_OVER + 120.0
"""Seconds: the other node's Spark driver starts, reads where the copy stands, and shuts the killed one out."""
TOPICS = "shared-.*"
APART = {"heartbeats.replication.enabled": "false"}
"""B->A has nothing to copy then, and needs no Spark driver, of which each takeover would start another one."""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Cluster]]:
    with dedicated_stack(tmp_path_factory.mktemp("sharing")) as stack:
        stack.start_clusters()
        yield {name: stack.cluster(name) for name in ("A", "B")}


@pytest.fixture(scope="module")
def nodes(
    clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MirrorNode, MirrorNode]]:
    """Two nodes of one file, started one after the other."""
    directory = tmp_path_factory.mktemp("nodes")
    file = mm2(directory / "mm2.properties", clusters, FLOWS, {"topics": TOPICS} | APART)
    with running(directory, file, name="first") as first, running(directory, file, name="second") as second:
        yield first, second


def wait_shared(nodes: tuple[MirrorNode, MirrorNode]) -> None:
    """Until each runs one of the flows, and each knows of the other's."""

    def shared() -> None:
        by_node = [states(node) for node in nodes]
        assert sorted(map(sorted, (runs(node) for node in nodes))) == [["A->B"], ["B->A"]], by_node
        for each in by_node:
            assert sorted(each[flow] for flow in FLOWS) == ["elsewhere", "running"], by_node

    eventually(shared, WAIT, what="each node runs a flow", watched=[node.process for node in nodes])


def wait_both(node: MirrorNode) -> None:
    """Until the node runs both flows."""
    eventually(lambda: runs(node) == set(FLOWS), WAIT, what=f"{node.name} has both", watched=[node.process])


def owner(nodes: tuple[MirrorNode, MirrorNode], flow: str) -> tuple[MirrorNode, MirrorNode]:
    """The node that runs the flow, and the other one."""
    first, second = nodes
    return (first, second) if flow in runs(first) else (second, first)


def filled(clusters: Mapping[str, Cluster], what: str, count: int) -> str:
    topic = create_topic(clusters["A"].bootstrap, unique(f"shared-{what}"))
    produce(clusters["A"].bootstrap, topic, some(count))
    return topic


def test_a_node_whose_file_has_only_the_flows_heartbeats_leaves_the_copy_to_others(
    clusters: Mapping[str, Cluster], tmp_path: Path
) -> None:
    """First, while no other node is a member of the flow's group."""
    topic = create_topic(clusters["A"].bootstrap, unique("apart"))
    create_topic(clusters["B"].bootstrap, f"A.{topic}")
    produce(clusters["A"].bootstrap, topic, some(20))
    files = {
        flow: mm2(tmp_path / f"{number}.properties", clusters, [flow], {"topics": topic} | APART)
        for number, flow in enumerate(FLOWS)
    }
    with running(tmp_path, files["B->A"], name="back") as back:
        eventually(lambda: states(back)["A->B"] == "running", WAIT, what="it writes heartbeats of A->B")
        with running(tmp_path, files["A->B"], name="there") as there:
            wait_values(clusters["B"], f"A.{topic}", [each.value for each in some(20)], there, back)
            assert states(back)["A->B"] == "running"


def test_nodes_share_the_flows(clusters: Mapping[str, Cluster], nodes: tuple[MirrorNode, MirrorNode]) -> None:
    """The second one finds both flows taken, and gets one of them. What another node runs is never ready here."""
    wait_shared(nodes)
    topic = filled(clusters, "both", 100)
    wait_values(clusters["B"], f"A.{topic}", [each.value for each in some(100)], *nodes)
    here, other = owner(nodes, "A->B")
    rows = {each["flow"]: each for each in health(other)["flows"]}
    assert rows["A->B"]["node"].endswith(f":{here.port}")
    report = httpx.get(f"{other.url}/v1/readiness", timeout=60, verify=NO_AUTHORITIES).json()
    assert report["readiness"] == "cannot_tell"
    (away,) = [each for each in report["flows"] if (each["source"], each["target"]) == ("A", "B")]
    assert away["reasons"][0]["reason"] == "elsewhere"
    assert str(here.port) in away["reasons"][0]["detail"]


def test_a_killed_node_is_taken_over_from(
    clusters: Mapping[str, Cluster], nodes: tuple[MirrorNode, MirrorNode]
) -> None:
    """Within the session timeout, with nothing lost and nothing doubled. Later the flows are shared again.

    A second node is killed where the first one took longer: a busy machine may hold up one of them."""
    kills: list[tuple[float, float]] = []
    for number in range(2):
        wait_shared(nodes)
        topic = filled(clusters, f"killed-{number}", 1000)
        wait_values(clusters["B"], f"A.{topic}", [each.value for each in some(1000)], *nodes)
        here, other = owner(nodes, "A->B")
        here.kill()
        began = time.monotonic()
        produce(clusters["A"].bootstrap, topic, some(1000, start=1000))
        wait_both(other)
        took = time.monotonic() - began
        eventually(
            lambda topic=topic: len(values(clusters["B"], f"A.{topic}")) > 1000,  # type: ignore[misc]
            WAIT,
            what="the first record after the kill",
            watched=[other.process],
        )
        kills.append((took, time.monotonic() - began))
        expected = [each.value for each in some(2000)]
        wait_values(clusters["B"], f"A.{topic}", expected, other)
        here.start()
        wait_shared(nodes)
        wait_values(clusters["B"], f"A.{topic}", expected, *nodes)
        if took < TAKEN_OVER and kills[-1][1] < COPIED:
            break
    print(
        "taken over, and the first record copied, after",
        ", ".join(f"{a:.1f} and {b:.1f} s" for a, b in kills),
    )
    assert min(took for took, _ in kills) < TAKEN_OVER, kills
    assert min(copied for _, copied in kills) < COPIED, kills


def test_a_paused_node_writes_nothing_twice(
    clusters: Mapping[str, Cluster], nodes: tuple[MirrorNode, MirrorNode]
) -> None:
    wait_shared(nodes)
    topic = filled(clusters, "paused", 100)
    wait_values(clusters["B"], f"A.{topic}", [each.value for each in some(100)], *nodes)
    here, other = owner(nodes, "A->B")
    here.process.pause()
    try:
        wait_both(other)
        produce(clusters["A"].bootstrap, topic, some(100, start=100))
        expected = [each.value for each in some(200)]
        wait_values(clusters["B"], f"A.{topic}", expected, other)
    finally:
        here.process.resume()
    wait_shared(nodes)
    produce(clusters["A"].bootstrap, topic, some(100, start=200))
    wait_values(clusters["B"], f"A.{topic}", [each.value for each in some(300)], *nodes)
    log = here.process.log.read_text()
    assert "silent for the session timeout" in log
    # Python workers of a driver that has ended may print that their JVM is gone.
    own = [line for line in log.splitlines() if " stderr " not in line]
    assert not [line for line in own if "Traceback" in line]


@pytest.mark.soak
def test_a_changed_file_is_taken_one_node_after_the_other(
    clusters: Mapping[str, Cluster], nodes: tuple[MirrorNode, MirrorNode]
) -> None:
    """A flow goes to the other node at once when its own is ended in order; both have the new topics in the end."""
    wait_shared(nodes)
    new = create_topic(clusters["A"].bootstrap, unique("changed"))
    produce(clusters["A"].bootstrap, new, some(10))
    mm2(nodes[0].file, clusters, FLOWS, {"topics": f"{TOPICS},changed-.*"} | APART)
    took: list[float] = []
    for node, other in (nodes, nodes[::-1]):
        node.stop()
        assert node.process.exit_status == 0
        began = time.monotonic()
        wait_both(other)
        took.append(time.monotonic() - began)
        node.start()
        wait_shared(nodes)
    wait_values(clusters["B"], f"A.{new}", [each.value for each in some(10)], *nodes)
    # One of two: a busy machine may hold up the other.
    assert min(took) < SESSION_MS / 1000, f"each has waited for the session timeout: {took}"

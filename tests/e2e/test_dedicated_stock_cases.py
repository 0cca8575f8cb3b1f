"""Stock's DedicatedMirrorIntegrationTest by the names of its cases (stock §4.5), with the same properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import Cluster, MirrorNode
from tests.e2e.dedicated import dedicated_stack, health, mm2, running, runs, some, wait_values
from tests.support import admin, create_topic, eventually, produce, unique
from tests.support.waits import WAIT

MESSAGES = 10
CONVOLUTED = "B- ._~:/?#[]@!$&'()*+;=\"<>%{}|\\^`618"
"""Stock's own, made so that no character of it passes a URL by chance."""
PLAIN = "B-_618"
"""What is left of it: aliases are parts of topic names here, of which stock checks none."""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Cluster]]:
    with dedicated_stack(tmp_path_factory.mktemp("stock-cases")) as stack:
        stack.start_clusters()
        yield {name: stack.cluster(name) for name in ("A", "B")}


def properties(a: str, b: str, mark: str) -> dict[str, str]:
    """Of all three cases. Stock's own `topics` begin with ^; its patterns are searched for as a whole anyway."""
    return {
        "dedicated.mode.enable.internal.rest": "false",
        "listeners": "http://localhost:0",
        f"{a}->{b}.topics": f"^{mark}.*",
        f"{b}->{a}.enabled": "false",
    }


def connectors(node: MirrorNode) -> dict[str, Any]:
    return {each["name"]: each for each in health(node)["connectors"]}


def wait_running(node: MirrorNode, *names: str) -> None:
    """awaitMirrorMakerStart, awaitConnectorTasksStart."""

    def there() -> None:
        known = connectors(node)
        for name in names:
            assert [task["state"] for task in known[name]["tasks"]] == ["active"], known
            assert known[name]["state"] == "running", known[name]

    eventually(there, WAIT, what=f"{names} run", watched=[node.process])


def replicate(flow: Mapping[str, Cluster], topic: str, *nodes: MirrorNode) -> None:
    """awaitTopicCreation, writeToTopic, awaitTopicContent. `flow`: its source and its target by alias."""
    (alias, source), (_, target) = flow.items()
    create_topic(source.bootstrap, topic)
    there, copy = admin(target.bootstrap), f"{alias}.{topic}"
    eventually(
        lambda: copy in there.list_topics(timeout=10).topics,
        WAIT,
        what=copy,
        watched=[node.process for node in nodes],
    )
    produce(source.bootstrap, topic, some(MESSAGES))
    wait_values(target, copy, [each.value for each in some(MESSAGES)], *nodes)


def test_single_node_cluster(source: Cluster, target: Cluster, tmp_path: Path) -> None:
    """DedicatedMirrorIntegrationTest.testSingleNodeCluster, between the clusters of all tests: with aliases of its own
    and without the heartbeats of others."""
    mark, a, b = unique("test-topic"), unique("A"), unique("B")
    given = properties(a, b, mark) | {
        f"{b}->{a}.emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        **{f"{alias}.session.timeout.ms": "30000" for alias in (a, b)},
    }
    file = mm2(tmp_path / "mm2.properties", {a: source, b: target}, [f"{a}->{b}"], given)
    with running(tmp_path, file) as node:
        names = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
        wait_running(node, *(f"{a}->{b}.{name}" for name in names))
        replicate({a: source, b: target}, f"{mark}-1", node)
        assert {each["flow"] for each in health(node)["flows"]} == {f"{a}->{b}"}


@pytest.mark.long
@pytest.mark.soak
def test_cluster_with_emit_offset_disabled(clusters: Mapping[str, Cluster], tmp_path: Path) -> None:
    """DedicatedMirrorIntegrationTest.testClusterWithEmitOffsetDisabled: no offset syncs, and no checkpoints. Aliases of
    its own: the clusters are those of the other cases."""
    mark, aliases = unique("test-topic"), {"A": clusters["A"], "nosync": clusters["B"]}
    given = properties("A", "nosync", mark) | {
        "emit.offset-syncs.enabled": "false",
        "sync.group.offsets.enabled": "false",
        # The copy of A.heartbeats would be this alias's for good, and refused to the next case.
        "heartbeats.replication.enabled": "false",
    }
    file = mm2(tmp_path / "mm2.properties", aliases, ["A->nosync"], given)
    # As with stock, nothing may be said of the topic then.
    lines = [line for line in file.read_text().splitlines(True) if not line.startswith("offset-syncs.topic")]
    file.write_text("".join(lines))
    with running(tmp_path, file) as node:
        wait_running(node, "A->nosync.MirrorSourceConnector", "A->nosync.MirrorHeartbeatConnector")
        assert "A->nosync.MirrorCheckpointConnector" not in connectors(node)
        replicate(clusters, f"{mark}-1", node)
        topics = admin(clusters["A"].bootstrap).list_topics(timeout=60).topics
        assert "mm2-offset-syncs.nosync.internal" not in topics


def written(
    file: Path, clusters: Mapping[str, Cluster], target: str, mark: str, refresh: str, more: str = ""
) -> Path:
    """The file of testMultiNodeCluster; `refresh` is what changes, and here the topics too: `more` beside `mark`. The
    effect of a second more or less could not be told."""
    flow, aliases = f"A->{target}", {"A": clusters["A"], target: clusters["B"]}
    given = {
        "dedicated.mode.enable.internal.rest": "true",
        f"{target}.exactly.once.source.support": "enabled",
        "A.consumer.isolation.level": "read_committed",
        f"{flow}.offset-syncs.topic.location": "target",
        f"{target}->A.emit.heartbeats.enabled": "false",
        "A.scheduled.rebalance.max.delay.ms": "1000",
        f"{target}.scheduled.rebalance.max.delay.ms": "1000",
        "refresh.topics.interval.seconds": refresh,
    }
    topics = {f"{flow}.topics": f"^{mark}.*,^{more}.*"} if more else {}
    return mm2(file, aliases, [flow], properties("A", target, mark) | given | topics)


@pytest.mark.long
def test_multi_node_cluster(clusters: Mapping[str, Cluster], tmp_path: Path) -> None:
    """DedicatedMirrorIntegrationTest.testMultiNodeCluster: three nodes, topics that come later, and a file that changes
    from one node to the next. Stock's alias is hostile to URLs; here it is refused in a sentence."""
    file = tmp_path / "mm2.properties"
    written(file, clusters, CONVOLUTED, unique("test-topic"), "1")
    refused = CliRunner().invoke(app, ["mirror", str(file)])
    assert refused.exit_code == 2
    assert "takes only letters, digits, '.', '_' and '-'" in refused.output
    mark, flow = unique("test-topic"), f"A->{PLAIN}"
    written(file, clusters, PLAIN, mark, "1")
    with ExitStack() as closing:
        nodes = [
            closing.enter_context(running(tmp_path, file, name=f"node-{n}", wait=False)) for n in range(3)
        ]
        for node in nodes:
            node.wait_ready()
        eventually(
            lambda: [flow] in [sorted(runs(node)) for node in nodes],
            WAIT,
            what="the flow runs",
            watched=[node.process for node in nodes],
        )
        for number in range(3):
            replicate(clusters, f"{mark}-{number}", *nodes)
        later = unique("later")
        written(file, clusters, PLAIN, mark, "2", later)
        for node in nodes:
            node.stop()
            others = [each for each in nodes if each is not node]
            eventually(
                lambda others=others: sum(len(runs(each)) for each in others) == 1,  # type: ignore[misc]
                WAIT,
                what="another node runs the flow",
                watched=[each.process for each in others],
            )
            node.start()
        replicate(clusters, f"{mark}-later", *nodes)
        # No copy of this one but with the new file.
        replicate(clusters, f"{later}-1", *nodes)

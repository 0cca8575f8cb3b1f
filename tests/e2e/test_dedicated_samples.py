"""Dedicated mode with the sample files that people begin with: of them only hosts and ports are replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bridge.client import checkpoint_consumer, translate_offsets
from bridge.local import Cluster, MirrorNode
from bridge.model.values import TopicPartition
from tests.e2e.dedicated import dedicated_stack, health, running, some, wait_heartbeats, wait_values
from tests.support import admin, commit, create_topic, eventually, produce, unique
from tests.support.messages import message
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

COUNT = 50
STOCKS = """\
# see org.apache.kafka.clients.consumer.ConsumerConfig for more details

# Sample MirrorMaker 2.0 top-level configuration file
# Run with ./bin/connect-mirror-maker.sh connect-mirror-maker.properties\x20

# specify any number of cluster aliases
clusters = A, B

# connection information for each cluster
# This is a comma separated host:port pairs for each cluster
# for e.g. "A_host1:9092, A_host2:9092, A_host3:9092"
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092

# enable and configure individual replication flows
A->B.enabled = true

# regex which defines which topics gets replicated. For eg "foo-.*"
A->B.topics = .*

B->A.enabled = true
B->A.topics = .*

# Setting replication factor of newly created remote topics
replication.factor=1

############################# Internal Topic Settings  #############################
# The replication factor for mm2 internal topics "heartbeats", "B.checkpoints.internal" and
# "mm2-offset-syncs.B.internal"
# For anything other than development testing, a value greater than 1 is recommended to ensure availability such as 3.
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1

# The replication factor for connect internal topics "mm2-configs.B.internal", "mm2-offsets.B.internal" and
# "mm2-status.B.internal"
# For anything other than development testing, a value greater than 1 is recommended to ensure availability such as 3.
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1

# customize as needed
# replication.policy.separator = _
# sync.topic.acls.enabled = false
# emit.heartbeats.interval.seconds = 5
"""
"""config/connect-mirror-maker.properties as Kafka ships it, without the licence."""
KIPS = """\
clusters = us-west, us-east
us-west.bootstrap.servers = host1:9092
us-east.bootstrap.servers = host2:9092
topics = .*
groups = group1, group2
emit.checkpoints.interval.seconds = 10
us-west.offset.storage.topic = mm2-offsets
us-west->us-east.enabled = true
us-west->us-east.emit.heartbeats = false
"""
"""As in KIP-382's walk-through and the README of its code. Without replication factors: their defaults are 2 and 3."""
ONE_BROKER = "".join(
    f"{name}replication.factor = 1\n"
    for name in (
        *("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic."),
        *("config.storage.", "group-readiness.topic."),
    )
)
_HOSTS = re.compile(r"\w*host\d:\d+(, \w*host\d:\d+)*")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    with dedicated_stack(tmp_path_factory.mktemp("samples")) as stack:
        stack.start_clusters()
        yield stack.cluster("A"), stack.cluster("B")


def sample(path: Path, text: str, *clusters: Cluster) -> Path:
    """Writes a sample with the hosts of these clusters in the order of its lines."""
    addresses = iter(clusters)
    lines = [
        _HOSTS.sub(lambda _: next(addresses).bootstrap, line) if "bootstrap.servers" in line else line
        for line in text.splitlines(keepends=True)
    ]
    assert next(addresses, None) is None
    path.write_text("".join(lines))
    return path


def filled(cluster: Cluster, what: str) -> str:
    """A topic with records; made before the node starts, as samples look for new topics every ten minutes."""
    topic = create_topic(cluster.bootstrap, unique(what))
    produce(cluster.bootstrap, topic, some(COUNT))
    return topic


def wait_copied(cluster: Cluster, topic: str, node: MirrorNode) -> None:
    eventually(lambda: topic in names(cluster), WAIT, what=topic, watched=[node.process])
    wait_values(cluster, topic, [each.value for each in some(COUNT)], node)


def names(cluster: Cluster) -> Mapping[str, object]:
    return admin(cluster.bootstrap).list_topics(timeout=60).topics


def connectors(node: MirrorNode) -> dict[str, set[str]]:
    """By flow."""
    return {
        each["flow"]: {name.rpartition(".")[2] for name in each["connectors"]}
        for each in health(node)["flows"]
    }


def test_stocks_sample(clusters: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    a, b = clusters
    there, back = filled(a, "there"), filled(b, "back")
    with running(tmp_path, sample(tmp_path / "connect-mirror-maker.properties", STOCKS, a, b)) as node:
        wait_copied(b, f"A.{there}", node)
        wait_copied(a, f"B.{back}", node)
        whole = {f"Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat")}
        assert connectors(node) == {"A->B": whole, "B->A": whole}
        wait_heartbeats(a, "heartbeats", ("B", "A"), node)
        wait_heartbeats(b, "A.heartbeats", ("B", "A"), node)
        wait_heartbeats(a, "B.heartbeats", ("A", "B"), node)
        for cluster, alias in ((b, "A"), (a, "B")):
            internal = (f"mm2-configs.{alias}.internal", f"{alias}.checkpoints.internal")
            assert {*internal, f"mm2-offset-syncs.{alias}.internal"} <= {*names(cluster)}
        log = node.process.log.read_text()
        unused = [line for line in log.splitlines() if "ignored in dedicated mode" in line]
        assert len(unused) == 1, unused
        assert "offset.storage.replication.factor, status.storage.replication.factor" in unused[0]
        assert "did you mean" not in log


def test_the_sample_of_the_kip(clusters: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    west, east = clusters
    topic = filled(west, "west")
    for group in ("group1", "group3"):
        commit(west.bootstrap, group, {(topic, 0): 30})
    with running(tmp_path, sample(tmp_path / "mm2.properties", KIPS + ONE_BROKER, west, east)) as node:
        remote = f"us-west.{topic}"
        wait_copied(east, remote, node)
        assert connectors(node) == {
            "us-west->us-east": {"MirrorSourceConnector", "MirrorCheckpointConnector"},
            "us-east->us-west": {"MirrorHeartbeatConnector"},
        }
        wait_heartbeats(west, "heartbeats", ("us-east", "us-west"), node)
        wait_heartbeats(east, "us-west.heartbeats", ("us-east", "us-west"), node)
        props = {"bootstrap.servers": east.bootstrap}

        def translated() -> None:
            offsets = translate_offsets(props, "us-west", "group1", 30.0)
            assert {tp: each.offset for tp, each in offsets.items()} == {TopicPartition(remote, 0): 30}

        eventually(translated, WAIT, what="a checkpoint of group1", watched=[node.process])
        # Groups that `groups` does not name have none: those of one round came together.
        found = checkpoint_consumer(props, idle_s=1.0)
        assert {each.value.group for each in found if each.value is not None} == {"group1"}
        log = node.process.log.read_text()
        old = "us-west->us-east.emit.heartbeats"
        assert message("dedicated.old_name", key=old, new=f"{old}.enabled") in log
        assert not any(name.startswith("us-east.") for name in names(west))

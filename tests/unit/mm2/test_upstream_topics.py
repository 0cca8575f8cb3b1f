"""What names of topics say of the clusters upstream: the rows of stock §4.4."""

from __future__ import annotations

import pytest

from bridge.mm2 import replication_policy
from bridge.mm2.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)


def default(**props: str) -> DefaultReplicationPolicy:
    policy = DefaultReplicationPolicy()
    policy.configure({f"replication.policy.{name.replace('_', '.')}": value for name, value in props.items()})
    return policy


def identity(source: str) -> IdentityReplicationPolicy:
    policy = IdentityReplicationPolicy()
    policy.configure({"source.cluster.alias": source})
    return policy


@pytest.mark.parametrize(
    ("topic", "is_one"),
    [
        ("heartbeats", True),
        ("source1.heartbeats", True),
        ("source2.source1.heartbeats", True),
        ("heartbeats!", False),
        ("!heartbeats", False),
        ("source1heartbeats", False),
        ("source1-heartbeats", False),
    ],
)
def test_is_heartbeat_topic(topic: str, is_one: bool) -> None:
    """MirrorClientTest.testIsHeartbeatTopic"""
    assert replication_policy.heartbeat_topics(default(), [topic]) == ({topic} if is_one else set())


@pytest.mark.parametrize(
    ("topic", "is_one"),
    [
        ("source1.checkpoints.internal", True),
        ("checkpoints.internal", False),
        ("checkpoints-internal", False),
        ("checkpoints.internal!", False),
        ("!checkpoints.internal", False),
        ("source1checkpointsinternal", False),
    ],
)
def test_is_checkpoint_topic(topic: str, is_one: bool) -> None:
    """MirrorClientTest.testIsCheckpointTopic"""
    assert replication_policy.checkpoint_topics(default(), [topic]) == ({topic} if is_one else set())


@pytest.mark.parametrize(
    ("topic", "source", "hops"),
    [
        ("topic", "source", -1),
        ("source", "source", -1),
        ("sourcetopic", "source", -1),
        ("source1.topic", "source2", -1),
        ("source1.topic", "source1", 1),
        ("source2.source1.topic", "source2", 1),
        ("source2.source1.topic", "source1", 2),
        ("source3.source2.source1.topic", "source1", 3),
        ("source3.source2.source1.topic", "source4", -1),
    ],
)
def test_count_hops_for_topic(topic: str, source: str, hops: int) -> None:
    """MirrorClientTest.countHopsForTopicTest"""
    assert replication_policy.count_hops(default(), topic, source) == hops


def test_heartbeat_topics() -> None:
    """MirrorClientTest.heartbeatTopicsTest"""
    result = {"heartbeats", "source1.heartbeats", "source2.source1.heartbeats", "source3.heartbeats"}
    assert replication_policy.heartbeat_topics(default(), {"topic1", "topic2", *result}) == result


def test_checkpoint_topics() -> None:
    """MirrorClientTest.checkpointsTopicsTest"""
    result = {f"{name}.checkpoints.internal" for name in ("source1", "source2.source1", "source3")}
    assert (
        replication_policy.checkpoint_topics(default(), {"topic1", "checkpoints.internal", *result}) == result
    )


def test_replication_hops() -> None:
    """MirrorClientTest.replicationHopsTest"""
    topics = [
        "topic1",
        "heartbeats",
        "source1.heartbeats",
        "source1.source2.heartbeats",
        "source3.heartbeats",
    ]
    hops = {at: replication_policy.replication_hops(default(), topics, f"source{at}") for at in (1, 2, 3, 4)}
    assert hops == {1: 1, 2: 2, 3: 1, 4: -1}


def test_the_fewest_hops_count() -> None:
    topics = ["B.C.A.heartbeats", "B.A.heartbeats", "C.B.D.A.heartbeats"]
    assert replication_policy.replication_hops(default(), topics, "A") == 2


UPSTREAM = [
    *("topic1", "topic2", "heartbeats", "source1.heartbeats", "source1.source2.heartbeats"),
    "source3.source4.source5.heartbeats",
]


@pytest.mark.parametrize(
    "policy",
    [default(), identity("source")],
    ids=["MirrorClientTest.upstreamClustersTest", "MirrorClientTest.testIdentityReplicationUpstreamClusters"],
)
def test_upstream_clusters(policy: ReplicationPolicy) -> None:
    assert replication_policy.upstream_clusters(policy, UPSTREAM) == {f"source{at}" for at in (1, 2, 3, 4, 5)}


@pytest.mark.parametrize(
    "separator",
    [".", "__"],
    ids=["MirrorClientTest.remoteTopicsTest", "MirrorClientTest.remoteTopicsSeparatorTest"],
)
def test_remote_topics(separator: str) -> None:
    parts = [
        ("source1", "topic4"),
        ("source1", "source2", "topic5"),
        ("source3", "source4", "source5", "topic6"),
    ]
    result = {separator.join(each) for each in parts}
    policy = default(separator=separator)
    internal = {policy.checkpoints_topic("A"), policy.offset_syncs_topic("A"), "__x", ".x"}
    assert (
        replication_policy.remote_topics(policy, {"topic1", "topic2", "topic3", *internal, *result}) == result
    )
    one = replication_policy.remote_topics(policy, result, "source1")
    assert one == {name for name in result if name.startswith("source1")}
    assert replication_policy.remote_topics(policy, result, "source2") == set()


def test_identity_remote_topics() -> None:
    """MirrorClientTest.testIdentityReplicationRemoteTopics"""
    topics = {"topic1", "topic2", "topic3", "heartbeats", "backup.heartbeats"}
    assert replication_policy.remote_topics(identity("source"), topics) == topics - {"heartbeats"}
    assert replication_policy.remote_topics(identity("source"), topics, "backup") == {"backup.heartbeats"}


def test_identity_topic_source() -> None:
    """MirrorClientTest.testIdentityReplicationTopicSource"""
    policy = identity("primary")
    assert policy.format_remote_topic("primary", "topic1") == "topic1"
    assert policy.topic_source("topic1") == "primary"
    assert policy.format_remote_topic("backup", "heartbeats") == "backup.heartbeats"
    assert policy.topic_source("backup.heartbeats") == "backup"


def test_names_that_never_change_end() -> None:
    """As under Identity, where every topic comes from the one source again and again."""
    policy = identity("source")
    assert list(replication_policy.sources(policy, "topic")) == ["source"]
    assert (
        replication_policy.count_hops(policy, "topic", "source"),
        replication_policy.count_hops(policy, "topic", "x"),
    ) == (
        1,
        -1,
    )


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("__consumer_offsets", True),
        (".hiddentopic", True),
        ("mm2-offsets.CLUSTER.internal", True),
        ("mm2-offsets-CLUSTER-internal", False),
        ("mm2-offsets_CLUSTER_internal", False),
    ],
)
def test_internal_topic(topic: str, internal: bool) -> None:
    """ReplicationPolicyTest.testInternalTopic, as 4.3.1 answers"""
    assert default().is_internal_topic(topic) is internal


@pytest.mark.parametrize(
    ("props", "syncs", "checkpoints"),
    [
        ({}, "mm2-offset-syncs.CLUSTER.internal", "CLUSTER.checkpoints.internal"),
        (
            {"separator": "__"},
            "mm2-offset-syncs__CLUSTER__internal",
            "CLUSTER__checkpoints__internal",
        ),
        (
            {"separator": "__", "internal_topic_separator_enabled": "false"},
            "mm2-offset-syncs.CLUSTER.internal",
            "CLUSTER.checkpoints.internal",
        ),
    ],
)
def test_internal_names(props: dict[str, str], syncs: str, checkpoints: str) -> None:
    """ReplicationPolicyTest.offsetSyncsTopic_shouldBeEffectedByInternalTopicSeparatorEnabled,
    ReplicationPolicyTest.checkpointsTopic_shouldBeEffectedByInternalTopicSeparatorEnabled,
    ReplicationPolicyTest.heartbeatsTopic_shouldNotBeEffectedByInternalTopicSeparatorConfig"""
    policy = default(**props)
    assert policy.offset_syncs_topic("CLUSTER") == syncs
    assert policy.checkpoints_topic("CLUSTER") == checkpoints
    assert policy.heartbeats_topic() == "heartbeats"

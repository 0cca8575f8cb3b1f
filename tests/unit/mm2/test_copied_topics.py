"""Which topics of the source are copied: rows of stock's MirrorSourceConnectorTest carry the names of its tests. Its
classes at random: test_stock_source.py."""

from __future__ import annotations

import pytest

from bridge.mm2.filters import DefaultTopicFilter, TopicFilter, should_replicate_topic
from bridge.mm2.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    is_cycle,
)


class Says:
    """A filter that says the same of every topic."""

    def __init__(self, answer: bool) -> None:
        self._answer = answer

    def should_replicate_topic(self, topic: str) -> bool:
        return self._answer


ALL, NONE, UNCONFIGURED = Says(True), Says(False), DefaultTopicFilter()
HEARTBEATS = ["heartbeats", "us-west.heartbeats"]
DEFAULT, IDENTITY = DefaultReplicationPolicy(), IdentityReplicationPolicy()
UNDERSCORE = DefaultReplicationPolicy()
UNDERSCORE.configure({"replication.policy.separator": "_"})
OWN_ALIAS = IdentityReplicationPolicy()
OWN_ALIAS.configure({"source.cluster.alias": "source"})

CYCLES = [
    *("target.topic1", "target.source.topic1", "source.target.topic1", "target.source.target.topic1"),
    "source.target.source.topic1",
]
IDENTITYS = [*CYCLES, "topic1", "othersource.topic1", "heartbeats", "othersource.heartbeats"]
HEARTBEAT_CYCLES = [name.replace("topic1", "heartbeats") for name in CYCLES]


@pytest.mark.parametrize(
    ("policy", "chosen", "heartbeats", "copied", "left"),
    [
        pytest.param(
            DEFAULT,
            UNCONFIGURED,
            True,
            HEARTBEATS,
            ["topic1"],
            id="MirrorSourceConnectorTest.testReplicatesHeartbeatsByDefault",
        ),
        pytest.param(
            DEFAULT,
            NONE,
            True,
            HEARTBEATS,
            ["topic1"],
            id="MirrorSourceConnectorTest.testReplicatesHeartbeatsDespiteFilter",
        ),
        pytest.param(
            UNDERSCORE,
            NONE,
            True,
            ["heartbeats", "us-west_heartbeats"],
            ["us-west.heartbeats"],
            id="MirrorSourceConnectorTest.testReplicatesHeartbeatsDespiteFilter-separator",
        ),
        pytest.param(
            DEFAULT,
            UNCONFIGURED,
            False,
            [],
            HEARTBEATS,
            id="MirrorSourceConnectorTest.testDoesNotReplicateHeartbeatsWhenDisabled",
        ),
        pytest.param(
            DEFAULT,
            ALL,
            False,
            HEARTBEATS,
            [],
            id="MirrorSourceConnectorTest.testReplicatesHeartbeatsWhenDisabledButFilterAllows",
        ),
        pytest.param(
            DEFAULT,
            ALL,
            True,
            ["topic1", "source.topic1"],
            CYCLES,
            id="MirrorSourceConnectorTest.testNoCycles",
        ),
        pytest.param(
            IDENTITY,
            ALL,
            True,
            IDENTITYS,
            HEARTBEAT_CYCLES,
            id="MirrorSourceConnectorTest.testIdentityReplication",
        ),
        pytest.param(OWN_ALIAS, ALL, True, IDENTITYS, HEARTBEAT_CYCLES, id="identity with its alias"),
        pytest.param(
            DEFAULT,
            ALL,
            True,
            ["foo.internal", "foo-internal"],
            ["mm2-offset-syncs.B.internal", "B.checkpoints.internal", "__consumer_offsets", ".hidden"],
            id="internal topics",
        ),
        pytest.param(DEFAULT, ALL, True, [], HEARTBEAT_CYCLES, id="heartbeats that come back"),
    ],
)
def test_topics(
    policy: ReplicationPolicy, chosen: TopicFilter, heartbeats: bool, copied: list[str], left: list[str]
) -> None:
    answers = {
        topic: should_replicate_topic(topic, "target", chosen, policy, heartbeats_replication=heartbeats)
        for topic in [*copied, *left]
    }
    assert answers == dict.fromkeys(copied, True) | dict.fromkeys(left, False)


def test_is_cycle_with_null_upstream_topic() -> None:
    """MirrorSourceConnectorTest.testIsCycleWithNullUpstreamTopic"""

    class NoUpstream(DefaultReplicationPolicy):
        def upstream_topic(self, topic: str) -> str | None:
            return None

    assert not is_cycle(NoUpstream(), ".b", "target")
    assert is_cycle(NoUpstream(), "target.b", "target")

"""Plans of whole files: the KIP's sample, stock's own, which connectors a flow has, what a restricted node runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bridge.dedicated.config.plan import MirrorPlan
from bridge.dedicated.config.planning import restricted
from bridge.errors import ConfigRejected
from tests.support.messages import message
from tests.unit.dedicated.config.files import BOTH, config, errors, planned

SOURCE, CHECKPOINT, HEARTBEAT, GROUPS = (
    f"Mirror{of}Connector" for of in ("Source", "Checkpoint", "Heartbeat", "GroupOffset")
)

STOCKS_SAMPLE = """
# specify any number of cluster aliases
clusters = A, B

# connection information for each cluster
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092

# enable and configure individual replication flows
A->B.enabled = true
A->B.topics = .*
B->A.enabled = true
B->A.topics = .*

replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1

# replication.policy.separator = _
# sync.topic.acls.enabled = false
# emit.heartbeats.interval.seconds = 5
"""
"""The settings of connect-mirror-maker.properties as Kafka ships it."""
READMES_SAMPLE = """
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
"""As in KIP-382's walk-through and the README of its code; the last key has the name of the draft."""
KIPS_DRAFT = """
clusters = us-west, us-east
cluster.us-west.broker.list = us-west-host1:9091
cluster.us-east.broker.list = us-east-host1:9091
connector.us-west->us-east.enabled = true
connector.us-west->us-east.topics = .*
connector.us-west->us-east.topics.blacklist = .*\\\\.internal
"""
"""In the words of the KIP's table of properties."""


def names(plan: MirrorPlan) -> dict[str, list[str]]:
    return {flow.name: [each.name for each in flow.connectors] for flow in plan.flows}


def test_stocks_sample() -> None:
    plan = planned(STOCKS_SAMPLE)
    assert list(plan.clusters) == ["A", "B"]
    whole = [SOURCE, CHECKPOINT, HEARTBEAT]
    assert names(plan) == {"A->B": whole, "B->A": whole}
    assert plan.warnings == ()
    (unused,) = plan.unused
    assert unused.keys == tuple(f"{of}.storage.replication.factor" for of in ("offset", "status"))
    assert "no Connect worker" in unused.reason
    props = config(plan, "A->B")
    assert props["source.cluster.bootstrap.servers"] == "A_host1:9092, A_host2:9092, A_host3:9092"
    assert (props["source.cluster.alias"], props["target.cluster.alias"]) == ("A", "B")
    assert (props["replication.factor"], props["offset-syncs.topic.replication.factor"]) == ("1", "1")
    assert config(plan, "B->A", CHECKPOINT)["checkpoints.topic.replication.factor"] == "1"
    assert plan.clusters["B"].of_role("consumer") == {
        "bootstrap.servers": "B_host1:9092, B_host2:9092, B_host3:9092"
    }
    assert [flow.worker["group.id"] for flow in plan.flows] == ["A-mm2", "B-mm2"]


def test_the_sample_of_the_kip() -> None:
    plan = planned(READMES_SAMPLE)
    assert names(plan) == {"us-west->us-east": [SOURCE, CHECKPOINT], "us-east->us-west": [HEARTBEAT]}
    old = "us-west->us-east.emit.heartbeats"
    assert [(warning.key, warning.message) for warning in plan.warnings] == [
        (old, message("dedicated.old_name", key=old, new=f"{old}.enabled"))
    ]
    assert plan.unused == ()
    assert plan.flows[1].worker["offset.storage.topic"] == "mm2-offsets"
    checkpoints = config(plan, "us-west->us-east", CHECKPOINT)
    assert (checkpoints["groups"], checkpoints["emit.checkpoints.interval.seconds"]) == (
        "group1, group2",
        "10",
    )


def test_the_draft_of_the_kip() -> None:
    plan = planned(KIPS_DRAFT)
    assert names(plan)["us-west->us-east"] == [SOURCE, CHECKPOINT, HEARTBEAT]
    props = config(plan, "us-west->us-east")
    assert props["source.cluster.bootstrap.servers"] == "us-west-host1:9091"
    assert props["target.cluster.bootstrap.servers"] == "us-east-host1:9091"
    assert props["topics.exclude"] == ".*\\.internal"
    assert len(plan.warnings) == 5


def test_an_old_name_beside_the_new_one_is_an_error() -> None:
    assert errors(
        {**BOTH, "topics.blacklist": "a", "topics.exclude": "b", "A->B.rename.topics": "false"}
    ) == {
        "topics.blacklist": message(
            "dedicated.old_beside_new", value="a", key="topics.blacklist", new="topics.exclude"
        ),
        "A->B.rename.topics": message("dedicated.rename", flow="A->B"),
    }


@pytest.mark.parametrize(
    ("changes", "connectors"),
    [
        ({}, [SOURCE, CHECKPOINT, HEARTBEAT]),
        ({"A->B.enabled": "TRUE"}, [SOURCE, CHECKPOINT, HEARTBEAT]),
        ({"A->B.enabled": "false"}, [HEARTBEAT]),
        ({"A->B.emit.heartbeats.enabled": "false"}, [SOURCE, CHECKPOINT]),
        ({"emit.checkpoints.enabled": "false"}, [SOURCE, HEARTBEAT]),
        ({"sync.group.offsets.enabled": "true"}, [SOURCE, CHECKPOINT, HEARTBEAT]),
        # MirrorGroupOffsetConnector commits what no checkpoint connector could.
        (
            {"A->B.sync.group.offsets.enabled": "true", "A->B.emit.checkpoints.enabled": "false"},
            [SOURCE, GROUPS, HEARTBEAT],
        ),
        (
            {"A->B.sync.group.offsets.enabled": "true", "emit.offset-syncs.enabled": "false"},
            [SOURCE, GROUPS, HEARTBEAT],
        ),
        (
            {"emit.offset-syncs.enabled": "false", "translation.evidence": "timestamps"},
            [SOURCE, CHECKPOINT, HEARTBEAT],
        ),
    ],
)
def test_which_connectors_a_flow_has(changes: Mapping[str, str], connectors: list[str]) -> None:
    plan = planned({**BOTH, **changes})
    assert names(plan)["A->B"] == connectors
    assert plan.warnings == ()


def test_a_top_level_enabled_counts_for_all_flows_as_in_stock() -> None:
    plan = planned({**BOTH, "enabled": "true", "B->A.emit.heartbeats.enabled": "false"})
    assert [(flow.name, flow.copies) for flow in plan.flows] == [("A->B", True)]
    plan = planned({**BOTH, "enabled": "true"})
    assert [(flow.name, flow.copies) for flow in plan.flows] == [("A->B", True), ("B->A", True)]


def test_a_flow_without_offset_syncs_has_no_checkpoints_and_says_so() -> None:
    """DedicatedMirrorIntegrationTest.testClusterWithEmitOffsetDisabled: source and heartbeat connector run."""
    plan = planned({**BOTH, "emit.offset-syncs.enabled": "false"})
    assert names(plan)["A->B"] == [SOURCE, HEARTBEAT]
    assert [(warning.key, warning.message) for warning in plan.warnings] == [
        ("emit.offset-syncs.enabled", message("dedicated.no_checkpoints", flow="A->B"))
    ]


POLICY, STOCK = "replication.policy.class", "org.apache.kafka.connect.mirror."
LEGACY = {**BOTH, "B->A.enabled": "true", POLICY: f"{STOCK}LegacyReplicationPolicy"}


@pytest.mark.parametrize(
    ("changes", "topic"),
    [
        ({}, "orders"),
        ({"A->B.topics": "bills,a.*", "B->A.topics": "bills"}, "bills"),
        ({"A->B.topics": "b-.*|c.*", "B->A.topics": "c.*,x.*"}, "c"),
        # One of them is enough: it has no name that tells.
        (
            {
                "B->A.replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
                "topics": "bills",
            },
            "bills",
        ),
    ],
)
def test_both_directions_under_names_that_stay_are_an_error(changes: Mapping[str, str], topic: str) -> None:
    """In the sentence that the second of two connectors gets at run time."""
    messages = errors({**LEGACY, **changes})
    assert list(messages) == ["B->A.enabled"]
    said = message("dedicated.opposite", flow="A->B", back="B->A", topic=topic)
    assert messages["B->A.enabled"].startswith(said)


@pytest.mark.parametrize(
    "changes",
    [
        {"B->A.enabled": "false"},
        {"A->B.topics": "a-.*", "B->A.topics": "b-.*"},
        {"A->B.topics.exclude": "b-.*", "B->A.topics": "b-.*"},
        {"replication.policy.class": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"},
        # Nobody can say of look-ahead what it has in common with others: the claims of the flows decide.
        {"A->B.topics": "(?!b).*x", "B->A.topics": "b.*"},
    ],
)
def test_both_directions_without_a_topic_in_common_are_planned(changes: Mapping[str, str]) -> None:
    copies = {flow.name for flow in planned({**LEGACY, **changes}).flows if flow.copies}
    assert copies == ({"A->B"} if "B->A.enabled" in changes else {"A->B", "B->A"})


@pytest.mark.parametrize("flow", ["A->B", "B->A"])
def test_names_that_get_longer_at_each_time_round_are_an_error(flow: str) -> None:
    """orders is orders on B, which is B.orders on A, which is B.orders on B, which is B.B.orders on A."""
    changes = {
        POLICY: f"{STOCK}IdentityReplicationPolicy",
        f"{flow}.{POLICY}": f"{STOCK}DefaultReplicationPolicy",
    }
    assert list(errors({**LEGACY, **changes})) == ["B->A.enabled"]


RING = {
    "clusters": "A, B, C",
    **{f"{name}.bootstrap.servers": f"{name}:9092" for name in "ABC"},
    **{f"{flow}.enabled": "true" for flow in ("A->B", "B->C", "C->A")},
}


def test_a_ring_of_clusters_under_names_that_stay_is_an_error() -> None:
    messages = errors({**RING, POLICY: f"{STOCK}IdentityReplicationPolicy"})
    assert list(messages) == ["C->A.enabled"]
    assert "A->B.MirrorSourceConnector, B->C.MirrorSourceConnector, C->A" in messages["C->A.enabled"]
    assert [flow.copies for flow in planned(RING).flows].count(True) == 3, "names tell where they come from"
    left_out = {"C->A.topics.exclude": "orders", "topics": "orders"}
    assert planned({**RING, POLICY: f"{STOCK}IdentityReplicationPolicy", **left_out}).flows


def test_aliases_with_the_separator_reach_every_flow_from_the_top_level() -> None:
    file = {
        "clusters": "us.west, us.east",
        "us.west.bootstrap.servers": "west:9092",
        "us.east.bootstrap.servers": "east:9092",
        "us.west->us.east.enabled": "true",
        "us.east->us.west.enabled": "true",
    }
    with pytest.raises(ConfigRejected, match=r"name it in replication\.policy\.aliases") as rejected:
        planned(file)
    assert {error.key for error in rejected.value.errors} == {"clusters"}
    aliases = "us.west,us.east"
    plan = planned({**file, "replication.policy.aliases": aliases})
    assert (plan.unused, plan.warnings) == ((), ())
    for flow in plan.flows:
        assert flow.copies
        assert {each.config["replication.policy.aliases"] for each in flow.connectors} == {aliases}


def test_own_keys_and_tasks_reach_every_flow() -> None:
    file = {**BOTH, "tasks.max": "3", "source.gap.policy": "fail", "spark.master": "local[2]"}
    props = config(planned(file), "A->B")
    assert "tasks.max" not in props
    assert (props["spark.default.parallelism"], props["source.gap.policy"]) == ("3", "fail")
    assert props["spark.master"] == "local[2]"
    assert config(planned(file), "A->B", CHECKPOINT)["tasks.max"] == "3"
    own = {**file, "A->B.spark.default.parallelism": "5", "A->B.source.gap.policy": "report"}
    props = config(planned(own), "A->B")
    assert (props["spark.default.parallelism"], props["source.gap.policy"]) == ("5", "report")


def test_clients_of_a_cluster_by_role() -> None:
    file = {
        **BOTH,
        "A.consumer.fetch.max.wait.ms": "100",
        "A.admin.request.timeout.ms": "20000",
        "A.security.protocol": "SSL",
        "B.producer.compression.type": "zstd",
    }
    plan = planned(file)
    assert plan.clusters["A"].of_role("consumer") == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SSL",
        "fetch.max.wait.ms": "100",
    }
    props = config(plan, "A->B")
    assert props["source.consumer.fetch.max.wait.ms"] == "100"
    assert props["source.admin.request.timeout.ms"] == "20000"
    assert props["target.producer.compression.type"] == "zstd"


FAN = {
    "clusters": "A, B, C",
    **{f"{alias}.bootstrap.servers": f"{alias}:1" for alias in "ABC"},
    "A->B.enabled": "true",
    "A->C.enabled": "true",
}


@pytest.mark.parametrize(
    ("chosen", "flows"),
    [
        (["B"], {"A->B": True, "C->B": False, "B->A": False}),
        (
            ["B", "C"],
            {"A->B": True, "A->C": True, "B->A": False, "B->C": False, "C->A": False, "C->B": False},
        ),
        (["A"], {"B->A": False, "C->A": False}),
        (
            [],
            dict.fromkeys(("A->B", "A->C", "B->A", "B->C", "C->A", "C->B"), False)
            | {"A->B": True, "A->C": True},
        ),
    ],
)
def test_a_node_runs_the_flows_into_its_clusters_and_heartbeats_into_their_sources(
    chosen: list[str], flows: dict[str, bool]
) -> None:
    plan = restricted(planned(FAN), chosen)
    assert {flow.name: flow.copies for flow in plan.flows} == flows
    for flow in plan.flows:
        assert HEARTBEAT in [each.name for each in flow.connectors]
        assert flow.copies or len(flow.connectors) == 1


def test_heartbeats_that_are_off_stay_off_where_a_node_is_restricted() -> None:
    plan = restricted(planned({**FAN, "B->A.emit.heartbeats.enabled": "false"}), ["B"])
    assert {flow.name for flow in plan.flows} == {"A->B", "C->B"}


def test_both_ways_a_restricted_node_takes_heartbeats_alone_of_the_flow_back() -> None:
    plan = restricted(planned({**BOTH, "B->A.enabled": "true"}), ["B"])
    assert names(plan) == {"A->B": [SOURCE, CHECKPOINT, HEARTBEAT], "B->A": [HEARTBEAT]}
    assert [flow.copies for flow in plan.flows] == [True, False]


def test_clusters_that_the_file_does_not_have() -> None:
    with pytest.raises(ConfigRejected) as rejected:
        restricted(planned(FAN), ["B", "D", "b"])
    assert [error.message for error in rejected.value.errors] == [
        message("dedicated.unknown_cluster", name=name, known="A, B, C") for name in ("D", "b")
    ]


def test_a_cluster_without_a_flow_into_it() -> None:
    off = {"emit.heartbeats.enabled": "false"}
    with pytest.raises(ConfigRejected) as rejected:
        restricted(planned({**FAN, **off}), ["A"])
    assert [error.message for error in rejected.value.errors] == [
        message("dedicated.no_flow", why="None of the file's flows has A as its target")
    ]

"""Stock's MirrorMakerConfigTest by its names (stock §4.3): what clusters, workers and connectors get of a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridge.dedicated.config import stock
from bridge.dedicated.config.reading import replaced, resolved
from bridge.kafka.config.settings import StaticClientCheck
from bridge.mm2.replication_policy import DefaultReplicationPolicy
from connectors.registry import KINDS
from tests.support.messages import message, message_pattern
from tests.unit.dedicated.config.files import BOTH, config, errors, planned

FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest.fixture
def secret(tmp_path: Path) -> dict[str, str]:
    """A config provider `fake`, and a reference to the password `secret2` that it has."""
    file = tmp_path / "secret.properties"
    file.write_text("password=secret2\n")
    return {
        "config.providers": "fake",
        "config.providers.fake.class": FILE_PROVIDER,
        "ssl.key.password": f"${{fake:{file}:password}}",
    }


def base(file: dict[str, str], source: str = "a", target: str = "b") -> dict[str, str]:
    return stock.values(stock.connector_settings(file, source, target, "MirrorSourceConnector"))


def transformed(file: dict[str, str]) -> dict[str, str]:
    data, wrong = resolved(file, {})
    assert wrong == []
    return replaced(file, data)


def test_cluster_config_properties() -> None:
    """testClusterConfigProperties"""
    file = {
        "clusters": "a, b",
        "a.bootstrap.servers": "servers-one:1",
        "b.bootstrap.servers": "servers-two:2",
        "a->b.enabled": "true",
        "security.protocol": "SSL",
        "replication.factor": "4",
    }
    for props in (base(file), config(planned(file), "a->b")):
        assert props["source.cluster.bootstrap.servers"] == "servers-one:1"
        assert props["target.cluster.bootstrap.servers"] == "servers-two:2"
        assert props["security.protocol"] == "SSL"
        assert props["source.cluster.security.protocol"] == "SSL"
        assert props["replication.factor"] == "4"


def test_replication_config_properties() -> None:
    """testReplicationConfigProperties"""
    assert base({"clusters": "a, b", "a->b.tasks.max": "123"})["tasks.max"] == "123"


def test_client_config_properties(secret: dict[str, str]) -> None:
    """testClientConfigProperties. Stock's test makes a forwarding admin of its own; here there is none but the
    default."""
    servers = {"a": "127.0.0.1:9092, 127.0.0.2:9092", "b": "127.0.0.3:9092, 127.0.0.4:9092"}
    file = transformed(
        {
            "clusters": "a, b",
            **secret,
            "replication.policy.separator": "__",
            "security.protocol": "SSL",
            "a.security.protocol": "PLAINTEXT",
            "a.producer.security.protocol": "SSL",
            **{f"{alias}.bootstrap.servers": text for alias, text in servers.items()},
            "metrics.reporter": "FakeMetricsReporter",
            "a.metrics.reporter": "FakeMetricsReporter",
            "b->a.metrics.reporter": "FakeMetricsReporter",
            "a.xxx": "yyy",
            "xxx": "zzz",
        }
    )
    whole = stock.values(stock.client_settings(file, "a"))
    assert whole["replication.policy.separator"] == "__"
    policy = DefaultReplicationPolicy()
    policy.configure(whole)
    assert policy.format_remote_topic("b", "topic1") == "b__topic1"
    cluster = planned(file).clusters["a"]
    assert cluster.client["bootstrap.servers"] == servers["a"]
    assert cluster.of_role("admin")["security.protocol"] == "PLAINTEXT"
    assert cluster.of_role("producer")["security.protocol"] == "SSL"
    assert cluster.of_role("admin")["ssl.key.password"] == "secret2"
    for role in ("admin", "producer", "consumer"):
        assert not {"xxx", "metric.reporters", "metrics.reporter"} & set(cluster.of_role(role))


def test_includes_connector_config_properties() -> None:
    """testIncludesConnectorConfigProperties"""
    file = {
        "clusters": "a, b",
        "tasks.max": "100",
        "topics": "topic-1",
        "groups": "group-2",
        "replication.policy.separator": "__",
        "config.properties.exclude": "property-3",
        "metric.reporters": "FakeMetricsReporter",
        "topic.filter.class": "org.apache.kafka.connect.mirror.DefaultTopicFilter",
        "xxx": "yyy",
    }
    props = base(file, "source", "target")
    assert {
        key: value for key, value in file.items() if key not in ("clusters", "xxx")
    }.items() <= props.items()
    assert "xxx" not in props


def test_includes_topic_filter_properties() -> None:
    """testIncludesTopicFilterProperties"""
    file = {
        "clusters": "a, b",
        "source->target.topics": "topic1, topic2",
        "source->target.topics.exclude": "topic3",
    }
    props = base(file, "source", "target")
    assert (props["topics"], props["topics.exclude"]) == ("topic1, topic2", "topic3")


def test_worker_configs(secret: dict[str, str]) -> None:
    """testWorkerConfigs"""
    file = transformed(
        {
            "clusters": "a, b",
            **secret,
            "replication.policy.separator": "__",
            "offset.storage.replication.factor": "123",
            "b.status.storage.replication.factor": "456",
            "b.producer.client.id": "client-one",
            "b.security.protocol": "PLAINTEXT",
            "b.producer.security.protocol": "SASL",
            "ssl.truststore.password": "secret1",
            "b.xxx": "yyy",
        }
    )
    into_a = stock.values(stock.worker_settings(file, "b", "a"))
    assert into_a["client.id"] == "b->a"
    assert into_a["group.id"] == "b-mm2"
    assert into_a["offset.storage.replication.factor"] == "123"
    assert into_a["replication.policy.separator"] == "__"
    assert into_a["config.providers"] == "fake"
    into_b = stock.values(stock.worker_settings(file, "a", "b"))
    assert into_b["client.id"] == "a->b"
    assert into_b["status.storage.replication.factor"] == "456"
    assert into_b["producer.client.id"] == "client-one"
    assert into_b["producer.security.protocol"] == "SASL"
    assert into_b["consumer.security.protocol"] == "PLAINTEXT"
    assert into_b["ssl.truststore.password"] == into_b["producer.ssl.truststore.password"] == "secret1"
    assert into_b["ssl.key.password"] == into_b["producer.ssl.key.password"] == "secret2"
    assert into_b["replication.policy.separator"] == "__"


def with_servers(file: dict[str, str]) -> dict[str, str]:
    return {**{f"{alias}.bootstrap.servers": "h:1" for alias in stock.clusters(file)}, **file}


def pairs(file: dict[str, str]) -> int:
    """The number of flows, by stock's rule and in the plan."""
    pairs = stock.cluster_pairs(file)
    if pairs:
        assert [(flow.source, flow.target) for flow in planned(with_servers(file)).flows] == pairs
    return len(pairs)


def test_cluster_pairs_with_default_settings() -> None:
    """testClusterPairsWithDefaultSettings: all of them have heartbeats."""
    file = {"clusters": "a, b, c"}
    assert pairs(file) == 6
    for flow in planned(with_servers(file)).flows:
        assert not flow.copies
        assert [each.name for each in flow.connectors] == ["MirrorHeartbeatConnector"]


def test_empty_cluster_pairs_with_globally_disabled_heartbeats() -> None:
    """testEmptyClusterPairsWithGloballyDisabledHeartbeats. Stock's driver ends with these words."""
    file = {"clusters": "a, b, c", "emit.heartbeats.enabled": "false"}
    assert pairs(file) == 0
    said = message("dedicated.no_flow", why="Enable one, as in A->B.enabled = true")
    assert errors(file) == {"clusters": said}


def test_cluster_pairs_with_two_disabled_heartbeats() -> None:
    """testClusterPairsWithTwoDisabledHeartbeats"""
    off = {f"a->{target}.emit.heartbeats.enabled": "false" for target in "bc"}
    assert pairs({"clusters": "a, b, c", **off}) == 4


def test_cluster_pairs_with_globally_disabled_heartbeats() -> None:
    """testClusterPairsWithGloballyDisabledHeartbeats"""
    file = {
        "clusters": "a, b, c, d, e, f",
        "emit.heartbeats.enabled": "false",
        **{f"a->{target}.enabled": "true" for target in "bcd"},
        **{f"a->{target}.enabled": "false" for target in "ef"},
    }
    assert pairs(file) == 3
    assert ("b", "a") not in stock.cluster_pairs(file)


def test_cluster_pairs_with_globally_disabled_heartbeats_central_local() -> None:
    """testClusterPairsWithGloballyDisabledHeartbeatsCentralLocal"""
    file = {
        "clusters": "central, local_one, local_two, beats_emitter",
        "emit.heartbeats.enabled": "false",
        "central->local_one.enabled": "true",
        "central->local_two.enabled": "true",
        "beats_emitter->central.emit.heartbeats.enabled": "true",
    }
    assert pairs(file) == 3
    assert {flow.name: flow.copies for flow in planned(with_servers(file)).flows} == {
        "central->local_one": True,
        "central->local_two": True,
        "beats_emitter->central": False,
    }


def test_invalid_security_protocol() -> None:
    """testInvalidSecurityProtocol"""
    off = {f"a->{target}.emit.heartbeats.enabled": "false" for target in "bc"}
    messages = errors(with_servers({"clusters": "a, b, c", **off, "security.protocol": "abc"}))
    assert list(messages) == ["security.protocol"]
    said = messages["security.protocol"]
    assert re.fullmatch(message_pattern("config.invalid", value="abc", key="security.protocol"), said)


def test_client_invalid_security_protocol() -> None:
    """testClientInvalidSecurityProtocol"""
    messages = errors({**BOTH, "A.security.protocol": "abc"})
    assert list(messages) == ["A.security.protocol"]
    said = messages["A.security.protocol"]
    assert re.fullmatch(message_pattern("config.invalid", value="abc", key="A.security.protocol"), said)


def test_case_insensitive_security_protocol() -> None:
    """testCaseInsensitiveSecurityProtocol"""
    plan = planned({**BOTH, "security.protocol": "ssl"})
    assert plan.clusters["A"].client["security.protocol"] == "ssl"


def test_all_config_names() -> None:
    """testAllConfigNames. tests/integration/test_stock_mirror_maker_config.py compares all of them."""
    assert {"topics", "groups", "emit.heartbeats.enabled"} <= stock.CONNECTOR_NAMES


def test_lazy_config_resolution(secret: dict[str, str]) -> None:
    """testLazyConfigResolution: connectors' configurations keep their references in stock, whose workers replace them.
    In a plan they are replaced, since nobody else would."""
    reference = secret["ssl.key.password"]
    file = {
        **BOTH,
        **secret,
        "replication.policy.separator": "__",
        "B->A.topics": reference,
        "B->A.enabled": "true",
    }
    props = base(file, "B", "A")
    assert props["ssl.key.password"] == props["topics"] == reference
    plan = planned(file)
    assert config(plan, "B->A")["topics"] == "secret2"
    assert "secret2" not in repr(plan)


def test_every_connector_of_a_plan_is_valid() -> None:
    """What a plan has is what the kinds' own checks take."""
    plan = planned({**BOTH, "B->A.enabled": "true", "A->B.sync.group.offsets.enabled": "true"})
    connectors = [each for flow in plan.flows for each in flow.connectors]
    assert len(connectors) == 6
    for each in connectors:
        checked = KINDS[each.kind].validate(dict(each.config), StaticClientCheck())
        assert checked.errors == ()
        assert each.config["name"] == each.name
        assert each.config["connector.class"] == KINDS[each.kind].connector_class

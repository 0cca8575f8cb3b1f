"""BridgeMirrorSourceConnector's configuration: what is accepted, what it means, each wrong one by its key."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import connectors.source
from bridge.kafka.config.properties import ADMIN, PRODUCER, ClientProps, KeyPrefixes
from bridge.model.values import Side
from connectors.registry import KINDS
from connectors.source.checks import NO_SYNCS_TO_SET_UP, NOT_EXACTLY_ONCE
from connectors.source.options import SourceOptions
from tests.support.messages import message
from tests.unit.connectors.configs import CLIENTS, SOURCE, source_errors

CONNECTOR_JSON = Path(connectors.source.__file__).with_name("connector.json")


def options(**changes: str) -> SourceOptions:
    given = {key.replace("__", "-").replace("_", "."): value for key, value in changes.items()}
    return SourceOptions.from_props(SOURCE | given, CLIENTS)


def test_the_json_that_an_operator_puts_is_accepted() -> None:
    given = json.loads(CONNECTOR_JSON.read_text())
    assert given["config"]["connector.class"] == "BridgeMirrorSourceConnector"
    assert SourceOptions.from_props(given["config"], CLIENTS).target_alias == "B"


def test_the_kind_is_registered() -> None:
    kind = KINDS["source"]
    assert kind.connector_class == "dev.mirrorbridge.BridgeMirrorSourceConnector"
    assert kind.validate(SOURCE, CLIENTS).errors == ()


def test_defaults_are_stocks_but_for_committed_data_only() -> None:
    parsed = options()
    assert (parsed.refresh_enabled, parsed.sync_configs_enabled, parsed.sync_acls_enabled) == (
        True,
        True,
        True,
    )
    intervals = (parsed.refresh_interval, parsed.sync_configs_interval, parsed.sync_acls_interval)
    assert intervals == (600.0, 600.0, 600.0)
    assert (parsed.replication_factor, parsed.internal_replication_factor, parsed.offset_lag_max) == (
        2,
        3,
        100,
    )
    assert (parsed.emit_syncs, parsed.syncs_on_target, parsed.heartbeats_replication) == (True, False, True)
    assert (parsed.from_latest, parsed.committed_only, parsed.revoke_acls) == (False, True, False)
    assert (parsed.fail_on_gap, parsed.fail_on_refused_record, parsed.recopy) == (False, True, True)
    assert (parsed.transaction_interval, parsed.batch_size) == (0.1, 16384)


def test_internal_topics_have_a_replication_factor_without_offset_syncs_too() -> None:
    """No key of the offset-syncs topic may be given then."""
    parsed = options(emit_offset__syncs_enabled="false", replication_factor="1")
    assert parsed.internal_replication_factor == 1


def test_every_key_takes_effect() -> None:
    parsed = options(
        refresh_topics_enabled="false",
        refresh_topics_interval_seconds="1",
        sync_topic_configs_enabled="false",
        sync_topic_configs_interval_seconds="2",
        sync_topic_acls_enabled="false",
        sync_topic_acls_interval_seconds="3",
        sync_topic_acls_revoke="TRUE",
        replication_factor="-1",
        offset__syncs_topic_replication_factor="1",
        offset__syncs_topic_location="target",
        offset_lag_max="0",
        heartbeats_replication_enabled="false",
        transaction_interval_ms="250",
        source_gap_policy="fail",
        source_record_policy="report",
        admin_timeout_ms="7",
    )
    assert (parsed.refresh_enabled, parsed.sync_configs_enabled, parsed.sync_acls_enabled) == (
        False,
        False,
        False,
    )
    intervals = (parsed.refresh_interval, parsed.sync_configs_interval, parsed.sync_acls_interval)
    assert intervals == (1.0, 2.0, 3.0)
    assert (parsed.revoke_acls, parsed.replication_factor, parsed.internal_replication_factor) == (
        True,
        -1,
        1,
    )
    assert (parsed.syncs_on_target, parsed.offset_lag_max, parsed.heartbeats_replication) == (True, 0, False)
    assert (parsed.transaction_interval, parsed.fail_on_gap, parsed.fail_on_refused_record) == (
        0.25,
        True,
        False,
    )
    assert parsed.admin_timeout_ms == 7
    assert not options(enabled="false").enabled


@pytest.mark.parametrize(
    ("consumer", "own", "committed"),
    [
        *((None, None, True), ("read_committed", None, True), (None, "read_committed", True)),
        *(("read_uncommitted", "read_committed", True), ("read_committed", "read_uncommitted", False)),
        *(("read_uncommitted", None, False), (None, "read_uncommitted", False)),
    ],
)
def test_exactly_once_support_validation(consumer: str | None, own: str | None, committed: bool) -> None:
    """MirrorSourceConnectorTest.testExactlyOnceSupportValidation, with our default."""
    given = {"consumer.isolation.level": consumer, "source.consumer.isolation.level": own}
    assert SourceOptions.from_props(SOURCE | given, CLIENTS).committed_only is committed
    expected = [] if committed else [("exactly.once.support", NOT_EXACTLY_ONCE)]
    assert source_errors(given | {"exactly.once.support": "required"}) == expected
    assert source_errors(given | {"exactly.once.support": "requested"}) == []
    both = dict(source_errors(given | {"exactly.once.support": "required", "offset.lag.max": "bad"}))
    lag = message("config.not_a_number", value="bad", key="offset.lag.max", type="LONG")
    assert both.pop("offset.lag.max") == lag
    assert both == dict(expected)


@pytest.mark.parametrize("key", ["offset-syncs.topic.location", "offset-syncs.topic.replication.factor"])
def test_no_offset_syncs_can_be_set_up_where_none_are_emitted(key: str) -> None:
    value = "1" if key.endswith("factor") else "target"
    assert source_errors({"emit.offset-syncs.enabled": "FALSE", key: value}) == [
        ("emit.offset-syncs.enabled", NO_SYNCS_TO_SET_UP)
    ]
    assert source_errors({"emit.offset-syncs.enabled": "true", key: value}) == []
    assert source_errors({"emit.offset-syncs.enabled": "false"}) == []


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("source.cluster.alias", None, "Missing required configuration"),
        ("source.cluster.bootstrap.servers", None, "Missing required configuration"),
        ("target.cluster.bootstrap.servers", "b", "is not of the form host:port"),
        ("source.cluster.alias", "us.west", "the alias contains the separator '.'"),
        *(
            ("replication.policy.separator", separator, "is part of topic names and takes only letters")
            for separator in (":", "/", "->", "é", "_  # between alias and topic")
        ),
        ("replication.policy.separator", "", "String must be non-empty, but with IdentityReplicationPolicy"),
        ("topics", "(", "is not a regular expression"),
        ("replication.factor", "0", "Replication factor must be positive"),
        ("offset.lag.max", "-1", "Value must be at least 0"),
        ("offset-syncs.topic.location", "something", "String must be one of: source, target"),
        ("transaction.interval.ms", "0", "Value must be at least 1"),
        ("transaction.interval.ms", "15000", "Value must be no more than 5000"),
        ("source.gap.policy", "stop", "String must be one of: report, fail"),
        ("source.record.policy", "skip", "String must be one of: report, fail"),
        ("bridge.target.recreated", "report", "String must be one of: recopy, continue"),
        ("spark.speculation", "true", "spark.speculation must be false or absent"),
        ("consumer.auto.offset.reset", "none", "must be earliest or latest"),
        ("source.consumer.auto.offset.reset", "by_duration:PT1H", "must be earliest or latest"),
        ("target.producer.batch.size", "big", "Not a number of type INT"),
        ("target.producer.batch.size", "16_384", "Not a number of type INT"),
        ("producer.override.compression.zstd.level", "1_0", "must be a number from -131072 to 22"),
        ("spark.default.parallelism", "four", "Not a number of type INT"),
        ("spark.default.parallelism", "0", "Value must be at least 1"),
        ("target.producer.no.such", "1", "is not a property of Kafka's producer client"),
        ("source.producer.no.such", "1", "is not a property of Kafka's producer client"),
        ("config.property.filter.class", "x.Y", "Java classes can't be loaded here"),
    ],
)
def test_each_wrong_value_is_one_error_that_names_its_key(key: str, value: str | None, why: str) -> None:
    rejected = source_errors({key: value})
    assert [name for name, _ in rejected] == [key]
    assert why in rejected[0][1]


@pytest.mark.parametrize("policy", ["IdentityReplicationPolicy", "LegacyReplicationPolicy"])
def test_no_separator_is_needed_where_topics_keep_their_names(policy: str) -> None:
    given = {"replication.policy.class": f"org.apache.kafka.connect.mirror.{policy}"}
    assert source_errors(given | {"replication.policy.separator": ""}) == []


def test_the_sources_producer_is_nobodys_business_without_offset_syncs_there() -> None:
    given = {"source.producer.no.such": "1"}
    assert source_errors(given | {"offset-syncs.topic.location": "target"}) == []
    assert source_errors(given | {"emit.offset-syncs.enabled": "false"}) == []


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, None),
        ({"spark.master": " local[4] "}, None),
        ({"spark.master": "yarn"}, "spark.authenticate"),
        ({"spark.master": "yarn", "spark.authenticate": "true"}, None),
        ({"spark.master": "k8s://https://api", "spark.authenticate": "false"}, None),
        ({"spark.master": "spark://m:7077", "spark.authenticate": "true"}, "spark.authenticate.secret"),
        (
            {
                "spark.master": "spark://m:7077",
                "spark.authenticate": "true",
                "spark.authenticate.secret": "s",
            },
            None,
        ),
        ({"spark.master": "local-cluster[1,1,512]"}, "spark.authenticate"),
    ],
)
def test_passwords_go_to_other_machines_by_authenticated_connections(
    given: Mapping[str, str], missing: str | None
) -> None:
    rejected = source_errors(given)
    assert [key for key, _ in rejected] == ([] if missing is None else [missing])
    assert all(message.startswith(f"Missing configuration {missing}: ") for _, message in rejected)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"spark.remote": "sc://localhost"}, []),
        ({"spark.shared": "true", "spark.master": "local[2]"}, []),
        ({"spark.shared": "true", "spark.master": "yarn", "spark.authenticate": "true"}, ["spark.shared"]),
        ({"spark.shared": "yes"}, ["spark.shared"]),
        ({"spark.remote": "sc://localhost", "spark.shared": "true"}, ["spark.shared"]),
        ({"spark.remote": "sc://a/;use_ssl=true", "spark.connect.authenticate.token": "t"}, []),
        ({"spark.remote": "sc://a", "spark.default.parallelism": "2"}, ["spark.remote"]),
        ({"spark.remote": "sc://a/;use_ssl=true;token=planted"}, ["spark.remote"]),
        ({"spark.remote": "sc://localhost", "spark.master": "local"}, ["spark.master"]),
        ({"spark.remote": "sc://localhost", "spark.executor.memory": "1g"}, ["spark.executor.memory"]),
    ],
)
def test_a_connect_server_is_reached_safely_and_has_its_own_settings(
    given: Mapping[str, str], wrong: list[str]
) -> None:
    rejected = source_errors(given)
    assert [key for key, _ in rejected] == wrong
    assert "planted" not in str(rejected)


TOPIC_MAP = {"replication.policy.class": "python:bridge.policies.TopicMap"}


@pytest.mark.parametrize(
    ("given", "key", "why"),
    [
        (TOPIC_MAP, "replication.policy.topic.map", "none is"),
        (
            TOPIC_MAP | {"replication.policy.topic.map": "a=x,b=x"},
            "replication.policy.topic.map",
            "'a=x' and 'b=x' map to one name: a and b would both come to x",
        ),
        (
            {"replication.policy.topic.map": "a=x"},
            "replication.policy.topic.map",
            "DefaultReplicationPolicy does not read it; give replication.policy.class=python:bridge.policies.TopicMap",
        ),
        (
            {"replication.policy.topic.map.file": "/x"},
            "replication.policy.topic.map.file",
            "DefaultReplicationPolicy does not read it",
        ),
        (
            TOPIC_MAP | {"replication.policy.topic.map.file": "/no/such/file"},
            "replication.policy.topic.map.file",
            "No such file",
        ),
    ],
)
def test_what_is_wrong_with_a_topic_map_is_an_error_of_its_key(
    given: Mapping[str, str], key: str, why: str
) -> None:
    ((found, message),) = source_errors(given)
    assert found == key
    assert why in message


def test_topics_are_named_by_the_map() -> None:
    found = options(
        replication_policy_class=TOPIC_MAP["replication.policy.class"],
        replication_policy_topic_map="a=b,c.*=d.$0",
        topics="a,c1,e,b",
    )
    assert [found.remote_of(topic) for topic in ("a", "c1", "e", "b", "x")] == [
        "b",
        "d.c1",
        "source1.e",
        "source1.b",
        None,
    ]


def test_connectors_whose_records_may_be_mixed_are_named() -> None:
    assert options(bridge_merge_with="one, two").spec("mirror", {}).merge_with == ("one", "two")


def test_b25_the_timestamp_type_has_to_be_excluded() -> None:
    ((key, message),) = source_errors({"config.properties.exclude": "min.insync.replicas"})
    assert key == "config.properties.exclude"
    assert "message.timestamp.type must be excluded" in message
    assert source_errors({"config.properties.exclude": "min.insync.replicas, message\\.timestamp\\..*"}) == []


def test_b29_an_alias_with_the_separator_is_refused_unless_it_is_said_how_it_is_read() -> None:
    ((key, message),) = source_errors({"target.cluster.alias": "us.west"})
    assert key == "target.cluster.alias"
    assert "name it in replication.policy.aliases" in message
    assert (
        source_errors({"target.cluster.alias": "us.west", "replication.policy.aliases": "us.west,us.east"})
        == []
    )
    ((key, message),) = source_errors({"replication.policy.aliases": "us.west,u s"})
    assert (key, "an alias is part of topic names" in message) == ("replication.policy.aliases", True)
    policy = options(source_cluster_alias="us.west", replication_policy_aliases="us.west").policy
    assert policy.topic_source("us.west.orders") == "us.west"
    assert source_errors({"target.cluster.alias": "us.west", "replication.policy.separator": "_"}) == []


@pytest.mark.parametrize(
    ("location", "topic"),
    [("source", "mm2-offset-syncs.target2.internal"), ("target", "mm2-offset-syncs.source1.internal")],
)
def test_offset_syncs_topic(location: str, topic: str) -> None:
    """MirrorSourceConfigTest.testOffsetSyncsTopic."""
    spec = options(offset__syncs_topic_location=location).spec("mirror", {})
    assert (spec.syncs_topic, spec.syncs_on_target) == (topic, location == "target")
    assert options(emit_offset__syncs_enabled="false").spec("mirror", {}).syncs_topic == ""


@pytest.mark.parametrize(
    ("role", "name"),
    [
        pytest.param(
            PRODUCER, "batch.size", id="MirrorSourceConfigTest.testProducerConfigsForOffsetSyncsTopic"
        ),
        pytest.param(
            ADMIN, "send.buffer.bytes", id="MirrorSourceConfigTest.testAdminConfigsForOffsetSyncsTopic"
        ),
    ],
)
@pytest.mark.parametrize(("location", "value"), [("source", "1"), ("target", "2")])
def test_clients_of_the_offset_syncs_topic(role: str, name: str, location: str, value: str) -> None:
    changes = {
        f"source.{role}.{name}": "1",
        f"target.{role}.{name}": "2",
        "offset-syncs.topic.location": location,
    }
    spec = options(offset__syncs_topic_location=location).spec("mirror", {})
    side = Side.TARGET if spec.syncs_on_target else Side.SOURCE
    assert ClientProps(KeyPrefixes.for_side(side), role, changes).get(name) == value


def test_the_pipeline_is_told_everything_by_name() -> None:
    parsed = options(
        consumer_auto_offset_reset="earliest",
        source_consumer_auto_offset_reset="latest",
        producer_batch_size="1",
        target_producer_batch_size="1048576",
        source_gap_policy="fail",
        bridge_target_recreated="continue",
    )
    spec = parsed.spec("mirror", SOURCE)
    assert (spec.name, spec.props, spec.source_alias) == ("mirror", SOURCE, "source1")
    assert spec.runs_topic == "mm2-offset-runs.source1.internal"
    assert spec.layout_topic == "mm2-layout.source1.internal"
    assert spec.gaps_topic == "mm2-gaps.source1.internal"
    assert (spec.from_latest, spec.batch_size, spec.offset_lag_max) == (True, 1048576, 100)
    assert (spec.committed_only, spec.fail_on_gap, spec.fail_on_refused_record) == (True, True, True)
    assert not spec.recopy
    assert spec.transaction_interval == 0.1
    assert not spec.until_caught_up


REJECT_ALL: dict[str, str] = {"topics": ""}


@pytest.mark.parametrize(
    ("given", "topics", "replicated"),
    [
        ({}, "heartbeats us-west.heartbeats topic1", True),
        (REJECT_ALL, "heartbeats us-west.heartbeats", True),
        (REJECT_ALL | {"replication.policy.separator": "_"}, "us-west.heartbeats topic1", False),
        (REJECT_ALL | {"heartbeats.replication.enabled": "false"}, "heartbeats us-west.heartbeats", False),
        ({"heartbeats.replication.enabled": "false"}, "heartbeats us-west.heartbeats", True),
        ({}, "target2.topic1 target2.source1.topic1 source1.target2.topic1", False),
        ({}, "target2.source1.target2.topic1 source1.target2.source1.topic1", False),
        ({}, "topic1 source1.topic1", True),
        ({}, "mm2-offset-runs.source1.internal __consumer_offsets .b source1.checkpoints.internal", False),
    ],
    ids=[
        "testReplicatesHeartbeatsByDefault",
        "testReplicatesHeartbeatsDespiteFilter",
        "testReplicatesHeartbeatsDespiteFilter with separator _",
        "testDoesNotReplicateHeartbeatsWhenDisabled",
        "testReplicatesHeartbeatsWhenDisabledButFilterAllows",
        "testNoCycles",
        "testNoCycles, longer",
        "testNoCycles, none",
        "internal",
    ],
)
def test_which_topics_are_copied(given: Mapping[str, str], topics: str, replicated: bool) -> None:
    """MirrorSourceConnectorTest, by the names of its tests."""
    parsed = SourceOptions.from_props(SOURCE | dict(given), CLIENTS)
    assert [parsed.replicates(topic) for topic in topics.split()] == [replicated] * len(topics.split())


def test_identity_replication() -> None:
    """MirrorSourceConnectorTest.testIdentityReplication."""
    parsed = options(replication_policy_class="IdentityReplicationPolicy", target_cluster_alias="target")
    for names in itertools.product(("", "target.", "source."), repeat=2):
        assert parsed.replicates("".join(names) + "topic1")
    assert not any(map(parsed.replicates, ("target.heartbeats", "target.source.heartbeats")))
    assert not parsed.replicates("source.target.heartbeats")
    assert parsed.replicates("heartbeats")
    assert parsed.replicates("othersource.heartbeats")


def test_what_writes_the_copies_is_tuned_as_stocks_is() -> None:
    """By Connect's override of its producer, which wins over target.producer, which wins over producer."""
    plain = options()
    assert (plain.batch_size, plain.compression, plain.compression_level) == (16384, "", None)
    given = {
        "producer.compression.type": "gzip",
        "target.producer.compression.type": "lz4",
        "producer.override.compression.type": "zstd",
        "target.producer.compression.zstd.level": "9",
        "producer.compression.gzip.level": "1",
        "target.producer.batch.size": "1",
        "producer.override.batch.size": "+32768",
    }
    parsed = SourceOptions.from_props(SOURCE | given, CLIENTS)
    assert (parsed.batch_size, parsed.compression, parsed.compression_level) == (32768, "zstd", 9)
    spec = parsed.spec("mirror", {})
    assert (spec.batch_size, spec.compression, spec.compression_level) == (32768, "zstd", 9)

"""What is to be made and altered on the target for topics of the source: plans, without a cluster (stock §3.6)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bridge.mm2.filters import DefaultConfigPropertyFilter
from bridge.mm2.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from bridge.model.copying import Copied
from bridge.model.topics import (
    ConfigEntry,
    ConfigSource,
    PatternType,
    Permission,
    TopicAcl,
    TopicOperation,
)
from bridge.model.values import TopicInfo, TopicPartition
from connectors.source.discovery import TopicPlan, copied, missing, plan_topics
from connectors.source.topic_settings import (
    AclPlan,
    RemoteNames,
    config_changes,
    new_topic_configs,
    plan_acls,
    remote_acls,
)

# -- topics ------------------------------------------------------------------------------------------------------------

NAMES = {"new": "A.new", "grown": "A.grown", "same": "A.same", "wider": "A.wider", "unsure": "A.unsure"}


def info(name: str, partitions: int) -> TopicInfo:
    return TopicInfo(name, f"id-{name}", partitions)


SOURCES = {
    name: info(name, count)
    for name, count in {"new": 2, "grown": 3, "same": 2, "wider": 1, "unsure": 1}.items()
}
REMOTES = {
    "A.new": None,
    "A.grown": info("A.grown", 2),
    "A.same": info("A.same", 2),
    "A.wider": info("A.wider", 4),
}


def test_remote_topics_are_made_and_grown_and_never_deleted() -> None:
    plan = plan_topics(SOURCES, REMOTES, NAMES)
    assert plan == TopicPlan({"A.new": 2}, {"A.grown": 3})
    assert plan.awaited == {"A.new": 2, "A.grown": 3}


def test_other_topics_that_records_may_go_to_are_made_and_grown_too() -> None:
    also = {"new": ("audit", "errors"), "same": ("errors",), "grown": ("errors", "unsure")}
    remotes = {**REMOTES, "audit": None, "errors": info("errors", 2)}
    plan = plan_topics(SOURCES, remotes, NAMES, also)
    assert plan == TopicPlan({"A.new": 2, "audit": 2}, {"A.grown": 3, "errors": 3})
    for there, awaited in ((None, []), (info("errors", 1), [0]), (info("errors", 5), [0, 1])):
        result = copied(SOURCES, {**REMOTES, "errors": there}, NAMES, also={"same": ("errors",)})
        same = [each for each in result if each.source.topic == "same"]
        assert [each.source.partition for each in same] == awaited
        assert all(each.also == (("errors", "id-errors"),) for each in same)
        assert [copy.target_topic for each in same[:1] for copy in each.copies] == ["A.same", "errors"][
            : 2 * bool(same)
        ]


def test_b26_only_what_is_there_on_both_sides_is_copied() -> None:
    result = copied(SOURCES, REMOTES, NAMES)
    assert [(each.source, each.target_topic) for each in result] == [
        *((TopicPartition("grown", number), "A.grown") for number in range(2)),
        *((TopicPartition("same", number), "A.same") for number in range(2)),
        (TopicPartition("wider", 0), "A.wider"),
    ]
    assert result[0] == Copied(TopicPartition("grown", 0), "id-grown", "A.grown", "id-A.grown")
    assert missing({"A.new": 2, "A.grown": 3, "A.same": 2}, REMOTES) == ["A.new", "A.grown"]


def test_refresh_topic_partitions_topic_on_target_first() -> None:
    """MirrorSourceConnectorTest.testRefreshTopicPartitionsTopicOnTargetFirst; B28: it is not deleted either."""
    plan = plan_topics({}, {"A.gone": info("A.gone", 3)}, {})
    assert plan == TopicPlan({}, {})
    assert copied({}, {"A.gone": info("A.gone", 3)}, {}) == []


# -- configs -----------------------------------------------------------------------------------------------------------


def override(value: str) -> ConfigEntry:
    return ConfigEntry(value, ConfigSource.DYNAMIC_TOPIC)


def default(value: str, source: ConfigSource = ConfigSource.DEFAULT) -> ConfigEntry:
    return ConfigEntry(value, source)


def chosen(**given: str) -> DefaultConfigPropertyFilter:
    result = DefaultConfigPropertyFilter()
    result.configure({key.replace("_", "."): value for key, value in given.items()})
    return result


STOCKS = {
    "name-1": override("value-1"),
    "name-2": default("value-2"),
    "min.insync.replicas": override("2"),
}


def test_config_property_filtering() -> None:
    """MirrorSourceConnectorTest.testConfigPropertyFiltering, and ...WithAlterConfigsAndSourceDefault for new topics."""
    assert new_topic_configs(STOCKS, chosen()) == {"name-1": "value-1"}
    assert new_topic_configs(STOCKS, chosen(use_defaults_from="source")) == {
        "name-1": "value-1",
        "name-2": "value-2",
    }


def test_new_topic_configs() -> None:
    """MirrorSourceConnectorTest.testNewTopicConfigs."""
    source = STOCKS | {"exclude_param.param1": override("value-param1")}
    filtered = chosen(config_properties_exclude="exclude_param.*, min.insync.replicas")
    assert new_topic_configs(source, filtered) == {"name-1": "value-1"}


@pytest.mark.parametrize(
    ("target", "defaults", "changes"),
    [
        ({"name-1": default("x"), "name-2": default("y")}, "target", {"name-1": "value-1"}),
        ({"name-1": override("x"), "name-2": override("y")}, "target", {"name-1": "value-1", "name-2": None}),
        ({"name-1": override("value-1"), "name-2": default("value-2")}, "target", {}),
        ({"name-1": default("value-1"), "name-2": override("value-2")}, "source", {"name-1": "value-1"}),
        ({"name-1": override("value-1"), "name-2": default("y")}, "source", {"name-2": "value-2"}),
        ({"name-2": override("y")}, "target", {"name-2": None}),
        ({}, "source", {}),
    ],
    ids=[
        "testConfigPropertyFilteringWithAlterConfigs",
        "an override that the source has no more goes",
        "what is the same is not written",
        "pinned as on the source",
        "testConfigPropertyFilteringWithAlterConfigsAndSourceDefault",
        "not known to the target",
        "nothing known to the target",
    ],
)
def test_config_changes(
    target: Mapping[str, ConfigEntry], defaults: str, changes: Mapping[str, str | None]
) -> None:
    result = config_changes(STOCKS, dict(target), chosen(use_defaults_from=defaults))
    assert result == changes
    there = {**target, **{name: override(value) for name, value in changes.items() if value is not None}}
    there |= {name: default("d") for name, value in changes.items() if value is None}
    assert config_changes(STOCKS, there, chosen(use_defaults_from=defaults)) == {}, "one round is enough"


def test_b23_timestamp_limits_are_excluded_by_their_brokers_names() -> None:
    limits = {f"message.timestamp.{side}.max.ms": override("1") for side in ("before", "after")}
    assert new_topic_configs(limits, chosen()) == {}
    assert config_changes(limits, dict.fromkeys(limits, default("2")), chosen()) == {}
    let_through = chosen(config_properties_exclude="message.timestamp.type")
    assert set(new_topic_configs(limits, let_through)) == set(limits)


@pytest.mark.parametrize("source", [ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER])
def test_b24_defaults_of_the_sources_brokers_are_not_pinned(source: ConfigSource) -> None:
    brokers = {"retention.ms": default("7", source)}
    assert new_topic_configs(brokers, chosen()) == {}
    assert config_changes(brokers, {"retention.ms": default("9")}, chosen()) == {}
    assert config_changes(brokers, {"retention.ms": override("7")}, chosen()) == {"retention.ms": None}
    assert new_topic_configs(brokers, chosen(use_defaults_from="source")) == {"retention.ms": "7"}


@pytest.mark.parametrize(
    "entry",
    [
        default("7", ConfigSource.STATIC_BROKER),
        ConfigEntry("7", ConfigSource.DYNAMIC_TOPIC, read_only=True),
        ConfigEntry(None, ConfigSource.DYNAMIC_TOPIC, sensitive=True),
    ],
)
def test_some_entries_say_nothing(entry: ConfigEntry) -> None:
    for defaults in ("target", "source"):
        filtered = chosen(use_defaults_from=defaults)
        assert new_topic_configs({"retention.ms": entry}, filtered) == {}
        assert config_changes({"retention.ms": entry}, {"retention.ms": override("1")}, filtered) == {}


def test_b25_the_timestamp_type_stays_the_remote_topics_own() -> None:
    source = {"message.timestamp.type": override("LogAppendTime")}
    assert new_topic_configs(source, chosen()) == {}
    assert config_changes(source, {"message.timestamp.type": default("CreateTime")}, chosen()) == {}


# -- ACLs --------------------------------------------------------------------------------------------------------------

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(
    name: str,
    operation: TopicOperation = TopicOperation.READ,
    permission: Permission = ALLOW,
    pattern: PatternType = LITERAL,
) -> TopicAcl:
    return TopicAcl(name, pattern, "User:app", "*", operation, permission)


def names(*topics: str, identity: bool = False) -> RemoteNames:
    policy = IdentityReplicationPolicy() if identity else DefaultReplicationPolicy()
    remote = {topic: policy.format_remote_topic("A", topic) for topic in topics}
    return RemoteNames(
        remote, lambda topic: not topic.startswith("x"), lambda topic: policy.format_remote_topic("A", topic)
    )


MAPPED = names("orders", "order-lines", "stock")
IDENTITY = names("orders", "order-lines", "stock", identity=True)


def test_acl_filtering() -> None:
    """MirrorSourceConnectorTest.testAclFiltering; B22: nor what makes, alters and deletes topics."""
    refused = (
        *(
            TopicOperation.WRITE,
            TopicOperation.CREATE,
            TopicOperation.DELETE,
            TopicOperation.ALTER,
            TopicOperation.ALTER_CONFIGS,
        ),
    )
    assert remote_acls([acl("orders", each) for each in refused], MAPPED) == set()
    assert remote_acls([acl("xcluded")], MAPPED) == set()


def test_acl_transformation() -> None:
    """MirrorSourceConnectorTest.testAclTransformation."""
    assert remote_acls([acl("orders", TopicOperation.ALL)], MAPPED) == {acl("A.orders", TopicOperation.READ)}
    denied = [acl("orders", TopicOperation.ALL, DENY), acl("orders", TopicOperation.WRITE, DENY)]
    assert remote_acls(denied, MAPPED) == {each._replace(name="A.orders") for each in denied}
    kept = [acl("orders", TopicOperation.DESCRIBE), acl("orders", TopicOperation.DESCRIBE_CONFIGS)]
    assert remote_acls(kept, MAPPED) == {each._replace(name="A.orders") for each in kept}


def test_a_rule_for_a_topic_to_come_is_mapped() -> None:
    assert remote_acls([acl("new")], MAPPED) == {acl("A.new")}


def test_b21_a_rule_for_all_topics_is_one_for_all_remote_topics() -> None:
    assert remote_acls([acl("*")], MAPPED) == {acl("A.", pattern=PREFIXED)}
    assert remote_acls([acl("*", TopicOperation.READ, DENY)], MAPPED) == {
        acl("A.", permission=DENY, pattern=PREFIXED)
    }


def test_b21_where_names_stay_it_is_one_for_each_copied_topic() -> None:
    """Not for all topics of the target, which has some of its own."""
    assert remote_acls([acl("*")], IDENTITY) == {acl("orders"), acl("order-lines"), acl("stock")}
    assert remote_acls([acl("order", pattern=PREFIXED)], IDENTITY) == {acl("orders"), acl("order-lines")}


def test_prefixed_rules_stay_prefixed() -> None:
    assert remote_acls([acl("order", pattern=PREFIXED)], MAPPED) == {acl("A.order", pattern=PREFIXED)}
    assert remote_acls([acl("nothing-like-it", pattern=PREFIXED)], MAPPED) == set()
    assert remote_acls([acl("*", pattern=LITERAL)], names()) == set()


def test_b22_only_what_differs_is_written() -> None:
    awaited = {acl("A.orders"), acl("A.stock")}
    there = {acl("A.orders"), acl("A.old"), acl("local")}
    assert plan_acls(awaited, there, MAPPED, revoke=False) == AclPlan({acl("A.stock")}, set())
    assert plan_acls(awaited, awaited, MAPPED, revoke=True) == AclPlan(set(), set())


def test_b22_revoked_rules_go_and_no_others() -> None:
    ours = {acl("A.orders"), acl("A.gone", TopicOperation.DESCRIBE), acl("A.order", pattern=PREFIXED)}
    others = {
        acl("local"),
        acl("lo", pattern=PREFIXED),
        acl("*"),
        acl("A.xcluded"),
        acl("A.orders", TopicOperation.WRITE),
        acl("A.orders", TopicOperation.ALL),
        acl("A.orders", TopicOperation.READ, DENY),
        acl("A", pattern=PREFIXED),
    }
    assert plan_acls(set(), ours | others, MAPPED, revoke=True) == AclPlan(set(), ours)
    stays = {acl("local"), acl("ord", pattern=PREFIXED), acl("*")}
    assert plan_acls(set(), {acl("orders")} | stays, IDENTITY, revoke=True) == AclPlan(set(), {acl("orders")})

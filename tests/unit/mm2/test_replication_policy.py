"""Replication policies: stock 4.3.1's answers, from its own classes (test_stock_naming.py asks them)."""

from __future__ import annotations

import pytest

from bridge.mm2.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    LegacyReplicationPolicy,
    ReplicationPolicy,
    is_cycle,
    java_split,
    misread,
)


def default(separator: str | None = None, internal: str | None = None) -> DefaultReplicationPolicy:
    policy = DefaultReplicationPolicy()
    props = {
        "replication.policy.separator": separator,
        "replication.policy.internal.topic.separator.enabled": internal,
    }
    policy.configure({key: value for key, value in props.items() if value is not None})
    return policy


def identity(alias: str | None = "A") -> IdentityReplicationPolicy:
    policy = IdentityReplicationPolicy()
    policy.configure({"source.cluster.alias": alias})
    return policy


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("orders", None, None, "orders"),
        ("A.orders", "A", "orders", "orders"),
        ("B.A.orders", "B", "A.orders", "orders"),
        ("a.", None, None, "a."),
        ("..", None, None, ".."),
        (".b", "", "b", "b"),
        ("a..b", "a", ".b", "b"),
        ("", None, None, ""),
        (".", None, None, "."),
        ("us.west.t", "us", "west.t", "t"),
    ],
)
def test_default(topic: str, source: str | None, upstream: str | None, original: str) -> None:
    policy = default()
    assert policy.topic_source(topic) == source
    assert policy.upstream_topic(topic) == upstream
    assert policy.original_topic(topic) == original


def test_default_with_a_separator_of_several_characters() -> None:
    policy = default("__")
    assert policy.format_remote_topic("A", "t") == "A__t"
    assert (policy.topic_source("A__t"), policy.upstream_topic("A__t")) == ("A", "t")
    assert policy.topic_source("A.t") is None


def test_an_empty_separator_splits_by_character_as_java_does() -> None:
    assert default("").topic_source("ab") == "a"
    assert default("").topic_source("a") is None


@pytest.mark.parametrize(
    ("separator", "internal", "syncs", "checkpoints"),
    [
        (None, None, "mm2-offset-syncs.B.internal", "B.checkpoints.internal"),
        ("-", None, "mm2-offset-syncs-B-internal", "B-checkpoints-internal"),
        ("-", "false", "mm2-offset-syncs.B.internal", "B.checkpoints.internal"),
        (None, "false", "mm2-offset-syncs.B.internal", "B.checkpoints.internal"),
    ],
)
def test_internal_topics_by_name(
    separator: str | None, internal: str | None, syncs: str, checkpoints: str
) -> None:
    policy = default(separator, internal)
    assert (policy.offset_syncs_topic("B"), policy.checkpoints_topic("B")) == (syncs, checkpoints)
    assert policy.is_mm2_internal_topic(syncs)
    assert policy.is_internal_topic(checkpoints)
    assert policy.is_checkpoints_topic(checkpoints)
    assert not policy.is_checkpoints_topic(syncs)


@pytest.mark.parametrize(
    ("separator", "internal"), [(None, None), ("-", None), ("_", "false"), ("__", "true")]
)
def test_our_own_internal_topics_are_internal_to_stock(separator: str | None, internal: str | None) -> None:
    policy = default(separator, internal)
    at = separator if separator is not None and internal != "false" else "."
    names = [policy.offset_runs_topic("A"), policy.layout_topic("A"), policy.gaps_topic("A")]
    assert names == [f"{name}{at}A{at}internal" for name in ("mm2-offset-runs", "mm2-layout", "mm2-gaps")]
    assert all(map(policy.is_internal_topic, names))


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("foo.internal", False),
        ("foo-internal", False),
        ("__consumer_offsets", True),
        (".x", True),
        ("mm2-x.internal", True),
    ],
)
def test_internal_is_what_4_3_1_calls_internal(topic: str, internal: bool) -> None:
    assert default().is_internal_topic(topic) is internal


def test_heartbeats() -> None:
    assert all(
        default().is_heartbeats_topic(topic) for topic in ("heartbeats", "A.heartbeats", "B.A.heartbeats")
    )
    assert not default().is_heartbeats_topic("myheartbeats")
    assert identity().is_heartbeats_topic("A.heartbeats")
    assert not identity().is_heartbeats_topic("A.orders")


@pytest.mark.parametrize(
    ("topic", "remote", "source", "upstream"),
    [
        ("orders", "orders", "A", "orders"),
        ("B.orders", "B.orders", "A", "B.orders"),
        ("heartbeats", "A.heartbeats", None, None),
        ("B.heartbeats", "A.B.heartbeats", "B", "heartbeats"),
        ("myheartbeats", "myheartbeats", "A", "myheartbeats"),
        ("B.myheartbeats", "B.myheartbeats", "A", "B.myheartbeats"),
    ],
)
def test_identity_and_b29(topic: str, remote: str, source: str | None, upstream: str | None) -> None:
    policy = identity()
    assert policy.format_remote_topic("A", topic) == remote
    assert policy.topic_source(topic) == source
    assert policy.upstream_topic(topic) == upstream


def test_identity_without_an_alias_knows_no_source() -> None:
    assert identity(None).topic_source("orders") is None


@pytest.mark.parametrize(
    ("policy", "topic", "cycle"),
    [
        (default(), "orders", False),
        (default(), "B.orders", True),
        (default(), "C.B.orders", True),
        (default(), "C.orders", False),
        (identity(), "orders", False),
        (identity("B"), "orders", True),
    ],
)
def test_cycles(policy: ReplicationPolicy, topic: str, cycle: bool) -> None:
    assert is_cycle(policy, topic, "B") is cycle


def test_a_policy_of_ones_own_needs_three_methods() -> None:
    class Suffix(ReplicationPolicy):
        def format_remote_topic(self, source_alias: str, topic: str) -> str:
            return f"{topic}@{source_alias}"

        def topic_source(self, topic: str) -> str | None:
            return topic.rpartition("@")[2] if "@" in topic else None

        def upstream_topic(self, topic: str) -> str | None:
            return topic.rpartition("@")[0] if "@" in topic else None

    policy = Suffix()
    assert policy.original_topic("t@A@B") == "t"
    assert policy.is_heartbeats_topic("heartbeats@A")
    assert policy.is_internal_topic("A.checkpoints.internal")
    assert (policy.checkpoints_topic("A"), policy.offset_syncs_topic("A")) == (
        "A.checkpoints.internal",
        "mm2-offset-syncs.A.internal",
    )


@pytest.mark.parametrize(("text", "parts"), [("a.b.", ["a", "b"]), ("", [""]), ("..", []), (".a", ["", "a"])])
def test_java_split(text: str, parts: list[str]) -> None:
    assert java_split(text, ".") == parts


def test_legacy_names_stay_and_heartbeats_are_topics_like_others() -> None:
    policy = LegacyReplicationPolicy()
    policy.configure({"source.cluster.alias": "A"})
    for topic in ("orders", "heartbeats", "B.heartbeats", "B.orders"):
        assert policy.format_remote_topic("A", topic) == topic
        assert (policy.topic_source(topic), policy.upstream_topic(topic)) == ("A", topic)
        assert not policy.is_heartbeats_topic(topic)
        assert not is_cycle(policy, topic, "B")
    assert policy.is_internal_topic("mm2-offset-runs.A.internal")


def with_aliases(*aliases: str, separator: str | None = None) -> DefaultReplicationPolicy:
    policy = DefaultReplicationPolicy()
    policy.configure(
        {"replication.policy.aliases": " , ".join(aliases), "replication.policy.separator": separator}
    )
    return policy


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("us.west.orders", "us.west", "orders", "orders"),
        ("us.west.1.orders", "us.west.1", "orders", "orders"),
        ("us.east.orders", "us", "east.orders", "orders"),
        ("eu.us.west.orders", "eu", "us.west.orders", "orders"),
        ("us.west.eu.orders", "us.west", "eu.orders", "orders"),
        ("us.west", "us", "west", "west"),
        ("us.west.", "us", "west.", "west."),
        ("us.western.orders", "us", "western.orders", "orders"),
        ("orders", None, None, "orders"),
    ],
)
def test_aliases_that_contain_the_separator_are_read_as_said(
    topic: str, source: str | None, upstream: str | None, original: str
) -> None:
    policy = with_aliases("us.west", "us.west.1")
    assert (policy.topic_source(topic), policy.upstream_topic(topic)) == (source, upstream)
    assert policy.original_topic(topic) == original


def test_with_such_aliases_cycles_and_heartbeats_are_seen() -> None:
    policy = with_aliases("us.west", "us.east")
    assert is_cycle(policy, "us.west.orders", "us.west")
    assert is_cycle(policy, "eu.us.west.orders", "us.west")
    assert not is_cycle(policy, "us.west.orders", "us.east")
    assert policy.is_heartbeats_topic("us.west.us.east.heartbeats")
    assert not default().is_heartbeats_topic("heartbeats.us")
    assert is_cycle(with_aliases("a-b", separator="-"), "a-b-orders", "a-b")


def test_a_name_that_two_aliases_could_have_made_is_told() -> None:
    policy = with_aliases("us.west")
    assert misread(policy, "us", "west.orders") == ("us.west", "orders")
    assert misread(policy, "us.west", "orders") is None
    assert misread(policy, "us", "orders") is None
    assert misread(default(), "us", "west.orders") is None

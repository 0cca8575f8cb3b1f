"""Filters and policies by class name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.errors import ConfigError
from bridge.mm2.filters import (
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
)
from bridge.mm2.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from connectors.config.plugins import (
    CONFIG_PROPERTY_FILTER,
    GROUP_FILTER,
    REPLICATION_POLICY,
    TOPIC_FILTER,
    load,
)

MODULE = """
from bridge.mm2.replication_policy import DefaultReplicationPolicy

class Short:
    def should_replicate_group(self, group):
        return len(group) < 3

class Configured(Short):
    def configure(self, props):
        self.seen = props["groups"]

class Moody(Short):
    def configure(self, props):
        raise RuntimeError("I read " + props["sasl.jaas.config"])

class Costly(Short):
    def __init__(self, price):
        self.price = price

class Policy(DefaultReplicationPolicy):
    pass

not_a_class = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "own_plugins.py").write_text(MODULE)
    (tmp_path / "own_broken.py").write_text("raise KeyError('x')")
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_plugins"
    sys.modules.pop("own_plugins", None)


@pytest.mark.parametrize("prefix", ["", "org.apache.kafka.connect.mirror."])
def test_stock_names_select_ours(prefix: str) -> None:
    topics = load(TOPIC_FILTER, prefix + "DefaultTopicFilter", {})
    assert isinstance(topics, DefaultTopicFilter)
    groups = load(GROUP_FILTER, prefix + "DefaultGroupFilter", {})
    assert isinstance(groups, DefaultGroupFilter)
    configs = load(
        CONFIG_PROPERTY_FILTER, prefix + "DefaultConfigPropertyFilter", {"use.defaults.from": "source"}
    )
    assert isinstance(configs, DefaultConfigPropertyFilter)
    assert configs.should_replicate_source_default("retention.ms")
    assert type(load(REPLICATION_POLICY, prefix + "DefaultReplicationPolicy", {})) is DefaultReplicationPolicy
    identity = load(REPLICATION_POLICY, prefix + "IdentityReplicationPolicy", {"source.cluster.alias": "A"})
    assert isinstance(identity, IdentityReplicationPolicy)
    assert identity.topic_source("t") == "A"


def test_a_class_of_ones_own_is_made_and_configured(module: str) -> None:
    short = load(GROUP_FILTER, f"python:{module}.Short", {})
    assert not isinstance(short, ConfigError)
    assert [short.should_replicate_group(group) for group in ("ab", "abc")] == [True, False]
    configured = load(GROUP_FILTER, f"python:{module}.Configured", {"groups": "a"})
    assert getattr(configured, "seen", None) == "a"
    unconfigured = load(GROUP_FILTER, f"python:{module}.Configured", None)
    assert not hasattr(unconfigured, "seen")
    policy = load(REPLICATION_POLICY, f"python:{module}.Policy", {})
    assert not isinstance(policy, ConfigError)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "com.example.MyFilter",
            "Java classes can't be loaded here; use one of org.apache.kafka.connect.mirror.",
        ),
        ("", "Java classes can't be loaded here"),
        ("python:", "not of the form python:module.Class"),
        ("python:Short", "not of the form python:module.Class"),
        ("python:own_plugins.", "not of the form python:module.Class"),
        ("python:no.such.Filter", "the module no.such failed with ModuleNotFoundError"),
        ("python:own_broken.Filter", "the module own_broken failed with KeyError"),
        ("python:..Filter", "failed with"),
        ("python:own_plugins.Missing", "the module own_plugins has no class Missing"),
        ("python:own_plugins.not_a_class", "has no class not_a_class"),
        ("python:own_plugins.Costly", "Costly() failed with TypeError"),
        (
            "python:own_plugins.Policy",
            "Policy has no should_replicate_group; give it should_replicate_group(group)",
        ),
        ("python:own_plugins.Moody", "its configure(props) failed with RuntimeError: I read [hidden]"),
    ],
)
def test_what_can_not_be_loaded_is_named(module: str, name: str, why: str) -> None:
    loaded = load(GROUP_FILTER, name, {"sasl.jaas.config": "geheim"})
    assert isinstance(loaded, ConfigError)
    assert loaded.key == "group.filter.class"
    assert loaded.message.startswith(f"Invalid value {name} for configuration group.filter.class: ")
    assert why in loaded.message


def test_a_filter_of_configs_says_of_defaults_too(module: str) -> None:
    loaded = load(CONFIG_PROPERTY_FILTER, f"python:{module}.Short", {})
    assert isinstance(loaded, ConfigError)
    assert "has no should_replicate_config_property, should_replicate_source_default" in loaded.message


def test_a_policy_must_do_all_of_it(module: str) -> None:
    loaded = load(REPLICATION_POLICY, f"python:{module}.Short", {})
    assert isinstance(loaded, ConfigError)
    assert "subclass bridge.mm2.replication_policy.ReplicationPolicy" in loaded.message

"""Every key that Kafka 4.3.1 defines for connectors and their clients has an effect that our definition says."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bridge.kafka.config import property_names
from bridge.kafka.config.property_names import KNOWN, is_of
from bridge.local.jars import kafka_jars
from bridge.model.key_rules import Effect, Use
from connectors.base import ConnectorKind
from connectors.config import connect_keys
from connectors.config.key_effects import NOBODYS, OLD_NAMES, UNPREFIXED, KeyRules
from connectors.registry import KINDS
from tests.support.java import Oracle, compiled, kafka_class

CLIENTS = ("admin", "consumer", "producer")
PER_TASK = {"task.assigned.partitions", "task.assigned.groups", "task.index"}
"""Stock's connectors give them to their tasks, whatever their configuration says of them."""

Keys = Mapping[str, set[str]]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Names by whose they are."""
    source, classes = Path(__file__).with_name("KeysOfJava.java"), tmp_path_factory.mktemp("keys")
    collected = defaultdict[str, set[str]](set)
    for line in Oracle(source, classes, "KeysOfJava").run("").splitlines():
        whose, name = line.split("\t")
        collected[whose].add(name)
    assert len(collected) == 8
    return collected


def rules() -> Iterator[KeyRules]:
    for kind in KINDS.values():
        assert isinstance(kind, ConnectorKind)
        yield KeyRules(kind.kind, kind.definition, kind.clients, property_names.rule, KNOWN)


def test_every_key_of_connect_is_in_our_table_and_no_other(java: Keys) -> None:
    names = java["connect"] | java["connect with aliases"]
    assert {"transforms.t.negate", "predicates.p.plugin.version", "topic.creation.g.include"} <= names
    assert len(names) > 35
    for name in names:
        assert any(key.covers(name) for key in connect_keys.KEYS), f"{name} is not in our table"
        assert all(each.rule(name) not in (NOBODYS, UNPREFIXED) for each in rules())
    ours = {key.name for key in connect_keys.KEYS if not key.name.endswith("*")}
    assert ours - names == {"task.class", "topic.creation.enable"}, "Connect has no such key of connectors"


@pytest.mark.parametrize("stock", ["Source", "Checkpoint", "Heartbeat"])
def test_every_key_of_mirrormakers_connectors_is_in_our_definition(java: Keys, stock: str) -> None:
    (ours,) = [each for each in rules() if each.kind == stock.lower()]
    missing = {name for name in java[stock] if ours.rule(name) is NOBODYS}
    assert missing <= PER_TASK
    assert len(java[stock]) > 60


@pytest.mark.parametrize("role", CLIENTS)
def test_every_property_of_javas_clients_has_an_effect_for_each_use_of_the_client(
    java: Keys, role: str
) -> None:
    # 3.9's client knows what is left, and Java's client of this role no more.
    assert {name for name in KNOWN if is_of(role, name)} - java[role] <= {"auto.include.jmx.reporter"}
    for name in java[role]:
        assert is_of(role, name), f"{name} is not in our tables"
        for use in (use for use in Use if property_names.ROLES[use] == role):
            result = property_names.rule(use, name)
            assert result is not None
            assert result.effect in Effect
            assert result.why


def test_every_property_under_every_prefix_has_an_effect_in_every_connector(java: Keys) -> None:
    for each in rules():
        for role in CLIENTS:
            prefixes = (role, f"source.{role}", f"target.{role}", f"{role}.override")
            for key in (f"{prefix}.{name}" for prefix in prefixes for name in java[role]):
                assert each.rule(key) not in (NOBODYS, UNPREFIXED), (each.kind, key)


@pytest.mark.long
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_no_key_of_kafkas_own_is_taken_for_a_misspelling_of_another(version: str, tmp_path: Path) -> None:
    compiled(Path(__file__).with_name("KeysOfJava.java"), tmp_path, "KeysOfJava")
    command = [*kafka_class("KeysOfJava", tmp_path, version=version), str(kafka_jars(version).directory)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    keys = {line.partition("\t")[2] for line in ran.stdout.splitlines()}
    assert {"offset.storage.topic", "group.id", "segment.bytes", "emit.checkpoints.enabled"} <= keys
    assert len(keys) > 500
    old = keys & OLD_NAMES.keys()
    assert bool(old) is (version == "3.9.1"), "names before Kafka 4 are errors of their own"
    for each in rules():
        assert list(each.misspelt(dict.fromkeys(keys - old, "1"))) == [], each.kind

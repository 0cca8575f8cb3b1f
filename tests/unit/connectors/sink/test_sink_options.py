"""BridgeMirrorSinkConnector's configuration: the source connector's, but for how topics are subscribed to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import connectors.sink
from connectors.base import CopiedTopics
from connectors.registry import KINDS
from connectors.sink.connector import BOTH, DEFINITION, NONE
from connectors.source.options import SourceOptions
from tests.support.messages import message
from tests.unit.connectors.configs import CLIENTS, SINK, SOURCE

CONNECTOR_JSON = Path(connectors.sink.__file__).with_name("connector.json")
KIND = KINDS["sink"]


def errors(**changes: str | None) -> list[tuple[str, str]]:
    given = {**SINK, **{key.replace("_", "."): value for key, value in changes.items()}}
    return [(error.key, error.message) for error in KIND.validate(given, CLIENTS).errors]


def options(changes: Mapping[str, str]) -> SourceOptions:
    assert KIND.validate({**SOURCE, **changes}, CLIENTS).errors == ()
    return SourceOptions.from_props({**SOURCE, **changes}, CLIENTS, DEFINITION)


def test_the_json_that_an_operator_puts_is_accepted() -> None:
    given = json.loads(CONNECTOR_JSON.read_text())
    assert given["config"]["connector.class"] == "BridgeMirrorSinkConnector"
    assert KIND.connector_class == "dev.mirrorbridge.BridgeMirrorSinkConnector"
    assert KIND.validate(given["config"], CLIENTS).errors == ()
    assert options({"topics.regex": ".*"}).replicates("anything")


def test_one_of_topics_and_topics_regex_is_required() -> None:
    assert errors() == []
    assert (
        errors(topics=None)
        == errors(topics=" ")
        == errors(topics=None, topics_regex="")
        == [("topics", NONE)]
    )
    assert errors(topics_regex="orders.*") == [("topics", BOTH)]
    assert errors(topics=None, topics_regex="orders.*") == []


@pytest.mark.parametrize("name", ["orders.*", "a(b|c)", "a/b", ".", "..", "é", "a" * 250])
def test_topics_are_names_and_no_patterns(name: str) -> None:
    ((key, why),) = errors(topics=f"orders,{name}")
    assert key == "topics"
    assert message("config.no_topic_name", name=name) in why


def test_a_pattern_that_is_none_is_one_error() -> None:
    ((key, _),) = errors(topics=None, topics_regex="(")
    assert key == "topics.regex"
    assert [key for key, _ in errors(topics="a,a", topics_regex=None)] == ["topics"]


def test_names_are_taken_as_they_are_and_a_pattern_may_have_commas() -> None:
    named = options({"topics": "a.b, c-1", "topics.exclude": "c.*"})
    assert [each for each in ("a.b", "a-b", "a.bc", "c-1") if named.replicates(each)] == ["a.b"]
    assert named.named_topics == ("a.b", "c-1")
    matched = options({"topics.regex": "a{1,2}|b"})
    assert [each for each in ("a", "aa", "aaa", "b", "bb") if matched.replicates(each)] == ["a", "aa", "b"]


def test_the_source_connector_does_not_know_topics_regex() -> None:
    given = {**SOURCE, "topics": "orders", "topics.regex": ".*"}
    validated = KINDS["source"].validate(given, CLIENTS)
    assert [each.key for each in validated.ignored] == ["topics.regex"]
    assert not SourceOptions.from_props(given, CLIENTS).replicates("others")


def test_a_copy_has_one_owner_whichever_connector_makes_it() -> None:
    other = CopiedTopics("other", SINK, {("orders", "source1.orders")})
    for kind, topics in (("sink", "orders"), ("source", "orders.*")):
        ((error),) = KINDS[kind].conflicts({**SINK, "topics": topics}, [other])
        assert "orders" in error.message
        assert "other" in error.message
    assert KIND.conflicts({**SOURCE, "topics.regex": "x.*"}, [other]) == []


def test_only_where_a_stock_mirror_may_have_been_positions_of_connect_are_read() -> None:
    assert not options({"topics": "orders"}).stock_positions
    assert SourceOptions.from_props(SOURCE, CLIENTS).stock_positions

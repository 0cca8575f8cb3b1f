"""ConfigDef: parsing and error texts as in Kafka 4.3.1 (test_stock_naming.py asks stock itself)."""

from __future__ import annotations

import pytest

from bridge.errors import ConfigError, ConfigRejected
from connectors.config.configdef import (
    REQUIRED,
    ConfigDef,
    ForbiddenValue,
    Importance,
    In,
    Key,
    ListOf,
    NonEmpty,
    Password,
    Patterns,
    Range,
    ReplicationFactor,
    Type,
    Url,
    Validator,
    invalid,
    numbered,
    parse,
    shown,
)


def key(name: str, kind: Type, default: object = None, validator: Validator | None = None) -> Key:
    assert default is None or default is REQUIRED or isinstance(default, str)
    return Key(name, kind, default, Importance.LOW, "doc", "Group", validator=validator)


def errors(one: Key, value: str | None) -> list[str]:
    return [error.message for error in ConfigDef([one]).validate({one.name: value}).errors]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Type.STRING, "  a b ", "a b"),
        (Type.STRING, "\u00a0", "\u00a0"),
        (Type.INT, " +7 ", 7),
        (Type.SHORT, "-32768", -32768),
        (Type.LONG, "9223372036854775807", 9223372036854775807),
        (Type.DOUBLE, "1e3d", 1000.0),
        (Type.BOOLEAN, "TRUE ", True),
        (Type.BOOLEAN, "false", False),
        (Type.LIST, "", ()),
        (Type.LIST, " a , b", ("a", "b")),
        (Type.LIST, "a,,b", ("a", "", "b")),
        (Type.CLASS, "a.B", "a.B"),
        (Type.PASSWORD, " x ", Password("x")),
    ],
)
def test_values_are_parsed_as_kafka_does(kind: Type, text: str, value: object) -> None:
    assert parse(kind, text) == value


@pytest.mark.parametrize(
    ("one", "value", "text"),
    [
        (
            key("source.cluster.alias", Type.STRING, REQUIRED),
            None,
            'Missing required configuration "source.cluster.alias" which has no default value.',
        ),
        (key("n", Type.LONG), "bad", "Invalid value bad for configuration n: Not a number of type LONG"),
        (
            key("n", Type.SHORT),
            "99999",
            "Invalid value 99999 for configuration n: Not a number of type SHORT",
        ),
        (key("n", Type.INT), "1_0", "Invalid value 1_0 for configuration n: Not a number of type INT"),
        (
            key("n", Type.INT),
            "9" * 5000,
            f"Invalid value {'9' * 5000} for configuration n: Not a number of type INT",
        ),
        (key("n", Type.DOUBLE), "nan", "Invalid value nan for configuration n: Not a number of type DOUBLE"),
        (
            key("enabled", Type.BOOLEAN),
            "yes",
            "Invalid value yes for configuration enabled: Expected value to be either true or false",
        ),
        (
            key("tasks.max", Type.INT, "1", Range(1)),
            "0",
            "Invalid value 0 for configuration tasks.max: Value must be at least 1",
        ),
        (
            key("n", Type.INT, "1", Range(1, 9)),
            "10",
            "Invalid value 10 for configuration n: Value must be no more than 9",
        ),
        (
            key("l", Type.STRING, "source", In(("source", "target"))),
            "Source",
            "Invalid value Source for configuration l: String must be one of: source, target",
        ),
        (
            key("p", Type.STRING, "A", In(("A", "B"), ignore_case=True)),
            "c",
            "Invalid value c for configuration p: String must be one of (case insensitive): A, B",
        ),
        (
            key("s", Type.STRING, "x", NonEmpty()),
            " ",
            "Invalid value  for configuration s: String must be non-empty",
        ),
        (key("t", Type.LIST, "x", ListOf()), "a,a", "Configuration 't' values must not be duplicated."),
        (key("t", Type.LIST, "x", ListOf()), "a,,b", "Configuration 't' values must not be empty."),
        (
            key("t", Type.LIST, "x", ListOf(allow_empty=False)),
            "",
            "Configuration 't' must not be empty. Valid values include: any non-empty value",
        ),
        (
            key("g", Type.LIST, ".*", Patterns()),
            "ok,b(",
            "Invalid value ok,b( for configuration g: b( is not a regular expression: a group is not closed "
            "(at position 2)",
        ),
        (key("g", Type.LIST, ".*", Patterns()), "a,a", "Configuration 'g' values must not be duplicated."),
        (
            key("u", Type.STRING, "x", Url()),
            "ftp://h",
            "Invalid value ftp://h for configuration u: must be a URL like http://127.0.0.1:8900 or https://bridge:8900",
        ),
        (
            key("u", Type.STRING, "x", Url()),
            "http://me:pw@h",
            "Invalid value [hidden] for configuration u: must not carry credentials; use bridge.auth.token",
        ),
    ],
)
def test_error_texts(one: Key, value: str | None, text: str) -> None:
    assert errors(one, value) == [text]


@pytest.mark.parametrize("url", ["http://h", "https://h:8900/x", "http://[::1]:80"])
def test_urls(url: str) -> None:
    assert errors(key("u", Type.STRING, "x", Url()), url) == []


@pytest.mark.parametrize(
    "url", ["", "h", "http://", "http://h:port", "http://h:99999", "http://[::1", "http://h:0"]
)
def test_no_urls(url: str) -> None:
    assert len(errors(key("u", Type.STRING, "x", Url()), url)) == 1


@pytest.mark.parametrize(("given", "problem"), [("A", False), ("a", False), ("B", False), ("", True)])
def test_in_ignoring_case(given: str, problem: bool) -> None:
    assert bool(errors(key("p", Type.STRING, "A", In(("A", "B"), ignore_case=True)), given)) is problem


def test_all_errors_come_at_once_and_in_order() -> None:
    definition = ConfigDef(
        [key("a", Type.INT), key("b", Type.STRING, REQUIRED), key("c", Type.BOOLEAN, "true")]
    )
    checked = definition.validate({"a": "x", "c": "y", "unknown": "z"})
    assert [error.key for error in checked.errors] == ["a", "b", "c"]
    with pytest.raises(ConfigRejected, match="contains the following 3 error") as caught:
        checked.raise_if_invalid()
    assert caught.value.errors == checked.errors


def test_null_counts_as_not_given() -> None:
    checked = ConfigDef([key("a", Type.INT, "5"), key("b", Type.LIST)]).validate({"a": None, "b": None})
    assert (checked.value("a"), checked.items("b")) == (5, None)
    checked.raise_if_invalid()


def test_secrets_show_nowhere() -> None:
    definition = ConfigDef([key("p", Type.PASSWORD, REQUIRED)])
    checked = definition.validate({"p": "geheim"})
    assert checked.value("p") == Password("geheim")
    response = checked.response("x")
    assert response.configs[0].value.value == "[hidden]"
    assert "geheim" not in f"{checked} {response!r} {response.model_dump_json()}"


def test_a_key_is_defined_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        ConfigDef([key("a", Type.INT), key("a", Type.LONG)])


def test_the_answer_is_connects_config_infos() -> None:
    definition = ConfigDef(
        [key("a", Type.LIST, "x,y"), key("b", Type.BOOLEAN, "TRUE"), key("c", Type.INT, REQUIRED)]
    )
    checked = definition.validate({}).with_errors([ConfigError("admin.foo", "no"), ConfigError("a", "bad")])
    answer = checked.response("the.Class")
    assert (answer.name, answer.error_count, answer.groups) == ("the.Class", 3, ["Group", "Clients"])
    values = {entry.value.name: (entry.value.value, entry.value.errors) for entry in answer.configs}
    missing = 'Missing required configuration "c" which has no default value.'
    assert values == {
        "a": ("x,y", ["bad"]),
        "b": ("true", []),
        "c": (None, [missing]),
        "admin.foo": (None, ["no"]),
    }
    first = answer.configs[0].definition
    assert (first.name, first.type, first.default_value, first.display_name) == ("a", "LIST", "x,y", "a")


def test_an_error_that_is_there_is_not_said_twice() -> None:
    checked = ConfigDef([key("c", Type.INT, REQUIRED)]).validate({})
    assert len(checked.with_errors(checked.errors).errors) == 1


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ({"on": "FALSE"}, ["can't be off"]),
        ({"on": "true"}, []),
        ({}, []),
        ({"on": "false", "enabled": " False "}, []),
        (
            {"on": "false", "enabled": "yes"},
            ["Invalid value yes for configuration enabled: ", "can't be off"],
        ),
        ({"on": "no"}, ["Invalid value no for configuration on: "]),
    ],
)
def test_a_forbidden_value_is_judged_as_parsed_and_may_be_excused(
    given: dict[str, str], messages: list[str]
) -> None:
    definition = ConfigDef(
        [key("enabled", Type.BOOLEAN, "true"), key("on", Type.BOOLEAN, "true")],
        [ForbiddenValue("on", "false", "can't be off", unless={"enabled": "false"})],
    )
    errors = [error.message for error in definition.validate(given).errors]
    assert len(errors) == len(messages)
    assert all(message.startswith(words) for message, words in zip(errors, messages, strict=True))


@pytest.mark.parametrize(("value", "right"), [(-2, False), (-1, True), (0, False), (1, True), (32767, True)])
def test_replication_factors(value: int, right: bool) -> None:
    assert (ReplicationFactor().check("rf", value) is None) is right


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (("a,,new", "Invalid value a for configuration k: String must be one of: legacy, new")),
        (("new,,a", "Configuration 'k' values must not be empty.")),
        (("a,a", "Configuration 'k' values must not be duplicated.")),
        (("", "Configuration 'k' must not be empty. Valid values include: [legacy, new]")),
    ],
)
def test_lists_of_known_values(value: str, text: str) -> None:
    known = ListOf(allow_empty=False, values=("legacy", "new"))
    assert errors(key("k", Type.LIST, validator=known), value) == [text]
    assert errors(key("k", Type.LIST, validator=known), "new, legacy") == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-2.5, "-2.5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (2147483648.0, "2.147483648E9"),
        (0.001, "0.001"),
        (-0.00012, "-1.2E-4"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_doubles_are_shown_as_java_does(value: float, text: str) -> None:
    assert shown(value) == text


def test_keys_are_numbered_within_their_group() -> None:
    keys = [Key(name, Type.STRING, None, Importance.LOW, "doc", group) for name, group in ("aG", "bH", "cG")]
    assert [each.order for each in numbered(keys)] == [1, 1, 2]


def test_an_error_shows_the_beginning_of_a_value_that_is_very_long() -> None:
    assert invalid("k", "x" * 10_000, "no") == f"Invalid value {'x' * 10_000} for configuration k: no"
    shortened = f"Invalid value {'x' * 10_000}… (10001 characters) for configuration k: no"
    assert invalid("k", "x" * 10_001, "no") == shortened

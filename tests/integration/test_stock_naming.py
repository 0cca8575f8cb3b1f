"""Naming, filters, regexes, ConfigDef and names of keys against stock's own classes, thousands of times."""

from __future__ import annotations

import base64
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.kafka.config import property_names
from bridge.kafka.config.settings import StaticClientCheck
from bridge.mm2.filters import (
    CONFIG_PROPERTIES_EXCLUDE_DEFAULT,
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
)
from bridge.mm2.java_regex import PatternProblem, compile_java
from bridge.mm2.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from connectors.config.configdef import REQUIRED, Importance, Key, ListOf, Type, parse_value
from connectors.registry import KINDS
from tests.support.java import RECORDED_OR_LIVE
from tests.support.java import Oracle as Program

Question = Sequence[str | None]
Oracle = Callable[[list[Question]], list[list[str | None]]]


@pytest.fixture(scope="module", params=RECORDED_OR_LIVE)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    source, classes = Path(__file__).with_name("StockOracle.java"), tmp_path_factory.mktemp("oracle")
    return Program(source, classes, "StockOracle", live=request.param == "live")


@pytest.fixture(scope="module")
def oracle(program: Program) -> Oracle:
    def ask(questions: list[Question]) -> list[list[str | None]]:
        lines = "".join("\t".join(map(encode, question)) + "\n" for question in questions)
        answers = [[decode(field) for field in line.split("\t")] for line in program.run(lines).splitlines()]
        assert len(answers) == len(questions)
        return answers

    return ask


def encode(text: str | None) -> str:
    return "-" if text is None else "+" + base64.b64encode(text.encode()).decode()


def decode(field: str) -> str | None:
    return None if field == "-" else base64.b64decode(field[1:]).decode()


def test_policies(oracle: Oracle, program: Program) -> None:
    rng = random.Random(0)
    pieces = [
        "A",
        "B",
        ".",
        "-",
        "__",
        "orders",
        "heartbeats",
        "checkpoints",
        "internal",
        "mm2",
        "mm2-offset-syncs",
        "",
    ]
    questions: list[Question] = []
    for _ in range(program.scaled(3000)):
        topic = "".join(rng.choices(pieces, k=rng.randrange(7)))
        separator = rng.choice([None, ".", "-", "__", "..", "*"])
        internal = rng.choice([None, "true", "FALSE", "no"])
        kind = rng.choice(["default", "identity"])
        questions.append(("policy", kind, separator, internal, rng.choice([None, "A"]), topic))
    renamed = 0
    for question, answer in zip(questions, oracle(questions), strict=True):
        topic = question[5] or ""
        ours = our_policy(question)
        if question[1] == "identity" and topic.endswith("heartbeats") and ours[0] == topic:
            # B29: no heartbeats, yet stock gives it another name.
            assert answer[0] != topic, question
            renamed += 1
        else:
            assert ours == answer, question
    assert renamed > len(questions) // 150


def our_policy(question: Question) -> list[str | None]:
    _, kind, separator, internal, alias, topic = question
    policy = IdentityReplicationPolicy() if kind == "identity" else DefaultReplicationPolicy()
    props = {
        "replication.policy.separator": separator,
        "replication.policy.internal.topic.separator.enabled": internal,
        "source.cluster.alias": alias,
    }
    policy.configure({key: value for key, value in props.items() if value is not None})
    assert topic is not None
    texts = [
        policy.format_remote_topic("A", topic),
        policy.topic_source(topic),
        policy.upstream_topic(topic),
        policy.original_topic(topic),
        policy.offset_syncs_topic("A"),
        policy.checkpoints_topic("A"),
    ]
    flags = [
        policy.is_heartbeats_topic(topic),
        policy.is_checkpoints_topic(topic),
        policy.is_mm2_internal_topic(topic),
        policy.is_internal_topic(topic),
    ]
    return [*texts, *(str(flag).lower() for flag in flags)]


def test_regexes(oracle: Oracle, program: Program) -> None:
    """Where both compile they match the same; what Java rejects we reject, and what only we reject
    is repetition of repetition, of nothing, and references to groups that are not there."""
    rng = random.Random(1)
    atoms = [
        *(
            "a",
            "b",
            "B",
            "1",
            "_",
            "-",
            ".",
            "\\.",
            "[a-c]",
            "[^a]",
            "[a-c&&[^b]]",
            "[a[b1]]",
            "[^a[b]]",
            "[]a]",
        ),
        *(
            r"\d",
            r"\W",
            r"\s",
            r"\p{Alpha}",
            r"\P{Upper}",
            r"\Qa.b\E",
            "(?i)",
            "(?-i)",
            "(?i:b)",
            "(",
            "(?:",
            ")",
        ),
        *(
            "|",
            "*",
            "+",
            "?",
            "*+",
            "+?",
            "{2}",
            "{1,}",
            "(?=a)",
            "(?!b)",
            "^",
            "$",
            r"\h",
            r"[\w&&[^\d]]",
            r"\x61",
        ),
        *(
            "(?>",
            r"\1",
            "[^a-c&&[^b]]",
            "[a-c&&b-d&&[^c]]",
            "(?s)",
            r"\v",
            r"\R",
            r"[\H]",
            "&&",
            "]",
            "}",
            r"\-",
        ),
    ]
    texts = [
        "",
        "a",
        "b",
        "B",
        "ab",
        "aB",
        "a.b",
        "1",
        "a1",
        "-",
        "a\n",
        "\u2028",
        "aab",
        "bb",
        "_",
        "é",
        "]",
        "abc",
    ]
    patterns = ["".join(rng.choices(atoms, k=rng.randrange(1, 6))) for _ in range(program.scaled(3000))]
    questions: list[Question] = [("regex", pattern, text) for pattern in patterns for text in texts]
    answers = iter(oracle(questions))
    only_ours = 0
    for pattern in patterns:
        stock = [next(answers)[0] for _ in texts]
        try:
            regex = compile_java(pattern)
        except PatternProblem:
            only_ours += stock[0] != "rejected"
            continue
        ours = [str(bool(regex.fullmatch(text))).lower() for text in texts]
        assert stock == ours, (pattern, regex.pattern, list(zip(texts, stock, ours, strict=True)))
    assert only_ours <= len(patterns) // 10


def test_filters(oracle: Oracle, program: Program) -> None:
    rng = random.Random(2)
    lists = [None, "", "a", "a, b", ".*", "(a,b)", "a.*,.*z", "__.*", "connect-.*", "(?i)A,B", " a|b "]
    names = [
        "",
        "a",
        "b",
        "az",
        "A",
        "__x",
        "connect-1",
        "mm2-x.internal",
        "x.internal",
        "a,b",
        "console-consumer-3",
    ]
    questions: list[Question] = [
        (rng.choice(["topic", "group"]), rng.choice(lists), rng.choice(lists), rng.choice(names))
        for _ in range(program.scaled(5000))
    ]
    for question, answer in zip(questions, oracle(questions), strict=True):
        kind, include, exclude, name = question
        assert name is not None
        props = {f"{kind}s": include, f"{kind}s.exclude": exclude}
        if kind == "topic":
            topics = DefaultTopicFilter()
            topics.configure(props)
            ours = topics.should_replicate_topic(name)
        else:
            groups = DefaultGroupFilter()
            groups.configure(props)
            ours = groups.should_replicate_group(name)
        assert str(ours).lower() == answer[0], question


def test_config_properties(oracle: Oracle, program: Program) -> None:
    rng = random.Random(3)
    lists = [
        None,
        "",
        "a.b",
        "min.insync.replicas, exclude_param.*",
        r"min\.insync\.replicas",
        "(a,b)",
        " .* ",
    ]
    sources = [None, "", "source", " source ", "Source", "target", "x"]
    names = [
        *CONFIG_PROPERTIES_EXCLUDE_DEFAULT.split(","),
        *("", "a", "a.b", "axb", "minxinsync.replicas", "exclude_param.param1", "cleanup.policy"),
        *("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"),
    ]
    questions: list[Question] = [
        ("property", rng.choice(lists), rng.choice(sources), rng.choice(names))
        for _ in range(program.scaled(5000))
    ]
    questions += [("property", None, None, name) for name in names]
    for question, answer in zip(questions, oracle(questions), strict=True):
        _, exclude, defaults_from, name = question
        assert name is not None
        ours = DefaultConfigPropertyFilter()
        ours.configure({"config.properties.exclude": exclude, "use.defaults.from": defaults_from})
        result = ours.should_replicate_config_property(name), ours.should_replicate_source_default(name)
        assert [str(each).lower() for each in result] == answer, question


def test_values_and_error_texts(oracle: Oracle) -> None:
    texts = [
        *(
            "",
            " ",
            "1",
            " +7 ",
            "-0",
            "x",
            "1_0",
            "１",
            "2147483648",
            "-2147483649",
            "32768",
            "9223372036854775808",
        ),
        *(
            "1e3",
            "1.5d",
            ".5",
            "1.",
            "NaN",
            "nan",
            "-Infinity",
            "TRUE",
            "false ",
            "yes",
            "a,b",
            "a , b",
            "a,,b",
            "a,a",
        ),
        *(",", "\u00a0x\u00a0", "\u2003", "a\tb", "\x01x\x1f", "99999999999999999999999"),
    ]
    kinds = [kind for kind in Type if kind not in (Type.CLASS, Type.PASSWORD)]
    questions: list[Question] = [("config", kind.value, text) for kind in kinds for text in texts]
    for question, answer in zip(questions, oracle(questions), strict=True):
        assert question[1] is not None
        kind = Type(question[1])
        validator = ListOf() if kind is Type.LIST else None
        key = Key("k", kind, REQUIRED, Importance.LOW, "", "", validator=validator)
        ours = parse_value(key, question[2])
        assert [*ours.errors, None][0] == answer[1], question
        if kind is Type.DOUBLE and ours.value is not None:
            assert answer[0] is not None
            assert str(ours.value) == str(float(answer[0].replace("Infinity", "inf"))), question
        elif ours.value is not None or answer[0] is not None:
            assert ours.text == answer[0], question


@pytest.mark.parametrize("kind", ["checkpoint", "heartbeat", "source"])
def test_all_keys_that_stock_has_are_there_and_in_stocks_order(oracle: Oracle, kind: str) -> None:
    """Class keys are STRING (decision 0004)."""
    (answer,) = oracle([("keys", kind)])
    ours = KINDS[kind].definition.keys
    stocks = list(zip(answer[::4], answer[1::4], answer[2::4], answer[3::4], strict=True))
    names = [name for name, *_ in stocks]
    assert [name for name in ours if name in names] == names
    for name, type_, default, importance in stocks:
        assert name is not None
        key = ours[name]
        assert key.type.value == ("STRING" if type_ == "CLASS" else type_), name
        assert (key.default_text, key.importance.value) == (default, importance), name
        assert key.required is (name == "source.cluster.alias")
    assert len(names) > 70


def test_keys_of_the_group_offset_connector_that_stock_has_are_as_in_stock(oracle: Oracle) -> None:
    ours, checkpoints = KINDS["group_offset"].definition.keys, KINDS["checkpoint"].definition.keys
    shared = [name for name in ours if name in checkpoints]
    assert [name for name in ours if name not in shared] == ["group", "translation.verify"]
    for name in shared:
        assert replace(ours[name], group="", order=0) == replace(checkpoints[name], group="", order=0)


PROPS = {
    "name": "n",
    "connector.class": "c",
    "source.cluster.alias": "A",
    "target.cluster.bootstrap.servers": "b:9092",
}
VALUES = [
    *("", " ", "x", "1", " +1", "0", "-1", "-2", "0.6", "2.5", "99999", "2147483648", "9223372036854775808"),
    *(
        "a,b",
        "a,,b",
        "a,a",
        ",",
        "true",
        "FALSE ",
        "yes",
        "source",
        "Source",
        "target ",
        "SASL_SSL",
        "sasl_ssl",
    ),
    *("legacy", "new", "new,legacy", "legacy,foo", "Legacy", "ES256", "es256", "TLSv1.2", ".", "_", "A"),
]
STRICTER = {
    **dict.fromkeys(
        (
            *("admin.timeout.ms", "consumer.poll.timeout.ms", "refresh.groups.interval.seconds"),
            *("emit.checkpoints.interval.seconds", "sync.group.offsets.interval.seconds"),
            *("emit.heartbeats.interval.seconds", "refresh.topics.interval.seconds"),
            *("sync.topic.configs.interval.seconds", "sync.topic.acls.interval.seconds"),
        ),
        "Value must be at least 1",
    ),
    "checkpoints.topic.replication.factor": "Replication factor must be positive",
    "heartbeats.topic.replication.factor": "Replication factor must be positive",
    "replication.factor": "Replication factor must be positive",
    "offset-syncs.topic.replication.factor": "Replication factor must be positive",
    "offset.lag.max": "Value must be at least 0",
    "topics": "is not a regular expression",
    "topics.exclude": "is not a regular expression",
    "config.properties.exclude": "Invalid value",
    "metric.reporters": "String must be one of",
    "replication.policy.separator": "for configuration replication.policy.separator: ",
    "emit.checkpoints.enabled": "can't run with emit.checkpoints.enabled set to false",
    "groups": "is not a regular expression",
    "groups.exclude": "is not a regular expression",
    "source.cluster.alias": "",
    "target.cluster.alias": "",
}
"""Where we refuse what stock takes, or fails on at its start (B44; decisions 0003, 0004): the key, and our words."""


@pytest.mark.parametrize("kind", ["checkpoint", "heartbeat", "source"])
def test_b44_wrong_values_have_stocks_errors_and_some_of_ours(
    oracle: Oracle, program: Program, kind: str
) -> None:
    (keys,) = oracle([("keys", kind)])
    typed = {
        name: type_ for name, type_ in zip(keys[::4], keys[1::4], strict=True) if name and type_ != "CLASS"
    }
    given = [PROPS | {name: value} for name in typed for value in VALUES]
    given.append({key: value for key, value in PROPS.items() if key != "source.cluster.alias"})
    given = list(program.sample(given))
    refused = 0
    for props, stocks in zip(given, stock_errors(oracle, kind, given), strict=True):
        ours = our_errors(kind, props)
        if ours != stocks:
            ((key, message),) = ours.items()
            assert STRICTER[key] in message, props
            # One list that has elements of ours to be told of first.
            assert not stocks or key == "metric.reporters"
        refused += bool(stocks)
    assert refused > len(given) // 6


def test_b44_checks_across_keys_are_stocks_but_mind_no_case(oracle: Oracle) -> None:
    """B44: where stock is led astray by `FALSE` or a space, ours says what stock says of `false`."""
    keys = ("enabled", "emit.checkpoints.enabled", "emit.offset-syncs.enabled")
    flags = [None, "true", "false", "TRUE", "FALSE", " false", "False\t"]
    given = [
        PROPS | {key: value for key, value in zip(keys, values, strict=True) if value is not None}
        for values in itertools.product(flags, repeat=3)
    ]
    plain = [props | {key: props[key].strip().lower() for key in keys if key in props} for props in given]
    differing = 0
    for props, as_written, as_meant in zip(
        given,
        stock_errors(oracle, "checkpoint", given),
        stock_errors(oracle, "checkpoint", plain),
        strict=True,
    ):
        assert our_errors("checkpoint", props) == as_meant, props
        differing += as_written != as_meant
    assert differing > 0, "stock has mended B44"


def stock_errors(oracle: Oracle, kind: str, given: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    answers = oracle([("validate", kind, *itertools.chain(*props.items())) for props in given])
    rows = [[text or "" for text in each[1:]] for each in answers]
    return [dict(zip(texts[::2], texts[1::2], strict=True)) for texts in rows]


def our_errors(kind: str, props: Mapping[str, str]) -> dict[str, str]:
    """Without those of the source's servers, which stock misses when it connects only."""
    servers = {"source.cluster.bootstrap.servers": "a:9092"} if kind != "heartbeat" else {}
    validated = KINDS[kind].validate(servers | dict(props), StaticClientCheck())
    return {error.key: error.message for error in validated.errors}


def test_every_client_property_of_java_is_in_one_table(oracle: Oracle) -> None:
    cluster, admin, consumer, producer = (
        {name for name in names if name}
        for names in oracle(
            [
                ("clients", "cluster"),
                ("clients", "admin"),
                ("clients", "consumer"),
                ("clients", "producer"),
            ]
        )
    )
    assert cluster | admin | consumer | producer <= property_names.KNOWN
    assert cluster == {name for name in property_names.KNOWN if property_names.is_cluster_name(name)}
    tables = (property_names.SECURITY, property_names.NUMBERS, property_names.OWNED, property_names.REFUSED)
    assert sum(map(len, tables)) + len(("client.id", "isolation.level")) == len(property_names.KNOWN)

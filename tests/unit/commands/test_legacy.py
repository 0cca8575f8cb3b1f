"""`mirror-bridge legacy`: what becomes of each option and property of kafka-mirror-maker.sh."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bridge.cli import app
from bridge.commands import legacy_offsets
from bridge.commands.legacy_config import (
    Clients,
    LegacyOptions,
    connection,
    connector_config,
    in_own_words,
    pattern,
    problems,
    remarks,
)
from bridge.commands.legacy_offsets import GroupOffsets
from bridge.commands.replicate import validated
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import StaticClientCheck
from bridge.model.copy_owners import opposite_refusals
from bridge.model.copying import Copied, Progress
from bridge.model.values import Committed, GroupState, TopicPartition
from bridge.pipeline.slices.refusals import Refused
from connectors.source.connector import KIND
from connectors.source.take_over import start_position
from tests.support.messages import message, message_pattern
from tests.unit.connectors.fake_clusters import FakeCluster, FakeClusters, Log

OPTIONS = LegacyOptions("orders", None, 1, "true", None, None, None, None, new_consumer=False)
CONSUMER = {"bootstrap.servers": "a:9092", "group.id": "mirror"}
PRODUCER = {"bootstrap.servers": "b:9092"}
MIRROR_MAKER_1 = [
    *(
        "--consumer.config",
        "--producer.config",
        "--new.consumer",
        "--num.streams",
        "--whitelist",
        "--include",
    ),
    *("--offset.commit.interval.ms", "--consumer.rebalance.listener", "--rebalance.listener.args"),
    *("--message.handler", "--message.handler.args", "--abort.on.send.failure", "--help", "--version"),
]
"""All options of kafka.tools.MirrorMaker in Kafka 3.x."""


def clients(consumer: Mapping[str, str] | None = None, producer: Mapping[str, str] | None = None) -> Clients:
    return Clients.from_properties({**CONSUMER, **(consumer or {})}, {**PRODUCER, **(producer or {})})


def config(options: LegacyOptions = OPTIONS, given: Clients | None = None) -> dict[str, str]:
    return connector_config(options, given or clients(), "id-of-a", "id-of-b")


def test_the_command_has_every_option() -> None:
    from typer.main import get_command

    command = get_command(app).commands["legacy"]  # type: ignore[attr-defined]
    known = {name for each in command.params for name in each.opts} | {"--help"}
    assert set(MIRROR_MAKER_1) <= known


def test_a_configuration_is_valid_and_mirrors_as_mirror_maker_1() -> None:
    props = config()
    assert KIND.validate(props, StaticClientCheck()).errors == ()
    expected = {
        "name": "mirror",
        "source.cluster.alias": "id-of-a",
        "target.cluster.alias": "id-of-b",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.bootstrap.servers": "b:9092",
        "replication.policy.class": "org.apache.kafka.connect.mirror.LegacyReplicationPolicy",
        "topics": "orders",
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        "refresh.topics.interval.seconds": "300",
        "source.consumer.auto.offset.reset": "latest",
        "source.record.policy": "fail",
        "spark.master": "local[1]",
    }
    assert {key: props.get(key) for key in expected} == expected
    assert "source.consumer.group.id" not in props


@pytest.mark.parametrize(
    ("consumer", "producer", "key", "value"),
    [
        ({"auto.offset.reset": "earliest"}, {}, "source.consumer.auto.offset.reset", "earliest"),
        ({"isolation.level": "read_uncommitted"}, {}, "source.consumer.isolation.level", "read_uncommitted"),
        ({"metadata.max.age.ms": "20000"}, {}, "refresh.topics.interval.seconds", "20"),
        ({"security.protocol": "SSL"}, {}, "source.cluster.security.protocol", "SSL"),
        ({"ssl.truststore.location": "/x"}, {}, "source.cluster.ssl.truststore.location", "/x"),
        ({}, {"sasl.mechanism": "PLAIN"}, "target.cluster.sasl.mechanism", "PLAIN"),
        ({}, {"compression.type": "zstd"}, "target.producer.compression.type", "zstd"),
        ({}, {"batch.size": "65536"}, "target.producer.batch.size", "65536"),
        ({"fetch.max.bytes": "5"}, {}, "source.consumer.fetch.max.bytes", "5"),
    ],
)
def test_properties_of_the_files_become_those_of_the_clients(
    consumer: Mapping[str, str], producer: Mapping[str, str], key: str, value: str
) -> None:
    assert config(given=clients(consumer, producer))[key] == value


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"num_streams": 4}, "spark.master", "local[4]"),
        ({"abort_on_send_failure": "FALSE"}, "source.record.policy", "report"),
        ({"include": None, "whitelist": "bills"}, "topics", "bills"),
        ({"whitelist": "bills"}, "topics", "orders"),
        ({"message_handler": "python:m.f"}, "bridge.transforms.handler.type", "python:m.f"),
        (
            {"message_handler": "python:m.f", "message_handler_args": "x=1"},
            "bridge.transforms.handler.args",
            "x=1",
        ),
    ],
)
def test_options_do_what_their_names_say(changes: Mapping[str, object], key: str, value: str) -> None:
    assert config(replace(OPTIONS, **changes))[key] == value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "made"),
    [("a,b", "a|b"), ("'a.*'", "a.*"), ('"a|b"', "a|b"), (" a , b ", "a|b"), ("(?!x).*", "(?!x).*")],
)
def test_an_include_is_read_as_mirror_maker_1_reads_it(given: str, made: str) -> None:
    assert pattern(given) == made


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"include": None}, "--include is missing"),
        ({"blacklist": "x"}, "--blacklist is not supported (removed with the old consumer): remove it"),
        ({"abort_on_send_failure": "yes"}, "--abort.on.send.failure is yes; it must be true or false"),
        ({"num_streams": 0}, "--num.streams is 0; it must be from 1 to 9999"),
        ({"num_streams": 10_000}, "--num.streams is 10000; it must be from 1 to 9999"),
        ({"rebalance_listener": "a.B"}, "--consumer.rebalance.listener is not supported"),
        ({"rebalance_listener_args": "x"}, "--rebalance.listener.args is not supported"),
        (
            {"message_handler": "a.B"},
            "--message.handler is a.B: Java classes can't be loaded here; it takes python:",
        ),
        ({"message_handler_args": "x"}, "--message.handler.args needs --message.handler"),
    ],
)
def test_what_an_option_cannot_do_is_said(changes: Mapping[str, object], why: str) -> None:
    (problem,) = problems(replace(OPTIONS, **changes), clients())  # type: ignore[arg-type]
    assert problem.startswith(why)


RENAMED = {
    "groupid": "group.id",
    "metadata.broker.list": "bootstrap.servers",
    "broker.list": "bootstrap.servers",
    "autooffset.reset": "auto.offset.reset",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("group.id", "", "--consumer.config has no group.id"),
        ("bootstrap.servers", "", "--consumer.config has no bootstrap.servers"),
        ("autooffset.reset", "x", "--consumer.config has autooffset.reset: its name is auto.offset.reset"),
        (
            "auto.offset.reset",
            "smallest",
            "--consumer.config has auto.offset.reset=smallest: it is called earliest",
        ),
        (
            "metadata.max.age.ms",
            "abc",
            "--consumer.config: Invalid value abc for configuration metadata.max.age.ms: Not a number of type LONG",
        ),
        (
            "metadata.max.age.ms",
            "-1",
            "--consumer.config: Invalid value -1 for configuration metadata.max.age.ms: Value must be at least 0",
        ),
    ],
)
def test_a_property_that_is_missing_or_has_another_name_is_said(key: str, value: str, why: str) -> None:
    (problem,) = problems(OPTIONS, clients({key: value}))
    assert problem.startswith(why)


@pytest.mark.parametrize(
    ("key", "now", "instead"),
    [
        *(
            (key, "bootstrap.servers", "give bootstrap.servers")
            for key in ("zookeeper.connect", "zk.connect")
        ),
        *((key, now, f"its name is {now}") for key, now in RENAMED.items()),
    ],
)
def test_an_old_property_is_an_error_only_where_nothing_takes_its_place(
    key: str, now: str, instead: str
) -> None:
    """Java's clients pass over what they don't know."""
    said = f"{key}: {instead}"
    harmless = key in ("compression.codec", "request.required.acks")
    assert any(said in each for each in problems(OPTIONS, clients({key: "x", now: ""}))) is not harmless
    there = clients({now: "a:1", key: "x"})
    assert not any(said in each for each in problems(OPTIONS, there))
    assert any(
        f"{key} of --consumer.config does nothing: {instead}" in each for each in remarks(OPTIONS, there)
    )


@pytest.mark.parametrize(
    ("changes", "consumer", "producer", "remark"),
    [
        ({"new_consumer": True}, {}, {}, "--new.consumer does nothing"),
        ({"whitelist": "x"}, {}, {}, "--whitelist is ignored: --include is given"),
        ({"whitelist": "x", "include": None}, {}, {}, "--whitelist is called --include"),
        ({"more": ["new.consumer"]}, {}, {}, "new.consumer does nothing: it is no option"),
        ({}, {}, {"producer.type": "sync"}, "producer.type does nothing"),
        (
            {},
            {},
            {"metadata.max.age.ms": "abc"},
            "metadata.max.age.ms of --producer.config does nothing: new topics are looked for by that of --consumer.c",
        ),
        ({}, {"enable.auto.commit": "true"}, {}, "enable.auto.commit does nothing"),
        ({}, {"key.deserializer": "a.B"}, {}, "key.deserializer does nothing: records are copied as bytes"),
    ],
)
def test_what_does_nothing_is_named(
    changes: Mapping[str, object], consumer: Mapping[str, str], producer: Mapping[str, str], remark: str
) -> None:
    given = clients({"auto.offset.reset": "earliest", **consumer}, producer)
    (problem,) = remarks(replace(OPTIONS, **changes), given)  # type: ignore[arg-type]
    assert problem.startswith(remark)


@pytest.mark.parametrize(("text", "group"), [("g  ", "g"), ("\tg\x00", "g"), ("g\u00a0", "g\u00a0")])
def test_blanks_around_a_value_are_no_part_of_it_as_with_javas_clients(text: str, group: str) -> None:
    assert config(given=clients({"group.id": text}))["name"] == group


def test_a_blank_group_is_none() -> None:
    (problem,) = problems(OPTIONS, clients({"group.id": " \t"}))
    assert problem.startswith("--consumer.config has no group.id")


def test_the_default_of_new_topics_is_said() -> None:
    (problem,) = remarks(OPTIONS, clients())
    assert problem == message("legacy.latest")


def test_no_property_of_a_file_is_ignored_in_silence() -> None:
    """What no client here has is an error or a named setting, as with any connector."""
    given = clients(
        {"exclude.internal.topics": "false", "no.such": "1", "producer.type": "sync"},
        {"retries": "3", "group.id": "writers", "enable.auto.commit": "true"},
    )
    props = config(given=given)
    result = KIND.validate(props, StaticClientCheck())
    named = {each.key for each in result.ignored} | {error.key for error in result.errors}
    assert any(
        line.startswith("no.such of --consumer.config does nothing") for line in remarks(OPTIONS, given)
    )
    assert {
        "source.consumer.exclude.internal.topics",
        "source.consumer.producer.type",
        "target.producer.group.id",
        "target.producer.enable.auto.commit",
        "target.producer.retries",
    } <= named


@pytest.mark.parametrize(
    ("value", "said"), [("use_all_dns_ips", ""), ("default", "only use_all_dns_ips is supported")]
)
def test_names_are_looked_up_as_the_files_say(
    value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """client.dns.lookup is a property of each client: stock's connections do not have it."""
    given = clients({"client.dns.lookup": value}, {"client.dns.lookup": value})
    with pytest.raises(typer.Exit) if said else contextlib.nullcontext():
        validated(config(given=given), in_own_words)
    messages = capsys.readouterr().err
    assert said in messages
    assert messages.count("client.dns.lookup") == (2 if said else 0)


def test_errors_and_remarks_have_the_names_of_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    given = clients({"isolation.level": "x", "fetch.max.bytes": "5"}, {"security.protocol": "TLS"})
    with pytest.raises(typer.Exit):
        validated(config(given=given), in_own_words)
    said = capsys.readouterr().err
    isolation, protocol = "isolation.level of --consumer.config", "security.protocol of --producer.config"
    assert re.search(message_pattern("config.invalid", value="x", key=isolation), said)
    assert re.search(message_pattern("config.invalid", value="TLS", key=protocol), said)
    assert "source." not in said
    assert "target." not in said
    validated(config(given=clients({"fetch.max.bytes": "5"}, {"linger.ms": "5"})), in_own_words)
    said = capsys.readouterr().err
    for ignored in ("fetch.max.bytes of --consumer.config", "linger.ms of --producer.config"):
        assert f"{ignored} does nothing" in said


def test_what_to_do_is_said_in_the_commands_options() -> None:
    (opposite,) = opposite_refusals({("t", "t"): "back"}, "there")
    assert "topics.exclude" in opposite
    said = in_own_words(opposite)
    assert said.endswith("or leave the topics out of --include")
    refused = Refused(TP, 10, 11, KafkaFailure(KafkaFault.RECORD_TOO_LARGE, "too large"))
    copied = Copied(TP, "", "orders", "")
    (records,) = refused.left_out(copied, 7)
    assert "source.record.policy" in records.way_out
    assert in_own_words(records.way_out).endswith("or set --abort.on.send.failure to false")


def test_connections_need_no_more_than_the_files_say() -> None:
    props = connection(clients({"security.protocol": "SSL"}))
    assert props["source.cluster.security.protocol"] == "SSL"
    assert props["target.cluster.bootstrap.servers"] == "b:9092"


def run(folder: Path, *options: str) -> str:
    for name, props in (("consumer", CONSUMER), ("producer", PRODUCER)):
        (folder / name).write_text("".join(f"{key}={value}\n" for key, value in props.items()))
    files = ["--consumer.config", str(folder / "consumer"), "--producer.config", str(folder / "producer")]
    done = CliRunner().invoke(app, ["legacy", *files, *options], env={"COLUMNS": "200"})
    assert "Traceback" not in done.output
    assert done.exit_code == 2
    return done.output


def test_all_that_is_wrong_is_said_at_once_before_anything_is_reached(tmp_path: Path) -> None:
    problem = run(tmp_path, "--abort.on.send.failure", "x", "--message.handler", "a.B", "--blacklist", "y")
    for each in (
        "--include is missing",
        "--abort.on.send.failure is x",
        "--message.handler is a.B",
        "--blacklist",
    ):
        assert each in problem


def test_the_version_is_printed() -> None:
    done = CliRunner().invoke(app, ["legacy", "--version"])
    assert (done.exit_code, done.output.startswith("mirror-bridge ")) == (0, True)


TP = TopicPartition("orders", 0)


def test_copying_goes_on_where_the_group_has_come_to_and_commits_for_it() -> None:
    source = FakeCluster()
    source.topic("orders", Log(), Log(), Log())
    clusters = FakeClusters(source, FakeCluster())
    source.offsets = {"mirror": {TP: Committed(0), TopicPartition("orders", 1): Committed(7)}}
    offsets = GroupOffsets("mirror", 60.0)

    async def life() -> None:
        await offsets.begin(clusters, {})
        expected: list[Mapping[str, str | int]] = [
            {"cluster": "A", "topic": "orders", "partition": number} for number in range(3)
        ]
        stored = await offsets.stored_offsets(expected)
        assert [start_position(each) for each in stored] == [0, 7, None]
        offsets.rows = {TP: Progress("orders", 0, "orders", 5)}
        await offsets.finish()

    asyncio.run(life())
    assert source.altered == [("mirror", {TP: Committed(5)})]
    assert clusters.released == [source]


def test_a_group_that_has_members_is_refused() -> None:
    source = FakeCluster()
    source.states = {"mirror": GroupState.STABLE}
    clusters = FakeClusters(source, FakeCluster())
    with pytest.raises(KafkaFailure, match="Stop kafka-mirror-maker first"):
        asyncio.run(GroupOffsets("mirror", 60.0).begin(clusters, {}))


class Beginning(FakeCluster):
    """The group's coordinator answers the third question."""

    async def group_states(self, groups: Sequence[str]) -> dict[str, GroupState]:
        states = await super().group_states(groups)
        asked = self.calls["group_states"]
        return states if asked > 2 else dict.fromkeys(states, GroupState.UNKNOWN)


def test_a_group_that_nobody_knows_yet_is_waited_for() -> None:
    """On a cluster that has had no group: its coordinators are made by the first question."""
    source = Beginning()
    source.states = {"mirror": GroupState.EMPTY}
    asyncio.run(GroupOffsets("mirror", 60.0).begin(FakeClusters(source, FakeCluster()), {}))
    assert source.calls["group_states"] == 3


def test_a_group_that_stays_unknown_is_not_said_to_be_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_offsets, "ANSWER_SECONDS", 0.05)
    source = FakeCluster()
    source.states = {"mirror": GroupState.UNKNOWN}
    with pytest.raises(KafkaFailure, match=message_pattern("legacy.not_described", group="mirror")) as failed:
        asyncio.run(GroupOffsets("mirror", 60.0).begin(FakeClusters(source, FakeCluster()), {}))
    assert "another mirror uses it. Stop" not in str(failed.value)

"""`mirror-bridge client` and `mirror-bridge read` without a cluster: wrong options, and how answers look."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge import VERSION, client
from bridge.cli import app
from bridge.client import console
from bridge.client.console import Reading
from bridge.errors import KafkaFailure, KafkaFault
from bridge.java_properties import load_properties
from bridge.mm2.records import Heartbeat
from bridge.mm2.replication_policy import DefaultReplicationPolicy
from bridge.model.values import Committed, TopicPartition
from tests.support.messages import message

OFFSETS = {
    "orders": {TopicPartition("A.t", 1): Committed(7, "m"), TopicPartition("A.t", 0): Committed(5)},
    "[bold]\x1b[2J": {TopicPartition("A." + "long" * 60, 0): Committed(1)},
}


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    return done.exit_code, done.stdout, done.stderr


def test_the_version_and_help_are_shown_by_the_usual_options() -> None:
    assert run("--version") == run("version")
    assert run("--version", "no-such-command")[0] == 0
    assert VERSION in run("--version")[1]
    for names in ([], ["readiness"], ["read", "checkpoints"]):
        assert run(*names, "-h") == run(*names, "--help")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["client", "hops", "A"], "give --bootstrap-server host:port, or --config FILE"),
        (["client", "hops", "A", "--config", "/no/such/file"], "can't read /no/such/file: No such file"),
        (["client", "hops", "A", "--config", "/"], "can't read /: Is a directory"),
        (["client", "hops", "A", "--bootstrap-server", "nohost"], "'nohost' is not of the form host:port"),
        (["client", "offsets", "--source-alias", "A"], "give one of --group and --group-pattern"),
        (
            ["client", "offsets", "--source-alias", "A", "--group", "g", "--group-pattern", "g"],
            "give one of --group and --group-pattern",
        ),
        (
            ["client", "offsets", "--source-alias", "A", "--group-pattern", "(", "--bootstrap-server", "a:1"],
            "--group-pattern: ",
        ),
        (["read", "checkpoints", "--bootstrap-server", "a:1"], "give one of --topic and --source-alias"),
        (
            ["read", "heartbeats", "--topic", "t", "--source-alias", "A", "--bootstrap-server", "a:1"],
            "give one of --topic and --source-alias",
        ),
        (
            [
                "read",
                "offset-syncs",
                "--target-alias",
                "B",
                "--source-alias",
                "A",
                "--bootstrap-server",
                "a:1",
            ],
            "give one of --topic, --target-alias and --source-alias",
        ),
        (["read", "heartbeats"], "give --bootstrap-server host:port, or --config FILE"),
    ],
)
def test_wrong_options(arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("mirror-bridge: ")
    assert message in err


def test_all_errors_of_a_file_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers = b:9092\n"
        "security.protocol = SASL_SSL\n"
        "sasl.mechanism = PLAIN\n"
        "sasl.jaas.config = no.such.Module required username=\\\n   me password=s3cret;\n"
        "replication.policy.separator =\n"
        "ssl.truststore.location = /no/such/store\n"
        "ssl.truststore.password = s3cret\n"
    )
    for command in (["client", "hops", "A"], ["read", "heartbeats"]):
        code, out, err = run(*command, "--config", str(file))
        assert (code, out) == (2, "")
        assert "s3cret" not in err
        for key in ("sasl.jaas.config", "replication.policy.separator", "ssl.truststore.location"):
            assert key in err


@pytest.mark.parametrize(
    "command",
    [
        ["client", "hops", "A", "--config", "x", "--config", "y"],
        ["legacy", "--consumer.config", "x", "--consumer", "y", "--producer.config", "z"],
        ["failover", "a", "--url", "http://x", "--url", "http://y"],
    ],
)
def test_of_two_values_of_an_option_none_counts(command: list[str]) -> None:
    code, out, err = run(*command)
    assert (code, out) == (2, "")
    assert "given 2 times" in err


@pytest.mark.parametrize("command", [["client", "upstream-clusters"], ["read", "heartbeats"]])
def test_nobody_at_the_address(command: list[str]) -> None:
    code, out, err = run(*command, "--bootstrap-server", "127.0.0.1:1")
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("mirror-bridge: ")
    assert "127.0.0.1" in line or "while trying to" in line


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, str]]:
    """Stands in for the cluster; what the questions were asked with."""
    asked: list[Mapping[str, str]] = []

    def answer(value: object) -> object:
        def one(props: Mapping[str, str], *_: object) -> object:
            asked.append(props)
            return value

        return one

    monkeypatch.setattr(client, "replication_hops", answer(2))
    for name in ("heartbeat_topics", "checkpoint_topics", "upstream_clusters", "remote_topics"):
        monkeypatch.setattr(client, name, answer({"b", "a\x1b[2J"}))
    monkeypatch.setattr(client, "translate_offsets", answer(OFFSETS))
    return asked


def test_answers_for_people(answers: list[Mapping[str, str]]) -> None:
    at = ("--bootstrap-server", "a:1")
    assert run("client", "hops", "A", *at) == (0, "2\n", "")
    for command in ("heartbeat-topics", "checkpoint-topics", "upstream-clusters", "remote-topics"):
        assert run("client", command, *at) == (0, "a\\x1b[2J\nb\n", "")
    code, out, err = run("client", "offsets", "--source-alias", "A", "--group-pattern", ".*", *at)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines() if line.strip() and "─" not in line]
    assert rows == [
        ["GROUP", "TOPIC", "PARTITION", "OFFSET", "METADATA"],
        ["[bold]\\x1b[2J", "A." + "long" * 60, "0", "1"],
        ["orders", "A.t", "0", "5"],
        ["orders", "A.t", "1", "7", "m"],
    ]


def test_answers_for_programs(answers: list[Mapping[str, str]]) -> None:
    at = ("--bootstrap-server", "a:1", "--output", "json")

    def answer(*arguments: str) -> object:
        code, out, _ = run("client", *arguments, *at)
        assert code == 0
        return json.loads(out)

    assert answer("hops", "A") == {"source": "A", "hops": 2}
    assert answer("remote-topics", "--source-alias", "A") == ["a\x1b[2J", "b"]
    rows = answer("offsets", "--source-alias", "A", "--group", "orders")
    assert isinstance(rows, list)
    assert rows[1:] == [
        {"group": "orders", "topic": "A.t", "partition": 0, "offset": 5, "metadata": ""},
        {"group": "orders", "topic": "A.t", "partition": 1, "offset": 7, "metadata": "m"},
    ]


def test_the_option_wins_over_the_file(answers: list[Mapping[str, str]], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b:2\nreplication.policy.separator=__\n")
    run("client", "hops", "A", "--config", str(file), "--bootstrap-server", "a:1")
    run("client", "hops", "A", "--config", str(file))
    assert [each["bootstrap.servers"] for each in answers] == ["a:1", "b:2"]
    assert answers[0]["replication.policy.separator"] == "__"


def test_trouble_of_the_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KafkaFailure(KafkaFault.NOT_AUTHORIZED, "Not authorized (while trying to list topics)")

    monkeypatch.setattr(client, "heartbeat_topics", fail)
    code, out, err = run("client", "heartbeat-topics", "--bootstrap-server", "a:1")
    assert (code, out, err) == (1, "", message("commands.unauthorized", doing="list topics"))


@pytest.mark.parametrize(
    ("arguments", "topic"),
    [
        (["heartbeats"], "heartbeats"),
        (["heartbeats", "--source-alias", "A"], "A.heartbeats"),
        (["checkpoints", "--source-alias", "A"], "A.checkpoints.internal"),
        (["offset-syncs", "--target-alias", "B"], "mm2-offset-syncs.B.internal"),
        (["offset-syncs", "--source-alias", "A"], "mm2-offset-syncs.A.internal"),
        (["checkpoints", "--topic", "other"], "other"),
    ],
)
def test_what_is_read(monkeypatch: pytest.MonkeyPatch, arguments: list[str], topic: str) -> None:
    collected: list[Reading] = []

    async def record(_props: object, reading: Reading, *_: object) -> None:
        collected.append(reading)

    monkeypatch.setattr(console, "print_records", record)
    limits = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "1500", "--bootstrap-server", "a:1")
    assert run("read", *arguments, *limits)[0] == 0
    (reading,) = collected
    assert reading.topic(DefaultReplicationPolicy()) == topic
    assert (reading.from_beginning, reading.max_messages, reading.idle) == (True, 3, 1.5)
    heartbeat = Heartbeat("A", "B", 7)
    if arguments[0] == "heartbeats":
        assert str(reading.decode(heartbeat.key(), heartbeat.value())) == str(heartbeat)


@pytest.mark.parametrize(
    ("text", "props"),
    [
        ("# c\n! c\n\n a = b \n", {"a": "b "}),
        ("a:b\nc d\ne", {"a": "b", "c": "d", "e": ""}),
        ("a=x \\\n   y\\\n\nb=\\\\\n", {"a": "x y", "b": "\\"}),
        ("a\\ b\\=c=\\u00e9\\t\\q\n", {"a b=c": "é\tq"}),
        ("a=\\ud83e\\udd9c\r\nb=1\rc=2", {"a": "🦜", "b": "1", "c": "2"}),
    ],
)
def test_properties_files(tmp_path: Path, text: str, props: dict[str, str]) -> None:
    """Compared with java.util.Properties in tests/integration/test_mirror_client.py."""
    file = tmp_path / "file.properties"
    file.write_text(text, "latin-1", newline="")
    assert load_properties(file) == props


def test_a_broken_escape_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "file.properties"
    file.write_text("a=1\nb=\\u12\n")
    code, _, err = run("client", "hops", "A", "--config", str(file))
    assert code == 2
    assert err == message("commands.bad_escape", path=file, line=2)


def test_help_is_a_command_too_and_lists_no_commands_of_developers() -> None:
    code, out, _ = run("help")
    assert code == 0
    assert "failover" in out
    assert "definitions" not in out
    code, out, _ = run("help", "read", "checkpoints")
    assert (code, "--bootstrap-server" in out) == (0, True)
    assert run("help", "nothing")[0] == 2


def test_generated_files_are_written_into_a_checkout_only(tmp_path: Path) -> None:
    code, _, err = run("definitions", str(tmp_path))
    assert (code, "is no checkout of the repository" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["doctor", "audit"])
def test_a_file_of_dedicated_mode_is_called_one(command: str, tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA->B.enabled = true\n")
    code, _, err = run(command, "--config", str(path))
    assert (code, "is a file of mirror-bridge mirror" in err) == (2, True), err

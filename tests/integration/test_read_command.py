"""`mirror-bridge read` and `mirror-bridge client` as processes, on real brokers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bridge.local import Broker, Cluster
from bridge.local.security import Security
from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync
from bridge.model.values import TopicPartition
from tests.support import Record, allow, create_topic, delete_topic, eventually, produce, unique
from tests.support.brokers import Secured, secured_broker

PLACE = TopicPartition("A.orders", 3)
COMMAND = (sys.executable, "-m", "bridge")
SECONDS = 60


def run(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


Made = Sequence[Heartbeat | OffsetSync | Checkpoint]


def records(made: Made) -> list[Record]:
    return [Record(each.value(), key=each.key()) for each in made]


def printed(made: Made) -> str:
    return "".join(f"{each}\n" for each in made)


class Reader:
    """A `read` that goes on until it is told to end; what it has said so far is in files."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen([*COMMAND, "read", *arguments], stdout=out, stderr=err)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(SECONDS)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    started: list[Reader] = []

    def start(*arguments: str) -> Reader:
        started.append(Reader(tmp_path, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


def test_every_kind_from_its_beginning(source: Cluster) -> None:
    alias = unique("A")
    made: dict[str, Made] = {
        "checkpoints": [Checkpoint("g", PLACE, at, at + 1, "möchte") for at in range(3)],
        "offset-syncs": [OffsetSync(PLACE, at, at + 1) for at in range(3)],
        "heartbeats": [Heartbeat("A", "B", at) for at in range(3)],
    }
    names = {
        "checkpoints": f"{alias}.checkpoints.internal",
        "offset-syncs": f"mm2-offset-syncs.{alias}.internal",
        "heartbeats": f"{alias}.heartbeats",
    }
    for kind, some in made.items():
        create_topic(source.bootstrap, names[kind])
        produce(source.bootstrap, names[kind], records(some))
        which = ("--source-alias", alias, "--bootstrap-server", source.bootstrap, "--from-beginning")
        assert run("read", kind, *which, "--max-messages", "2") == (0, printed(some[:2]), "")
        assert run("read", kind, *which, "--timeout-ms", "0") == (0, printed(some), "")


def test_it_follows_from_the_end_and_says_when_the_topic_was_made_anew(
    source: Cluster, reader: Callable[..., Reader]
) -> None:
    topic = create_topic(source.bootstrap, unique("heartbeats"))
    old, new, last = ([Heartbeat("A", "B", number + at) for at in range(2)] for number in (0, 10, 20))
    produce(source.bootstrap, topic, records(old))
    running = reader("heartbeats", "--topic", topic, "--bootstrap-server", source.bootstrap)
    follow = [Heartbeat("A", "B", 5)]

    def follows() -> bool:
        produce(source.bootstrap, topic, records(follow))
        return bool(running.out)

    eventually(follows, SECONDS, what="it prints what comes")
    assert str(old[0]) not in running.out
    produce(source.bootstrap, topic, [Record(b"bad", key=b""), Record(None, key=b"gone"), *records(new)])
    eventually(lambda: running.out.endswith(printed(new)), SECONDS, what="it goes on after bad records")
    assert running.err.count(f"mirror-bridge: {topic} at offset") == 2
    delete_topic(source.bootstrap, topic)
    create_topic(source.bootstrap, topic)
    produce(source.bootstrap, topic, records(last))
    eventually(lambda: running.out.endswith(printed(last)), SECONDS, what="it begins anew")
    assert f"{topic} was recreated or truncated" in running.err
    assert running.interrupt() == 130
    assert "Traceback" not in running.err


@pytest.mark.long
def test_a_reader_that_nobody_listens_to_ends(source: Cluster, tmp_path: Path) -> None:
    topic = create_topic(source.bootstrap, unique("heartbeats"))
    produce(source.bootstrap, topic, records([Heartbeat("A", "B", at) for at in range(20_000)]))
    arguments = ("read", "heartbeats", "--topic", topic, "--from-beginning")
    errors = tmp_path / "errors"
    # Unbuffered, Python takes a write that was cut off for a whole one.
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with (
        errors.open("wb") as err,
        subprocess.Popen(
            [*COMMAND, *arguments, "--bootstrap-server", source.bootstrap],
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            env=plain,
        ) as running,
    ):
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == printed([Heartbeat("A", "B", 0)])
            running.stdout.close()
            assert running.wait(SECONDS) == 1
        finally:
            running.kill()
    assert errors.read_text() == ""


def test_a_topic_that_is_missing(source: Cluster) -> None:
    alias = unique("nowhere")
    for command in (["read", "checkpoints"], ["client", "offsets", "--group", "g"]):
        code, out, err = run(*command, "--source-alias", alias, "--bootstrap-server", source.bootstrap)
        assert (code, out) == (1, "")
        (line,) = err.splitlines()
        assert line.startswith("mirror-bridge: ")
        assert f"{alias}.checkpoints.internal" in line


# -- with a login ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of its own: what a client may see of it is all that there is."""
    security = Security(users={"alice": "wonder"}, authorizer=True)
    with secured_broker(tmp_path_factory.mktemp("guarded"), security) as broker:
        yield broker


def login(broker: Secured, path: Path, password: str) -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    path.write_text(
        f"bootstrap.servers={broker.address('SASL_PLAINTEXT')}\n"
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={module} required \\\n    username="alice" password="{password}";\n'
        "admin.request.timeout.ms=5000\n"
        "consumer.request.timeout.ms=5000\n"
    )
    return str(path)


@pytest.mark.long
def test_a_file_with_a_login(guarded: Broker, tmp_path: Path) -> None:
    topic = create_topic(guarded.bootstrap, "A.checkpoints.internal")
    checkpoint = Checkpoint("g", PLACE, 5, 7, "m")
    produce(guarded.bootstrap, topic, records([checkpoint]))
    file = login(guarded, tmp_path / "good.properties", "wonder")
    assert run("client", "checkpoint-topics", "--config", file) == (0, "", "")
    code, out, err = run("client", "offsets", "--source-alias", "A", "--group", "g", "--config", file)
    assert (code, out) == (1, "")
    assert "A.checkpoints.internal" in err
    for operation in ("DESCRIBE", "READ"):
        allow(guarded.bootstrap, "User:alice", topic, operation)
    assert run("client", "checkpoint-topics", "--config", file) == (0, "A.checkpoints.internal\n", "")
    asked = ("client", "offsets", "--source-alias", "A", "--group", "g", "--config", file, "--output", "json")
    code, out, err = run(*asked)
    assert (code, err) == (0, "")
    assert json.loads(out) == [
        {"group": "g", "topic": PLACE.topic, "partition": 3, "offset": 7, "metadata": "m"}
    ]
    read = ("read", "checkpoints", "--source-alias", "A", "--from-beginning", "--timeout-ms", "0")
    assert run(*read, "--config", file) == (0, printed([checkpoint]), "")


def test_a_wrong_password_is_one_line_without_it(secured: Secured, tmp_path: Path) -> None:
    file = login(secured, tmp_path / "bad.properties", "s3cret")
    for command in (["client", "hops", "A"], ["read", "heartbeats"]):
        code, out, err = run(*command, "--config", file)
        assert (code, out) == (1, "")
        (line,) = err.splitlines()
        assert "Authentication failed" in line
        assert "s3cret" not in err

"""The embedded stack itself: what it starts, and that nothing of it is left whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from bridge.local import (
    OLDEST_WORKER,
    Cluster,
    ConnectFailed,
    ConnectWorker,
    LocalStack,
    LocalStackError,
    ManagedProcess,
    ProcessDied,
    Security,
    WaitTimedOut,
    kafka_jars,
    make_tls,
)
from tests.support import (
    Record,
    active_member,
    admin,
    allow,
    commit,
    committed,
    compact,
    create_topic,
    delete_records,
    eventually,
    mirror,
    numbered,
    produce,
    produce_transaction,
    read,
    resume,
    state,
    unique,
)

ROOT = Path(__file__).parents[2]
STOCK = ["MirrorCheckpointConnector", "MirrorHeartbeatConnector", "MirrorSourceConnector"]


def exists(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_records_keep_all_they_carry(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("all"), partitions=2)
    sent = [
        Record(b"v", key=b"k", timestamp=5, headers=(("h", b"1"), ("h", None)), partition=1),
        Record(None, key=b"k", timestamp=3, partition=1),
    ]
    offsets = produce(source.bootstrap, topic, sent, compression="zstd")
    found = read(source.bootstrap, topic, 1)
    assert offsets == [record.offset for record in found] == [0, 1]
    assert [record.content for record in found] == [record.content for record in sent]
    assert read(source.bootstrap, topic, 0) == []


def test_aborted_transactions_are_seen_by_uncommitted_readers_only(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("tx"))
    produce_transaction(source.bootstrap, topic, numbered(2))
    produce_transaction(source.bootstrap, topic, numbered(2, start=2), commit=False)
    assert [record.offset for record in read(source.bootstrap, topic)] == [0, 1, 3, 4]
    assert [record.offset for record in read(source.bootstrap, topic, committed_only=True)] == [0, 1]


def test_compaction_and_retention_can_be_forced(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("compacted"), configs={"cleanup.policy": "compact"})
    produce(
        source.bootstrap, topic, [Record(b"old", key=b"a"), Record(b"b", key=b"b"), Record(b"new", key=b"a")]
    )
    assert compact(source.bootstrap, topic)[:2] == [1, 2]
    plain = create_topic(source.bootstrap, unique("plain"))
    produce(source.bootstrap, plain, numbered(5))
    delete_records(source.bootstrap, plain, {0: 3})
    assert [record.offset for record in read(source.bootstrap, plain)] == [3, 4]


def test_groups_commit_resume_and_become_active(source: Cluster) -> None:
    topic, group = create_topic(source.bootstrap, unique("groups")), unique("group")
    produce(source.bootstrap, topic, numbered(10))
    assert committed(source.bootstrap, group) == {}
    commit(source.bootstrap, group, {(topic, 0): 7}, metadata="by hand")
    assert committed(source.bootstrap, group) == {(topic, 0): 7}
    assert resume(source.bootstrap, group, [topic])[0].offset == 7
    with active_member(source.bootstrap, group, [topic]):
        assert state(source.bootstrap, group) == "STABLE"
    assert state(source.bootstrap, group) == "EMPTY"


def test_a_broker_keeps_port_and_data_over_kill_and_restart(new_stack: Callable[..., LocalStack]) -> None:
    broker = new_stack().broker("alone")
    topic = create_topic(broker.bootstrap, unique("kept"))
    address = broker.bootstrap
    produce(address, topic, numbered(3))
    broker.kill()
    broker.start()
    assert [record.offset for record in read(address, topic)] == [0, 1, 2]
    broker.process.pause()
    broker.process.resume()
    broker.restart()
    assert len(read(address, topic)) == 3


def test_a_secured_broker_wants_credentials_and_acls(
    new_stack: Callable[..., LocalStack], tmp_path: Path
) -> None:
    security = Security(users={"alice": "wonder"}, tls=make_tls(tmp_path / "tls"), authorizer=True)
    assert security.tls is not None
    broker = new_stack().broker("secured", security=security)
    topic = create_topic(broker.bootstrap, unique("closed"))
    own = str(security.tls.client)
    login = {"sasl.username": "alice", "sasl.password": "wonder"}
    trust = {"ssl.ca.location": str(security.tls.authority)}
    ways = {
        "SASL_PLAINTEXT": {**login, "sasl.mechanism": "PLAIN"},
        "SASL_SSL": {**login, **trust, "sasl.mechanism": "SCRAM-SHA-512"},
        "SSL": {**trust, "ssl.certificate.location": own, "ssl.key.location": own},
    }
    clients = {
        listener: Producer(
            {"bootstrap.servers": broker.address(listener), "security.protocol": listener, **settings}
        )
        for listener, settings in ways.items()
    }
    for listener, client in clients.items():
        assert topic not in client.list_topics(timeout=20).topics, f"{listener} needs no ACL"
    for principal in ("User:alice", "User:CN=client"):
        allow(broker.bootstrap, principal, topic, "DESCRIBE")
    for listener, client in clients.items():
        eventually(
            lambda client=client: topic in client.list_topics(timeout=20).topics,
            20,
            what=f"{listener} gets in",
        )


def test_stock_mirror_copies_topics(stock_worker: ConnectWorker, source: Cluster, target: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("mirrored"), partitions=2)
    produce(source.bootstrap, topic, numbered(50, timestamp=1000, partition=1))
    mirror(stock_worker, source, target, [topic])
    copies = read(target.bootstrap, f"{source.name}.{topic}", 1)
    assert [copy.content for copy in copies] == [
        record.content for record in read(source.bootstrap, topic, 1)
    ]


def test_the_oldest_worker_comes_up(stack: LocalStack) -> None:
    worker = stack.worker("oldest", version=OLDEST_WORKER, shim=False)
    assert worker.rest.get("/")["version"] == OLDEST_WORKER
    assert [plugin["class"].rpartition(".")[2] for plugin in worker.rest.plugins()] == STOCK


def test_two_workers_share_a_group(stack: LocalStack, source: Cluster, target: Cluster) -> None:
    first = stack.worker("first", shim=False, group_id="pair")
    second = stack.worker("second", shim=False, group_id="pair")
    name = unique("heartbeat")
    config = {
        "connector.class": STOCK[1],
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "heartbeats.topic.replication.factor": "1",
    }
    first.rest.put(name, config)
    second.rest.wait_running(name)
    second.rest.pause(name)
    first.rest.wait_state(name, "PAUSED")
    first.rest.resume(name)
    first.rest.wait_running(name)
    second.rest.restart(name)
    first.rest.wait_running(name)
    first.rest.delete(name)
    eventually(lambda: name not in second.rest.connectors(), 20, what=f"the other worker has let {name} go")


def test_the_worker_image_has_properties_that_a_worker_takes(stack: LocalStack, target: Cluster) -> None:
    lines = (ROOT / "deploy" / "worker.properties").read_text().splitlines()
    deployed = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    mine = {"listeners", "rest.advertised.port", "plugin.path"}
    environment = {
        "CONNECT_BOOTSTRAP_SERVERS": target.bootstrap,
        "CONNECT_GROUP_ID": "deployed",
        "CONNECT_ADVERTISED_HOST": "127.0.0.1",
        "CONNECT_REPLICATION_FACTOR": "1",
    }
    properties = {key: value for key, value in deployed.items() if key not in mine}
    worker = stack.worker("deployed", shim=False, properties=properties, environment=environment)
    assert worker.rest.connectors() == []
    assert "deployed-configs" in admin(target.bootstrap).list_topics(timeout=20).topics


def test_connect_says_what_is_wrong(stock_worker: ConnectWorker) -> None:
    errors = stock_worker.rest.validation_errors(STOCK[0], {"connector.class": STOCK[0], "name": "x"})
    assert "source.cluster.alias" in errors
    with pytest.raises(ConnectFailed, match="nothing-of-that-name") as refused:
        stock_worker.rest.status("nothing-of-that-name")
    assert refused.value.status == httpx.codes.NOT_FOUND


_PARENT = """
import os, sys, time
from pathlib import Path
from bridge.local import LocalStack, ManagedProcess

directory = Path(sys.argv[1])
with LocalStack(directory) as stack:
    broker = stack.broker("alone")
    family = ManagedProcess("family", ["/bin/sh", "-c", "sleep 600 & echo $! > grandchild; wait"],
                            directory / "family.log", directory=directory)
    family.start()
    family.wait_until(lambda: (directory / "grandchild").exists(), 10, "the grandchild runs")
    grandchild = (directory / "grandchild").read_text().strip()
    print(broker.process.pid, family.pid, grandchild, flush=True)
    {ending}
"""


@contextmanager
def stack_in_a_process(directory: Path, ending: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A Python process that runs a stack, and the ids of the processes that must not outlive it."""
    command = [sys.executable, "-W", "error", "-c", _PARENT.replace("{ending}", ending), str(directory)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    ) as parent:
        try:
            assert parent.stdout is not None
            pids = [int(pid) for pid in parent.stdout.readline().split()]
            assert len(pids) == 3, parent.communicate()[1]
            yield parent, pids
        finally:
            if parent.poll() is None:
                parent.kill()


@pytest.mark.parametrize(
    ("ending", "sent"),
    [
        pytest.param("", None, id="the block ends"),
        pytest.param("raise RuntimeError('oops')", None, id="an error"),
        pytest.param("sys.exit(3)", None, id="exit"),
        pytest.param("time.sleep(600)", signal.SIGINT, id="Ctrl-C"),
        pytest.param("time.sleep(600)", signal.SIGTERM, id="SIGTERM"),
        pytest.param("time.sleep(600)", signal.SIGKILL, id="SIGKILL"),
        pytest.param(
            "broker.process.pause(); print(); time.sleep(600)", signal.SIGKILL, id="SIGKILL, paused"
        ),
    ],
)
def test_nothing_outlives_its_parent(tmp_path: Path, ending: str, sent: signal.Signals | None) -> None:
    with stack_in_a_process(tmp_path, ending) as (parent, pids):
        if sent is not None:
            if "print()" in ending:
                assert parent.stdout is not None
                parent.stdout.readline()
            assert all(exists(pid) for pid in pids)
            os.kill(parent.pid, sent)
        parent.communicate(timeout=60)
    eventually(lambda: not any(exists(pid) for pid in pids), 10, what=f"processes {pids} are gone")


def test_a_wait_fails_at_once_with_the_log_of_what_died(tmp_path: Path) -> None:
    doomed = ManagedProcess("doomed", ["/bin/sh", "-c", "echo no disk left; exit 7"], tmp_path / "doomed.log")
    doomed.start()
    with pytest.raises(ProcessDied, match=r"(?s)doomed ended with exit status 7.*no disk left.*it is up"):
        doomed.wait_until(lambda: False, 60, "it is up")
    doomed.stop()


def test_a_wait_fails_with_what_another_died_of(tmp_path: Path) -> None:
    needed = ManagedProcess("needed", ["/bin/sh", "-c", "echo bad luck; kill -9 $$"], tmp_path / "needed.log")
    waiting = ManagedProcess("waiting", ["sleep", "600"], tmp_path / "waiting.log")
    needed.start()
    waiting.start()
    with pytest.raises(ProcessDied, match=r"(?s)needed was killed by SIGKILL.*bad luck"):
        waiting.wait_until(lambda: False, 60, "it is up", needs=[needed])
    for process in (needed, waiting):
        process.stop()


def test_a_wait_that_takes_too_long_says_the_last_failure(tmp_path: Path) -> None:
    slow = ManagedProcess("slow", ["/bin/sh", "-c", "echo warming up; sleep 600"], tmp_path / "slow.log")
    slow.start()

    def refuse() -> bool:
        assert "warming up" in slow.log_tail()
        raise ConnectionError("refused")

    with pytest.raises(
        WaitTimedOut, match=r"(?s)Not within 0.5 s: it is up: ConnectionError: refused.*warming"
    ):
        slow.wait_until(refuse, 0.5, "it is up")
    assert slow.running
    slow.kill()
    assert slow.exit_status == -signal.SIGKILL
    assert not slow.died(), "a kill that was asked for is no death"


def test_a_restart_shows_the_log_of_this_run_only(tmp_path: Path) -> None:
    process = ManagedProcess("again", ["/bin/sh", "-c", "echo run of $$; sleep 600"], tmp_path / "again.log")
    for _ in range(2):
        process.start()
        expected = f"run of {process.pid}"
        process.wait_until(lambda expected=expected: process.log_tail() == expected, 10, "it wrote a line")
        process.stop()
    assert len((tmp_path / "again.log").read_text().splitlines()) == 2


def test_a_broker_that_cannot_start_shows_why(new_stack: Callable[..., LocalStack]) -> None:
    with pytest.raises(ProcessDied, match=r"(?s)broker broken ended.*num\.io\.threads"):
        new_stack().broker("broken", properties={"num.io.threads": "none"})


@pytest.fixture
def path_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A PATH with nothing but the given scripts, and no homes or caches that would help out."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("MIRROR_BRIDGE_CACHE", str(tmp_path / "cache"))
    for home in ("JAVA_HOME", "MAVEN_HOME"):
        monkeypatch.delenv(home, raising=False)

    def install(**scripts: str) -> Path:
        for name, script in scripts.items():
            (tools / name).write_text(f"#!/bin/sh\n{script}\n")
            (tools / name).chmod(0o755)
        return tools

    return install


JAVA_17 = "echo 'openjdk version \"17.0.1\"' >&2"


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        pytest.param({}, "No Java found: install a JDK 17 or newer, or set JAVA_HOME", id="no JDK"),
        pytest.param(
            {"java": "echo 'java version \"1.8.0_402\"'"}, "is Java 1: install a JDK 17", id="old JDK"
        ),
        pytest.param(
            {"java": "echo 'openjdk version \"11.0.2\"'"}, "is Java 11: install a JDK 17", id="JDK 11"
        ),
        pytest.param({"java": JAVA_17}, "No Maven found: install Maven 3.6 or newer", id="no Maven"),
        pytest.param(
            {"java": JAVA_17, "mvn": "echo '[ERROR] the network is down'; exit 1"},
            "Maven could not fetch the jars of Kafka 4.3.1: the network is down",
            id="Maven fails",
        ),
    ],
)
def test_a_missing_tool_is_one_line(
    path_with: Callable[..., Path], tmp_path: Path, tools: dict[str, str], message: str
) -> None:
    path_with(**tools)
    with pytest.raises(LocalStackError) as refused:
        LocalStack(tmp_path).start_clusters()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not [path for path in (tmp_path / "cache").glob("kafka-*") if path.is_dir()]


def test_jars_of_an_impossible_version_are_refused() -> None:
    with pytest.raises(LocalStackError, match=r"'2\.8' is not of the form"):
        kafka_jars("2.8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kafka-source=a:1"], "needs the other"),
        (["--kafka-source=a:1", "--kafka-target=b:1", "--kafka=jars"], "for running ones"),
        (["--kafka-source=a:1", "--kafka-target=a:1"], "same cluster"),
        (["--kafka=testcontainers", "--kafka-version=4.3.1"], "brokers from jars"),
    ],
)
def test_conflicting_options_are_refused_before_anything_starts(options: list[str], message: str) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, __file__]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert message in done.stderr


def test_given_clusters_are_used_as_they_are(stack: LocalStack, source: Cluster, target: Cluster) -> None:
    """The same suite on running clusters: one test of this file, against the clusters of this run."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    chosen = [f"--kafka-source={source.bootstrap}", f"--kafka-target={target.bootstrap}"]
    tests = [f"{__file__}::{test_aborted_transactions_are_seen_by_uncommitted_readers_only.__name__}"]
    done = subprocess.run([*command, *chosen, *tests], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "1 passed" in done.stdout

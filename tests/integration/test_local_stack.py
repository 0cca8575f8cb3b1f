"""The embedded stack itself: the clusters and workers that it starts, and the helpers that tests use on them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
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
    Security,
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
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
STOCK = ["MirrorCheckpointConnector", "MirrorHeartbeatConnector", "MirrorSourceConnector"]


def test_records_keep_all_they_carry(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("all"), partitions=2)
    sent = [
        Record(b"v", key=b"k", timestamp=5, headers=(("h", b"1"), ("h", None)), partition=1),
        Record(None, key=b"k", timestamp=3, partition=1),
    ]
    offsets = produce(source.bootstrap, topic, sent, compression="zstd")
    result = read(source.bootstrap, topic, 1)
    assert offsets == [record.offset for record in result] == [0, 1]
    assert [record.content for record in result] == [record.content for record in sent]
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


def test_a_broker_keeps_port_and_data_over_kill_and_restart(new_stack: Callable[[], LocalStack]) -> None:
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


def test_what_a_part_of_the_stack_starts_ends_with_it(
    shared_stack: LocalStack, worker: ConnectWorker
) -> None:
    with shared_stack.part() as part:
        service = part.service(unique("brief"))
        assert service.process.running
        assert part.service(service.name) is service
        assert part.source is shared_stack.source
        assert part.worker() is worker, "what the whole stack has by that name"
    assert not service.process.running
    assert worker.process.running
    with shared_stack.part() as part:
        assert part.service(service.name) is not service


def test_a_secured_broker_wants_credentials_and_acls(
    new_stack: Callable[[], LocalStack], tmp_path: Path
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

    def known(client: Producer) -> bool:
        return topic in client.list_topics(timeout=10).topics

    for listener, client in clients.items():
        assert topic not in client.list_topics(timeout=60).topics, f"{listener} needs no ACL"
    for principal in ("User:alice", "User:CN=client"):
        allow(broker.bootstrap, principal, topic, "DESCRIBE")
    for listener, client in clients.items():
        eventually(partial(known, client), WAIT, what=f"{listener} gets in")


def test_stock_mirror_copies_topics(stock_worker: ConnectWorker, source: Cluster, target: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("mirrored"), partitions=2)
    produce(source.bootstrap, topic, numbered(50, timestamp=1000, partition=1))
    mirror(stock_worker, source, target, [topic])
    copies = read(target.bootstrap, f"{source.name}.{topic}", 1)
    assert [copy.content for copy in copies] == [
        record.content for record in read(source.bootstrap, topic, 1)
    ]


@pytest.mark.soak
def test_the_oldest_worker_comes_up(stack: LocalStack) -> None:
    worker = stack.worker("oldest", version=OLDEST_WORKER, shim=False)
    assert worker.rest.get("/")["version"] == OLDEST_WORKER
    assert [plugin["class"].rpartition(".")[2] for plugin in worker.rest.plugins()] == STOCK


@pytest.mark.soak
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
    eventually(lambda: name not in second.rest.connectors(), WAIT, what=f"the other worker has let {name} go")


def test_the_worker_image_has_properties_that_a_worker_takes(
    stack: LocalStack, target: Cluster, tmp_path: Path
) -> None:
    lines = (ROOT / "deploy" / "worker.properties").read_text().splitlines()
    deployed = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    mine = {"listeners", "rest.advertised.port", "plugin.path"}
    environment = {
        "CONNECT_BOOTSTRAP_SERVERS": target.bootstrap,
        "CONNECT_GROUP_ID": "deployed",
        "CONNECT_ADVERTISED_HOST": "127.0.0.1",
        "CONNECT_REPLICATION_FACTOR": "1",
    }
    # The image makes the folder (tests/unit/repository/test_deploy.py).
    deployed["config.providers.directory.param.allowed.paths"] = str(tmp_path)
    properties = {key: value for key, value in deployed.items() if key not in mine}
    worker = stack.worker("deployed", shim=False, properties=properties, environment=environment)
    assert worker.rest.connectors() == []
    assert "deployed-configs" in admin(target.bootstrap).list_topics(timeout=60).topics


def test_connect_says_what_is_wrong(stock_worker: ConnectWorker) -> None:
    errors = stock_worker.rest.validation_errors(STOCK[0], {"connector.class": STOCK[0], "name": "x"})
    assert "source.cluster.alias" in errors
    with pytest.raises(ConnectFailed, match="nothing-of-that-name") as refused:
        stock_worker.rest.status("nothing-of-that-name")
    assert refused.value.status == httpx.codes.NOT_FOUND


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

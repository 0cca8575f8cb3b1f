"""Archives of the classes that a broker, a worker and the storage tool load (class data sharing of the JVM).

    $MIRROR_BRIDGE_CACHE/kafka-4.3.1-<digest of the pom>-classes-<digest of the JVM>/Kafka.jsa

With one, a JVM starts in two thirds of the processor time. An archive is for one JVM and one directory of jars; a JVM
that it does not fit starts without it.

What a broker and a worker do while the classes that they load are archived: what mirrors and tests ask
of them. A class that is not in the archive is read from its jar and checked at each start, and a lambda is made.

An archive of the classes that a Spark driver loads (class data sharing of the JVM), beside this Python's packages.

    .venv/share/mirror-bridge/spark-<digest of JVM and jars>.jsa

As for Kafka's servers. An archive names the jars by their paths, so it belongs to one installation of
pyspark. `python -m bridge.local.archives` runs a driver with a slice that has nothing to copy.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from bridge.local.broker import Broker
from bridge.local.jars import DEFAULT_KAFKA, KafkaJars, find_java, java_version, kafka_jars, locked
from bridge.local.processes import LocalStackError, eventually
from bridge.local.worker import ConnectWorker

_TOPIC, _GROUP = "classes", "classes"
_SECONDS = 60.0
_LAUNCHER, _DRIVER = "SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"
"""What Spark's scripts add to the command lines of the JVM that makes the driver's command line, and of the driver."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def use_broker(broker: Broker) -> None:
    """Records in a transaction, a group that reads and commits, and the admin calls that change nothing for good."""
    admin = AdminClient(_client(broker))
    admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(_SECONDS)
    producer = Producer({**_client(broker), "transactional.id": _GROUP})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(_TOPIC, b"%d" % number)
    producer.commit_transaction(_SECONDS)
    _read(broker)

    committed = ConsumerGroupTopicPartitions(_GROUP, [TopicPartition(_TOPIC, 0, 5)])
    admin.alter_consumer_group_offsets([committed])[_GROUP].result(_SECONDS)
    admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(_GROUP)])[_GROUP].result(_SECONDS)
    admin.list_consumer_groups().result(_SECONDS)
    admin.describe_consumer_groups([_GROUP])[_GROUP].result(_SECONDS)
    place = TopicPartition(_TOPIC, 0)
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        admin.list_offsets({place: spec})[place].result(_SECONDS)
    entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, _TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(_SECONDS)
    described = ConfigResource(ResourceType.TOPIC, _TOPIC)
    admin.describe_configs([described])[described].result(_SECONDS)
    admin.describe_cluster().result(_SECONDS)
    admin.create_partitions([NewPartitions(_TOPIC, 2)])[_TOPIC].result(_SECONDS)
    admin.delete_records([TopicPartition(_TOPIC, 0, 3)])[place].result(_SECONDS)


def use_worker(worker: ConnectWorker, broker: Broker) -> None:
    """Stock's mirror from the cluster to itself, by all three connectors; paused, resumed and deleted."""
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        worker.rest.put(kind, _mirror(kind, broker))
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        worker.rest.wait_running(kind, tasks=None)
    admin = AdminClient(_client(broker))
    copy = f"A.{_TOPIC}"
    eventually(lambda: copy in admin.list_topics(timeout=10).topics, _SECONDS, what=f"{copy} is there")
    worker.rest.pause("Source")
    worker.rest.wait_state("Source", "PAUSED")
    worker.rest.resume("Source")
    worker.rest.wait_running("Source", tasks=None)
    worker.rest.offsets("Source")
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        worker.rest.delete(kind)


def _client(broker: Broker) -> dict[str, str | int | float | bool]:
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0}


def _read(broker: Broker) -> None:
    own = {"group.id": _GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**_client(broker), **own})
    try:
        consumer.subscribe([_TOPIC])
        eventually(lambda: consumer.poll(1.0) is not None, _SECONDS, what=f"{_TOPIC} is read")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def _mirror(kind: str, broker: Broker) -> dict[str, str]:
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": broker.bootstrap,
        "target.cluster.bootstrap.servers": broker.bootstrap,
        "topics": _TOPIC,
        "groups": _GROUP,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "sync.group.offsets.enabled": "true",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
    }


def make_archives(version: str = DEFAULT_KAFKA) -> Path:
    """Runs a broker and a worker once, and archives the classes that they have loaded, some 120 MB; returns where."""
    jars = kafka_jars(version)
    directory = jars.archives
    if directory.is_dir():
        return directory
    with locked(directory):
        if not directory.is_dir():
            staging = Path(tempfile.mkdtemp(prefix=directory.name + ".", dir=directory.parent))
            try:
                written = staging / "classes"
                written.mkdir()
                _run(replace(jars, archives_written=written), staging)
                written.rename(directory)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return directory


def _run(jars: KafkaJars, directory: Path) -> None:
    """Starts, uses and stops a broker and a worker: a JVM writes its archive when it ends by SIGTERM."""
    broker = Broker("broker", jars, directory)
    try:
        broker.start()
        worker = ConnectWorker("worker", jars, directory, bootstrap=broker.bootstrap, needs=broker.watched)
        try:
            worker.start()
            use_broker(broker)
            use_worker(worker, broker)
            worker.stop()
        finally:
            worker.close()
        broker.stop()
    finally:
        broker.close()


def spark_environment() -> dict[str, str]:
    """The environment in which a driver starts soonest, as far as nobody has chosen another one."""
    environment = {_LAUNCHER: _SHORT_LIVED}
    if (archive := _archive()).is_file():
        # A JVM that the archive does not fit would log that.
        options = [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        environment[_DRIVER] = shlex.join(options)
    return {name: value for name, value in environment.items() if name not in os.environ}


def make_spark_archive() -> Path:
    """Runs a driver once, and archives the classes that it has loaded, some 80 MB; returns where."""
    archive = _archive()
    if archive.is_file():
        return archive
    with locked(archive):
        if not archive.is_file():
            staging = archive.with_suffix(".new")
            options = ["-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={staging}"]
            # Its end is that of the JVM, which has its standard error open: the archive is whole then.
            ran = subprocess.run(
                [sys.executable, "-m", "bridge.local.archives"],
                env={**os.environ, _LAUNCHER: _SHORT_LIVED, _DRIVER: shlex.join(options)},
                capture_output=True,
                text=True,
                check=False,
            )
            if ran.returncode != 0 or not staging.is_file():
                raise LocalStackError(f"No archive of Spark's classes was made: {ran.stdout}{ran.stderr}")
            staging.rename(archive)
    return archive


def _archive() -> Path:
    module = find_spec("pyspark")
    if module is None or module.origin is None:
        raise LocalStackError("pyspark is not installed: run `make setup`.")
    jars = Path(module.origin).with_name("jars")
    what = f"{java_version(find_java())} {jars} {jars.stat().st_mtime_ns}"
    digest = hashlib.sha256(what.encode()).hexdigest()[:8]
    return Path(sys.prefix, "share", "mirror-bridge", f"spark-{digest}.jsa")


def _run_spark() -> None:
    from bridge.kafka.config.settings import StaticClientCheck
    from bridge.pipeline.driver.jobs import SparkJobs
    from bridge.pipeline.layouts.slots import Slice
    from connectors.source.options import SourceOptions

    nowhere = "127.0.0.1:1"
    props = {
        "name": "classes",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": nowhere,
        "target.cluster.bootstrap.servers": nowhere,
        "spark.master": "local[1]",
    }
    spec = SourceOptions.from_props(props, StaticClientCheck()).spec("classes", props)
    jobs = SparkJobs(spec.name, spec.props)
    over = Slice(spec, layout=1, slot=0, seconds=0.0, partitions=[], runs=[])
    jobs.start([over]).result(120)
    jobs.close()
    sys.stderr.flush()
    os._exit(0)  # as a driver of ours ends


if __name__ == "__main__":
    _run_spark()

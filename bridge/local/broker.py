"""A KRaft broker from Kafka's own jars: broker and controller in one process, or one that joins such a broker.

Writes Java properties files, as Kafka's main classes read them.

What Kafka's storage tool writes into an empty data directory, kept beside the jars: its JVM is up for a third of the
time in which a broker starts.

    $MIRROR_BRIDGE_CACHE/kafka-4.3.1-<digest of the pom>-formatted/meta.properties, …
"""

from __future__ import annotations

import base64
import re
import shlex
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bridge.local.jars import KafkaJars, locked
from bridge.local.processes import (
    START_SECONDS,
    LocalStackError,
    ManagedProcess,
    ReservedPort,
    Server,
    Watched,
    listening,
)
from bridge.local.security import Security

STORAGE_TOOL = "kafka.tools.StorageTool"
_META = "meta.properties"
_NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
_FIRST_ANSWER_SECONDS = 5.0
_DEFAULTS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "num.network.threads": "2",
    "num.io.threads": "4",
    # One node: internal topics can have one replica, and few partitions make a start and a stop quick.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    # Transactions of a client that died are aborted when they time out, not up to 10 s later.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A killed broker can register again only when its old session is over: 9 s by default.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    # An idle controller writes a no-op record twice a second, and all that follow it read that.
    "metadata.max.idle.interval.ms": "5000",
    # Records of any timestamp stay until a topic config says otherwise.
    "log.retention.ms": "-1",
    # So that a test forces retention and compaction by topic configs alone and sees them within two seconds. More often
    # would cost: each time all logs are looked at, and a broker that tests share has thousands (a tenth of a core).
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.retention.check.interval.ms": "2000",
    "log.initial.task.delay.ms": "300",
    "log.segment.delete.delay.ms": "100",
    # Where read-ahead is large, the first entry of an index has the kernel fill all of it with zeros: 10 MB by default.
    "log.index.size.max.bytes": "262144",
}


def write_properties(path: Path, values: Mapping[str, str]) -> None:
    """Writes the file. Backslashes and line breaks, which this format treats specially, are escaped."""
    lines = [f"{key}={_escaped(value)}\n" for key, value in values.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def random_id() -> str:
    """An id as Kafka makes them. One in 64 begins with a dash, which a command line takes for an option: not those."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


def format_data(jars: KafkaJars, data: Path, cluster_id: str, node: str) -> None:
    """Writes the data directory of a node that is broker and controller, and has no credentials yet."""
    shutil.copytree(_kept(jars), data)
    own = {"cluster.id": cluster_id, "node.id": node, "directory.id": random_id()}
    meta = (data / _META).read_text("utf-8")
    for key, value in own.items():
        meta, count = re.subn(rf"^{re.escape(key)}=.*$", f"{key}={value}", meta, flags=re.MULTILINE)
        if count != 1:
            raise LocalStackError(f"{data / _META} has {count} lines of {key}: {meta}")
    (data / _META).write_text(meta, "utf-8")


def _kept(jars: KafkaJars) -> Path:
    directory = jars.directory.with_name(f"{jars.directory.name}-formatted")
    if not directory.is_dir():
        with locked(directory):
            if not directory.is_dir():
                staging = Path(tempfile.mkdtemp(prefix=directory.name + ".", dir=directory.parent))
                try:
                    _run(jars, staging)
                    (staging / "data").rename(directory)
                finally:
                    shutil.rmtree(staging, ignore_errors=True)
    return directory


def _run(jars: KafkaJars, staging: Path) -> None:
    config = staging / "node.properties"
    write_properties(config, {**_NODE, "log.dirs": str(staging / "data")})
    command = jars.command(STORAGE_TOOL, "format", "-t", random_id(), "-c", str(config), heap="64m")
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise LocalStackError(f"Kafka's storage tool ended with {ran.returncode}: {ran.stdout}{ran.stderr}")


class Broker(Server):
    """A broker that keeps its ports and data over stop, kill and restart. Clients reach it at `bootstrap`."""

    def __init__(
        self,
        name: str,
        jars: KafkaJars,
        directory: Path,
        *,
        heap: str = "512m",
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        joins: Broker | None = None,
    ) -> None:
        """`joins`: a broker whose cluster it joins, as a broker without controller; needs another `node.id`."""
        self.name = name
        self._joins = joins
        self._cluster_id: str = joins._cluster_id if joins is not None else random_id()
        self.security = security or Security()
        self._jars = jars
        self._heap = heap
        self._extra = dict(properties or {})
        self._config = directory / f"{name}.properties"
        self.data = directory / f"{name}-data"
        """Where its logs are (`log.dirs`)."""
        self._formatted = False
        controllers = () if joins is not None else ("CONTROLLER",)
        self._ports = {
            listener: ReservedPort() for listener in ("PLAINTEXT", *controllers, *self.security.listeners)
        }
        self.process = ManagedProcess(f"broker {name}", [], directory / f"{name}.log")

    @property
    def bootstrap(self) -> str:
        return self.address("PLAINTEXT")

    def address(self, listener: str) -> str:
        """Returns host:port of a listener: PLAINTEXT, SASL_PLAINTEXT, SSL or SASL_SSL."""
        return self._ports[listener].address

    @property
    def watched(self) -> Sequence[Watched]:
        return (self.process,)

    def launch(self) -> None:
        options = self.security.jvm_options()
        run = self._jars.command("kafka.Kafka", str(self._config), heap=self._heap, options=options)
        if not self._formatted:
            # What an earlier run left here belongs to other ports and another cluster id.
            shutil.rmtree(self.data, ignore_errors=True)
            write_properties(self._config, self._properties())
            self._formatted = True
            if self._as_usual:
                format_data(self._jars, self.data, self._cluster_id, _DEFAULTS["node.id"])
            else:
                # `exec`, so that the process that is supervised is the broker itself.
                run = ["/bin/sh", "-c", f"{shlex.join(self._format())} && exec {shlex.join(run)}"]
        self.process.command = run
        self.process.start()

    def wait_ready(self, timeout: float = START_SECONDS) -> None:
        """Waits until the broker is unfenced, and answers with the address that clients were given."""
        port = self._ports["PLAINTEXT"].number
        self.process.wait_until(
            lambda: listening(port), timeout, f"{self.process.name} listens on {self.bootstrap}"
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self.process.wait_until(
            lambda: bool(admin.list_topics(timeout=_FIRST_ANSWER_SECONDS).brokers),
            timeout,
            f"{self.process.name} answers on {self.bootstrap}",
        )

    def move(self, port: ReservedPort) -> None:
        """Gives clients this port from the next start on, which is the broker's from now on; its data stays."""
        self._ports["PLAINTEXT"].release()
        self._ports["PLAINTEXT"] = port
        write_properties(self._config, self._properties())

    def close(self) -> None:
        """Kills the broker, releases its ports and deletes its data; the log stays. A clean shutdown would only take
        time, since nobody starts it again."""
        self.kill()
        for port in self._ports.values():
            port.release()
        shutil.rmtree(self.data, ignore_errors=True)

    def _properties(self) -> dict[str, str]:
        listeners = ",".join(f"{name}://{port.address}" for name, port in self._ports.items())
        protocols = {
            "CONTROLLER": "PLAINTEXT",
            **{name: name for name in self._ports if name != "CONTROLLER"},
        }
        controller = (self._joins or self)._ports["CONTROLLER"].address
        return {
            **_DEFAULTS,
            **({"process.roles": "broker"} if self._joins is not None else {}),
            "controller.quorum.voters": f"1@{controller}",
            "listeners": listeners,
            "listener.security.protocol.map": ",".join(f"{key}:{value}" for key, value in protocols.items()),
            "log.dirs": str(self.data),
            **self.security.properties(),
            **self._extra,
        }

    @property
    def _as_usual(self) -> bool:
        """Whether its directory is formatted as that of any other first broker."""
        own = {"node.id", "log.dirs", "process.roles"} & self._extra.keys()
        archiving = self._jars.archives_written is not None  # that of the tool too
        return not (own or archiving or self._joins is not None or self.security.format_options())

    def _format(self) -> list[str]:
        options = ["format", "-t", self._cluster_id, "-c", str(self._config), *self.security.format_options()]
        return self._jars.command(STORAGE_TOOL, *options, heap="64m")

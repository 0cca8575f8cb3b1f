"""What Kafka's storage tool writes into an empty data directory, kept beside the jars: its JVM is up for a third of the
time in which a broker starts.

    $MIRROR_BRIDGE_CACHE/kafka-4.3.1-<digest of the pom>-formatted/meta.properties, …
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from bridge.local.errors import LocalStackError
from bridge.local.jars import KafkaJars, locked
from bridge.local.properties import write_properties

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

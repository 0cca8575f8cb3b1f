"""Mirrors of a file of flows (mm2.properties) that benchmarks compare: our `mirror` command, and stock's
connect-mirror-maker."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bridge.local import DEFAULT_KAFKA, ManagedProcess, kafka_jars
from bridge.local.processes import ReservedPort
from tests.perf.jvms import FULL, WORKER_HEAP
from tests.support import unique

ONE_REPLICA = dict.fromkeys(
    (
        *(
            "replication.factor",
            "checkpoints.topic.replication.factor",
            "heartbeats.topic.replication.factor",
        ),
        *("offset-syncs.topic.replication.factor", "offset.storage.replication.factor"),
        *("status.storage.replication.factor", "config.storage.replication.factor"),
    ),
    "1",
)


@contextmanager
def ours(folder: Path, properties: Path) -> Iterator[ManagedProcess]:
    with ours_at(folder, properties) as (process, _):
        yield process


@contextmanager
def ours_at(folder: Path, properties: Path) -> Iterator[tuple[ManagedProcess, str]]:
    """With the URL at which it answers."""
    port = ReservedPort()
    command = [sys.executable, "-m", "bridge", "mirror", str(properties), "--port", str(port.number)]
    with _running("ours", folder, command, {}) as process:
        yield process, f"http://127.0.0.1:{port.number}"
    port.release()


@contextmanager
def stock(folder: Path, properties: Path) -> Iterator[ManagedProcess]:
    jars = kafka_jars(DEFAULT_KAFKA)
    command = jars.command("org.apache.kafka.connect.mirror.MirrorMaker", str(properties), heap=WORKER_HEAP)
    with _running("stock", folder, command, FULL) as process:
        yield process


@contextmanager
def _running(
    name: str, folder: Path, command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[ManagedProcess]:
    process = ManagedProcess(name, command, folder / f"{unique(name)}.log", environment=environment)
    process.start()
    try:
        yield process
    finally:
        process.stop(timeout=60.0)

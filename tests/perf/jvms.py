"""JVMs as kafka-run-class.sh starts them: all of the compiler, G1, and no archive of classes but the JVM's own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from bridge.local import ConnectWorker, LocalStack
from bridge.local.jars import find_java

_OWN_CLASSES = find_java().resolve().parents[1] / "lib" / "server" / "classes.jsa"
_OPTIONS = (
    *("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    # Nobody who starts a worker by Kafka's scripts has the archive that tests have, nor has a driver of ours here.
    f"-XX:SharedArchiveFile={_OWN_CLASSES}",
)
FULL = {"_JAVA_OPTIONS": shlex.join(_OPTIONS)}
"""An environment that goes before what the command line says."""
BROKER_HEAP, WORKER_HEAP = "1g", "2g"
"""What kafka-server-start.sh and connect-distributed.sh give."""


@contextmanager
def full_jvms() -> Iterator[None]:
    """For JVMs that are started in the block."""
    with mock.patch.dict(os.environ, FULL):
        yield


def copying_worker(
    stack: LocalStack,
    name: str,
    properties: Mapping[str, str] | None = None,
    plugins: Sequence[Path] = (),
) -> ConnectWorker:
    """A worker with the stock connectors only."""
    return stack.worker(
        name, shim=False, plugins=plugins, environment=FULL, heap=WORKER_HEAP, properties=properties
    )

"""JVMs as kafka-run-class.sh starts them: all of the compiler, and G1."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from bridge.local import ConnectWorker, LocalStack

FULL = {"_JAVA_OPTIONS": "-XX:TieredStopAtLevel=4 -XX:-UseSerialGC -XX:+UseG1GC -XX:MaxGCPauseMillis=20"}
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

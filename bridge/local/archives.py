"""Archives of the classes that a broker, a worker and the storage tool load (class data sharing of the JVM).

    $MIRROR_BRIDGE_CACHE/kafka-4.3.1-<digest of the pom>-classes-<digest of the JVM>/Kafka.jsa

With one, a JVM starts in two thirds of the processor time. An archive is for one JVM and one directory of jars; a JVM
that it does not fit starts without it.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from bridge.local.archived_use import use_broker, use_worker
from bridge.local.broker import Broker
from bridge.local.jars import DEFAULT_KAFKA, KafkaJars, kafka_jars, locked
from bridge.local.worker import ConnectWorker


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

"""An archive of the classes that a Spark driver loads (class data sharing of the JVM), beside this Python's packages.

    .venv/share/mirror-bridge/spark-<digest of JVM and jars>.jsa

As for Kafka's servers (archives.py). An archive names the jars by their paths, so it belongs to one installation of
pyspark. `python -m bridge.local.spark_classes` runs a driver with a slice that has nothing to copy.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from bridge.local.errors import LocalStackError
from bridge.local.jars import locked
from bridge.local.java import find_java, java_version

_LAUNCHER, _DRIVER = "SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"
"""What Spark's scripts add to the command lines of the JVM that makes the driver's command line, and of the driver."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


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
                [sys.executable, "-m", "bridge.local.spark_classes"],
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


def _run() -> None:
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
    _run()

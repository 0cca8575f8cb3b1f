"""Kafka's own jars of one version, and the JMX exporter's, resolved by Maven once and kept in a cache directory.

    $MIRROR_BRIDGE_CACHE/kafka-4.3.1-<digest of the pom>/*.jar
    $MIRROR_BRIDGE_CACHE/jmx-exporter-1.0.1/*.jar

The directory appears by one rename, so it is either whole or not there; a lock file makes the second of two
processes wait for the first instead of resolving again.

Finds the JDK and Maven; errors say in one line what to install.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bridge.local.processes import LocalStackError
from bridge.pipeline.driver.spark_problem import LEAST, major_version

DEFAULT_KAFKA = "4.3.1"
OLDEST_WORKER = "3.9.1"
"""The oldest Connect that the shim promises to run in."""
_HERE = Path(__file__).parent
_POM = _HERE / "jars.pom.xml"
_EXPORTER = "1.0.1"
_EXPORTER_POM = _HERE / "exporter.pom.xml"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_ARCHIVED_USE = 2
"""Raise it when archives are to be made anew, since what archives.py has servers do has changed."""


def find_java() -> Path:
    """The `java` of JAVA_HOME, else of PATH; Kafka 4 brokers need 17 or newer."""
    java = _executable("java", os.environ.get("JAVA_HOME"))
    if java is None:
        raise LocalStackError(f"No Java found: install a JDK {LEAST} or newer, or set JAVA_HOME to one.")
    version = major_version(java_version(java))
    if version is None:
        raise LocalStackError(f"{java} does not say its version: install a JDK {LEAST} or newer.")
    if version < LEAST:
        raise LocalStackError(
            f"{java} is Java {version}: install a JDK {LEAST} or newer, or set JAVA_HOME to one."
        )
    return java


@functools.cache
def java_version(java: Path) -> str:
    """The output of `java -version`, cached: every broker and worker of a stack needs it."""
    ran = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return ran.stderr + ran.stdout


def find_maven() -> Path:
    """The `mvn` of MAVEN_HOME, else of PATH."""
    maven = _executable("mvn", os.environ.get("MAVEN_HOME"))
    if maven is None:
        raise LocalStackError("No Maven found: install Maven 3.6 or newer so that `mvn` is on the PATH.")
    return maven


def run_maven(arguments: list[str], purpose: str) -> None:
    """Runs Maven in batch mode; a failure is one line with Maven's first error."""
    find_java()
    command = [str(find_maven()), "-B", "-q", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return
    lines = (done.stdout + done.stderr).splitlines()
    reason = next((line for line in lines if "[ERROR]" in line), f"exit status {done.returncode}")
    raise LocalStackError(f"Maven could not {purpose}: {reason.replace('[ERROR]', '').strip()}")


def _executable(name: str, home: str | None) -> Path | None:
    if home and os.access(candidate := Path(home, "bin", name), os.X_OK):
        return candidate
    path = shutil.which(name)
    return Path(path) if path else None


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """The jars of one Kafka version, and how to start a main class from them."""

    version: str
    directory: Path
    archives_written: Path | None = None
    """Where JVMs write an archive of their classes when they end (archives.py); None for those that use one."""

    @property
    def archives(self) -> Path:
        """The directory of class archives for the JVM that would use them, whether or not it exists."""
        jvm = hashlib.sha256(f"{java_version(find_java())} {_ARCHIVED_USE}".encode()).hexdigest()[:8]
        return self.directory.with_name(f"{self.directory.name}-classes-{jvm}")

    def command(
        self, main: str, *arguments: str, heap: str = "256m", options: tuple[str, ...] = ()
    ) -> list[str]:
        """A java command line. C1 only and one GC thread: on few cores a JVM is up in half the time."""
        tuning = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError")
        java = [str(find_java()), f"-Xmx{heap}", *tuning, "-Djava.awt.headless=true", self._logging, *options]
        java += self._class_data(main.rpartition(".")[2])
        return [*java, "-cp", f"{self.directory}/*", main, *arguments]

    def _class_data(self, name: str) -> list[str]:
        if self.archives_written is not None:
            # A JVM of another vendor may not have this option: it ignores it.
            written = self.archives_written / f"{name}.jsa"
            return ["-XX:+IgnoreUnrecognizedVMOptions", f"-XX:ArchiveClassesAtExit={written}"]
        archive = self.archives / f"{name}.jsa"
        # A JVM that the archive does not fit would log that on standard output, between Kafka's own lines.
        return (
            [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
            if archive.is_file()
            else []
        )

    @property
    def _logging(self) -> str:
        if uses_reload4j(self.version):
            return f"-Dlog4j.configuration={(_HERE / 'log4j.properties').as_uri()}"
        return f"-Dlog4j2.configurationFile={(_HERE / 'log4j2.properties').as_uri()}"


def uses_reload4j(version: str) -> bool:
    """Kafka 3.x calls log4j 1 classes itself, so only its own binding works; 4.x wants log4j 2."""
    return version.startswith("3.")


def cache_directory() -> Path:
    """MIRROR_BRIDGE_CACHE, else the user's cache directory."""
    chosen = os.environ.get("MIRROR_BRIDGE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(base) / "mirror-bridge"


def kafka_jars(version: str = DEFAULT_KAFKA) -> KafkaJars:
    """The jars of a version, downloaded when the cache does not have them."""
    if not re.fullmatch(r"[34]\.\d+\.\d+", version):
        raise LocalStackError(f"Kafka version {version!r} is not of the form 3.9.1 or 4.3.1.")
    digest = hashlib.sha256(_POM.read_bytes()).hexdigest()[:8]
    directory = cache_directory() / f"kafka-{version}-{digest}"
    if not directory.is_dir():
        with locked(directory):
            if not directory.is_dir():
                _resolve(version, directory)
    return KafkaJars(version, directory)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds `<path>.lock` against other processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def exporter_jar() -> Path:
    """The Prometheus JMX exporter, by which users read the worker's MBeans; downloaded when the cache has none."""
    directory = cache_directory() / f"jmx-exporter-{_EXPORTER}"
    if not directory.is_dir():
        with locked(directory):
            if not directory.is_dir():
                options = (f"-Dexporter.version={_EXPORTER}",)
                _copy(_EXPORTER_POM, directory, options, "fetch the Prometheus JMX exporter")
    (jar,) = directory.glob("*.jar")
    return jar


def _resolve(version: str, directory: Path) -> None:
    unwanted = (
        "log4j-slf4j-impl,log4j-api,log4j-core" if uses_reload4j(version) else "slf4j-reload4j,reload4j"
    )
    options = (f"-Dkafka.version={version}", "-DincludeScope=runtime", f"-DexcludeArtifactIds={unwanted}")
    _copy(_POM, directory, options, f"fetch the jars of Kafka {version}")


def _copy(pom: Path, directory: Path, options: tuple[str, ...], purpose: str) -> None:
    """Copies what a pom depends on into a directory that is not there yet."""
    staging = Path(tempfile.mkdtemp(prefix=directory.name + ".", dir=directory.parent))
    try:
        run_maven(
            ["-f", str(pom), _COPY, *options, f"-DoutputDirectory={staging}"],
            purpose=purpose,
        )
        staging.rename(directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)

"""Spark's own Kafka source in an environment of its own: the newest version that Maven has, and PySpark of it.

.local/spark-kafka/jars    the connector, and what it needs
.local/spark-kafka/venv    PySpark
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bridge.local.java import run_maven

_FOLDER = Path(".local/spark-kafka")
_CONNECTOR = "spark-sql-kafka-0-10_2.13"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
# Spark's own pom names a mirror first that not every network reaches: by its id it is Maven Central itself here.
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>bench</artifactId><version>1</version>
<repositories><repository><id>gcs-maven-central-mirror</id><url>https://repo.maven.apache.org/maven2</url>
</repository></repositories>
<dependencies><dependency><groupId>org.apache.spark</groupId><artifactId>{_CONNECTOR}</artifactId>
<version>[4.0.0,5.0.0)</version></dependency></dependencies></project>
"""


class SparksSource(NamedTuple):
    version: str
    python: Path
    jars: str


def sparks_source() -> SparksSource:
    """Fetched once. Raises LocalStackError where Maven has no version."""
    folder = _FOLDER.absolute()
    done = folder / "version"
    if not done.exists():
        done.write_text(_resolved(folder))
    jars = ",".join(str(jar) for jar in sorted((folder / "jars").glob("*.jar")))
    return SparksSource(done.read_text(), folder / "venv" / "bin" / "python", jars)


def _resolved(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    pom = folder / "pom.xml"
    pom.write_text(_POM)
    run_maven(
        ["-f", str(pom), _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"],
        purpose="fetch Spark's Kafka connector",
    )
    (connector,) = (folder / "jars").glob(f"{_CONNECTOR}-*.jar")
    version = connector.stem.removeprefix(f"{_CONNECTOR}-")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip = [str(folder / "venv" / "bin" / "pip"), "install", "--quiet", f"pyspark=={version}"]
    subprocess.run(pip, check=True)
    return version

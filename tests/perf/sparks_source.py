"""Spark's own Kafka source in an environment of its own: the newest version of it and of PySpark that there is.

.local/spark-kafka/jars    the connector, and what it needs
.local/spark-kafka/venv    PySpark
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bridge.local.jars import run_maven

_FOLDER = Path(".local/spark-kafka")
_VERSION = "4.2.0"
"""PySpark 4.3.0 has no connector yet (November 2026)."""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", _VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", _VERSION),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
"""All that the connector needs beside PySpark's own jars. By itself each: what they depend on would be looked for in
repositories that Spark's pom names, and not every network reaches them."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>bench</artifactId><version>1</version><dependencies>{}</dependencies></project>
"""
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><exclusions>
<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
"""


class SparksSource(NamedTuple):
    version: str
    python: Path
    jars: str


def sparks_source() -> SparksSource:
    """Fetched once. Raises LocalStackError where Maven has no version."""
    folder = _FOLDER.absolute()
    if not (folder / "whole").exists():
        _resolve(folder)
    jars = ",".join(str(jar) for jar in sorted((folder / "jars").glob("*.jar")))
    return SparksSource(_VERSION, folder / "venv" / "bin" / "python", jars)


def _resolve(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pom = folder / "pom.xml"
    pom.write_text(_POM.format("".join(_DEPENDENCY.format(*jar) for jar in _JARS)))
    run_maven(
        ["-f", str(pom), _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"],
        purpose="fetch Spark's Kafka connector",
    )
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip = [str(folder / "venv" / "bin" / "pip"), "install", "--quiet", f"pyspark=={_VERSION}"]
    subprocess.run(pip, check=True)
    (folder / "whole").touch()

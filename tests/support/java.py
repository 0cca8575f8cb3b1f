"""Java programs of the tests, compiled against Kafka's own jars."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bridge.local.jars import kafka_jars


def compiled(source: Path, classes: Path, main: str) -> list[str]:
    """The command that runs `main`. The class is of Kafka's own package where it needs what is private to that."""
    jars = f"{kafka_jars('4.3.1').directory}/*"
    strict = ("-Xlint:all", "-Werror")
    subprocess.run(["javac", *strict, "-cp", jars, "-d", str(classes), str(source)], check=True)
    return ["java", "-Dlog4j2.level=OFF", "-cp", f"{classes}:{jars}", main]

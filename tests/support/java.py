"""Java programs of the tests, compiled against Kafka's own jars."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from bridge.local.jars import kafka_jars

Field = str | bytes | None
Ask = Callable[[Sequence[Sequence[Field]]], list[list[str]]]


COMPILER = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
SHORT_LIVED = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A JVM that answers and ends spends less on compiling than it would gain."""


def kafka_class(main: str, *before: Path, version: str = "4.3.1") -> list[str]:
    """The command that runs a class of Kafka's own jars, or of the jars and directories `before` them; its log is
    off."""
    classpath = ":".join([*map(str, before), f"{kafka_jars(version).directory}/*"])
    return ["java", *SHORT_LIVED, "-Dlog4j2.level=OFF", "-cp", classpath, main]


def compiled(source: Path, classes: Path, main: str, *more: Path) -> list[str]:
    """The command that runs `main`. The class is of Kafka's own package where it needs what is private to that. `more`:
    other jars."""
    jars = ":".join([*map(str, more), f"{kafka_jars('4.3.1').directory}/*"])
    strict = ("-Xlint:all", "-Werror")
    subprocess.run(["javac", *COMPILER, *strict, "-cp", jars, "-d", str(classes), str(source)], check=True)
    return kafka_class(main, classes, *more)


def asking(command: Sequence[str]) -> Ask:
    """Questions to a program that answers lines of tab-separated fields, one each; a field is "-" for null or "+" and
    base64."""

    def ask(questions: Sequence[Sequence[Field]]) -> list[list[str]]:
        lines = "".join("\t".join(map(_encoded, question)) + "\n" for question in questions)
        ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
        answers = [
            [base64.b64decode(field[1:]).decode() for field in line.split("\t") if field]
            for line in ran.stdout.splitlines()
        ]
        assert len(answers) == len(questions), ran.stderr[-2000:]
        return answers

    return ask


def _encoded(field: Field) -> str:
    if field is None:
        return "-"
    return "+" + base64.b64encode(field.encode() if isinstance(field, str) else field).decode()

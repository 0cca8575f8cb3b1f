"""Java programs of the tests, compiled against Kafka's own jars, and what they have answered before.

A program that says what stock does (an oracle) answers a text by a text. `make test` takes its answers from a table
in tests/golden/oracles, by a digest of the question, since Kafka is pinned and a JVM takes seconds. `make
test-all` asks the program, and fails where the table says something else; it also asks many more questions at random.
`MIRROR_BRIDGE_ORACLES=record pytest …` writes the table again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from bridge.local.jars import DEFAULT_KAFKA, kafka_jars
from tests import ROOT
from tests.support.forms import mostly_long

Field = str | bytes | None
Ask = Callable[[Sequence[Sequence[Field]]], list[list[str]]]
Case = TypeVar("Case")


COMPILER = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
SHORT_LIVED = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A JVM that answers and ends spends less on compiling than it would gain."""
ORACLES = ROOT / "tests" / "golden" / "oracles"
RECORDED_OR_LIVE = mostly_long(["recorded", "live"])
"""Parameters of a fixture: answers from the table in both forms; asked at random in the whole run."""
_RECORDED_PART = 50
"""One of so many questions at random is in the table."""


class Oracle:
    """A Java program that answers a text on its standard input by another on its standard output."""

    def __init__(self, source: Path, classes: Path, main: str, *, live: bool = False) -> None:
        """`live`: it is asked each time, and nothing is looked up."""
        self.live = live
        self._source = source
        self._classes = classes
        self._main = main
        self._command: list[str] = []
        self._table = ORACLES / f"{main.rpartition('.')[2]}.json"

    def scaled(self, count: int) -> int:
        """Returns how many questions at random are asked where `count` are asked of the program itself."""
        return count if self.live else count // _RECORDED_PART

    def sample(self, cases: Sequence[Case]) -> Sequence[Case]:
        """Returns the cases that are asked where the program itself is asked for all."""
        return cases if self.live else cases[::_RECORDED_PART]

    def run(self, text: str, *arguments: str) -> str:
        mode = os.environ.get("MIRROR_BRIDGE_ORACLES", "")
        if self.live:
            return self._run(text, arguments)
        question = hashlib.sha256("\0".join([*arguments, text]).encode()).hexdigest()[:16]
        known = json.loads(self._table.read_text("utf-8")) if self._table.exists() else {}
        if not mode:
            if question not in known:
                pytest.fail(
                    f"{self._table.name} has no answer to this question: "
                    "MIRROR_BRIDGE_ORACLES=record pytest … asks the program and writes it down."
                )
            return str(known[question])
        answer = self._run(text, arguments)
        if mode == "record":
            known[question] = answer
            self._table.parent.mkdir(parents=True, exist_ok=True)
            self._table.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n", "utf-8")
        else:
            # What only the whole run asks stands in no table.
            said = known.get(question, answer)
            assert said == answer, f"{self._table.name} says something else than the program"
        return answer

    def _run(self, text: str, arguments: Sequence[str]) -> str:
        self._command = self._command or compiled(self._source, self._classes, self._main)
        ran = subprocess.run(
            [*self._command, *arguments], input=text, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        return ran.stdout


def kafka_class(main: str, *before: Path, version: str = DEFAULT_KAFKA) -> list[str]:
    """The command that runs a class of Kafka's own jars, or of the jars and directories `before` them; its log is
    off."""
    classpath = ":".join([*map(str, before), f"{kafka_jars(version).directory}/*"])
    return ["java", *SHORT_LIVED, "-Dlog4j2.level=OFF", "-cp", classpath, main]


def compiled(source: Path, classes: Path, main: str, *more: Path) -> list[str]:
    """The command that runs `main`. The class is of Kafka's own package where it needs what is private to that. `more`:
    other jars."""
    jars = ":".join([*map(str, more), f"{kafka_jars(DEFAULT_KAFKA).directory}/*"])
    strict = ("-Xlint:all", "-Werror")
    subprocess.run(["javac", *COMPILER, *strict, "-cp", jars, "-d", str(classes), str(source)], check=True)
    return kafka_class(main, classes, *more)


def asking(oracle: Oracle) -> Ask:
    """Questions to a program that answers lines of tab-separated fields, one each; a field is "-" for null or "+" and
    base64."""

    def ask(questions: Sequence[Sequence[Field]]) -> list[list[str]]:
        lines = "".join("\t".join(map(_encoded, question)) + "\n" for question in questions)
        answers = [
            [base64.b64decode(field[1:]).decode() for field in line.split("\t") if field]
            for line in oracle.run(lines).splitlines()
        ]
        assert len(answers) == len(questions)
        return answers

    return ask


def _encoded(field: Field) -> str:
    if field is None:
        return "-"
    return "+" + base64.b64encode(field.encode() if isinstance(field, str) else field).decode()

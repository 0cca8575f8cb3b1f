"""MBeans of JVMs that run, read over JMX."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.java import compiled

Beans = Mapping[str, Mapping[str, float]]
"""Attributes by the name of the MBean."""


class MBeanReader:
    """Reads those that match patterns; compiled once, into a directory."""

    def __init__(self, classes: Path) -> None:
        self._command = compiled(Path(__file__).with_name("MBeans.java"), classes, "MBeans")

    def read(self, process: int, *patterns: str) -> Beans:
        beans: dict[str, dict[str, float]] = {}
        for line in run_on(self._command, process, *patterns).splitlines():
            name, attribute, value = line.split("\t")
            beans.setdefault(name, {})[attribute] = float(value)
        return beans


def run_on(command: Sequence[str], process: int, *arguments: str) -> str:
    """The output of a program that reads a JVM by its process id."""
    ran = subprocess.run([*command, str(process), *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout

"""Why Spark could not be started, reached or used, as one line for an operator.

The Java that Spark's driver needs: looked for where Spark looks, before a driver is started.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

_MASTERS = "spark://"
_ANSWER_SECONDS = 10.0
_JAVAS = re.compile(r"^: ?[\w.$]+(Exception|Error)\b")
_PYTHONS = "Traceback (most recent call last):"
_ABORTED = "Job aborted"
_MISSING = re.compile(r"No module named '(pyarrow|pandas)\b|\[PACKAGE_NOT_INSTALLED\] (PyArrow|Pandas)\b")
LEAST = 17
_SECONDS = 20.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class SparkProblem(Exception):
    """Raised when Spark can't run. `permanent`: only another configuration or installation helps. `ends`: only another
    process does, as this one may have a broken JVM."""

    def __init__(self, line: str, *, permanent: bool = False, ends: bool = False) -> None:
        super().__init__(line)
        self.permanent, self.ends = permanent, ends


def error_line(error: BaseException) -> str:
    """Returns the line of an error of Spark's that says why, without stack traces. Pure."""
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    of_java = (number for number, line in enumerate(lines) if _JAVAS.match(line) or _ABORTED in line)
    found = next(of_java, 0)
    line = lines[found].removeprefix(":").strip()
    if line.endswith(_PYTHONS):
        raised = next((line for line in lines[found + 1 :] if not line[0].isspace()), "")
        line = f"{line.removesuffix(_PYTHONS)}{raised.strip()}"
    return line.strip()


def missing_package(error: BaseException) -> str:
    """Returns pyarrow or pandas where a Python worker of Spark lacks it, by what it has raised; else "". Pure."""
    found = _MISSING.search(str(error))
    return "" if found is None else (found[1] or found[2]).lower()


def reach_master(master: str) -> None:
    """Raises SparkProblem where nobody answers for a standalone master: Spark itself would try for a minute, and then
    say that it was stopped. Blocking."""
    if not master.startswith(_MASTERS):
        return
    failed = list[str]()
    for address in master.removeprefix(_MASTERS).split(","):
        host, _, port = address.strip().rpartition(":")
        if not port.isdecimal():
            return  # Spark says what is wrong with it
        try:
            # As many may be named as stand by for each other: one that answers is enough.
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
        except (OSError, OverflowError) as error:
            failed.append(getattr(error, "strerror", None) or str(error) or type(error).__name__)
        else:
            return
    raise SparkProblem(f"spark.master: no Spark master answers at {master}: {', '.join(failed)}")


def java_path(environment: Mapping[str, str]) -> str | None:
    """The `java` that Spark's launcher takes: that of JAVA_HOME if it is set, whatever it holds, else that of PATH."""
    home = environment.get("JAVA_HOME")
    return (
        str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH", ""))
    )


def major_version(output: str) -> int | None:
    """The major version in the output of `java -version`; None where it names none. Java 8 calls itself 1.8."""
    match = _VERSION.search(output)
    return None if match is None else int(match[1])


def java_problem(environment: Mapping[str, str]) -> str | None:
    """Looks for Java: why no driver can be started, and what to do; None when there is a Java that is new enough.
    Blocking."""
    home, path = environment.get("JAVA_HOME"), environment.get("PATH", "")
    where = f"JAVA_HOME is {home or 'not set'}, PATH is {path}"
    remedy = (
        f"install a JDK {LEAST} or newer on this machine, or set JAVA_HOME to one; then restart this process, and, in "
        "a Connect cluster, the task"
    )
    java = java_path(environment)
    if java is None:
        return f"there is no Java for Spark: {where}; {remedy}"
    try:
        output = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=dict(environment),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = error.strerror if isinstance(error, OSError) else f"no answer within {_SECONDS:.0f} s"
        return f"there is no Java for Spark: {java} can't be run ({why}); {where}; {remedy}"
    version = major_version(output.stderr + output.stdout)
    if version is None:
        return f"there is no Java for Spark: the output of `{java} -version` could not be read; {where}; {remedy}"
    if version < LEAST:
        return f"the Java for Spark is too old: {java} is Java {version}; {where}; {remedy}"
    return None

"""Why Spark could not be started, reached or used, as one line for an operator."""

from __future__ import annotations

import re
import socket

_MASTERS = "spark://"
_ANSWER_SECONDS = 10.0
_JAVAS = re.compile(r"^: ?[\w.$]+(Exception|Error)\b")
_PYTHONS = "Traceback (most recent call last):"
_ABORTED = "Job aborted"
_MISSING = re.compile(r"No module named '(pyarrow|pandas)\b|\[PACKAGE_NOT_INSTALLED\] (PyArrow|Pandas)\b")


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
        raised = next((each for each in lines[found + 1 :] if not each[0].isspace()), "")
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

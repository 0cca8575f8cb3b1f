"""The Java that Spark's driver needs: looked for where Spark looks, before a driver is started."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

LEAST = 17
_SECONDS = 20.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


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

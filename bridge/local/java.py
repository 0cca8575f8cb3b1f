"""Finds the JDK and Maven; errors say in one line what to install."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from bridge.local.errors import LocalStackError
from bridge.pipeline.driver.java import LEAST, major_version


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

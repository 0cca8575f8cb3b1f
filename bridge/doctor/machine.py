"""Java and Spark of this machine, as the Spark driver will find them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess

from bridge.doctor.facts import MachineFacts, Unknown
from bridge.pipeline.driver.java import java_path, major_version

_SECONDS = 10.0


def machine() -> MachineFacts:
    return MachineFacts(_java(), os.environ.get("JAVA_HOME", ""), _spark())


def _java() -> int | Unknown:
    """The major version of the Java that Spark's launcher takes."""
    java = java_path(os.environ)
    if java is None:
        return Unknown("there is no java on the PATH")
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Unknown(f"{java} can't be run: {getattr(error, 'strerror', None) or 'no answer'}")
    version = major_version(ran.stderr + ran.stdout)
    return Unknown(f"the output of `{java} -version` could not be read") if version is None else version


def _spark() -> str | Unknown:
    if importlib.util.find_spec("pyspark") is None:
        return Unknown("pyspark is not installed")
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return Unknown("pyspark can be imported, but is not an installed package")

"""The error of who reads with these sources, and how Spark shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec

from bridge.errors import BridgeError, ConfigRejected, ErrorCode, KafkaFailure

_NO_TRACEBACK = "SPARK_HIDE_TRACEBACK"


class SourceRejected(BridgeError):
    """An option, a schema or an offset is wrong, or records are gone; the text says which, and what would be right."""

    code = ErrorCode.BAD_CONFIG
    status = 400


def verify_pyarrow() -> None:
    """Raises SourceRejected where there is no pyarrow."""
    if find_spec("pyarrow") is None:
        raise SourceRejected("bridge.spark needs pyarrow, which is not installed: pip install pyarrow")


def verify_streams() -> None:
    """Raises SourceRejected where PySpark has no streams with admission control from Python."""
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise SourceRejected(f"streams need PySpark 4.2 or newer; this is {version('pyspark')}")


@contextmanager
def in_one_line(source: str) -> Iterator[None]:
    """Raises errors of ours as one line with the name of the source, and has Spark show that line without a traceback.
    Spark reads the variable in the Python worker that has raised, and ends that worker."""
    try:
        yield
    except (SourceRejected, KafkaFailure, ConfigRejected) as error:
        os.environ[_NO_TRACEBACK] = "1"
        text = str(error)
        if isinstance(error, ConfigRejected):
            text = "; ".join(config_error.message for config_error in error.errors)
        raise SourceRejected(text if text.startswith(source) else f"{source}: {text}") from None

"""The process that has the JVM of connectors which share one.

`python -m bridge.pipeline.driver.shared_spark_main LOG_LEVEL`. It ends with its standard input, and with the
JVM (see frames for what it reads and writes).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

from bridge.logs.setup import DRIVER, set_up_logs
from bridge.pipeline.driver import submitting
from bridge.pipeline.driver.frames import Gateway, pack_gateway, read_line
from bridge.pipeline.driver.spark_problem import SparkProblem

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger("bridge.pipeline.driver.shared_spark_main")  # it is run as __main__


def main() -> None:
    # What Spark and its JVM print is for the log: only frames go to where the launcher reads.
    output = os.dup(1)
    os.dup2(2, 1)
    set_up_logs(DRIVER, sys.argv[1] if len(sys.argv) > 1 else "info", "json")
    submitting.leave_nothing_when_terminated()
    code = 0
    try:
        _serve(output)
    except SparkProblem as problem:
        log.error("%s", problem)
        code = 1
    except Exception:
        log.exception("the shared Spark ends on an unexpected error")
        code = 1
    submitting.leave_nothing()
    sys.stderr.flush()
    os._exit(code)  # the JVM ends with its standard input


def _serve(output: int) -> None:
    from bridge.pipeline.driver.jobs import SparkStart, job_tag

    settings = read_line(sys.stdin.buffer.readline())["settings"]
    start = SparkStart("shared", settings)
    gateway = cast("Any", start.context)._gateway
    threading.Thread(target=_end_with, args=(gateway.proc,), name="end with the JVM", daemon=True).start()
    java = gateway.java_parameters
    os.write(output, pack_gateway(Gateway(java.port, java.auth_token)))
    for line in sys.stdin.buffer:
        message = read_line(line)
        if "stop" in message:
            break
        if "cancel" in message:
            _cancel(start.context, job_tag(message["cancel"]))
    start.close()


def _cancel(context: SparkContext, tag: str) -> None:
    try:
        context.cancelJobsWithTag(tag)
    except Exception as error:  # the JVM is ending, and its jobs with it
        log.warning("could not cancel the Spark jobs of %s: %s", tag, type(error).__name__)


def _end_with(process: Any) -> None:
    how = process.wait()
    log.error("Spark's JVM has ended (%s)", how)
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()

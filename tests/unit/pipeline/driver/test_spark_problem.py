"""The line of an error that says why."""

from __future__ import annotations

import socket

import pytest

from bridge.pipeline.driver.spark_problem import SparkProblem, error_line, missing_package, reach_master
from tests.support.messages import message_pattern

OF_A_JOB = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 0.0 (TID 3) (localhost executor driver): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/worker.py", line 1, in main
    process()
ValueError: no such thing

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""
OF_A_START = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'moon://'
\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3306)
"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            RuntimeError(OF_A_JOB),
            "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, "
            "most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (localhost executor driver): "
            "org.apache.spark.api.python.PythonException: ValueError: no such thing",
        ),
        (
            RuntimeError(OF_A_START),
            "org.apache.spark.SparkException: Could not parse Master URL: 'moon://'",
        ),
        (RuntimeError("\n first\nsecond"), "first"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_the_line_that_says_why(error: Exception, line: str) -> None:
    assert error_line(error) == line


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'", "pyarrow"),
        ("ModuleNotFoundError: No module named 'pyarrow.lib'", "pyarrow"),
        (
            "[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; however, it was not found.",
            "pyarrow",
        ),
        ("[PACKAGE_NOT_INSTALLED] Pandas >= 2.2.0 must be installed; however, it was not found.", "pandas"),
        ("ModuleNotFoundError: No module named 'own_words'", ""),
        ("ModuleNotFoundError: No module named 'pyarrows'", ""),
    ],
)
def test_a_package_that_workers_lack(text: str, package: str) -> None:
    assert missing_package(RuntimeError(f"first\n{text}\nmore")) == package


def test_one_of_several_masters_is_enough_and_others_are_none_of_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as free:
        port, none = (each.getsockname()[1] for each in (listening, free))
        free.close()
        reach_master(f"spark://127.0.0.1:{none},127.0.0.1:{port}")
        master = f"spark://127.0.0.1:{none}"
        with pytest.raises(SparkProblem, match=message_pattern("spark.no_master", master=master)):
            reach_master(master)
    for other in ("local[2]", "yarn", "k8s://https://none:1", "spark://nonsense"):
        reach_master(other)

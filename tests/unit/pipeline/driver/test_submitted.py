"""What spark-submit was given, beside what a configuration says."""

from __future__ import annotations

import subprocess
import sys

from bridge import submit
from bridge.pipeline.driver.submitting import contradictions, merged
from tests.support.messages import message

SUBMITTED = {
    "spark.master": "local[2]",
    "spark.app.name": "submit.py",
    "spark.submit.deployMode": "client",
    "spark.executor.memory": "1g",
}


def test_settings_of_both_go_together() -> None:
    config = {"topics": "a", "spark.master": "local[2]", "spark.app.name": "mirror"}
    assert not contradictions(config, SUBMITTED)
    assert merged(config, SUBMITTED) == {**config, "spark.executor.memory": "1g"}


def test_each_setting_that_is_another_one_or_comes_too_late_is_named() -> None:
    config = {
        "spark.master": "local[7]",
        "spark.executor.memory": "2g",
        "spark.driver.memory": "3g",
        "spark.cores.max": "4",
    }
    errors = contradictions(config, SUBMITTED)
    assert [error.key for error in errors] == ["spark.executor.memory", "spark.master", "spark.driver.memory"]
    assert "give it in one place" in errors[0].message
    assert "a JVM that runs already" in errors[2].message
    assert not any("2g" in error.message for error in errors), "values may be secret"


def test_without_spark_submit_the_script_says_so() -> None:
    ran = subprocess.run(
        [sys.executable, submit.__file__, "--config", "x"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": ""},
    )
    assert ran.returncode == 2
    assert ran.stderr == message("spark.not_submitted")

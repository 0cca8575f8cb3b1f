"""What Spark is told."""

from __future__ import annotations

import pytest

from bridge.pipeline.jobs import spark_settings


@pytest.mark.parametrize(
    ("given", "master"),
    [
        (None, "local[*,4]"),
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,7]", "local[2,7]"),
        ("spark://master:7077", "spark://master:7077"),
        ("k8s://https://api:6443", "k8s://https://api:6443"),
    ],
)
def test_one_lost_worker_does_not_end_a_local_job(given: str | None, master: str) -> None:
    props = {} if given is None else {"spark.master": given}
    assert spark_settings("mirror", props)["spark.master"] == master


def test_spark_keys_go_through_and_no_others() -> None:
    props = {"spark.executor.memory": "2g", "spark.ui.enabled": "true", "topics": "a", "sparkle": "no"}
    settings = spark_settings("mirror", props)
    assert settings["spark.executor.memory"] == "2g"
    assert settings["spark.ui.enabled"] == "true"
    assert not {"topics", "sparkle"} & set(settings)


def test_speculation_is_off_whatever_is_given() -> None:
    assert spark_settings("mirror", {"spark.speculation": "true"})["spark.speculation"] == "false"

"""How a driver begins its Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from bridge.pipeline.driver import submitting
from bridge.pipeline.driver.jobs import SparkStart, job_tag


def test_it_names_its_jobs_by_the_connector_and_leaves_spark_connect_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[str, bool]] = []

    def start(_settings: Mapping[str, str], _options: str, _folder: Path, tag: str) -> None:
        given.append((tag, "SPARK_REMOTE" in os.environ or "SPARK_CONNECT_MODE_ENABLED" in os.environ))

    monkeypatch.setattr(submitting, "start", start)
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark:15002")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    SparkStart("orders", {"spark.master": "local[1]"}).close()
    assert given == [(job_tag("orders"), False)]

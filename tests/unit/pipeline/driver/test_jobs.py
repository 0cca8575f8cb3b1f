"""How a driver begins its Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from bridge.pipeline.driver import jobs, submitting
from bridge.pipeline.driver.jobs import SparkStart, job_tag
from bridge.pipeline.driver.spark_problem import SparkProblem
from bridge.pipeline.slices.early_daemon import ADDRESS

LOCAL = {"spark.master": "local[1]"}


class Early:
    """Instead of an early daemon's process."""

    started: ClassVar[list[Early]] = []
    address = "/the/socket"

    def __init__(self, module: str, folder: Path) -> None:
        assert module == "bridge.pipeline.slices.workers"
        assert folder.is_dir()
        self.ends: list[str] = []
        self.started.append(self)

    def close(self) -> None:
        self.ends.append("closed")

    def kill(self) -> None:
        self.ends.append("killed")


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "EarlyDaemon", Early)
    monkeypatch.setattr(jobs, "reach_master", lambda _: None)
    monkeypatch.setattr(Early, "started", [])


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[str, str]]]:
    """The tags, and the environments, with which Spark is started."""
    starts: list[tuple[str, Mapping[str, str]]] = []

    def start(_settings: Mapping[str, str], _options: str, _folder: Path, tag: str) -> None:
        starts.append((tag, dict(os.environ)))

    monkeypatch.setattr(submitting, "start", start)
    return starts


def test_it_names_its_jobs_by_the_connector_and_leaves_spark_connect_out(
    monkeypatch: pytest.MonkeyPatch, seen: list[tuple[str, Mapping[str, str]]]
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark:15002")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    SparkStart("orders", LOCAL).close()
    ((tag, environment),) = seen
    assert tag == job_tag("orders")
    assert environment.keys().isdisjoint({"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"})


# -- the early daemon --------------------------------------------------------------------------------------------------


def test_spark_is_told_where_an_early_daemon_listens(seen: list[tuple[str, Mapping[str, str]]]) -> None:
    start = SparkStart("orders", LOCAL)
    (early,) = Early.started
    ((_, environment),) = seen
    assert environment[ADDRESS] == "/the/socket"
    assert ADDRESS not in os.environ
    assert early.ends == []
    start.close()
    assert early.ends == ["closed"]


@pytest.mark.parametrize(
    "more",
    [
        {"spark.master": "spark://somewhere:7077", "spark.archives": "x"},
        {"spark.pyspark.python": "/usr/bin/python3"},
        {"spark.python.daemon.module": "bridge.spark.auditing.workers"},
        {"spark.executorEnv.NUMBA_CACHE_DIR": "/var/cache/numba"},
    ],
)
def test_elsewhere_sparks_daemon_imports_by_itself(
    seen: list[tuple[str, Mapping[str, str]]], more: Mapping[str, str]
) -> None:
    SparkStart("orders", LOCAL | dict(more)).close()
    ((_, environment),) = seen
    assert environment[ADDRESS] == ""
    assert Early.started == []


@pytest.mark.usefixtures("seen")
def test_with_spark_submit_there_is_no_jvm_to_be_sooner_than(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "is_submitted", lambda: True)
    SparkStart("orders", LOCAL).close()
    assert Early.started == []


def test_spark_starts_without_one_that_can_not_be_started(
    monkeypatch: pytest.MonkeyPatch, seen: list[tuple[str, Mapping[str, str]]]
) -> None:
    def refuse(_module: str, _folder: Path) -> Early:
        raise OSError("no such sockets here")

    monkeypatch.setattr(jobs, "EarlyDaemon", refuse)
    SparkStart("orders", LOCAL).close()
    ((_, environment),) = seen
    assert environment[ADDRESS] == ""


def test_it_is_killed_where_spark_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(submitting, "start", fail)
    with pytest.raises(SparkProblem, match="no memory"):
        SparkStart("orders", LOCAL)
    assert [each.ends for each in Early.started] == [["killed"]]

"""Archives of the classes that Kafka's servers load."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from bridge.local import kafka_jars
from bridge.local.archives import make_archives, make_spark_archive, spark_environment
from bridge.local.broker import STORAGE_TOOL
from bridge.local.jars import KafkaJars

pytestmark = pytest.mark.long


def test_servers_have_archives_and_a_jvm_takes_its_own() -> None:
    directory = make_archives()
    names = {path.name for path in directory.iterdir()}
    assert names == {"ConnectDistributed.jsa", "Kafka.jsa", "StorageTool.jsa"}
    # It ends at once where it cannot map the archive.
    _answers(kafka_jars(), "-Xshare:on")


def test_an_archive_that_does_not_fit_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kafka").symlink_to(kafka_jars().directory)
    jars = replace(kafka_jars(), directory=tmp_path / "kafka")
    jars.archives.mkdir()
    (jars.archives / "StorageTool.jsa").write_bytes(b"of another JVM")
    _answers(jars)


def test_a_driver_has_an_archive_and_its_jvm_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = make_spark_archive()
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        monkeypatch.delenv(name, raising=False)
    options = shlex.split(spark_environment()["SPARK_SUBMIT_OPTS"])
    assert f"-XX:SharedArchiveFile={archive}" in options
    # As drivers are started. The JVM ends at once where it cannot map the archive.
    ran = subprocess.run(
        [Path(pyspark.__file__).with_name("bin") / "spark-submit", "--version"],
        env={**os.environ, **spark_environment(), "SPARK_SUBMIT_OPTS": shlex.join([*options, "-Xshare:on"])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_what_is_chosen_for_drivers_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    assert "SPARK_SUBMIT_OPTS" not in spark_environment()


def _answers(jars: KafkaJars, *options: str) -> None:
    command = jars.command(STORAGE_TOOL, "random-uuid", options=options)
    assert any(option.startswith("-XX:SharedArchiveFile=") for option in command)
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "[warning]" not in ran.stdout + ran.stderr

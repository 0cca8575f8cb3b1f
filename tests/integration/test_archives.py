"""Archives of the classes that Kafka's servers load."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from bridge.local import kafka_jars
from bridge.local.archives import make_archives
from bridge.local.jars import KafkaJars

STORAGE_TOOL = "kafka.tools.StorageTool"


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


def _answers(jars: KafkaJars, *options: str) -> None:
    command = jars.command(STORAGE_TOOL, "random-uuid", options=options)
    assert any(option.startswith("-XX:SharedArchiveFile=") for option in command)
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "[warning]" not in ran.stdout + ran.stderr

"""The golden bytes of tests/golden are what Kafka's own classes write."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bridge.local.jars import kafka_jars
from tests.support.java import COMPILER, SHORT_LIVED

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.long
def test_golden_messages(tmp_path: Path) -> None:
    jars = kafka_jars()
    subprocess.run(
        [
            "javac",
            *COMPILER,
            "-cp",
            f"{jars.directory}/*",
            "-d",
            str(tmp_path),
            str(GOLDEN / "KafkaMessages.java"),
        ],
        check=True,
    )
    command = ["java", *SHORT_LIVED, "-cp", f"{tmp_path}:{jars.directory}/*", "KafkaMessages"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == (GOLDEN / "kafka_messages.txt").read_text()

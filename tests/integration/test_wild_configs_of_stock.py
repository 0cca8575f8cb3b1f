"""What stock's own jars say of published configurations stands in tests/golden/configs."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bridge.local.jars import DEFAULT_KAFKA, OLDEST_WORKER
from tests.contract.wild_configs import ENVIRONMENT, answers, connector, dedicated, legacy, names, record
from tests.support.java import compiled, kafka_class

pytestmark = pytest.mark.long

MAIN = "org.apache.kafka.connect.mirror.WildConfigs"


def _of_connector(name: str) -> Sequence[str]:
    return [field for pair in connector(name).items() for field in pair]


def _of_command(name: str) -> Sequence[str]:
    given = legacy(name)
    return [given.consumer, given.producer, *given.words]


QUESTIONS: dict[str, tuple[str, Callable[[str], Sequence[str]]]] = {
    "connect": (DEFAULT_KAFKA, _of_connector),
    "dedicated": (DEFAULT_KAFKA, lambda name: [dedicated(name)]),
    # MirrorMaker 1 went away with Kafka 4.
    "legacy": (OLDEST_WORKER, _of_command),
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_what_stock_says_of_published_configurations(kind: str, tmp_path: Path) -> None:
    """MIRROR_BRIDGE_ORACLES=record pytest … writes the table again."""
    version, question = QUESTIONS[kind]
    compiled(Path(__file__).with_name("WildConfigs.java"), tmp_path, MAIN)
    lines = ["\t".join(map(_encoded, (kind, *question(name)))) for name in names(kind)]
    ran = subprocess.run(
        kafka_class(MAIN, tmp_path, version=version),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **ENVIRONMENT},
    )
    said = dict(zip(names(kind), map(_decoded, ran.stdout.splitlines()), strict=True))
    if os.environ.get("MIRROR_BRIDGE_ORACLES") == "record":
        record(kind, "stock", said)
    assert said == {name: answer["stock"] for name, answer in answers(kind).items()}


def _encoded(field: str) -> str:
    return "+" + base64.b64encode(field.encode()).decode()


def _decoded(line: str) -> dict[str, str]:
    fields = [base64.b64decode(field[1:]).decode() for field in line.split("\t") if field]
    return dict(zip(fields[::2], fields[1::2], strict=True))

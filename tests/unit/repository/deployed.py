"""What docker-compose.yml and the images of deploy/ say."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from tests import ROOT

DEPLOY = ROOT / "deploy"
KAFKA_BIN = "/opt/kafka/bin"
"""Where the official image has Kafka's scripts."""
SCRIPTS = {
    "connect-distributed.sh": "org.apache.kafka.connect.cli.ConnectDistributed",
    "kafka-broker-api-versions.sh": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records.sh": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
"""The scripts of Kafka 4.3 that we call, each with the main class that it runs."""

_VARIABLE = re.compile(r"\$\{(?P<name>\w+):-(?P<default>[^}]*)\}")
"""Of a compose file."""


def compose(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """docker-compose.yml with its anchors merged, and its variables filled in as by an environment: none by default."""
    given = environment or {}
    text = _VARIABLE.sub(
        lambda match: given.get(match["name"]) or match["default"],
        (ROOT / "docker-compose.yml").read_text("utf-8"),
    )
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def dockerfile(name: str) -> list[tuple[str, str]]:
    """Instruction and rest of each line, continued lines joined, FROM with the arguments' defaults filled in."""
    text = (DEPLOY / f"{name}.Dockerfile").read_text("utf-8")
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    lines = [
        (word, rest.strip()) for line in kept.splitlines() if line for word, rest in [line.split(maxsplit=1)]
    ]
    defaults = dict(rest.split("=", 1) for word, rest in lines if word == "ARG")
    return [(word, Template(rest).substitute(defaults) if word == "FROM" else rest) for word, rest in lines]


def environment(image: str) -> dict[str, str]:
    """What the image's ENV instructions set."""
    return {
        name: value
        for word, rest in dockerfile(image)
        if word == "ENV"
        for name, value in (pair.split("=", 1) for pair in shlex.split(rest))
    }


def health_check(image: str) -> list[str]:
    """The command of the image's health check."""
    (result,) = [rest for word, rest in dockerfile(image) if word == "HEALTHCHECK"]
    command: list[str] = json.loads(result.partition("CMD")[2])
    return command


def properties(path: Path) -> dict[str, str]:
    """A properties file without escapes or continued lines."""
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def commands(markdown: Path, heading: str) -> list[str]:
    """The lines of code below a heading of a document, without their remarks."""
    section = re.split(r"^## ", markdown.read_text("utf-8"), flags=re.MULTILINE)
    (result,) = [part for part in section if part.startswith(f"{heading}\n")]
    code = [line.strip() for line in result.splitlines() if line.startswith("    ")]
    return [line.partition("  #")[0].strip() for line in code]

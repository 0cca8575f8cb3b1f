"""What docker-compose.yml and the images of deploy/ say, and how to run that without containers, from Kafka's jars."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from bridge.local import kafka_jars

ROOT = Path(__file__).parents[2]
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
_LOGGING = """\
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
"""


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


def broker_properties(given: Mapping[str, str]) -> dict[str, str]:
    """What the official image makes of its environment (KAFKA_NUM_PARTITIONS is num.partitions), but for the JVM's."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in given.items()
        if name.startswith("KAFKA_") and not name.endswith("_OPTS")
    }


def commands(markdown: Path, heading: str) -> list[str]:
    """The lines of code below a heading of a document, without their remarks."""
    section = re.split(r"^## ", markdown.read_text("utf-8"), flags=re.MULTILINE)
    (result,) = [part for part in section if part.startswith(f"{heading}\n")]
    code = [line.strip() for line in result.splitlines() if line.startswith("    ")]
    return [line.partition("  #")[0].strip() for line in code]


def kafka_scripts(directory: Path) -> Path:
    """Scripts of Kafka's names that run the same main classes from our jars, in a new directory; as Kafka's they write
    warnings to standard error, and nothing else that was not asked for."""
    directory.mkdir(parents=True)
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING, "utf-8")
    option = f"-Dlog4j2.configurationFile={logging.as_uri()}"
    for name, main in SCRIPTS.items():
        script = directory / name
        command = kafka_jars().command(main, heap="128m", options=(option,))
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', "utf-8")
        script.chmod(0o755)
    return directory

"""`python -m bridge.local check` checks that there are a JDK and Maven; `fetch` also downloads Kafka's jars and the JMX
exporter's, once, and archives the classes that its servers and Spark's drivers load."""

from __future__ import annotations

import sys

from bridge.local.archives import make_archives
from bridge.local.errors import LocalStackError
from bridge.local.jars import DEFAULT_KAFKA, OLDEST_WORKER, exporter_jar, kafka_jars
from bridge.local.java import find_java, find_maven
from bridge.local.spark_classes import make_spark_archive


def main(arguments: list[str]) -> int:
    if arguments not in (["check"], ["fetch"]):
        print("usage: python -m bridge.local check|fetch", file=sys.stderr)  # noqa: T201
        return 2
    try:
        find_java()
        find_maven()
        if arguments == ["fetch"]:
            for version in (DEFAULT_KAFKA, OLDEST_WORKER):
                kafka_jars(version)
            exporter_jar()
            make_archives()
            make_spark_archive()
    except LocalStackError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

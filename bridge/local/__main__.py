"""`python -m bridge.local fetch` downloads Kafka's jars and the JMX exporter's, once, and archives the classes that its
servers and Spark's drivers load."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from bridge.local.archives import make_archives, make_spark_archive
from bridge.local.jars import DEFAULT_KAFKA, OLDEST_WORKER, exporter_jar, find_java, find_maven, kafka_jars
from bridge.local.processes import LocalStackError


def _kafka() -> None:
    """The oldest worker's jars come last: nothing waits for them."""
    make_archives(DEFAULT_KAFKA)
    kafka_jars(OLDEST_WORKER)


def main(arguments: list[str]) -> int:
    if arguments != ["fetch"]:
        print("usage: python -m bridge.local fetch", file=sys.stderr)  # noqa: T201
        return 2
    try:
        find_java()
        find_maven()
        with ThreadPoolExecutor() as side_by_side:
            made = [side_by_side.submit(make) for make in (_kafka, make_spark_archive, exporter_jar)]
        for result in made:
            result.result()
    except LocalStackError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Programs in Java that several integration tests ask."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException

from bridge.local import LocalStack
from bridge.local.archives import spark_environment
from bridge.local.jars import kafka_jars
from tests.conftest import chosen_clusters
from tests.integration.copy_flow import all_flows
from tests.integration.stock import Stock
from tests.support import admin
from tests.support.brokers import MORTAL
from tests.support.java import COMPILER, SHORT_LIVED
from tests.support.waits import WAIT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def quick_drivers() -> None:
    """Drivers of Spark start as in the demo, also those that no service of the stack starts."""
    os.environ.update(spark_environment())


@pytest.fixture(scope="module", autouse=True)
def without_old_clients() -> Iterator[None]:
    """Drops clients with the file that used them: those of brokers that are gone try to connect all the time."""
    yield
    admin.cache_clear()


@pytest.fixture(autouse=True)
def without_old_layouts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Deletes the layout topics of a test's flows from the shared target when it ends. Whoever copies to a target reads
    those of all aliases, so that each test would cost all later ones."""
    shared = request.getfixturevalue("target") if "target" in request.fixturenames else None
    others = len(all_flows)
    yield
    for flow in all_flows[others:]:
        if flow.target is shared:
            topic = flow.spec.layout_topic
            with suppress(KafkaException):  # where the test has deleted it
                admin(flow.target.bootstrap).delete_topics([topic])[topic].result(WAIT)
    del all_flows[others:]


@pytest.fixture(scope="module")
def mortal_stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalStack]:
    """Two clusters of their own for tests that stop brokers or change their files."""
    if chosen_clusters(request.config):
        pytest.skip("stops brokers, so it needs brokers from jars")
    with LocalStack(tmp_path_factory.mktemp("mortal"), broker_heap="384m", broker_properties=MORTAL) as stack:
        stack.start_clusters()
        yield stack


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[str]]]:
    """One JVM: `java("resume", bootstrap, group, topic, seconds)`."""
    jars = kafka_jars()
    classes = tmp_path_factory.mktemp("classes")
    source = Path(__file__).with_name("JavaGroups.java")
    subprocess.run(
        ["javac", *COMPILER, "-cp", f"{jars.directory}/*", "-d", str(classes), str(source)], check=True
    )
    command = [
        "java",
        *SHORT_LIVED,
        "-cp",
        f"{classes}:{jars.directory}/*",
        "JavaGroups",
    ]
    log = (classes / "log").open("w")
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    assert running.stdin is not None
    assert running.stdout is not None
    stdin, stdout = running.stdin, running.stdout

    def ask(*fields: object) -> list[str]:
        stdin.write("\t".join(map(str, fields)) + "\n")
        stdin.flush()
        return stdout.readline().rstrip("\n").split("\t")

    try:
        yield ask
    finally:
        stdin.close()
        running.wait(60)
        stdout.close()
        log.close()


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Stock:
    return Stock(tmp_path_factory.mktemp("stock"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests of DataFrames; their files run in one lane (tests/support/lanes.py)."""
    from tests.support.spark import spark_session

    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session

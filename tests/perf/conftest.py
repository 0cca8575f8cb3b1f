"""Clusters and workers for benchmarks of the copy, whose JVMs run as Kafka's own scripts start them. Those of the other
tests save start-up time and memory at the cost of speed, and stock would have to pay for that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge.local import DEFAULT_KAFKA, ConnectWorker, LocalStack
from tests.perf.held_memory import held_memory
from tests.perf.jvms import BROKER_HEAP, copying_worker, full_jvms
from tests.perf.masking import plugin


@pytest.fixture(scope="session")
def copy_stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalStack]:
    version = request.config.getoption("--kafka-version") or DEFAULT_KAFKA
    directory = tmp_path_factory.mktemp("copy")
    with held_memory(), LocalStack(directory, version=version, broker_heap=BROKER_HEAP) as running:
        with full_jvms():
            running.start_clusters()
        yield running


@pytest.fixture(scope="session")
def least_once(copy_stack: LocalStack) -> ConnectWorker:
    """A worker whose source connectors are at least once."""
    return copying_worker(copy_stack, "at-least-once")


@pytest.fixture(scope="session")
def exactly_once(copy_stack: LocalStack) -> ConnectWorker:
    """A worker whose source connectors are exactly once."""
    return copying_worker(copy_stack, "exactly-once", {"exactly.once.source.support": "enabled"})


@pytest.fixture(scope="session")
def masking(copy_stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> ConnectWorker:
    """A worker that is at least once, with a transform that parses JSON."""
    plugins = [plugin(tmp_path_factory.mktemp("parse-json"))]
    return copying_worker(copy_stack, "masking", plugins=plugins)

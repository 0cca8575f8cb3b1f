"""One service process for all tests that end it neither on purpose nor by accident."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.service.service_process import Running, service


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Logs all it can, as JSON: one test looks for secrets in it."""
    verbose = {"MIRROR_BRIDGE_LOG_LEVEL": "debug", "MIRROR_BRIDGE_LOG_FORMAT": "json"}
    with service(tmp_path_factory.mktemp("service"), verbose) as running:
        yield running


@pytest.fixture
def at(shared_service: Running) -> Iterator[Running]:
    """The service without connectors, and with a log that begins with the test."""
    shared_service.wait_rounds()
    shared_service.forget_log()
    yield shared_service
    shared_service.forget_connectors()

"""One worker with the shim and one service for all end-to-end tests that kill nothing."""

from __future__ import annotations

import pytest

from bridge.local import ConnectWorker, LocalStack
from tests.e2e.ground import Ground


@pytest.fixture(scope="session")
def ground(stack: LocalStack, worker: ConnectWorker) -> Ground:
    """The service writes debug lines, because some rules promise them, and so that no secret hides in one."""
    service = stack.service("e2e", environment={"MIRROR_BRIDGE_LOG_LEVEL": "debug"})
    return Ground(stack.source, stack.target, worker, service)

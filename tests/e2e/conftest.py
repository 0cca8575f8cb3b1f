"""One worker with the shim and one service for all end-to-end tests that kill nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bridge.local import ConnectWorker, LocalStack, Security
from bridge.local.archives import spark_environment
from bridge.local.security import make_tls
from tests.e2e.control import aliased
from tests.e2e.copying import keep_spark
from tests.e2e.flow import SHIFT, Flow
from tests.e2e.mirrored_flow import TlsBackup
from tests.support import admin, create_topic, mirroring, unique, wait_mirrored


@pytest.fixture(scope="session", autouse=True)
def quick_drivers() -> None:
    """Drivers of Spark start as in the demo, also those that no service of the stack starts."""
    os.environ.update(spark_environment())


@pytest.fixture(scope="module", autouse=True)
def without_old_clients() -> Iterator[None]:
    """Drops clients with the file that used them: those of brokers that are gone try to connect all the time."""
    yield
    admin.cache_clear()


@pytest.fixture(scope="session")
def flow(shared_stack: LocalStack, worker: ConnectWorker) -> Flow:
    """The service writes debug lines, because some rules promise them, and so that no secret hides in one."""
    service = shared_stack.service("e2e", environment={"MIRROR_BRIDGE_LOG_LEVEL": "debug"})
    return Flow(shared_stack.source, shared_stack.target, worker, service)


@pytest.fixture(scope="session")
def sparking(flow: Flow) -> Flow:
    """`flow`, with a Spark that connectors of SHARED_SPARK share."""
    keep_spark(flow)
    return flow


@pytest.fixture(scope="module")
def tls_backup(stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> TlsBackup:
    files = make_tls(tmp_path_factory.mktemp("tls"))
    broker = stack.broker(unique("tls-backup"), security=Security(tls=files))
    return TlsBackup(broker, files.authority)


@pytest.fixture(scope="session")
def unique_flow(flow: Flow) -> Flow:
    """A flow with internal topics of its own, for tests that need a stock mirror beside them."""
    return aliased(flow)


@pytest.fixture(scope="session")
def mirrored(unique_flow: Flow) -> Iterator[str]:
    """A topic that stock MirrorSourceConnector copies in `unique_flow`, 1,000 records behind foreign ones, and the
    source's own heartbeats with it; running until the end. With heartbeats.replication.enabled it would mirror those of
    every other flow too, and those flows its copies, in a circle that no alias breaks."""
    topic = create_topic(unique_flow.source.bootstrap, unique("mirrored"))
    create_topic(unique_flow.target.bootstrap, unique_flow.remote(topic))
    unique_flow.foreign(topic, SHIFT)
    unique_flow.fill(topic, 1000, copy=False)
    with mirroring(unique_flow.worker, unique_flow.source, unique_flow.target, [topic, "heartbeats"]):
        wait_mirrored(unique_flow.source, unique_flow.target, [topic], unique_flow.worker)
        yield topic

"""Services whose time of day is an hour off, either way: what they run goes on, and from one to the other, as ever.
tests/e2e/test_wrong_clocks.py has the workers."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.local import ConnectFailed, ConnectWorker, LocalStack
from tests.e2e.control import aliased, our_control
from tests.e2e.copying import fill, wait_copied
from tests.e2e.flow import LONG_LEASE_MS, Flow, exactly
from tests.e2e.mirrored_flow import PARTITIONS
from tests.support import commit, create_topic, read, unique
from tests.support.processes import processes
from tests.support.waits import WAIT
from tests.support.wrong_clock import COMPILER, clock_library, shifted

HOUR = 3600

pytestmark = pytest.mark.skipif(COMPILER is None, reason="a clock is made wrong by a library in C: needs cc")


def test_a_copy_goes_on_from_a_service_an_hour_ahead_to_one_an_hour_behind(
    stack: LocalStack, worker: ConnectWorker, tmp_path: Path
) -> None:
    """With all that each of them starts: the rounds, the driver, Spark's JVM and the slices."""
    library = clock_library(tmp_path)
    # Each run replaces the service, by which alone the flows differ.
    unique_flow = aliased(Flow(stack.source, stack.target, worker, stack.service(unique("clock"))))
    source = unique_flow.source.bootstrap
    topic, group = create_topic(source, unique("orders"), PARTITIONS), unique("group")
    names = unique("copy"), unique("groups")

    def runs(ahead: int, copied: int) -> Flow:
        """Until a service with that clock has copied 20 records more, and the group has moved on behind them."""
        service = stack.service(unique("clock"), environment=shifted(library, ahead))
        flow = replace(unique_flow, process=service)
        copying = our_control(
            "Source", flow, topics=topic, refresh_topics_interval_seconds=1, spark_master="local[2]"
        )
        for name, config in zip(names, (copying, flow.config(exactly(group))), strict=True):
            flow.worker.rest.put(name, config | {"bridge.task.lease.ms": str(LONG_LEASE_MS)})
        fill(flow, topic, copied)
        wait_copied(flow, topic)
        commit(source, group, {(topic, 0): copied + 15})
        # Between the two services' copies are the markers of their transactions.
        copies = read(flow.target.bootstrap, flow.remote(topic), committed_only=True)
        flow.wait_there(group, {(topic, 0): copies[copied + 15].offset}, WAIT)
        for word in (
            "bridge.service.rounds",
            "bridge.pipeline.driver.main",
            "bridge.pipeline.slices.workers",
            "SparkSubmit",
        ):
            started = processes(service.process.pid, word)
            assert started, word
            assert all(str(library) in Path(f"/proc/{each}/maps").read_text() for each in started), word
        for name in names:
            said = flow.service.status(name)
            assert (said["state"], said["errors"]) == ("running", []), said
            assert abs(said["last_success_ms"] / 1000 - time.time() - ahead) < HOUR / 2
        return flow

    try:
        runs(HOUR, 0).process.kill()
        runs(-HOUR, 20)
    finally:
        for name in names:
            with suppress(ConnectFailed):
                unique_flow.worker.rest.delete(name)

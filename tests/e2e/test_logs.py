"""The service's log while a cluster is away: every line is JSON, and each process writes a line when something changes
and none while it stays so."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bridge.local import Broker, LocalStack
from tests.e2e.control import aliased
from tests.e2e.flow import Flow, Json, forget_clients
from tests.e2e.mirrored_flow import OurFlow
from tests.support import eventually
from tests.support.brokers import RESTARTED
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

OUTAGE = float(os.environ.get("MIRROR_BRIDGE_OUTAGE_SECONDS", "25"))
MOST = 10
"""Lines of each process for an outage, however long, with its end."""
PROCESSES = {"http", "rounds", "driver", "jvm", "worker"}


@pytest.fixture(scope="module")
def clusters(stack: LocalStack) -> Iterator[tuple[Broker, Broker]]:
    """The target holds Connect's own topics too."""
    pair = (
        stack.broker("log-source", properties=RESTARTED),
        stack.broker("log-target", properties=RESTARTED),
    )
    yield pair
    for each in pair:
        each.close()


@pytest.fixture(scope="module")
def mirrored_flow(stack: LocalStack, clusters: tuple[Broker, Broker]) -> Iterator[OurFlow]:
    worker = stack.worker("log-worker", on="log-target")
    service = stack.service("log-service", arguments=["--log-format", "json"])
    flow = OurFlow(aliased(Flow(*clusters, worker, service)))
    with ExitStack() as running:
        running.enter_context(flow.mirror())
        running.enter_context(flow.group_offsets(f"{flow.mark}.*"))
        running.enter_context(flow.running("Checkpoint"))
        running.enter_context(flow.running("Heartbeat"))
        topic = flow.topic("logged", shifted=False)
        flow.produce(topic)
        flow.wait_mirrored(topic)
        flow.commit(flow.name("logged"), topic, dict.fromkeys(range(10), 7))
        _well(flow.flow)
        yield flow


def _well(flow: Flow) -> None:
    def well() -> None:
        health = flow.service.health()
        assert health["status"] == "ok", health

    eventually(well, WAIT, what="all is well", watched=flow.watched)


def _log(flow: Flow) -> Path:
    return flow.process.process.log


def _lines(text: str) -> list[Json]:
    collected = []
    for line in text.splitlines():
        parsed = json.loads(line)
        assert {"time", "level", "process", "logger", "message"} <= parsed.keys(), line
        assert parsed["process"] in PROCESSES, line
        collected.append(parsed)
    return collected


@pytest.mark.parametrize("side", ["source", pytest.param("target", marks=pytest.mark.soak)])
def test_an_outage_is_a_line_when_it_begins_and_one_when_it_ends(
    mirrored_flow: OurFlow, clusters: tuple[Broker, Broker], side: str
) -> None:
    flow, broker = mirrored_flow.flow, clusters[side == "target"]
    address = broker.bootstrap
    before = len(_log(flow).read_text())

    def lines() -> list[Json]:
        return _lines(_log(flow).read_text()[before:])

    broker.kill()
    end = time.monotonic() + OUTAGE
    while time.monotonic() < end:
        assert not broker.process.running
        time.sleep(0.5)
    broker.start()
    forget_clients()
    _well(flow)

    def over() -> None:
        for process in ("rounds", "driver"):
            messages = [each["message"] for each in lines() if each["process"] == process]
            assert sum(f"({address}) does not answer: " in each for each in messages) == 1, messages
            if (
                process == "rounds" or side == "source"
            ):  # without the target Connect stops the tasks: a new driver
                assert sum(f"({address}) answers again after " in each for each in messages) == 1, messages
            if process == "driver" and side == "source":
                assert sum(each.startswith("copying resumed after ") for each in messages) == 1, messages

    eventually(over, WAIT, what="the log says that it is over")
    result = lines()
    counts = Counter(each["process"] for each in result)
    assert max(counts.values()) <= MOST, "\n".join(map(str, result))


def test_every_line_is_json(mirrored_flow: OurFlow) -> None:
    result = _lines(_log(mirrored_flow.flow).read_text())
    assert {each["process"] for each in result} >= {"http", "rounds", "driver"}

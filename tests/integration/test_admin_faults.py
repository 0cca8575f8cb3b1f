"""A broker that goes away in the middle of admin calls. Each ends in an answer, or as unreachable or timed out, and
none ends the process, as librdkafka was seen to do by an assertion; a broker that lies ends the process that asks it,
and no other one (decision 0040)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, BridgeService, eventually
from bridge.local.processes import ReservedPort
from tests.integration.admin_calls import CALLS, TOPIC
from tests.integration.bad_api_versions import BadApiVersionsProxy
from tests.integration.far import FarBroker
from tests.support import create_topic
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

CUTS = int(os.environ.get("MIRROR_BRIDGE_ADMIN_CUTS", "30"))
_AWAY = {"UNREACHABLE", "TIMEOUT"}
KILLS = int(os.environ.get("MIRROR_BRIDGE_ADMIN_KILLS", "2"))


class Guarded(FarBroker):
    """With rules, which everybody may change."""

    def _properties(self) -> dict[str, str]:
        return {
            **super()._properties(),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }


@pytest.fixture(scope="module")
def proxied() -> Iterator[ReservedPort]:
    port = ReservedPort()
    yield port
    port.release()


@pytest.fixture(scope="module")
def behind() -> Iterator[ReservedPort]:
    port = ReservedPort()
    yield port
    port.release()


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, behind: ReservedPort, proxied: ReservedPort
) -> Iterator[Guarded]:
    directory: Path = tmp_path_factory.mktemp("admin-faults")
    running = Guarded("cut", directory, behind, proxied, "512m")
    running.start()
    try:
        create_topic(running.bootstrap, TOPIC, 2)
        yield running
    finally:
        running.close()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.integration.admin_calls", *arguments]


def _checked(lines: list[str], times: int) -> None:
    results = [json.loads(line) for line in lines]
    print(Counter((each["call"], each["ended"]) for each in results))
    print(max(each.get("seconds", 0.0) for each in results), "s at most")
    assert Counter(each["call"] for each in results) == dict.fromkeys(CALLS, times)
    assert [each for each in results if each["ended"] not in ("answer", *_AWAY)] == []
    assert {each["ended"] for each in results} & _AWAY, "none was in the middle"


def test_connections_that_break_in_the_middle_of_each_call(
    broker: Guarded, behind: ReservedPort, proxied: ReservedPort
) -> None:
    command = _command("cuts", behind.address, str(proxied.number), str(CUTS))
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    _checked(child.stdout.splitlines(), CUTS)


def test_a_broker_that_is_killed_in_the_middle_of_all_calls(broker: Guarded) -> None:
    with subprocess.Popen(
        _command("kills", broker.bootstrap), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        lines: list[str] = []

        def until(word: str) -> None:
            assert child.stdout is not None
            while (line := child.stdout.readline().strip()) != word:
                assert line, f"the process has ended: {child.wait()}"
                lines.append(line)

        def go() -> None:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()

        for _ in range(KILLS):
            go()
            until("ready")
            broker.process.pause()
            go()
            until("sent")
            broker.kill()
            broker.start()
            until("ended")
        child.stdin.close()
    assert child.returncode == 0
    _checked(lines, KILLS)


def test_an_answer_that_ends_librdkafka_ends_the_rounds_process_alone(
    broker: Guarded, behind: ReservedPort, proxied: ReservedPort, tmp_path: Path
) -> None:
    """The HTTP process goes on answering, also what it asks that broker for itself; the rounds process is started
    again, and goes on where the broker answers as it should."""
    service = BridgeService(tmp_path)
    config = {
        "connector.class": "BridgeMirrorHeartbeatConnector",
        "name": "beats",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "target.cluster.bootstrap.servers": proxied.address,
        "heartbeats.topic.replication.factor": "1",
        "bridge.task.lease.ms": "60000",
    }
    session = {"session": "1795000000001-a"}
    watched = [broker.process, service.process]
    try:
        service.start()
        with (
            BadApiVersionsProxy(proxied.number, behind.address) as proxy,
            httpx.Client(base_url=service.url, verify=NO_AUTHORITIES) as client,
        ):
            task = "/v1/connectors/beats/tasks/0"
            started = {**session, "kind": "heartbeat", "task_count": 1, "config": config}
            assert client.put(task, json=started).is_success

            def ended() -> bool:
                text = service.process.log.read_text()
                return text.count("the rounds process ended (signal SIGABRT) and is restarted in") >= 2

            eventually(ended, WAIT, what="the library ends its process twice", watched=watched)
            text = service.process.log.read_text()
            assert f"librdkafka admin client created for {proxied.address}" in text
            assert "rd_malloc" in text
            assert client.get("/health/live").is_success
            doctor = client.get("/v1/connectors/beats/doctor", timeout=60.0).json()["findings"]
            assert [each for each in doctor if each["severity"] == "problem"] == []
            names = "/v1/connectors/beats/clusters/target/upstream-clusters"
            assert client.get(names, timeout=60.0).is_success
            assert _library_threads(service.process.pid) == []

            proxy.passes_all = True

            def beats() -> bool:
                response = client.post(f"{task}/poll", json={**session, "wait_ms": 1000})
                return bool(response.is_success and response.json()["records"])

            eventually(beats, WAIT, what="heartbeats are handed out", watched=watched)
            (rounds,) = _children(service.process.pid)
            assert _library_threads(rounds), "the check finds them where they are"
            assert _library_threads(service.process.pid) == []
    finally:
        service.close()


def _children(pid: int) -> list[int]:
    process = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True)
    return [int(line) for line in process.stdout.split()]


def _library_threads(pid: int) -> list[str]:
    """Names of librdkafka's threads in a process."""
    names = [each.read_text().strip() for each in Path(f"/proc/{pid}/task").glob("*/comm")]
    return [name for name in names if name.startswith("rdk:")]

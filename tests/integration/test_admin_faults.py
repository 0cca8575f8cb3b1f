"""A broker that goes away in the middle of admin calls. Each ends in an answer or a KafkaFailure, and none ends the
process, as librdkafka was seen to do by an assertion (decision 0040)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.local.ports import ReservedPort
from tests.support import create_topic
from tests.support.admin_calls import CALLS, TOPIC
from tests.support.far import FarBroker

CUTS = int(os.environ.get("MIRROR_BRIDGE_ADMIN_CUTS", "30"))
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
    return [sys.executable, "-m", "tests.support.admin_calls", *arguments]


def _checked(lines: list[str], times: int) -> None:
    results = [json.loads(line) for line in lines]
    print(
        Counter((each["call"], each["ended"]) for each in results), max(each["seconds"] for each in results)
    )
    assert Counter(each["call"] for each in results) == dict.fromkeys(CALLS, times)
    print([each for each in results if each["ended"] not in ("answer", "UNREACHABLE", "TIMEOUT")])
    assert [each for each in results if each["ended"] == "never"] == []
    assert {each["ended"] for each in results} & {"UNREACHABLE", "TIMEOUT"}, "none was in the middle"


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

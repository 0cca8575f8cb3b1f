"""The service as an operator starts it, and configurations that reach for more than it allows."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, BridgeService
from tests.support import eventually
from tests.support.processes import processes
from tests.support.waits import WAIT
from tests.unit.connectors.configs import SOURCE
from tests.unit.service.service_fakes import session

HANGS = "import time\ntime.sleep(3600)\n"
WRITES = (
    "open({path!r}, 'w').close()\nclass Filter:\n    def should_replicate_topic(self, topic): return True\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy")
    (path / "hanging_filter.py").write_text(HANGS)
    for name in ("allowed_filter", "other_filter"):
        (path / f"{name}.py").write_text(WRITES.format(path=str(path / name)))
    (path / "stores").mkdir()
    return path


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[BridgeService]:
    service = BridgeService(
        folder,
        environment={
            "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
            "MIRROR_BRIDGE_ALLOWED_PYTHON_MODULES": "hanging_filter,allowed_filter",
            "MIRROR_BRIDGE_ALLOWED_SPARK_KEYS": "spark.archives",
            "MIRROR_BRIDGE_ALLOWED_FOLDERS": str(folder / "stores"),
            "MIRROR_BRIDGE_ALLOWED_BOOTSTRAP": "a:9092,b:9092",
            "MIRROR_BRIDGE_IMPORT_SECONDS": "1.5",
        },
    )
    try:
        service.start()
        yield service
    finally:
        service.close()


def validated(service: BridgeService, props: dict[str, str]) -> dict[str, list[str]]:
    body = {"config": {**SOURCE, "bridge.validate.reachability": "off", **props}}

    def judged() -> httpx.Response:
        """A check that takes longer than a request may is answered when it is asked for again."""
        answer = httpx.put(
            f"{service.url}/v1/plugins/source/validate", json=body, timeout=60, verify=NO_AUTHORITIES
        )
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer

    answer = eventually(judged, WAIT, what="the configuration is checked")
    values = (entry["value"] for entry in answer.json()["configs"])
    return {value["name"]: value["errors"] for value in values if value["errors"]}


def started(service: BridgeService, props: dict[str, str]) -> Any:
    body = {"session": session(1), "kind": "source", "task_count": 1, "config": {**SOURCE, **props}}
    return httpx.put(f"{service.url}/v1/connectors/c/tasks/0", json=body, timeout=60, verify=NO_AUTHORITIES)


def test_validate_and_start_refuse_the_same_all_at_once(running: BridgeService, folder: Path) -> None:
    fifo = folder / "stores" / "fifo"
    os.mkfifo(fifo)
    props = {
        "spark.plugins": "org.example.Evil",
        "spark.master": "spark://evil:7077",
        "spark.authenticate": "true",
        "spark.authenticate.secret": "geheim-genug",
        "spark.archives": "/tmp/ours.tar.gz",
        "topic.filter.class": "python:other_filter.Filter",
        "source.admin.bootstrap.servers": "evil:9092",
        "source.cluster.security.protocol": "SSL",
        "source.cluster.ssl.truststore.location": str(fifo),
        "source.cluster.ssl.keystore.location": "/etc/hostname",
    }
    checked_ = validated(running, props)
    fine = {"spark.archives", "spark.authenticate", "spark.authenticate.secret"}
    assert set(checked_) == set(props) - fine - {"source.cluster.security.protocol"}
    setting = {"spark.plugins": "SPARK_KEYS", "spark.master": "SPARK_MASTERS"} | {
        "topic.filter.class": "PYTHON_MODULES",
        "source.admin.bootstrap.servers": "BOOTSTRAP",
        "source.cluster.ssl.keystore.location": "FOLDERS",
    }
    for key, name in setting.items():
        assert f"MIRROR_BRIDGE_ALLOWED_{name}" in checked_[key][0], checked_[key]
    refused = started(running, props)
    assert refused.status_code == httpx.codes.BAD_REQUEST
    assert all(body[0] in json.dumps(refused.json(), ensure_ascii=False) for body in checked_.values())
    assert httpx.get(f"{running.url}/v1/connectors", verify=NO_AUTHORITIES).json()["connectors"] == []
    assert not (folder / "other_filter").exists()


def test_who_reads_files_later_is_given_the_folders_too(running: BridgeService, folder: Path) -> None:
    (rounds,) = processes(running.process.pid, "bridge.service.rounds.main")
    given = Path(f"/proc/{rounds}/environ").read_bytes().split(b"\0")
    assert f"MIRROR_BRIDGE_PROCESS_FOLDERS={folder / 'stores'}".encode() in given


def test_allowed_code_is_loaded_by_another_process(running: BridgeService, folder: Path) -> None:
    assert validated(running, {"topic.filter.class": "python:allowed_filter.Filter"}) == {}
    assert (folder / "allowed_filter").exists()


def test_code_that_hangs_is_an_error_of_its_key_and_the_service_answers_meanwhile(
    running: BridgeService,
) -> None:
    collected: list[dict[str, list[str]]] = []
    props = {"topic.filter.class": "python:hanging_filter.Filter"}
    checks = [threading.Thread(target=lambda: collected.append(validated(running, props))) for _ in range(2)]
    answered = 0
    with httpx.Client(base_url=running.url, verify=NO_AUTHORITIES) as client:
        client.get("/health/live")
        for each in checks:
            each.start()
        while any(each.is_alive() for each in checks):
            assert client.get("/health/live").status_code == httpx.codes.OK
            answered += 1
            checks[0].join(0.05)
    assert [list(each) for each in collected] == [["topic.filter.class"]] * 2
    assert "it was not loaded within 1.5 s" in collected[0]["topic.filter.class"][0]
    assert answered > 1

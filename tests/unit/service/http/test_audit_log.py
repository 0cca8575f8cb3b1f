"""Who has changed what, or was refused: the lines of the audit log."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.service.http import audit_log
from bridge.service.http.audit_log import MOST_REFUSED, changed, set_up_audit_log
from tests.unit.service.service_fakes import SECRET, session
from tests.unit.service.service_harness import START, TASK, ServiceHarness, run

AUTH = {"authorization": "Bearer change"}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """That of a service's audit log."""
    handlers, propagates, level = list(audit_log.log.handlers), audit_log.log.propagate, audit_log.log.level
    path = tmp_path / "audit.log"
    set_up_audit_log(path)
    yield path
    for handler in audit_log.log.handlers:
        handler.close()
    audit_log.log.handlers[:], audit_log.log.propagate = handlers, propagates
    audit_log.log.setLevel(level)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def config(**more: str) -> dict[str, object]:
    return {**START, "config": {"mode": "ok", **more}}


def test_a_change_has_who_what_before_and_after(file: Path) -> None:
    async def test(at: ServiceHarness) -> None:
        spark = {"spark.hadoop.fs.azure.store.blob": SECRET, "spark.executor.memory": "1g"}
        for body in (
            config(topics="orders", **spark, **{"source.cluster.sasl.jaas.config": SECRET}),
            config(topics="orders,payments", **spark, **{"source.cluster.sasl.jaas.config": f"{SECRET}-2"}),
        ):
            headers = {**AUTH, "x-request-id": "day-1"}
            answer = await at.client.put("/v1/connectors/c", json=body, headers=headers)
            assert answer.status_code == 200

    run(test, token="change")
    assert SECRET not in file.read_text()
    first, second = lines(file)
    assert first["before"] == {}
    assert first["after"]["topics"] == "orders"
    assert first["after"]["spark.hadoop.fs.azure.store.blob"] == "[hidden]"
    assert first["after"]["spark.executor.memory"] == "1g"
    assert second["before"] == {"topics": "orders", "source.cluster.sasl.jaas.config": "[hidden]"}
    assert second["after"] == {"topics": "orders,payments", "source.cluster.sasl.jaas.config": "[hidden]"}
    assert second["who"] == {"shown": "auth_token"}
    assert (second["request"], second["status"], second["result"]) == ("PUT /v1/connectors/c", 200, "done")
    assert (second["request_id"], second["address"]) == ("day-1", "127.0.0.1")
    assert second["time"].endswith("Z")


def test_what_is_refused_has_a_line_and_what_fails(file: Path) -> None:
    async def test(at: ServiceHarness) -> None:
        for headers in ({}, {"authorization": "Bearer x"}, AUTH):
            await at.client.delete("/v1/connectors/c", headers=headers)
        await at.client.get("/v1/groups", headers={"authorization": "Bearer x"})

    run(test, token="change")
    assert [(each["who"]["shown"], each["status"], each["result"]) for each in lines(file)] == [
        ("no token", 401, "refused"),
        ("wrong token", 401, "refused"),
        ("auth_token", 404, "failed"),
        ("wrong token", 401, "refused"),
    ]


def test_a_configuration_that_is_refused_is_shown(file: Path) -> None:
    async def test(at: ServiceHarness) -> None:
        assert (await at.client.put("/v1/connectors/c", json=config(**{"how.many": "x"}))).status_code == 400

    run(test)
    (line,) = lines(file)
    assert (line["result"], line["after"]) == ("failed", {"how.many": "x", "mode": "ok"})


def test_what_only_reads_and_what_workers_do_all_the_time_has_none(file: Path) -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        await at.poll()
        await at.client.get("/v1/connectors")
        await at.client.post("/v1/nothing")
        await at.put("/v1/connectors/c/stop", {"session": session(1)})

    run(test)
    (line,) = lines(file)
    assert line["request"] == "PUT /v1/connectors/c/stop"
    assert line["who"] == {"shown": None}, "nobody has to show anything"


def test_a_flood_of_refusals_is_counted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "time", SimpleNamespace(time=time.time, monotonic=lambda: 1.0))

    async def test(at: ServiceHarness) -> None:
        for _ in range(MOST_REFUSED + 30):
            await at.client.delete("/v1/connectors/c")
        await at.client.delete("/v1/connectors/c", headers=AUTH)

    run(test, token="change")
    told = lines(file)
    assert len(told) == MOST_REFUSED + 1
    assert told[-1]["refused_without_a_line"] == 30


def test_its_file_is_its_owners_and_is_opened_anew(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    audit_log.log.info("one")
    os.rename(file, file.with_suffix(".1"))
    audit_log.log.info("two")
    assert (file.with_suffix(".1").read_text(), file.read_text()) == ("one\n", "two\n")


def test_a_line_that_its_file_does_not_take_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """As on a full disk, and where the folder was taken away."""
    before = list(audit_log.log.handlers), audit_log.log.propagate, audit_log.log.level
    set_up_audit_log(Path("/dev/full"))
    (handler,) = audit_log.log.handlers
    assert isinstance(handler, logging.FileHandler)
    try:
        audit_log.log.info("one")
        handler.baseFilename = "/no/such/folder/audit.log"
        audit_log.log.info("two")
    finally:
        with suppress(OSError):
            handler.close()
        audit_log.log.handlers[:], audit_log.log.propagate = before[0], before[1]
        audit_log.log.setLevel(before[2])
    one, two = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "/dev/full" in one
    assert one.endswith("one")
    assert two.endswith("two")


def test_without_a_file_lines_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test(at: ServiceHarness) -> None:
        await at.client.put("/v1/connectors/c", json=START)

    with caplog.at_level(logging.INFO, logger="bridge.audit_log"):
        run(test)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "bridge.audit_log"]
    assert json.loads(line)["result"] == "done"


def test_long_values_are_cut() -> None:
    told = changed({"topics": "a"}, {"topics": "x" * 10_000}, frozenset())
    assert told["before"] == {"topics": "a"}
    assert len(told["after"]["topics"] or "") < 600

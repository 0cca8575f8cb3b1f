"""The contract's routes over the ASGI transport: answers, and one error body for whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI

from bridge.model.values import Reason
from bridge.protocol.messages import FlowStatus
from bridge.service.answers.groups import explain
from bridge.service.answers.readiness import ConnectorView
from bridge.service.answers.reasons import REASONS
from bridge.service.http.app import build_routes, create_app
from connectors.base import Summary
from tests.support.messages import message
from tests.unit.service.service_fakes import (
    SECRET,
    FakeEngine,
    FakeKind,
    fake_service,
    report,
    session,
)
from tests.unit.service.service_harness import START, TASK, ServiceHarness, error, run


def test_a_task_lives_from_start_to_stop() -> None:
    async def test(at: ServiceHarness) -> None:
        assert (await at.put("/v1/connectors/c", START)).json() == {
            "name": "c",
            "task": None,
            "lease_ms": 30000,
            "version": "0.1.0",
            "protocol": 1,
        }
        assert (await at.put("/v1/connectors/c/tasks/0", TASK)).json()["task"] == 0
        polled = (await at.poll()).json()
        assert polled.pop("held_ms") < 50
        assert polled == {"records": [], "failure": None, "batch": 0, "offsets_of": []}
        ack = await at.client.post(
            "/v1/connectors/c/tasks/0/ack", json={"session": session(1), "acked": [{}]}
        )
        assert ack.status_code == 200
        rounds = at.service.rounds
        assert isinstance(rounds, FakeEngine)
        assert rounds.sent[-1][0].assignment.active == {0}
        assert rounds.sent[-1][0].assignment.task_count == 2
        gone = await at.client.request("DELETE", "/v1/connectors/c/tasks/0", json={"session": session(1)})
        assert gone.status_code == 200
        assert rounds.sent[-1][0].assignment.active == frozenset()
        status = (await at.client.get("/v1/connectors/c/status")).json()
        assert (status["state"], status["tasks"][0]["state"]) == ("idle", "stopped")
        assert (await at.put("/v1/connectors/c/stop", {"session": session(1)})).status_code == 200

    run(test)


def test_a_lease_that_runs_out_is_told_to_the_rounds() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        at.clock.ms += 30_000
        at.service.expire()
        rounds = at.service.rounds
        assert isinstance(rounds, FakeEngine)
        assert rounds.sent[-1][0].assignment.active == frozenset()
        assert (await at.client.get("/v1/connectors/c/status")).json()["tasks"][0]["state"] == "lapsed"
        assert (await at.poll()).status_code == 200
        assert rounds.sent[-1][0].assignment.active == {0}

    run(test)


def test_an_older_session_is_fenced_while_its_poll_is_held() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        held = asyncio.create_task(at.poll(wait=1000))
        await at.until_held()
        began = asyncio.get_running_loop().time()
        assert (await at.put("/v1/connectors/c/tasks/0", {**TASK, "session": session(2)})).status_code == 200
        error(await held, 409, "fenced")
        assert asyncio.get_running_loop().time() - began < 0.9
        error(await at.put("/v1/connectors/c/tasks/0", TASK), 409, "fenced")
        error(await at.poll(at=3), 404, "unknown_task")

    run(test)


def test_polls_are_held_and_answered_at_once_on_drain() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        polled = (await at.poll(wait=200)).json()
        assert 100 < polled["held_ms"] < 400
        held = asyncio.create_task(at.poll(wait=1000))
        await at.until_held()
        at.service.long_polls.drain()
        assert (await held).json()["held_ms"] < 500
        assert (await at.poll(wait=1000)).json()["held_ms"] < 50

    run(test)


def test_a_permanent_failure_reaches_a_held_poll_and_a_restarted_task_starts_afresh() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        generation = at.service.table.connector("c").generation
        held = asyncio.create_task(at.poll(wait=1000))
        await at.until_held()
        at.service.snapshots.summary("c", generation, Summary(failure="wrong password"))
        at.service.long_polls.wake("c")
        assert (await held).json()["failure"] == "wrong password"
        assert (await at.client.get("/health")).json()["status"] == "down"
        await at.put("/v1/connectors/c/tasks/0", {**TASK, "session": session(2)})
        assert at.service.table.connector("c").generation > generation
        assert (await at.poll(at=2)).json()["failure"] is None

    run(test)


def test_validate_answers_in_connects_words_with_every_error_and_no_secret() -> None:
    async def test(at: ServiceHarness) -> None:
        config = {"mode": "leak", "how.many": "many", "partitions": "x", "target.password": SECRET}
        answer = await at.put("/v1/plugins/fake/validate", {"config": config})
        assert answer.json()["error_count"] == 3
        assert SECRET not in answer.text
        assert "cannot log in with [hidden]" in answer.text
        refused = error(await at.put("/v1/connectors/c", {**START, "config": config}), 400, "bad_config")
        assert {item.key for item in refused.validation_errors} == {
            "how.many",
            "partitions",
            "target.password",
        }
        assert SECRET not in refused.model_dump_json()
        assert (await at.client.get("/v1/connectors")).json() == {"connectors": []}
        error(await at.put("/v1/plugins/nope/validate", {"config": {}}), 404, "unknown_plugin")
        plugins = (await at.client.get("/v1/plugins")).json()["plugins"]
        assert [(plugin["kind"], len(plugin["config"])) for plugin in plugins] == [("fake", 9)]

    run(test)


def test_a_full_pool_refuses_with_retry_after_and_recovers() -> None:
    kind = FakeKind()
    kind.slow_seconds = 0.3

    async def test(at: ServiceHarness) -> None:
        answers = await asyncio.gather(
            *(at.put("/v1/plugins/fake/validate", {"config": {}}) for _ in range(4))
        )
        refused = [answer for answer in answers if answer.status_code != 200]
        assert len(refused) == 2
        for answer in refused:
            assert error(answer, 503, "overloaded").retriable
            assert answer.headers["retry-after"] == "1"
        assert (await at.put("/v1/plugins/fake/validate", {"config": {}})).status_code == 200
        assert "mirror_bridge_pool_refused_total 2.0" in (await at.client.get("/metrics")).text

    run(test, kind=kind, size=1, queue=1)


def test_ten_tasks_of_one_connector_cost_one_check() -> None:
    kind = FakeKind()
    kind.slow_seconds = 0.2

    async def test(at: ServiceHarness) -> None:
        began = asyncio.get_running_loop().time()
        for index in range(10):
            body = {**TASK, "task_count": 10, "session": session(index)}
            assert (await at.put(f"/v1/connectors/c/tasks/{index}", body)).status_code == 200
        assert asyncio.get_running_loop().time() - began < 1.8

    run(test, kind=kind)


def test_protocols_may_differ_by_one() -> None:
    async def test(at: ServiceHarness) -> None:
        for good in (0, 1, 2):
            assert (await at.put("/v1/connectors/c", {**START, "protocol": good})).status_code == 200
        refused = error(
            await at.put("/v1/connectors/c", {**START, "protocol": 3}), 400, "unsupported_protocol"
        )
        assert "protocol 3" in refused.message
        assert "protocol 1" in refused.message
        error(await at.put("/v1/connectors/c/tasks/0", {**TASK, "protocol": -1}), 400, "unsupported_protocol")

    run(test)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b'{"config": {"a": "\xff"}}',
        b'{"config": {"a": "\\ud800"}}',
        b'{"config": {"a": NaN}}',
        b'{"config": {"a": 5}}',
        b'{"config": {"a": ["b"]}}',
        b'{"config": []}',
        b"[" * 10_000,
        b'{"config":' * 10_000,
        b"1" * 10_000,
    ],
)
def test_bodies_that_are_not_of_the_form(body: bytes) -> None:
    async def test(at: ServiceHarness) -> None:
        headers = {"content-type": "application/json"}
        answer = await at.client.put("/v1/plugins/fake/validate", content=body, headers=headers)
        assert error(answer, 422, "body_rejected").validation_errors

    run(test)


def test_all_errors_of_a_body_are_listed_and_nothing_is_echoed() -> None:
    async def test(at: ServiceHarness) -> None:
        body = {
            "session": SECRET,
            "kind": 5,
            "config": {"target.password": 7, "x": {"deep": SECRET}},
            "task_count": 0,
        }
        answer = await at.put("/v1/connectors/c/tasks/0", body)
        listed = error(answer, 422, "body_rejected").validation_errors
        assert {item.key for item in listed} == {
            "body.session",
            "body.kind",
            "body.config.target.password",
            "body.config.x",
            "body.task_count",
        }
        assert SECRET not in answer.text

    run(test)


def test_bodies_that_others_would_wait_for() -> None:
    """Nothing else is answered while one is parsed, or while its errors are listed."""

    async def test(at: ServiceHarness) -> None:
        path = "/v1/plugins/fake/validate"
        many = {f"k{n}": "" for n in range(20_001)}
        said = error(await at.put(path, {"config": many}), 413, "too_large").message
        assert said == message("service.too_many_texts", most=20_000)
        some = dict(list(many.items())[:2_001])
        ((entry,), config) = (await at.put(path, {"config": some})).json()["configs"], {"config": some}
        assert entry["value"]["errors"] == [message("config.settings", count=2_001, most=2_000)]
        assert error(await at.put("/v1/connectors/c", {**START, **config}), 400, "bad_config")
        wrong = {"config": {str(n): n for n in range(201)}}
        (listed,) = error(await at.put(path, wrong), 422, "body_rejected").validation_errors
        assert (listed.key, listed.message) == ("body", "201 fields are not of the contract's form")

    run(test)


def test_strange_but_legal_input_is_taken() -> None:
    async def test(at: ServiceHarness) -> None:
        config = {"mode": "ok", "a\x00b": "c\x00d", "ключ": "значение 🦊", "": ""}
        name = "名 /\x00,\"'%2F;?#"
        path = f"/v1/connectors/{quote(name, safe='')}"
        started = await at.put(path, {**START, "config": config, "unknown field": [1]})
        assert started.json()["name"] == name
        assert (await at.client.get(f"{path}/status")).json()["name"] == name
        error(await at.client.get("/v1/connectors/%ff/status"), 422, "body_rejected")

    run(test)


def test_wrong_content_type_method_and_route() -> None:
    async def test(at: ServiceHarness) -> None:
        headers = {"content-type": "text/plain"}
        answer = await at.client.put("/v1/plugins/fake/validate", content=b"{}", headers=headers)
        assert "text/plain" in error(answer, 422, "body_rejected").message
        answer = await at.client.post("/v1/connectors/c/tasks/0", json={})
        error(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == "DELETE, PUT"
        error(await at.client.get("/nothing/here"), 404, "no_such_route")
        error(await at.client.get("/v1/groups/a/b"), 404, "no_such_route")
        error(await at.client.put("/v1/connectors/c/tasks/x", json=TASK), 422, "body_rejected")
        error(await at.client.put("/v1/connectors/c/tasks/5", json=TASK), 422, "body_rejected")
        error(await at.client.get("/v1/groups?limit=0&next=%25"), 422, "body_rejected")
        error(await at.client.get("/v1/groups?next=e30="), 422, "body_rejected")
        error(await at.client.get("/v1/connectors/c/status"), 404, "unknown_connector")
        error(await at.client.get("/v1/groups/g"), 404, "unknown_group")

    run(test)


def test_bodies_past_the_limit_are_refused_by_length_and_by_count() -> None:
    async def test(at: ServiceHarness) -> None:
        body = json.dumps({"config": {"a": "x" * (2 << 20)}}).encode()
        answer = await at.client.put(
            "/v1/plugins/fake/validate", content=body, headers={"content-type": "application/json"}
        )
        error(answer, 413, "too_large")

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 65536):
                yield body[start : start + 65536]

        answer = await at.client.put(
            "/v1/plugins/fake/validate", content=pieces(), headers={"content-type": "application/json"}
        )
        error(answer, 413, "too_large")

    run(test)


def test_the_token_is_wanted_everywhere_but_on_open_paths() -> None:
    async def test(at: ServiceHarness) -> None:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "Basic right"},
            {"authorization": ""},
        ):
            for path in ("/v1/version", "/v1/groups", "/nothing", "/v1/openapi.json", "/healthy"):
                answer = await at.client.get(path, headers=headers)
                error(answer, 401, "unauthorized")
                assert answer.headers["www-authenticate"].startswith("Bearer")
        for scheme in ("Bearer", "bearer"):
            right = await at.client.get("/v1/version", headers={"authorization": f"{scheme} right"})
            assert right.json() == {"version": "0.1.0", "protocol": 1}
        assert (await at.client.get("/health/live")).status_code == 200
        assert (await at.client.get("/metrics")).status_code == 200

    run(test, token="right")


@pytest.mark.parametrize(
    "group", ["a/b", "a,b", "'\"`", "группа 🦊", "x/explain", "%2F", "a b+c", "\x00", "?#&="]
)
def test_group_ids_of_any_kind(group: str) -> None:
    async def test(at: ServiceHarness) -> None:
        at.reports(report(group), report("other"))
        path = f"/v1/groups/{quote(group, safe='')}"
        answer = (await at.client.get(path)).json()
        assert answer["group"] == group
        assert [item["group"] for item in answer["reports"]] == [group]
        lines = (await at.client.get(f"{path}/explain")).json()["lines"]
        assert group in lines[0]
        listed = (await at.client.get("/v1/groups", params={"group": group})).json()
        assert [item["group"] for item in listed["groups"]] == [group]

    run(test)


def test_a_report_counts_the_rounds_of_its_connector() -> None:
    """As its status does: whoever has committed waits for a later one."""

    async def test(at: ServiceHarness) -> None:
        at.reports(report("g"))
        for rounds in (1, 5):
            at.service.snapshots.summary("c", 1, Summary(rounds=rounds))
            (found,) = (await at.client.get("/v1/groups/g")).json()["reports"]
            assert found["rounds"] == rounds
            assert (await at.client.get("/v1/connectors/c/status")).json()["rounds"] == rounds

    run(test)


def test_explain_says_what_was_committed_what_the_answer_is_and_why() -> None:
    async def test(at: ServiceHarness) -> None:
        pending = (
            report("g")
            .partitions[0]
            .model_copy(
                update={
                    "verdict": "pending",
                    "target_offset": None,
                    "written": None,
                    "reason": "copy_not_found",
                }
            )
        )
        bounded = (
            report("g")
            .partitions[1]
            .model_copy(
                update={
                    "verdict": "bounded",
                    "bound": 7,
                    "written": 300,
                    "flags": ["truncated"],
                    "evidence": "sync+1",
                    "detail": {"copied_twice": 512},
                }
            )
        )
        at.reports(report("g", partitions=1), report("h", partitions=0, reason="group_active_on_target"))
        at.reports(report("g", "d").model_copy(update={"partitions": [pending, bounded]}), connector="d")
        text = "\n".join((await at.client.get("/v1/groups/g/explain")).json()["lines"])
        committed = {"partition": "orders-0", "committed": 1001}
        assert message("service.exact", **committed, target="A.orders-0 400") in text
        assert "compared on both clusters" in text
        assert message("service.not_translated", **committed, reason="copy_not_found") in text
        assert "at most 7 records are read twice" in text
        assert "Committed there: 300." in text
        assert "Another mirror has copied this partition" in text
        assert "up to offset 512 of A.orders" in text
        assert "truncated" in text
        assert "group_active_on_target" in (await at.client.get("/v1/groups/h/explain")).text

    run(test)


def test_groups_page_by_page_with_filters() -> None:
    async def test(at: ServiceHarness) -> None:
        for connector in ("b", "a"):
            at.reports(
                *(
                    report(
                        f"g{n:04d}",
                        connector,
                        1,
                        ready=n % 2 == 0,
                        reason=None if n % 2 == 0 else "record_gone",
                    )
                    for n in range(250)
                ),
                connector=connector,
            )
        seen: list[tuple[str, str]] = []
        params: dict[str, str] = {"limit": "100"}
        while True:
            page = (await at.client.get("/v1/groups", params=params)).json()
            assert (page["total"], page["ready"]) == (500, 250)
            seen += [(item["connector"], item["group"]) for item in page["groups"]]
            if page["next"] is None:
                break
            params["next"] = page["next"]
        assert seen == sorted((connector, f"g{n:04d}") for connector in "ab" for n in range(250))
        for query, total in (
            ("connector=a", 250),
            ("ready=false", 250),
            ("readiness=not_ready", 250),
            ("readiness=ready&connector=a", 125),
            ("readiness=cannot_tell", 0),
            ("reason=record_gone&connector=b", 125),
            ("verdict=pending", 0),
            ("connector=none", 0),
        ):
            assert (await at.client.get(f"/v1/groups?{query}")).json()["total"] == total

    run(test)


def test_a_metric_says_which_flows_a_node_of_dedicated_mode_runs() -> None:
    async def test(at: ServiceHarness) -> None:
        assert "mirror_bridge_flow_running" not in (await at.client.get("/metrics")).text
        at.service.flows = [
            FlowStatus(flow=f"{source}->{target}", source=source, target=target, copies=copies, state=state)
            for source, target, copies, state in (
                ("A", "B", True, "running"),
                ("B", "A", False, "elsewhere"),
                ("A", "C", True, "waiting"),
            )
        ]
        text = (await at.client.get("/metrics")).text
        lines = {line for line in text.splitlines() if line.startswith("mirror_bridge_flow_running{")}
        assert lines == {
            'mirror_bridge_flow_running{kind="copy",source="A",target="B"} 1.0',
            'mirror_bridge_flow_running{kind="heartbeats",source="B",target="A"} 0.0',
            'mirror_bridge_flow_running{kind="copy",source="A",target="C"} 0.0',
        }

    run(test)


def test_metrics_count_verdicts_reasons_and_requests_but_no_group() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        at.reports(report("a-group"))
        summary = Summary(
            groups=1,
            exact=3,
            pending=2,
            reasons={"record_gone": 2},
            rounds=4,
            lookups=5,
            checkpoints=6,
            unreadable_records={"t": 7},
            last_success_ms=1,
        )
        at.service.snapshots.summary("c", 1, summary)
        await at.poll()
        status = (await at.client.get("/v1/connectors/c/status")).json()
        assert (status["checkpoints"], status["unreadable_records"]) == (6, {"t": 7})
        text = (await at.client.get("/metrics")).text
        for line in (
            'mirror_bridge_group_partitions{connector="c",verdict="exact"} 3.0',
            'mirror_bridge_group_partitions_pending{connector="c",reason="record_gone"} 2.0',
            'mirror_bridge_rounds_total{connector="c"} 4.0',
            'mirror_bridge_checkpoints_total{connector="c"} 6.0',
            'mirror_bridge_unreadable_records_total{connector="c",topic="t"} 7.0',
            'mirror_bridge_tasks_active{connector="c"} 1.0',
            "mirror_bridge_rounds_process_up 1.0",
            "mirror_bridge_poll_overhead_seconds_count 1.0",
            'requests_total{method="PUT",route="/v1/connectors/{name}/tasks/{n}",status="200"} 1.0',
        ):
            assert line in text, text
        assert "a-group" not in text
        assert 'mirror_bridge_seconds_since_last_success{connector="c"}' in text

    run(test)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained(reason: Reason) -> None:
    view = ConnectorView(own_ms=1, running=frozenset({0}), checked=frozenset({0}))
    (explained,) = view.answer(0, reason.value, committed=False).reasons
    detail = REASONS[reason.value].detail
    assert (explained.reason, explained.detail) == (reason.value, detail)
    waiting = report("g").model_copy(update={"reasons": [explained]})
    assert f"  {reason.value}: {detail}." in explain([waiting])


def test_request_ids_come_back_and_are_made_when_missing_or_strange() -> None:
    async def test(at: ServiceHarness) -> None:
        assert (await at.client.get("/health/live", headers={"x-request-id": "abc-1"})).headers[
            "x-request-id"
        ] == "abc-1"
        made = (await at.client.get("/health/live", headers={"x-request-id": "a b"})).headers["x-request-id"]
        assert made != "a b"

    run(test)


def test_an_error_of_ours_is_told_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(at: ServiceHarness) -> None:
        def broken() -> None:
            raise RuntimeError(SECRET)

        monkeypatch.setattr(type(at.service.table), "__iter__", lambda self: broken())
        answer = await at.client.get("/v1/connectors")
        assert error(answer, 500, "internal").retriable
        assert SECRET not in answer.text
        assert answer.headers["x-request-id"] in answer.text

    run(test)


def test_the_first_request_takes_no_longer_than_others() -> None:
    """FastAPI builds the models of routes when they are first asked for: 0.1 s, in which nobody else is served."""

    def first(app: FastAPI) -> float:
        async def ask() -> float:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                began = time.thread_time()
                assert (await client.get("/metrics")).is_success
                return time.thread_time() - began

        return asyncio.run(ask())

    as_it_is, built = create_app(fake_service()), create_app(fake_service())
    build_routes(built)
    assert first(built) < first(as_it_is) / 3

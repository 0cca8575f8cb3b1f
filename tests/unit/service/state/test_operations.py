"""Operations on running connectors: over HTTP, through the rounds process, to an instance, and back."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from functools import partial

import httpx
import pytest

from bridge.errors import BridgeError, KafkaFailure, KafkaFault, NotAnswered, OperationRefused
from bridge.local import NO_AUTHORITIES
from bridge.service.state.operations import (
    OpenOperations,
    OperationRequest,
    pack_operation,
    pack_operation_result,
    unpack_operation,
    unpack_operation_result,
)
from bridge.service.state.snapshots import RoundsState
from connectors.base import Arguments
from tests.support.messages import message, message_pattern
from tests.unit.service.service_fakes import FakeEngine
from tests.unit.service.service_harness import START, TASK, ServiceHarness, error, run
from tests.unit.service.service_process import Running


def test_an_order_and_its_answers_cross_the_pipe() -> None:
    order = OperationRequest(3, "c/ü", 7, "refresh", {"groups": ["a"]})
    assert unpack_operation(pack_operation(order)) == order
    assert unpack_operation_result(pack_operation_result(3, {"found": 2})) == (3, {"found": 2})
    raised = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
    number, failed = unpack_operation_result(pack_operation_result(4, raised))
    assert isinstance(failed, BridgeError)
    assert (number, str(failed), failed.code, failed.status, failed.retriable) == (
        4,
        "nobody there",
        "kafka",
        503,
        True,
    )


def test_each_answer_reaches_whoever_asked_for_it() -> None:
    async def go() -> None:
        orders: list[OperationRequest] = []
        open_ = OpenOperations(orders.append)
        asked = [asyncio.create_task(open_.operate("c", 1, "refresh", {}, 5)) for _ in range(3)]
        await asyncio.sleep(0)
        first, second, _ = orders
        open_.answered(pack_operation_result(second.number, {"found": 2}))
        open_.answered(pack_operation_result(first.number, OperationRefused("no")))
        open_.answered(pack_operation_result(99, {"found": 9}))
        assert await asked[1] == {"found": 2}
        with pytest.raises(BridgeError, match=r"^no$"):
            await asked[0]
        open_.lost()
        with pytest.raises(NotAnswered, match="ended during the operation"):
            await asked[2]
        late = message_pattern("service.operation_late", connector="c", operation="refresh", seconds=0.01)
        with pytest.raises(NotAnswered, match=late):
            await open_.operate("c", 1, "refresh", {}, 0.01)
        open_.answered(pack_operation_result(orders[-1].number, {"found": 2}))  # too late

    asyncio.run(go())


def test_refresh_over_http() -> None:
    async def test(at: ServiceHarness) -> None:
        path = "/v1/connectors/c/refresh"
        error(await at.client.post(path), 404, "unknown_connector")
        await at.put("/v1/connectors/c", START)
        refused = error(await at.client.post(path), 409, "refused")
        assert refused.message.startswith("Connect has started no task of connector c")
        await at.put("/v1/connectors/c/tasks/0", TASK)
        rounds = at.service.rounds
        assert isinstance(rounds, FakeEngine)
        rounds.answer = lambda *_: {"found": 2, "added": ["g"]}
        refreshed = (await at.client.post(path)).json()
        assert refreshed.pop("seconds") >= 0
        assert refreshed == {
            "name": "c",
            "kind": "fake",
            "found": 2,
            "added": ["g"],
            "removed": [],
            "errors": [],
        }
        assert rounds.operated == [("c", "refresh", {})]

        def away(*_: object) -> Arguments:
            raise KafkaFailure(KafkaFault.UNREACHABLE, "source cluster: nobody there")

        rounds.answer = away
        answer = await at.client.post(path)
        assert error(answer, 503, "kafka").message == "source cluster: nobody there"
        assert answer.headers["Retry-After"] == "1"
        rounds.state = RoundsState.RESTARTING
        assert error(await at.client.post(path), 503, "not_answered").retriable
        error(await at.client.post(path, params={"timeout_ms": "5"}), 422, "body_rejected")

    run(test)


def test_refresh_wants_the_token() -> None:
    async def test(at: ServiceHarness) -> None:
        error(await at.client.post("/v1/connectors/c/refresh"), 401, "unauthorized")

    run(test, token="secret")


def test_an_instance_in_the_rounds_process_answers(at: Running) -> None:
    at.start(tasks=2)
    at.start("refuses", operations="refuse")
    at.start("bug", operations="bug")

    def at_work(name: str) -> bool:
        return bool(at.status(name)["rounds"] > 0)

    for name in ("c", "refuses", "bug"):
        at.eventually(partial(at_work, name))

    def post(name: str, seconds: float = 10) -> httpx.Response:
        path = f"/v1/connectors/{name}/refresh?timeout_ms={int(seconds * 1000)}"
        return at.client.post(path)

    assert post("c").json()["added"] == ["refresh", str(at.rounds_pid())]
    refused = post("refuses")
    assert (refused.status_code, refused.json()["message"]) == (409, "refresh is refused")
    bug = post("bug")
    assert (bug.status_code, bug.json()["error_code"]) == (503, "not_answered")
    assert "RuntimeError: as configured" in at.text()
    assert "Traceback" not in bug.text


def test_what_ends_during_an_operation_is_an_error_at_once(at: Running) -> None:
    at.start(operations="hang")
    at.eventually(lambda: at.status()["rounds"] > 0)
    late = at.client.post("/v1/connectors/c/refresh?timeout_ms=100")
    assert (late.status_code, late.json()["error_code"]) == (503, "not_answered")

    def during(then: object) -> str:
        answers: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: answers.append(
                httpx.post(f"{at.url}/v1/connectors/c/refresh", timeout=60, verify=NO_AUTHORITIES)
            )
        )
        asking.start()
        time.sleep(0.3)  # there is nothing to wait for: the operation answers nothing
        assert callable(then)
        then()
        asking.join(60)
        assert answers, "the operation is still waited for"
        assert answers[0].status_code == 503
        return str(answers[0].json()["message"])

    anew = during(lambda: at.start(at=2, operations="hang", partitions="3"))
    assert anew == message("service.connector_restarted", connector="c")
    at.eventually(lambda: at.status()["rounds"] > 0)
    killed = during(lambda: os.kill(at.rounds_pid(), signal.SIGKILL))
    assert killed == message("service.rounds_ended")

"""What MirrorClient says, over HTTP: each question, and what goes wrong with them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.unit.service.service_fakes import session
from tests.unit.service.service_harness import START, service_harness

BASE = "/v1/connectors/c/clusters"
HERE = {"topic": "A.orders", "partition": 0, "offset": 5, "metadata": "m"}
THERE = {"topic": "A.orders", "partition": 1, "offset": 7, "metadata": ""}


async def _ask(path: str, **config: str) -> tuple[int, Any]:
    async with service_harness() as service:
        body = {**START, "session": session(1), "config": {"mode": "ok", **config}}
        await service.put("/v1/connectors/c", body)
        answer = await service.client.get(path)
        return answer.status_code, answer.json()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("target/replication-hops?alias=A", {"alias": "A", "hops": 1}),
        ("target/replication-hops?alias=X", {"alias": "X", "hops": -1}),
        ("target/heartbeat-topics", {"names": ["A.heartbeats", "heartbeats"]}),
        ("source/heartbeat-topics", {"names": ["heartbeats"]}),
        ("target/checkpoint-topics", {"names": ["A.checkpoints.internal"]}),
        ("target/upstream-clusters", {"names": ["A"]}),
        ("target/remote-topics", {"names": ["A.orders"]}),
        ("target/remote-topics?source=X", {"names": []}),
        (
            "target/consumer-offsets?alias=A&group=g",
            {"groups": [{"group": "g", "offsets": [HERE, THERE]}]},
        ),
        # A group id is no pattern.
        (
            "target/consumer-offsets?alias=A&group=h%2E1",
            {"groups": [{"group": "h.1", "offsets": [HERE, THERE]}]},
        ),
        ("target/consumer-offsets?alias=A&group=h_1", {"groups": []}),
        ("target/consumer-offsets?alias=A&group=%2E", {"groups": []}),
        ("target/consumer-offsets?alias=A&pattern=x.*", {"groups": []}),
    ],
)
def test_every_question_has_its_answer(path: str, expected: object) -> None:
    assert asyncio.run(_ask(f"{BASE}/{path}")) == (200, expected)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/connectors/nobody/clusters/target/heartbeat-topics", 404, "there is no connector nobody"),
        (f"{BASE}/middle/heartbeat-topics", 422, "path.side"),
        (f"{BASE}/target/replication-hops", 422, "query.alias"),
        (f"{BASE}/target/consumer-offsets?alias=A", 422, "give either group or pattern"),
        (f"{BASE}/target/consumer-offsets?alias=A&group=g&pattern=g", 422, "give either group or pattern"),
        (f"{BASE}/target/consumer-offsets?alias=A&pattern=%28", 422, "query.pattern: is no Java regex: ("),
        (f"{BASE}/target/consumer-offsets?alias=A&group=g&timeout_ms=0", 422, "query.timeout_ms"),
    ],
)
def test_what_is_wrong_is_named(path: str, status: int, words: str) -> None:
    got, body = asyncio.run(_ask(path))
    assert got == status, body
    assert words in body["message"]


def test_a_cluster_that_does_not_answer_is_a_503_in_its_words() -> None:
    where = {"source.cluster.bootstrap.servers": "nowhere:1"}
    status, body = asyncio.run(_ask(f"{BASE}/source/heartbeat-topics", **where))
    assert (status, body["error_code"], body["message"], body["retriable"]) == (
        503,
        "kafka",
        "nobody there",
        True,
    )


@pytest.mark.parametrize("pattern", ["(a|aa)%2Bx", "(.*)*x"])
def test_health_answers_while_a_pattern_is_matched(pattern: str) -> None:
    """Before, the first held the interpreter's lock until the end of time, and nobody was answered."""

    async def test() -> httpx.Response:
        async with service_harness() as service:
            await service.put("/v1/connectors/c", {**START, "session": session(1)})
            query = f"{BASE}/target/consumer-offsets?alias=A&pattern={pattern}"
            asked = asyncio.create_task(service.client.get(query))
            while not asked.done():
                await asyncio.sleep(0.001)
                assert (await service.client.get("/health")).status_code == 200
            return await asked

    answer = asyncio.run(test())
    if answer.status_code != 200:  # it may know that there is no x
        assert answer.status_code == 422
        assert "query.pattern" in answer.text
        assert "takes too long to match" in answer.text

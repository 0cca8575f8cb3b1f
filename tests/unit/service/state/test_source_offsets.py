"""Source offsets that Connect keeps: asked by an instance, told by a shim in its polls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from bridge.protocol.messages import PollResponse
from bridge.service.state.source_offsets import AT_ONCE, OffsetRequests, pack_stored_offsets
from connectors.base import SourcePartition
from tests.unit.service.service_fakes import FakeEngine, places, session
from tests.unit.service.service_harness import PATH, ServiceHarness, run, started
from tests.unit.service.service_process import Running

Entries = Sequence[dict[str, Any]]


def stored(count: int, start: int = 0) -> list[dict[str, Any]]:
    """As a shim tells them: in Java's order of keys, every second partition without an offset."""
    return [
        {
            "source_partition": {"topic": "orders", "partition": number, "cluster": "A"},
            "source_offset": None if number % 2 else {"offset": 10 * number},
        }
        for number in range(start, start + count)
    ]


async def poll(at: ServiceHarness, offsets: Entries | None, wait: int = 0) -> PollResponse:
    body: dict[str, Any] = {"session": session(1), "wait_ms": wait}
    answer = await at.client.post(
        f"{PATH}/poll", json=body if offsets is None else {**body, "offsets": offsets}
    )
    assert answer.status_code == 200, answer.text
    return PollResponse.model_validate_json(answer.content, strict=True)


def forwarded(at: ServiceHarness) -> list[Any]:
    assert isinstance(at.service.rounds, FakeEngine)
    return at.service.rounds.offsets


def test_a_question_is_asked_until_it_is_answered_and_the_answer_handed_on_once() -> None:
    async def test(at: ServiceHarness) -> None:
        generation = await started(at)
        assert (await poll(at, [])).offsets_of == []
        at.service.offset_requests.put("c", generation, places(3))
        assert (await poll(at, [])).offsets_of == places(3)
        assert (await poll(at, [])).offsets_of == places(3), "the first answer may have been lost"
        assert (await poll(at, stored(2))).offsets_of == places(3)[2:]
        assert (await poll(at, stored(2))).offsets_of == places(3)[2:], "told again: our answer was lost"
        assert (await poll(at, stored(1, 2))).offsets_of == []
        first, second = forwarded(at)
        assert first == ("c", generation, [(places(3)[0], {"offset": 0}), (places(3)[1], None)])
        assert second == ("c", generation, [(places(3)[2], {"offset": 20})])

    run(test)


def test_a_shim_that_cant_tell_is_not_asked_and_its_polls_are_held() -> None:
    async def test(at: ServiceHarness) -> None:
        at.service.offset_requests.put("c", await started(at), places(3))
        answer = await poll(at, None, wait=50)
        assert answer.offsets_of == []
        assert answer.held_ms > 10

    run(test)


def test_a_held_poll_is_answered_when_somebody_asks() -> None:
    async def test(at: ServiceHarness) -> None:
        generation = await started(at)
        held = asyncio.create_task(poll(at, [], wait=1000))
        await at.until_held()
        at.service.offset_requests.put("c", generation, places(1))
        answer = await held
        assert answer.offsets_of == places(1)
        assert answer.held_ms < 500

    run(test)


def test_many_partitions_are_asked_for_in_portions() -> None:
    async def test(at: ServiceHarness) -> None:
        at.service.offset_requests.put("c", await started(at), places(AT_ONCE + 7))
        assert len((await poll(at, [])).offsets_of) == AT_ONCE
        assert (await poll(at, stored(AT_ONCE))).offsets_of == places(AT_ONCE + 7)[AT_ONCE:]

    run(test)


def test_the_question_of_a_newer_instance_takes_the_place_of_an_older_ones() -> None:
    async def test(at: ServiceHarness) -> None:
        generation = await started(at)
        at.service.offset_requests.put("c", generation, places(1))
        at.service.offset_requests.put("c", generation + 1, places(2)[1:])
        at.service.offset_requests.put("c", generation, places(1))
        assert (await poll(at, stored(2))).offsets_of == []
        assert [each[1] for each in forwarded(at)] == [generation + 1]
        at.service.offset_requests.put("c", generation + 1, places(2))
        at.service.offset_requests.put("c", generation + 1, ())
        assert (await poll(at, [])).offsets_of == []

    run(test)


@pytest.mark.parametrize("wrong", [[{}], [{"source_partition": {}}], "x", [None], stored(2_001)])
def test_what_is_no_answer_is_refused(wrong: object) -> None:
    async def test(at: ServiceHarness) -> None:
        await started(at)
        body = {"session": session(1), "wait_ms": 0, "offsets": wrong}
        answer: httpx.Response = await at.client.post(f"{PATH}/poll", json=body)
        assert answer.status_code in (413, 422)

    run(test)


def test_an_instance_waits_for_all_it_has_asked_for_and_may_give_up() -> None:
    sent: list[tuple[str, int, list[SourcePartition]]] = []

    async def test() -> None:
        requests = OffsetRequests(
            lambda name, generation, partitions: sent.append((name, generation, [*partitions]))
        )
        assert await requests.request("c", 1, []) == []
        assert sent == []
        asked = asyncio.create_task(requests.request("c", 1, places(3)))
        await asyncio.sleep(0)
        requests.received(pack_stored_offsets("c", 2, [(each, None) for each in places(3)]))
        requests.received(pack_stored_offsets("c", 1, [(places(3)[2], {"offset": 7}), (places(9)[8], None)]))
        await asyncio.sleep(0)
        assert not asked.done()
        requests.received(pack_stored_offsets("c", 1, [(each, None) for each in places(2)]))
        assert await asked == [None, None, {"offset": 7}]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(requests.request("c", 1, places(1)), 0.001)
        requests.received(pack_stored_offsets("c", 1, [(places(1)[0], None)]))

    asyncio.run(test())
    assert sent == [("c", 1, places(3)), ("c", 1, places(1)), ("c", 1, [])]


def test_from_an_instance_to_a_poll_and_back_through_both_processes(at: Running) -> None:
    at.start(asks="2")
    body: dict[str, Any] = {"session": session(1), "wait_ms": 1000, "offsets": []}
    asked = at.eventually(lambda: at.client.post(f"{PATH}/poll", json=body).json()["offsets_of"])
    assert asked == places(2)
    at.client.post(f"{PATH}/poll", json={**body, "wait_ms": 0, "offsets": stored(2)})
    at.eventually(
        lambda: [str({"offset": 0}), "None"] == at.status()["errors"][1:],
    )

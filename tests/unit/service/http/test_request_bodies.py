"""Bodies that are parsed in one go: a message as large as clients send is read, one that holds up others is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

from bridge.errors import BodyErrors, TooLarge
from bridge.protocol.messages import AckRequest, AlterOffsets, Message, PollRequest, ValidateRequest
from bridge.service.http import request_bodies
from bridge.service.http.request_bodies import MOST_OUTSIDE, MOST_TEXTS, MOST_VALUES, SMALL, read
from tests.unit.service.http.json_requests import altering, request

M = TypeVar("M", bound=Message)


def parsed(model: type[M], data: bytes, long_list: str | None = None) -> M:
    async def run() -> M:
        return await read(model, long_list)(request(data))

    return asyncio.run(run())


def body(value: str) -> bytes:
    return f'{{"config":{{"topics":{value}}}}}'.encode()


TEXTS = f"more than {MOST_TEXTS} names and texts"
VALUES = f"more than {MOST_VALUES} values"
OUTSIDE = f"more than {MOST_OUTSIDE} bytes outside of names and texts"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (f"[{','.join(['1'] * 50_000)}]", VALUES),
        (f"[{','.join(['[]'] * 25_000)}]", VALUES),
        (f"[{','.join(['{}'] * 25_000)}]", VALUES),
        (f'"a\\\\\\"\\\\",[{",".join(["1"] * 50_000)}]', VALUES),
        (f"[{','.join(['1' * 4_000] * 100)}]", OUTSIDE),
        (" " * 300_000 + '""', OUTSIDE),
        # Counted before escapes are looked at: to take a megabyte of them out takes longer than to refuse it.
        ('"' + r"\"" * 490_000 + '"', TEXTS),
    ],
)
def test_what_takes_long_to_parse_is_not_parsed(value: str, why: str) -> None:
    """Before, a megabyte of numbers held the event loop for 8 ms and more, one of empty lists for 0.1 s."""
    with (
        patch.object(ValidateRequest, "model_validate_json", side_effect=AssertionError),
        pytest.raises(TooLarge, match=why),
    ):
        parsed(ValidateRequest, body(value))


@pytest.mark.parametrize("where", ['"offsets":[{"source_partition":%s}]', '"offsets":[],"config":%s'])
def test_neither_is_one_item_of_a_long_list_nor_what_is_beside_it(where: str) -> None:
    data = "{" + where % f"[{','.join(['1'] * 50_000)}]" + "}"
    with pytest.raises(TooLarge, match=VALUES):
        parsed(AlterOffsets, data.encode(), "offsets")


@pytest.mark.parametrize(
    "topics",
    [
        ",".join(f"topic-{number:05d}.of-a-long-name" for number in range(5_000)),
        ",".join(["a"] * 400_000),
        json.dumps({f"from-{number}": f"to-{number}" for number in range(3_000)}),
        "[" * 60_000,
        "\\" * 200_000,
        "t" * 1_000_000,
    ],
)
def test_texts_may_hold_any_characters(topics: str) -> None:
    config: dict[str, Any] = {"name": "many", "topics": topics}
    assert parsed(ValidateRequest, json.dumps({"config": config}).encode()).config == config


def test_polls_and_acknowledgements_may_be_as_long_as_the_contract_says() -> None:
    partition = {"cluster": "source", "group": "g", "topic": "t", "partition": 1}
    acked = [{"source_partition": partition, "timestamp": 1_795_000_000_000 + n} for n in range(2_000)]
    ack = parsed(AckRequest, json.dumps({"session": "1795000000001-a", "acked": acked}).encode())
    assert len(ack.acked) == 2_000
    offsets = [{"source_partition": partition, "source_offset": {"offset": 1 << 60}} for _ in range(1_900)]
    poll = parsed(PollRequest, json.dumps({"session": "1795000000001-a", "offsets": offsets}).encode())
    assert poll.offsets is not None
    assert len(poll.offsets) == 1_900


def test_what_is_no_json_is_said_to_be_none() -> None:
    with pytest.raises(BodyErrors, match="Invalid JSON"):
        parsed(ValidateRequest, b"{" + b" " * 100_000)


@pytest.mark.parametrize(
    ("model", "data", "long_list"),
    [
        (ValidateRequest, body(json.dumps("t" * SMALL)), None),
        (AlterOffsets, altering(400), "offsets"),
    ],
)
def test_large_bodies_are_parsed_one_in_each_turn_of_the_loop(
    model: type[Message], data: bytes, long_list: str | None
) -> None:
    """Before, four clients held the loop up for four bodies at once."""
    turn = 0
    parsed_in: list[int] = []

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def checked(part: bytes) -> None:
        if len(part) > 1000:
            parsed_in.append(turn)

    async def run() -> None:
        counting = asyncio.create_task(count())
        read_one = read(model, long_list)
        await asyncio.gather(*(read_one(request(data)) for _ in range(4)))
        counting.cancel()

    with patch.object(request_bodies, "check_parsed", side_effect=checked):
        asyncio.run(run())
    assert len(parsed_in) >= 4
    assert len(parsed_in) == len(set(parsed_in))

"""Bodies with a long list: parsed in parts, with the same result as in one go, while others have their turn."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bridge.errors import BodyErrors, TooLarge
from bridge.protocol.messages import AlterOffsets, Message, MoveGroups
from bridge.service.http import request_bodies
from bridge.service.http.request_bodies import MOST_ERRORS, MOST_TEXTS, LongList, read
from tests.unit.service.http.json_requests import altering, request


def parsed(model: type[Message], key: str, data: bytes) -> Message:
    async def run() -> Message:
        return await read(model, key)(request(data))

    return asyncio.run(run())


def test_others_have_their_turn_between_the_parts() -> None:
    """Before, 15,000 offsets held the event loop for 72 ms."""
    data = altering(8_000)
    turns = 0

    async def run() -> Message:
        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        body = await read(AlterOffsets, "offsets")(request(data))
        beside.cancel()
        return body

    assert asyncio.run(run()) == AlterOffsets.model_validate_json(data)
    assert turns > len(data) / request_bodies.PART


def test_others_have_their_turn_while_no_part_is_complete() -> None:
    body = LongList('{"offsets":[' + "[" * 50_000, "offsets")
    assert sum(part == "" for part in body.parts()) > 40


@pytest.mark.parametrize(
    "long", [" " * 10**6, "1" * 10**6, f'"{"t" * 10**6}"', f'"{"t" * 10**6}', '"' + r"\"" * 10**6]
)
def test_others_have_their_turn_in_a_long_stretch_without_strings_and_brackets(long: str) -> None:
    """Before, a megabyte of spaces or digits was searched in one go, for 8 ms."""
    body = LongList('{"config":{},"offsets":[' + long, "offsets")
    assert sum(part == "" for part in body.parts()) >= len(long) // request_bodies.STRETCH


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.sampled_from('a"\\[]{},: é'), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "offsets"]), inner, max_size=3)
    ),
    max_leaves=8,
)
rows = st.fixed_dictionaries(
    {
        "source_partition": st.dictionaries(st.sampled_from(["a", "offsets"]), values, max_size=2),
        "source_offset": st.none() | st.dictionaries(st.sampled_from(["a", "offsets"]), values, max_size=2),
    }
)
bodies = st.fixed_dictionaries(
    {"config": st.dictionaries(st.sampled_from(["a", "offsets"]), st.sampled_from(['"offsets":[{', "b"]))},
    optional={"other": values, "offsets": st.lists(rows | values, max_size=5), "version": st.just("2")},
)


def outcome(data: bytes, *, in_parts: bool) -> Any:
    """The message; for one that is refused, the fields that are wrong."""
    try:
        return (
            parsed(AlterOffsets, "offsets", data)
            if in_parts
            else AlterOffsets.model_validate_json(data, strict=True)
        )
    except BodyErrors as error:
        return {re.sub(r"^body\.?", "", each.key) for each in error.errors}
    except ValidationError as error:
        return {".".join(map(str, each["loc"])) for each in error.errors()}


@given(body=bodies, indent=st.none() | st.integers(0, 2), part=st.integers(1, 60))
def test_the_result_is_that_of_one_go(body: dict[str, object], indent: int | None, part: int) -> None:
    data = json.dumps(body, indent=indent, ensure_ascii=part % 2 == 0).encode()
    with patch.object(request_bodies, "PART", part), patch.object(request_bodies, "STRETCH", 2 + part % 4):
        assert outcome(data, in_parts=True) == outcome(data, in_parts=False)


@given(
    body=bodies,
    at=st.integers(0, 200),
    cut=st.integers(0, 3),
    put=st.sampled_from(["", ",", "{", "}", "[", "]", '"', "\\", "1", " ", "\x00", ":", "\u00a0"]),
)
def test_what_is_no_json_is_refused_as_in_one_go(
    body: dict[str, object], at: int, cut: int, put: str
) -> None:
    text = json.dumps(body)
    data = (text[:at] + put + text[at + cut :]).encode()
    with patch.object(request_bodies, "PART", 1), patch.object(request_bodies, "STRETCH", 2):
        in_parts, in_one = outcome(data, in_parts=True), outcome(data, in_parts=False)
    assert isinstance(in_parts, set) == isinstance(in_one, set)
    if not isinstance(in_parts, set):
        assert in_parts == in_one


def test_a_list_that_is_there_twice_is_refused() -> None:
    assert outcome(b'{"config":{},"offsets":[],"offsets":[]}', in_parts=True) == {""}


def test_errors_name_the_item_in_the_whole_list() -> None:
    rows: list[dict[str, object]] = [{"source_partition": {}, "source_offset": None}] * 1_000
    rows[700] = {"source_partition": {}}
    data = json.dumps({"config": {}, "offsets": rows, "protocol": "1"}).encode()
    assert outcome(data, in_parts=True) == {"offsets.700.source_offset", "protocol"}


@pytest.mark.parametrize("wrong", [MOST_ERRORS + 1, 5_000])
def test_many_errors_are_counted(wrong: int) -> None:
    data = json.dumps({"config": {}, "offsets": [1] * wrong}).encode()
    with pytest.raises(BodyErrors) as refused:
        parsed(AlterOffsets, "offsets", data)
    (error,) = refused.value.errors
    assert error.message == f"{wrong} fields are not of the contract's form"


def test_one_item_and_all_beside_the_list_have_a_limit() -> None:
    texts = [""] * (MOST_TEXTS + 1)
    for body in (
        {"config": {}, "offsets": [{"source_partition": {"a": texts}, "source_offset": None}]},
        {"config": {}, "other": texts, "offsets": []},
    ):
        with pytest.raises(TooLarge, match="more than 20000 names and texts"):
            parsed(AlterOffsets, "offsets", json.dumps(body).encode())


def test_a_list_of_names_is_read_in_parts_too() -> None:
    groups = [f"group-{number}" for number in range(30_000)]
    data = json.dumps({"flow": "A-to-B", "groups": groups}).encode()
    assert parsed(MoveGroups, "groups", data) == MoveGroups(flow="A-to-B", groups=groups)
    with pytest.raises(BodyErrors, match="at most 100000 items"):
        parsed(MoveGroups, "groups", json.dumps({"flow": "A-to-B", "groups": ["a"] * 100_001}).encode())

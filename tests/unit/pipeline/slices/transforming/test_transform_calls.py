"""Transforms in their own process: what becomes of records, whatever a transform does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.kafka.record.batch import parse
from bridge.kafka.record.columns import Records
from bridge.kafka.record.compression import Compression
from bridge.model.copying import Transform
from bridge.pipeline.slices.transforming.calls import Calls, Outcome, TransformUnusable
from tests.support.forms import mostly_long
from tests.unit.kafka.record.raw_batches import NONE, NOW, Plain, batch_of, plain_records
from tests.unit.pipeline.values import copied, spec


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[5])


def own(function: str, **parameters: str) -> Transform:
    return Transform(function, f"tests.own_transforms.{function}", parameters)


def records(values: Sequence[bytes | None], base: int = 100) -> Records:
    (raw,) = parse(batch_of([Plain(NOW, b"key", value, (("h", b"1"),)) for value in values], base))
    return Records.from_batch(raw)


def outcomes(
    values: Sequence[bytes | None],
    *transforms: Transform,
    timeout: float = 5.0,
    memory: int = 64 * 1024 * 1024,
    times: int = 1,
) -> list[Outcome]:
    async def through() -> list[Outcome]:
        limited = spec(transforms=transforms, transform_timeout=timeout, transform_memory=memory)
        calls = Calls(limited)
        place = replace(copied(3), transforms=tuple(range(len(transforms))))
        try:
            collected = []
            for at in range(times):
                given = records(values, 100 + at * len(values))
                collected += [each async for each in calls.through(place, given)]
            return collected
        finally:
            await calls.close()

    return asyncio.run(through())


def left(results: Sequence[Outcome]) -> dict[int, bytes | None]:
    return {
        int(offset): plain.value
        for each in results
        for some in each.records.values()
        for offset, plain in zip(
            some.columns[0], plain_records(bytes(some.chunk(Compression(NONE), 0).data)), strict=True
        )
    }


def failed(results: Sequence[Outcome]) -> dict[int, str]:
    assert all(each.end == each.first + 1 for each in results if each.failed)
    return {each.first: each.failed for each in results if each.failed}


def whole(results: Sequence[Outcome], count: int) -> bool:
    """Whether they follow each other, and nothing is left."""
    ends = [100, *(each.end for each in results)]
    return ends[-1] == 100 + count and [each.first for each in results] == ends[:-1]


def test_records_go_through_one_after_the_other() -> None:
    result = outcomes([b"a", None, b"c", b"d"], own("upper"), own("even"), times=2)
    assert left(result) == {100: b"A", 102: b"C", 104: b"A", 106: b"C"}
    assert whole(result, 8)


def test_all_may_be_dropped() -> None:
    result = outcomes([b"a", b"b"], own("nothing"), own("upper"))
    assert left(result) == {}
    assert whole(result, 2)


def test_a_transform_does_not_inherit_our_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIRROR_BRIDGE_AUTH_TOKEN", "MIRROR_BRIDGE_READ_TOKEN", "mirror_bridge_auth_token"):
        monkeypatch.setenv(name, "t0ken-4711")
    monkeypatch.setenv("OF_THE_OPERATOR", "kept")
    (result,) = left(outcomes([b"a"], own("inherits"))).values()
    assert result is not None
    assert b"OF_THE_OPERATOR=kept" in result
    assert b"t0ken-4711" not in result


VALUES = [b"value %d" % number for number in range(30)]
POISONED = [*VALUES[:2], b"poison", *VALUES[3:5]]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("raises", "transform raises: it failed with KeyError: 'no such country' (own_transforms.py, line "),
        ("hangs", "transform hangs: it took longer than bridge.transform.timeout.ms (1000) allows"),
        (
            "grows",
            "transform grows: it took more memory than bridge.transform.memory.bytes (67108864) allows",
        ),
        ("aborts", "transform aborts: its process ended (signal SIGABRT)"),
    ],
)
def test_the_records_that_a_transform_fails_with_are_found(function: str, why: str) -> None:
    timeout = 1.0 if function == "hangs" else 5.0
    result = outcomes(POISONED, own("upper"), own(function, mark="POISON"), timeout=timeout)
    assert list(failed(result)) == [102]
    assert all(message.startswith(why) for message in failed(result).values()), failed(result)
    assert left(result) == {100 + at: value.upper() for at, value in enumerate(VALUES[:5]) if at != 2}
    assert whole(result, 5)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("reverses", "transform reverses: it returned offset 100 behind 101: records stay in order"),
        ("doubles", "transform doubles: it returned 2 records for 1: never more than it was given"),
    ],
)
def test_what_breaks_the_contract_is_named(function: str, why: str) -> None:
    result = outcomes([b"a", b"b"], own(function))
    if function == "reverses":  # of a single record nobody can tell
        assert left(result) == {100: b"a", 101: b"b"}
    else:
        assert [message.startswith(why) for message in failed(result).values()] == [True, True]


def test_what_is_slow_as_a_whole_only_goes_through_in_parts() -> None:
    result = outcomes(VALUES, own("slow", per_record="0.02"), timeout=0.4, times=2)
    assert len(left(result)) == 60
    assert failed(result) == {}


def test_what_it_prints_is_not_in_the_way(capfd: pytest.CaptureFixture[str]) -> None:
    assert len(left(outcomes(VALUES, own("prints")))) == 30
    assert "a word on standard output" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("transform", "why"),
    mostly_long(
        [
            (
                Transform("a", "no_such_module.f", {}),
                "a (python:no_such_module.f): it failed with ModuleNotFoundError",
            ),
            (
                own("fails_without_records"),
                "it failed with IndexError: index out of bounds (own_transforms.py, line",
            ),
            (
                own("no_such_function"),
                "no_such_function (python:tests.own_transforms.no_such_function): it failed with Attri",
            ),
            (
                own("even", wrong="1"),
                "called with a batch without records, it failed with TypeError: even() got an unexpected keyword",
            ),
            (
                Transform("m", "bridge.transforms.mask_fields", {"fields": "a..b"}),
                "ValueError: a..b is no path",
            ),
        ],
        short=2,
    ),
)
def test_what_can_not_be_called_at_all_is_told_before_any_record(transform: Transform, why: str) -> None:
    with pytest.raises(TransformUnusable) as caught:
        outcomes([b"a"], own("upper"), transform)
    assert why in str(caught.value)
    assert str(caught.value).startswith("bridge.transforms: ")


def children() -> set[int]:
    mine = set()
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            mine.add(int(each.name))
    return mine


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


MASK = Transform("mask", "bridge.transforms.mask_fields", {"fields": "email"})
PLAIN = [b'{"email":"a@b.c","n":1}', None, b'{"n":2}']


def test_masks_of_plain_records_take_no_process() -> None:
    before = children()

    async def through() -> list[Outcome]:
        calls = Calls(spec(transforms=(MASK,)))
        await calls.start()
        result = [each async for each in calls.through(replace(copied(3), transforms=(0,)), records(PLAIN))]
        assert children() == before
        await calls.close()
        return result

    outcome = asyncio.run(through())
    assert left(outcome) == {100: b'{"email":"","n":1}', 101: None, 102: b'{"n":2}'}
    assert [each.records.keys() for each in outcome] == [{copied(3).target_topic}]
    (raw,) = parse(batch_of([Plain(NOW, b"key", value, (("h", b"1"),)) for value in PLAIN], 100))
    untouched = outcomes([None, b'{"n":2}', b"{}"], MASK)
    assert [(plain.key, plain.headers) for plain in plain_records(whole_bytes(untouched))] == [
        (plain.key, plain.headers) for plain in plain_records(raw.data)
    ]


def whole_bytes(results: Sequence[Outcome]) -> bytes:
    (some,) = results[0].records.values()
    return bytes(some.chunk(Compression(NONE), 0).data)


def test_what_is_not_plain_goes_through_the_process_and_comes_out_in_its_place() -> None:
    odd = [*PLAIN, b'{"email":1,"email":2}', b'{"a":{"email":"x"}}']
    result = outcomes(odd, MASK, times=2)
    assert list(left(result).values())[:5] == [
        b'{"email":"","n":1}',
        None,
        b'{"n":2}',
        b'{"email":0}',
        b'{"a":{"email":"x"}}',
    ]
    assert whole(result, 10)
    broken = outcomes([*PLAIN, b"not JSON"], MASK)
    assert list(failed(broken)) == [103]
    assert failed(broken)[103].startswith("transform mask: it failed with ")


def test_masks_beside_others_go_through_the_process_all() -> None:
    assert list(left(outcomes(PLAIN, MASK, own("even"))).values()) == [b'{"email":"","n":1}', b'{"n":2}']

"""The HTTP process looks at all of its objects only when no call is under way."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from bridge.service import serve
from bridge.service.serve import LOOK_SECONDS, MOST_SECONDS, collect, due, keep_what_exists


class Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def passes() -> Iterator[list[int]]:
    """The generation of each pass since what existed was kept."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    before = gc.get_threshold()
    # As in a process that serves: tests before this one may have made passes rare for their own sake.
    gc.set_threshold(700, 10, 10)
    keep_what_exists()
    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.set_threshold(*before)
    gc.unfreeze()


def test_objects_that_become_many_are_not_looked_at_again_and_again(passes: list[int]) -> None:
    """A pattern of a megabyte becomes a million tuples and more: that took up to 120 ms for each quarter."""
    alive = [[number] for number in range(200_000)]
    assert len(alive) == 200_000
    assert set(passes) == {0, 1}


def test_garbage_goes_once_no_call_is_under_way(passes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "LOOK_SECONDS", 0.01)
    in_use = 1

    async def run() -> None:
        nonlocal in_use
        task = asyncio.create_task(collect(lambda: in_use))
        old = Cycle()
        gc.collect(1)  # it is of the oldest generation now
        collected = asyncio.Event()
        weakref.finalize(old, collected.set)
        del old
        await asyncio.sleep(0.1)
        assert 2 not in passes, "while a call is under way"
        assert not collected.is_set()
        in_use = 0
        async with asyncio.timeout(30):
            await collected.wait()
        task.cancel()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("idle_for", "since", "now"),
    [
        (1.0, LOOK_SECONDS, True),
        (1.0, LOOK_SECONDS - 0.1, False),
        (0.0, MOST_SECONDS - 0.1, False),
        (0.0, MOST_SECONDS, True),
    ],
)
def test_when_to_look(idle_for: float, since: float, now: bool) -> None:
    assert due(idle_for, since) is now

"""Runs rounds on request: an operator has a connector run one now instead of at its next interval."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Generic, TypeVar

from bridge.errors import OperationRefused

R = TypeVar("R")

MOST_NAMES = 1_000
"""Names that an answer lists at most of those that are new, and of those that are gone."""


class RequestedRounds(Generic[R]):
    """Requests for a round, with its result of type `R`. `wake` is set when one is requested, and cleared by whoever
    waits for it."""

    def __init__(self, wake: asyncio.Event | None = None) -> None:
        self.wake = wake or asyncio.Event()
        self._waiting: list[asyncio.Future[R]] = []
        self._under_way: list[asyncio.Future[R]] = []

    async def round(self) -> R:
        """Requests a round and returns its result. One under way does not count: it may have read older state."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.wake.set()
        return await future

    def begin(self) -> bool:
        """Begins a round; returns whether it was requested."""
        self._under_way += self._waiting
        self._waiting = []
        return bool(self._under_way)

    def end(self, outcome: R) -> None:
        """Ends the round, and hands its result to those who requested it."""
        for future in self._under_way:
            if not future.done():
                future.set_result(outcome)
        self._under_way = []

    def refuse(self, error: Exception) -> None:
        """Fails all requests: no round will come."""
        self.begin()
        for future in self._under_way:
            if not future.done():
                future.set_exception(error)
        self._under_way = []


def refresh_answer(before: Collection[str], after: Collection[str]) -> dict[str, Any]:
    """Returns the answer to a refresh, from the names before and after it."""
    added, removed = sorted(set(after) - set(before)), sorted(set(before) - set(after))
    return {
        "found": len(after),
        "added": added[:MOST_NAMES],
        "removed": removed[:MOST_NAMES],
    }


def does_not_run(name: str) -> OperationRefused:
    return OperationRefused(
        f"connector {name} does not run: it is disabled (enabled=false), paused or stopped, or no task of it polls; "
        "its conditions in /health say which"
    )


def not_offered(name: str, operation: str) -> OperationRefused:
    return OperationRefused(f"connector {name} is of a kind that has no operation {operation}")

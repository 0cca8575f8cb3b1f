"""Waits of tests: in an event loop, and for brokers that are away; `bridge.local.eventually` is for all others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from bridge.local import eventually
from bridge.local.processes import Watched
from tests.support.waits import WAIT

T = TypeVar("T")

_AWAY = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
}


async def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until the condition holds. Raises AssertionError when it does not in time."""
    end = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < end, f"the condition did not hold within {seconds:g} s"
        await asyncio.sleep(0.001)


def once_back(call: Callable[[], T], what: str, seconds: float = 60.0) -> T:
    """The result of a call that may be repeated. A broker that was killed, or whose machine stood still, is away for a
    moment, or leads nothing; any other error is raised at once."""

    def attempt() -> T | KafkaException:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() in _AWAY:
                raise
            return error

    result = eventually(attempt, seconds, what=what)
    if isinstance(result, KafkaException):
        raise result
    return result


def wait_equal(ask: Callable[[], T], expected: T, watched: Iterable[Watched] = ()) -> T:
    """Waits until the answer is the expected one; fails with the last answer beside it."""

    def equal() -> tuple[T]:
        found = ask()
        assert found == expected
        return (found,)  # False alone would say that it does not hold yet

    return eventually(equal, WAIT, what=f"the answer is {expected!r}", watched=watched)[0]


def wait_true(ask: Callable[[], bool], watched: Iterable[Watched] = ()) -> None:
    wait_equal(ask, True, watched)

"""Asking a cluster: what is waited for, and what is not."""

from __future__ import annotations

import asyncio

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.spark.planning import patiently


def asked(*faults: KafkaFault, seconds: float = 30.0) -> int:
    """How often it is asked, with these failures first."""
    failures = list(faults)
    count = 0

    async def ask() -> int:
        nonlocal count
        count += 1
        if failures:
            raise KafkaFailure(failures.pop(0), "it failed")
        return count

    return asyncio.run(patiently(ask, seconds))


def test_what_time_heals_is_waited_for() -> None:
    assert asked(KafkaFault.LEADER_MOVED, KafkaFault.UNREACHABLE) == 3


@pytest.mark.parametrize(
    "fault", [KafkaFault.NOT_AUTHORIZED, KafkaFault.CREDENTIALS, KafkaFault.UNKNOWN_TOPIC]
)
def test_a_missing_right_is_named_at_once(fault: KafkaFault) -> None:
    with pytest.raises(KafkaFailure, match="it failed"):
        asked(fault)


def test_no_longer_than_so_many_seconds() -> None:
    with pytest.raises(KafkaFailure, match="it failed"):
        asked(KafkaFault.UNREACHABLE, seconds=0.0)

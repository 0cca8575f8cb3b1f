"""Failures of a duty's rounds: pauses grow while they last, and begin again after a round without any."""

from __future__ import annotations

import pytest

from bridge.backoff import JITTER
from bridge.errors import KafkaFailure, KafkaFault
from connectors.source.task import FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, DutyFailures

UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "connection refused")
REFUSED = KafkaFailure(KafkaFault.CREDENTIALS, "bad password")


def test_pauses_grow_and_begin_again_after_a_round_without_failures() -> None:
    failures = DutyFailures(())
    for _ in range(10):
        failures.record([UNREACHABLE])
    assert failures.pause >= LONGEST_RETRY_SECONDS * (1 - JITTER)
    failures.record([])
    assert not failures
    failures.record([UNREACHABLE])
    assert failures.pause == pytest.approx(FIRST_RETRY_SECONDS, rel=JITTER)


def test_a_failure_lasts_and_is_permanent_only_in_rounds_in_a_row() -> None:
    failures = DutyFailures({KafkaFault.CREDENTIALS})
    failures.record([REFUSED, UNREACHABLE])
    failures.record([REFUSED])
    assert failures.lasting == [str(REFUSED)]
    assert failures.failure is None
    failures.record([REFUSED])
    assert failures.failure is REFUSED
    failures.record([])
    failures.record([REFUSED])
    assert failures.lasting == []
    assert failures.failure is None

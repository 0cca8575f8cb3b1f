"""Failures of a cluster in a row: pauses grow while they last, and begin again after a success."""

from __future__ import annotations

import pytest

from bridge.backoff import JITTER
from bridge.errors import KafkaFailure, KafkaFault
from connectors.cluster_away import FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, Failures

UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "connection refused")
REFUSED = KafkaFailure(KafkaFault.CREDENTIALS, "bad password")


def test_pauses_grow_and_begin_again_after_a_success() -> None:
    failures = Failures()
    for _ in range(8):
        failures.add(UNREACHABLE)
    assert failures.pause >= LONGEST_RETRY_SECONDS * (1 - JITTER)
    failures.clear()
    assert not failures
    failures.add(UNREACHABLE)
    assert failures.pause == pytest.approx(FIRST_RETRY_SECONDS, rel=JITTER)


def test_a_success_ends_failures_that_last_and_credentials_that_stay_wrong() -> None:
    failures = Failures()
    for _ in range(3):
        failures.add(REFUSED)
    assert failures.lasting
    assert failures.permanent
    failures.clear()
    failures.add(REFUSED)
    assert not failures.lasting
    assert not failures.permanent

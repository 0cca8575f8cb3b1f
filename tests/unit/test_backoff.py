"""Pauses between attempts: they grow, stay below their limit, begin again, and differ between those who wait."""

from __future__ import annotations

import pytest

from bridge.backoff import JITTER, Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 5.0)
    pauses = [backoff.next() for _ in range(8)]
    for pause, middle in zip(pauses, [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0], strict=True):
        assert middle * (1 - JITTER) <= pause <= min(5.0, middle * (1 + JITTER))


def test_they_begin_again_after_a_success() -> None:
    backoff = Backoff(0.5, 5.0)
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.next() == pytest.approx(0.5, rel=JITTER)


def test_many_who_failed_together_do_not_come_back_together() -> None:
    assert len({Backoff(1.0, 60.0).next() for _ in range(100)}) > 50

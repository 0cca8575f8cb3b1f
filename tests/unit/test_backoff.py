"""Pauses between attempts: they grow, stay below their limit, begin again, and differ between those who wait."""

from __future__ import annotations

import pytest

from bridge.backoff import JITTER, Backoff, pauses


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 5.0)
    found = [backoff.next() for _ in range(8)]
    for pause, middle in zip(found, [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0], strict=True):
        assert middle * (1 - JITTER) <= pause <= min(5.0, middle * (1 + JITTER))


def test_they_begin_again_after_a_success() -> None:
    backoff = Backoff(0.5, 5.0)
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.next() == pytest.approx(0.5, rel=JITTER)


def test_many_who_failed_together_do_not_come_back_together() -> None:
    assert len({Backoff(1.0, 60.0).next() for _ in range(100)}) > 50


def test_so_many_retries_have_so_many_pauses() -> None:
    first, second, last = pauses(0.3, 0.6, 3)
    assert first == pytest.approx(0.3, rel=JITTER)
    assert 0.6 * (1 - JITTER) <= min(second, last) <= max(second, last) <= 0.6
    assert list(pauses(0.3, 0.6, 0)) == []

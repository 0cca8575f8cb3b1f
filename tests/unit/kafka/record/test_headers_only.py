"""Sizes by headers of batches."""

from __future__ import annotations

from bridge.kafka.record.batch import bytes_an_offset
from tests.unit.kafka.record.raw_batches import batch, legacy


def test_a_header_is_enough() -> None:
    data = batch(100, 4)
    assert bytes_an_offset(data) == bytes_an_offset(data[:61]) == len(data) / 4
    assert bytes_an_offset(batch(0, 4, without=(1, 2))) is not None


def test_what_is_no_header_says_nothing() -> None:
    for data in (b"", batch(0)[:60], legacy(1, 0, 0), b"\xff" * 100, bytes(16) + b"\2" + bytes(80)):
        assert bytes_an_offset(data) is None

"""Kafka's default partitioner over columns of keys."""

from __future__ import annotations

import numpy as np
import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record.arrow_columns import Texts
from bridge.kafka.record.hashes import NO_KEY, keyed_partitions


def column(keys: list[bytes | None]) -> Texts:
    there = np.packbits(np.array([key is not None for key in keys], bool), bitorder="little")
    ends = np.cumsum([0, *(len(key or b"") for key in keys)]).astype(np.int32)
    return Texts(there, ends, np.frombuffer(b"".join(key or b"" for key in keys), np.uint8))


@given(st.lists(st.none() | st.binary(max_size=40), max_size=20), st.integers(1, 100))
def test_keys_go_where_the_librarys_partitioner_puts_them(keys: list[bytes | None], partitions: int) -> None:
    expected = [NO_KEY if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]
    assert keyed_partitions(column(keys), len(keys), partitions).tolist() == expected


def test_values_of_javas_utils_test() -> None:
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    found = keyed_partitions(column(list(known)), len(known), 1 << 31)
    assert found.tolist() == [value & 0x7FFFFFFF for value in known.values()]


def test_a_column_that_does_not_end_where_it_says_is_an_error() -> None:
    keys = column([b"abc"])
    with pytest.raises(ValueError, match="does not end"):
        keyed_partitions(keys._replace(data=keys.data[:2]), 1, 3)
    with pytest.raises(ValueError, match="does not end"):
        keyed_partitions(keys, 2, 3)

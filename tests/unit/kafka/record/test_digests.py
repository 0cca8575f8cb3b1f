"""Digests of records: the same in whatever batch, another one for whatever differs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record.arrow_columns import BrokenRecord
from bridge.kafka.record.batch import parse
from bridge.kafka.record.columns import Records
from bridge.kafka.record.hashes import DIGEST, KEY, OFFSET, TIMESTAMP, TOMBSTONE, digested
from tests.unit.kafka.record.raw_batches import NOW, Plain, batch_of

BYTES = st.none() | st.binary(max_size=30)
PLAIN = st.builds(
    Plain,
    st.sampled_from([0, NOW, NOW + 1]),
    BYTES,
    BYTES,
    st.lists(st.tuples(st.text("aä", max_size=2), BYTES), max_size=3).map(tuple),
)


def records(plain: list[Plain | None], base: int = 0) -> Records:
    (batch,) = parse(batch_of(plain, base))
    return Records.from_batch(batch)


@given(st.lists(PLAIN, min_size=1, max_size=8), st.integers(0, 1000))
def test_what_a_batch_is_like_does_not_matter(plain: list[Plain], base: int) -> None:
    together = digested(records(list(plain), base), timed=True)
    alone = [digested(records([each]), timed=True) for each in plain]
    assert together[DIGEST].tolist() == [int(each[DIGEST, 0]) for each in alone]
    assert together[OFFSET].tolist() == list(range(base, base + len(plain)))
    assert together[TIMESTAMP].tolist() == [each.timestamp for each in plain]
    assert together[TOMBSTONE].tolist() == [int(each.value is None) for each in plain]
    assert [not key for key in together[KEY].tolist()] == [each.key is None for each in plain]


@given(PLAIN, PLAIN)
def test_records_that_differ_have_other_digests(one: Plain, other: Plain) -> None:
    first, second = (int(digested(records([each]), timed=True)[DIGEST, 0]) for each in (one, other))
    assert (first == second) == (one == other)


@given(PLAIN)
def test_timestamps_count_only_where_they_are_asked_for(plain: Plain) -> None:
    later = plain._replace(timestamp=plain.timestamp + 5)
    one, other = (digested(records([each]), timed=False)[DIGEST, 0] for each in (plain, later))
    assert one == other


def test_digests_do_not_change() -> None:
    """Those that somebody has kept can be held against new ones."""
    plain = Plain(1_700_000_000_000, b"key", b"a value of more than eight bytes", (("h", b"1"), ("n", None)))
    found = digested(records([plain]), timed=True)
    assert found[[DIGEST, KEY], 0].tolist() == [-1160160232190656467, 2037892724762093706]


def test_what_is_no_record_is_named() -> None:
    sound = records([Plain(0, b"k", b"v"), Plain(0, b"k", b"v")])
    columns = sound.columns.copy()
    columns[3, 1] -= 1
    with pytest.raises(BrokenRecord) as caught:
        digested(Records(sound.data, np.ascontiguousarray(columns)), timed=True)
    assert caught.value.row == 1

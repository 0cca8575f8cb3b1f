"""Lists of a run's holes, against places that are counted one by one."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.state_records.fields import SchemaError
from bridge.translation.runs import holes
from bridge.translation.runs.holes import (
    CopySpan,
    Holes,
    beginning,
    join,
    listed,
    room,
    short,
    skipped_only,
    spans,
)

STRETCHES = st.lists(
    st.builds(CopySpan, st.integers(1, 4), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12
).map(lambda spans: [*spans[:-1], CopySpan(spans[-1].copies)])


def pairs(some: list[CopySpan]) -> list[tuple[int, int]]:
    """Where each record and its copy stand."""
    collected: list[tuple[int, int]] = []
    upstream = downstream = 0
    for each in some:
        collected += ((upstream + at, downstream + at) for at in range(each.copies))
        upstream += each.copies + each.skipped
        downstream += each.copies + each.extra
    return collected


@given(STRETCHES)
def test_each_copy_is_found_from_either_side(some: list[CopySpan]) -> None:
    encoded, copies = listed(some), pairs(some)
    known = Holes(encoded)
    assert (known.copies, known.tells_extra) == (len(copies), True)
    assert [(known.upstream(copy), known.downstream(copy)) for copy in range(len(copies))] == copies
    assert known.skipped == copies[-1][0] + 1 - len(copies)
    assert known.extra == copies[-1][1] + 1 - len(copies)
    for offset in range(-1, max(copies[-1]) + 3):
        assert known.copies_before(offset) == sum(upstream < offset for upstream, _ in copies)
        assert known.copies_below(offset) == sum(downstream < offset for _, downstream in copies)
    assert spans(encoded) == some
    assert len(encoded) == 1 + sum(map(room, some)) - 1  # the last one's hole is left out


@given(STRETCHES, st.integers(0, 300), st.integers(0, 300), STRETCHES)
def test_two_lists_and_the_hole_between_are_one(
    older: list[CopySpan], skipped: int, extra: int, newer: list[CopySpan]
) -> None:
    both = [*older[:-1], CopySpan(older[-1].copies, skipped, extra), *newer]
    assert join(listed(older), skipped, extra, listed(newer), 0) == listed(both)
    alone = skipped_only(both, 0)
    for left in (listed(older), skipped_only(older, 0)):
        for right in (listed(newer), skipped_only(newer, 0)):
            if left[:1] == right[:1] == holes.EVERYTHING:
                continue
            assert join(left, skipped, extra, right, 0) == alone
    known = Holes(alone)
    assert (known.tells_extra, known.extra, known.skipped) == (False, 0, Holes(listed(both)).skipped)
    for offset in range(0, pairs(both)[-1][0] + 2, 7):
        assert known.copies_before(offset) == Holes(listed(both)).copies_before(offset)
    assert join(listed(older), skipped, extra, b"", 0) == join(b"", skipped, extra, listed(newer), 0) == b""


@given(STRETCHES, st.data())
def test_a_list_may_be_cut(some: list[CopySpan], data: st.DataObject) -> None:
    copies = data.draw(st.integers(1, len(pairs(some))))
    assert pairs(spans(beginning(listed(some), copies))) == pairs(some)[:copies]


def test_what_is_too_long_leaves_out_the_target_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "MOST_BYTES", 8)
    few = [CopySpan(3, 0, 1), CopySpan(3, 2, 1), CopySpan(3)]
    assert short(few, 0) == listed(few)
    more = [CopySpan(3, 0, 1)] * 5 + few
    alone = holes.SKIPPED_ONLY + bytes((21, 1, 2, 3))
    assert short(more, 0) == skipped_only(more, 0) == alone
    many = [CopySpan(1, 1)] * 5 + few
    assert join(alone, 1, 1, listed(few), 0) == b""
    assert short(many, 0) == b""
    assert short(many, 100 * holes.PART) == skipped_only(many, 100 * holes.PART) != b""


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        ("", "begin with nothing"),
        ("0301", "begin with 03"),
        ("01", "do not end with a copy"),
        ("010302", "do not end with a copy"),
        ("01030200", "no copy between"),
        ("010381", "cut short"),
        ("0103030205" + "02" + "ff" * 9 + "01", "too large"),
    ],
)
def test_what_is_no_list_is_named(encoded: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Holes(bytes.fromhex(encoded))


@given(st.binary(max_size=60))
def test_damage_is_a_schema_error_and_nothing_else(rest: bytes) -> None:
    with suppress(SchemaError):
        Holes(holes.EVERYTHING + rest)

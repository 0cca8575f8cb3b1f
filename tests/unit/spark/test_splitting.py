"""Spark partitions by bytes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bridge.model.values import TopicPartition
from bridge.spark.offsets import OffsetRange
from bridge.spark.planning import split

MB = 1 << 20


def part(number: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(TopicPartition("orders", number), "id", start, end)


def test_a_large_range_is_cut_and_small_ones_go_together() -> None:
    whole = [part(0, 0, 1000), *(part(number, 5, 15) for number in range(1, 4))]
    sizes = {each.tp: float(MB // 10) for each in whole}
    parts = split(whole, sizes, max_bytes=25 * MB)
    assert parts[:4] == [(part(0, at, at + 250),) for at in range(0, 1000, 250)]
    assert parts[4:] == [tuple(whole[1:])]


def test_there_are_at_least_so_many_partitions() -> None:
    assert len(split([part(0, 0, 10)], {}, max_bytes=64 * MB, min_partitions=4)) == 4
    assert len(split([part(0, 0, 3)], {}, max_bytes=64 * MB, min_partitions=4)) == 3
    assert split([], {}, max_bytes=MB, min_partitions=4) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 1000), st.integers(1, 5000), st.floats(1, 1e6)), min_size=1, max_size=20
    ),
    st.integers(1, 64),
    st.integers(1, 40),
    st.none() | st.integers(100, 6000),
)
def test_every_offset_is_read_once(
    shapes: list[tuple[int, int, float]], megabytes: int, min_partitions: int, max_offsets: int | None
) -> None:
    whole = [part(number, start, start + count) for number, (start, count, _) in enumerate(shapes)]
    sizes = {each.tp: shape[2] for each, shape in zip(whole, shapes, strict=True)}
    parts = split(
        whole, sizes, max_bytes=megabytes * MB, min_partitions=min_partitions, max_offsets=max_offsets
    )
    if max_offsets is not None:
        assert all(sum(piece.end - piece.start for piece in one) <= max_offsets for one in parts)
    for each in whole:
        pieces = sorted(piece for part in parts for piece in part if piece.tp == each.tp)
        assert pieces[0].start == each.start
        assert pieces[-1].end == each.end
        assert all(one.end == other.start for one, other in pairwise(pieces))
    for ranges in parts:
        assert len({each.tp for each in ranges}) == len(ranges)
        held = sum((each.end - each.start) * sizes[each.tp] for each in ranges)
        assert held <= 2 * megabytes * MB or all(each.end - each.start <= 2 for each in ranges)
    assert (
        len(parts) >= min(min_partitions, sum(each.end - each.start for each in whole)) or min_partitions > 8
    )

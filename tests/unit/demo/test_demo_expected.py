"""The demo's own judge: matching two logs in order, and counting what is read again."""

from __future__ import annotations

import random

import pytest

from bridge.demo.answers import align, exact_offset, reread
from bridge.demo.logs import Content, Entry, PartitionLog, digest


def entries(text: str, *offsets: int) -> list[Entry]:
    """A record a letter; offsets from 0 unless given."""
    numbers = offsets or tuple(range(len(text)))
    return [Entry(offset, letter.encode()) for offset, letter in zip(numbers, text, strict=True)]


@pytest.mark.parametrize(
    ("source", "target", "committed", "exact"),
    [
        pytest.param(entries("abcd"), entries("abcd"), 2, 2, id="plain"),
        pytest.param(entries("abcd"), entries("abcd"), 4, 4, id="caught up"),
        pytest.param(entries("abcd"), entries("abcd"), 0, 0, id="head"),
        pytest.param(entries("abcd", 0, 1, 5, 6), entries("abcd"), 3, 2, id="in a hole"),
        pytest.param(entries("abcd", 3, 4, 5, 6), entries("abcd"), 0, 0, id="before the first record"),
        pytest.param(entries("abcd"), entries("cd", 10, 11), 0, 10, id="mirror began late"),
        pytest.param(entries("abcd"), entries("ab"), 3, 2, id="not mirrored yet"),
        pytest.param(entries("aaaa"), entries("aaaa"), 2, 2, id="twins"),
        pytest.param(entries("abcd"), entries("abxcd"), 2, 3, id="a foreign record"),
        pytest.param(entries("abcd"), entries("ababcd"), 2, 4, id="copied twice after a restart"),
        pytest.param(entries("abcd"), entries("acd", 0, 2, 3), 1, 2, id="compacted on the target"),
        pytest.param([], [], 0, 0, id="empty"),
    ],
)
def test_exact_is_the_first_copy_at_or_after_the_committed_offset(
    source: list[Entry], target: list[Entry], committed: int, exact: int
) -> None:
    end = target[-1].offset + 1 if target else 0
    assert exact_offset(committed, align(source, target), end) == exact


def test_what_has_no_counterpart_is_counted() -> None:
    result = align(entries("abcd"), entries("axc"))
    assert (result.missing, result.foreign) == (2, 1)


def test_any_thinned_copy_is_matched_record_by_record() -> None:
    chance = random.Random(0)
    source = entries("".join(chr(0x4E00 + number) for number in range(400)))
    for _ in range(50):
        kept = sorted(chance.sample(range(400), chance.randint(0, 400)))
        target = [Entry(offset, source[number].digest) for offset, number in enumerate(kept)]
        result = align(source, target)
        assert result.upstream == tuple(kept)
        assert result.downstream == tuple(range(len(kept)))
        assert (result.missing, result.foreign) == (400 - len(kept), 0)


def test_reread_counts_records_and_not_offsets() -> None:
    log = PartitionLog(entries("abcd", 0, 1, 7, 8), 9)
    assert reread(0, 7, log) == 2
    assert reread(2, 7, log) == 0
    assert reread(7, 7, log) == 0
    assert reread(9, 1, log) == -3
    assert reread(None, 7, log) is None


def test_a_digest_tells_contents_apart() -> None:
    contents = [
        Content(b"k", b"v", 1, ()),
        Content(b"kv", b"", 1, ()),
        Content(b"k", None, 1, ()),
        Content(None, b"v", 1, ()),
        Content(b"k", b"v", 2, ()),
        Content(b"k", b"v", 1, (("h", None),)),
        Content(b"k", b"v", 1, (("h", b""),)),
        Content(b"k", b"v", 1, (("h", b"1"), ("i", b"2"))),
        Content(b"k", b"v", 1, (("i", b"2"), ("h", b"1"))),
    ]
    assert len({digest(each) for each in contents}) == len(contents)
    assert digest(contents[0]) == digest(Content(b"k", b"v", 1, ()))

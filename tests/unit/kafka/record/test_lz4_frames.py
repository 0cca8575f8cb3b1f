"""LZ4 frames, decoded in a compiled loop: what the library decodes, and nothing outside the given bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple

import lz4.block
import lz4.frame
import numpy as np
import pytest
from aiokafka.codec import lz4_encode
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record.jit import as_bytes
from bridge.kafka.record.lz4_frames import EXPANDED, SHORT, expand, plain, xxh32
from tests.support.guard_pages import guarded, guarded_copy

WORDS = st.lists(
    st.sampled_from([b"a", b"abc", bytes(40), b'{"name": "value", ', b"0123456789abcdef!"])
    | st.binary(max_size=30),
    max_size=40,
).map(b"".join)
OPTIONS = st.fixed_dictionaries(
    {
        "compression_level": st.sampled_from([-1, 0, 9]),
        "block_size": st.sampled_from([lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB]),
        "block_linked": st.booleans(),
        "content_checksum": st.booleans(),
        "block_checksum": st.booleans(),
        "store_size": st.booleans(),
    }
)


def frames(*pieces: bytes) -> tuple[bytes, np.ndarray[Any, np.dtype[np.int64]]]:
    """Side by side, and where each begins and ends."""
    ends = list(accumulate(map(len, pieces)))
    return b"".join(pieces), np.array([[0, *ends[:-1]], ends], np.int64).T.copy()


def decoded(*pieces: bytes) -> list[bytes] | None:
    data, places = frames(*pieces)
    before = places.copy()
    found = plain(as_bytes(data), places)
    if found is None:
        assert places.tolist() == before.tolist()
        return None
    assert places[0, 0] == 0
    assert places[1:, 0].tolist() == places[:-1, 1].tolist()
    assert places[-1, 1] == len(found)
    return [bytes(found[begin:end]) for begin, end in places.tolist()]


def library(frame: bytes) -> bytes | None:
    """None for what it does not decode, or has bytes left of."""
    try:
        found, size = lz4.frame.decompress(frame, return_bytes_read=True)
    except RuntimeError:
        return None
    return bytes(found) if size == len(frame) else None


@given(st.lists(st.tuples(WORDS, OPTIONS), min_size=1, max_size=5))
def test_what_the_library_encodes_is_decoded(contents: Sequence[tuple[bytes, dict[str, Any]]]) -> None:
    encoded = [lz4.frame.compress(content, **options) for content, options in contents]
    short = sum(map(len, encoded)) <= SHORT * len(encoded)
    room = sum(map(len, encoded)) * EXPANDED >= sum(len(content) for content, _ in contents)
    assert decoded(*encoded) == ([content for content, _ in contents] if short and room else None)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_what_the_client_library_encodes_is_decoded(contents: list[bytes]) -> None:
    encoded = [lz4_encode(content, 1) for content in contents]
    if sum(map(len, encoded)) * EXPANDED >= sum(map(len, contents)):
        assert decoded(*encoded) == contents


def test_blocks_that_refer_to_those_before_them_are_decoded() -> None:
    content = random.Random(3).randbytes(65_536) + bytes(600)
    content += content[1000:1500]
    for linked in (False, True):
        frame = lz4.frame.compress(content, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=linked)
        data, places = frames(frame)
        out = np.empty(len(content), np.uint8)
        assert expand(as_bytes(data), places, out) == len(content)
        assert bytes(out) == content
        # One of them does refer to the one before.
        assert linked == (len(frame) < 66_000)


@given(
    WORDS,
    OPTIONS,
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4),
    st.integers(0, 9),
)
def test_whatever_is_decoded_the_library_decodes_so_too(
    content: bytes, options: dict[str, Any], changes: list[tuple[int, int]], missing: int
) -> None:
    """What is left to the library (None) may be anything: it is asked then."""
    frame = bytearray(lz4.frame.compress(content, **options))
    for at, byte in changes:
        frame[at % len(frame)] = byte
    del frame[len(frame) - missing :]
    found = decoded(bytes(frame))
    assert found is None or found == [library(bytes(frame))]


class Part(NamedTuple):
    """Of a block: literals, and a match of so many bytes that far back."""

    literals: bytes
    back: int
    size: int

    def __bytes__(self) -> bytes:
        sizes = (len(self.literals), self.size - 4)
        token = bytes((min(sizes[0], 15) << 4 | min(sizes[1], 15),))
        return token + _more(sizes[0]) + self.literals + self.back.to_bytes(2, "little") + _more(sizes[1])


def _more(size: int) -> bytes:
    return b"" if size < 15 else bytes([255] * ((size - 15) // 255) + [(size - 15) % 255])


def reference(block: bytes) -> bytes | None:
    """As the format says it, a byte at a time."""
    data, out = iter(block), bytearray()

    def size(of: int) -> int:
        more = 255 if of == 15 else 0
        while more == 255:
            more = next(data)
            of += more
        return of

    def literals(count: int) -> bool:
        """Whether there are as many."""
        out.extend(found := bytes(islice(data, count)))
        return len(found) == count

    for token in data:
        try:
            if not literals(size(token >> 4)):
                return None
            if (low := next(data, None)) is None:
                return bytes(out)
            back = low | next(data) << 8
            count = size(token & 15) + 4
        except StopIteration:
            return None
        if not 1 <= back <= len(out):
            return None
        for _ in range(count):
            out.append(out[-back])
    return None


def framed(block: bytes) -> bytes:
    """Without checksums."""
    head: bytes = lz4.frame.compress(b"", store_size=False)[:7]
    return head + struct.pack("<I", len(block)) + block + bytes(4)


@given(
    st.lists(st.builds(Part, st.binary(max_size=40), st.integers(0, 90), st.integers(4, 300)), max_size=8),
    st.binary(max_size=300),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=2),
    st.integers(-60, 60),
    st.integers(-20, 12),
    st.integers(-9, 40),
)
def test_a_block_is_what_the_format_says_and_nothing_outside_is_touched(
    parts: list[Part], last: bytes, changes: list[tuple[int, int]], cut: int, missing: int, spare: int
) -> None:
    """Beyond both ends lies what would end this process. `cut` of the block, `missing` of the frame."""
    token = bytes([min(len(last), 15) << 4])
    block = bytearray(b"".join(map(bytes, parts)) + token + _more(len(last)) + last)
    for at, byte in changes:
        block[at % len(block)] = byte
    del block[max(1, len(block) - max(0, cut)) :]
    expected = reference(bytes(block))
    frame = framed(bytes(block))[: -missing if missing > 0 else None]
    data = guarded_copy(frame)
    # For what is wrong as much as a block of that many parts may have, so that it is not the room that is short.
    out = guarded(4000 if expected is None else max(0, len(expected) + spare))
    end = expand(data, np.array([[0, len(data)]], np.int64), out)
    if expected is None or missing > 0 or len(out) < len(expected):
        assert end == -1
    else:
        assert bytes(out[:end]) == expected


LAST = b"the last words, which are longer than sixteen bytes"
BLOCK = (
    b"".join(
        map(
            bytes, (Part(b"0123456789", 9, 40), Part(b"x" * 20, 30, 300), Part(b"", 1, 4), Part(b"yz", 2, 19))
        )
    )
    + bytes((0xF0, len(LAST) - 15))
    + LAST
)
"""Matches that repeat what they write, from near and from far, and sizes with further bytes."""


def _guarded_expand(frame: bytes, room: int) -> bytes | None:
    data, out = guarded_copy(frame), guarded(room)
    end = expand(data, np.array([[0, len(data)]], np.int64), out)
    return bytes(out[:end]) if end >= 0 else None


def test_a_block_that_is_cut_anywhere_is_what_the_format_says() -> None:
    """With the end of its frame behind it, and with nothing."""
    content = reference(BLOCK)
    assert content is not None
    assert content.endswith(LAST)
    for end in range(1, len(BLOCK) + 1):
        found = reference(BLOCK[:end])
        assert _guarded_expand(framed(BLOCK[:end]), len(content)) == found
        assert _guarded_expand(framed(BLOCK[:end])[:-4], len(content)) is None


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(framed(BLOCK), id="compressed"),
        pytest.param(lz4.frame.compress(LAST, block_checksum=True, content_checksum=True), id="stored"),
    ],
)
def test_a_frame_that_is_cut_anywhere_or_has_too_little_room_is_not_decoded(frame: bytes) -> None:
    content = library(frame)
    assert content
    for end in range(len(frame)):
        assert _guarded_expand(frame[:end], len(content)) is None
    for room in range(len(content)):
        assert _guarded_expand(frame, room) is None
    for room in range(len(content), len(content) + 40):
        assert _guarded_expand(frame, room) == content


def _headed(flags: int, kind: int, size: int, content: bytes) -> bytes:
    """A frame of one block that is not compressed, with all checksums right."""
    head = bytes((flags, kind)) + (struct.pack("<Q", size) if flags & 8 else b"")
    frame = struct.pack("<I", 0x184D2204) + head + bytes([_check(head) >> 8 & 0xFF])
    frame += struct.pack("<I", len(content) | 1 << 31) + content
    frame += struct.pack("<I", _check(content)) if flags & 16 else b""
    return frame + bytes(4) + (struct.pack("<I", _check(content)) if flags & 4 else b"")


def _check(data: bytes) -> int:
    return int(xxh32(as_bytes(data), 0, len(data)))


@pytest.mark.parametrize("kind", [0x40, 0x50, 0x60, 0x70, 0x00, 0x30, 0x41, 0xC0])
def test_a_header_is_what_the_format_says(kind: int) -> None:
    right = kind in (0x40, 0x50, 0x60, 0x70)
    for flags in range(256):
        frame = _headed(flags, kind, 3, b"one")
        known = right and flags & 0xC3 == 0x40
        assert decoded(frame) == ([b"one"] if known else None), hex(flags)
        assert not known or library(frame) == b"one"
        assert flags & 8 == 0 or decoded(_headed(flags, kind, 4, b"one")) is None


def test_a_block_has_no_more_than_its_frame_says() -> None:
    for size in (65_536, 65_537):
        content = bytes(size)
        compressed = lz4.block.compress(content, store_size=False)
        for frame in (_headed(0x60, 0x40, 0, content), framed(compressed)):
            out = np.empty(70_000, np.uint8)
            end = expand(as_bytes(frame), np.array([[0, len(frame)]], np.int64), out)
            assert end == (size if size == 65_536 else -1)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(lz4.frame.compress(bytes(2 * SHORT)), id="much more than its frame"),
        pytest.param(lz4.frame.compress(random.Random(1).randbytes(3 * SHORT)), id="long"),
        pytest.param(lz4.frame.compress(b"one") + lz4.frame.compress(b"two"), id="two in one"),
        pytest.param(lz4.frame.compress(b"one") + b"\0", id="bytes behind"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"not a frame at all", id="no frame"),
    ],
)
def test_what_is_not_plain_is_left_to_the_library(frame: bytes) -> None:
    assert decoded(frame) is None
    assert decoded(lz4.frame.compress(b"one"), frame) is None


@pytest.mark.parametrize("check", ["block_checksum", "content_checksum"])
def test_a_bit_that_has_turned_is_seen(check: str) -> None:
    content = b"the same words, the same words, and the same words again"
    frame = lz4.frame.compress(content, store_size=False, **{check: True})
    assert decoded(frame) == [content]
    for at in range(len(frame) * 8):
        damaged = bytearray(frame)
        damaged[at // 8] ^= 1 << at % 8
        found = decoded(bytes(damaged))
        if check == "content_checksum":
            assert found in (None, [content]), at
        else:  # The bit that says the block is not compressed is not among what its checksum is of.
            assert (found is None) == (at != 87), at

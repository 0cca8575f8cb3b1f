"""Encodes the list of a run's holes: which offsets inside it have no copy (docs/offset-runs.md).

    upstream     [r r r . r r r r)         3 copies; then 1 skipped and 2 extra; then 4 copies
    downstream   [c c c M M c c c c)

A list begins with what it holds, EVERYTHING or SKIPPED_ONLY. Then come spans of copies and the holes between them, in
turn, as base-128 varints, lowest bits first: the number of copies of a span, and for the hole behind it `extra * 2`,
plus 1 where something was skipped, which then follows. It ends with a span, so that two lists and the hole between them
are a third one, without decoding either.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from bridge.model.state_records.fields import SchemaError

MOST_BYTES = 2048
"""Bytes of a list at most: some 700 holes. One stands behind each commit, and one behind each transaction of the
source."""
PART = 4096
"""The holes of the source may take up one part in so many of the run's bytes: only the list has them."""
EVERYTHING, SKIPPED_ONLY = b"\x01", b"\x02"
_DECODED = 512
"""Lists kept decoded, of 24 KiB each at most."""
_MOST = 2**63 - 1


class CopySpan(NamedTuple):
    """Copies without a hole between them on either side, and the hole behind them; behind the last span there is
    none."""

    copies: int
    skipped: int = 0
    extra: int = 0


def whole(copies: int, *, extra_known: bool = True) -> bytes:
    """Returns the list of a run of which nothing was skipped."""
    return (EVERYTHING if extra_known else SKIPPED_ONLY) + _varint(copies)


def listed(spans: Iterable[CopySpan]) -> bytes:
    """Returns a list of all holes, however long it gets."""
    return EVERYTHING + _encoded(spans)


def fits(length: int) -> bool:
    """Whether a list of all holes may have so many bytes."""
    return length <= MOST_BYTES


def short(some: Sequence[CopySpan], size: int) -> bytes:
    """Returns as much of a list as a run of so many bytes may have; b"" where that is nothing."""
    hole_list = listed(some)
    return hole_list if fits(len(hole_list)) else skipped_only(some, size)


def beginning(hole_list: bytes, copies: int) -> bytes:
    """Returns the list up to so many copies."""
    result: list[CopySpan] = []
    for span in spans(hole_list):
        if span.copies >= copies:
            result.append(CopySpan(copies))
            break
        result.append(span)
        copies -= span.copies
    return hole_list[:1] + _encoded(result)


def room(span: CopySpan) -> int:
    """Returns the bytes that a span takes up in a list, with the hole behind it."""
    return len(_varint(span.copies)) + len(_hole(span.skipped, span.extra))


def join(older: bytes, skipped: int, extra: int, newer: bytes, size: int) -> bytes:
    """Joins two lists and the hole between them to one, as far as a run of so many bytes may have it. Holes of the
    target are left out first, for its batch headers show most of them; b"" where not even the skipped offsets are
    known."""
    if not (older and newer):
        return b""
    if older[:1] == newer[:1] == EVERYTHING:
        both = older + _hole(skipped, extra) + newer[1:]
        if fits(len(both)):
            return both
    return skipped_only([*spans(older)[:-1], _last(older, skipped), *spans(newer)], size)


def skipped_only(some: Iterable[CopySpan], size: int) -> bytes:
    """Returns a list of the source's holes only; b"" where that is too long."""
    result: list[CopySpan] = []
    copies = 0
    for span in some:
        copies += span.copies
        if span.skipped:
            result.append(CopySpan(copies, span.skipped))
            copies = 0
    encoded = SKIPPED_ONLY + _encoded([*result, CopySpan(copies)])
    return encoded if len(encoded) <= max(MOST_BYTES, size // PART) else b""


def spans(hole_list: bytes) -> list[CopySpan]:
    """Decodes a list. Raises SchemaError for bytes that are none."""
    if hole_list[:1] not in (EVERYTHING, SKIPPED_ONLY):
        raise SchemaError(f"holes begin with {hole_list[:1].hex() or 'nothing'}: 01 and 02 are known")
    result: list[CopySpan] = []
    numbers = _numbers(hole_list[1:])
    for copies in numbers:
        if not copies:
            raise SchemaError("holes with no copy between them")
        hole = next(numbers, None)
        if hole is None:
            result.append(CopySpan(copies))
            return result
        skipped = next(numbers, 0) if hole & 1 else 0
        result.append(CopySpan(copies, skipped, hole >> 1))
    raise SchemaError("holes that do not end with a copy")


class Holes:
    """A decoded list. Offsets count from the run's first ones, copies from its first one."""

    def __init__(self, hole_list: bytes) -> None:
        """Raises SchemaError."""
        self.tells_extra = hole_list[:1] == EVERYTHING
        self._upstream, self._downstream, self._copies = array("q"), array("q"), array("q")
        upstream = downstream = copies = 0
        for span in spans(hole_list):
            self._upstream.append(upstream)
            self._downstream.append(downstream)
            self._copies.append(copies)
            copies += span.copies
            upstream += span.copies + span.skipped
            downstream += span.copies + span.extra
            if max(upstream, downstream) > _MOST:
                raise SchemaError("holes that are too large")
        self.copies, self.skipped, self.extra = copies, upstream - copies, downstream - copies

    @property
    def spans(self) -> tuple[array[int], array[int], array[int]]:
        """The spans of copies: for each its first offset of the source, of the target, and how many copies stand
        before."""
        return self._upstream, self._downstream, self._copies

    def copies_before(self, upstream: int) -> int:
        """Returns how many copies have originals below an offset of the source."""
        return self._below(upstream, self._upstream)

    def copies_below(self, downstream: int) -> int:
        """Returns how many copies stand below an offset of the target."""
        return self._below(downstream, self._downstream)

    def upstream(self, copy: int) -> int:
        return self._offset_of(copy, self._upstream)

    def downstream(self, copy: int) -> int:
        return self._offset_of(copy, self._downstream)

    def _below(self, offset: int, starts: array[int]) -> int:
        position = bisect_right(starts, offset) - 1
        if position < 0:
            return 0
        end = self._copies[position + 1] if position + 1 < len(self._copies) else self.copies
        return min(self._copies[position] + offset - starts[position], end)

    def _offset_of(self, copy: int, starts: array[int]) -> int:
        position = bisect_right(self._copies, copy) - 1
        return starts[position] + copy - self._copies[position]


decoded = lru_cache(_DECODED)(Holes)
"""Decodes a list; returns the same object for the same list."""


def _last(hole_list: bytes, skipped: int) -> CopySpan:
    return spans(hole_list)[-1]._replace(skipped=skipped)


def _encoded(some: Iterable[CopySpan]) -> bytes:
    """Encodes spans; the hole behind the last one is left out."""
    encoded = b""
    parts: list[bytes] = []
    for span in some:
        parts += (encoded, _varint(span.copies))
        encoded = _hole(span.skipped, span.extra)
    return b"".join(parts)


def _hole(skipped: int, extra: int) -> bytes:
    return _varint(2 * extra + 1) + _varint(skipped) if skipped else _varint(2 * extra)


@lru_cache(1024)
def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            yield number
            number = shift = 0
        else:
            shift += 7
    if shift:
        raise SchemaError("holes that are cut short")

"""Masks fields of JSON objects in compiled loops, at nearly the speed of a copy.

Values that are not plain (paths inside other values, names that occur twice or are escaped, anything that is not JSON)
are left to json_paths, which words the errors; what both can mask comes out the same, to the byte.

Finds where JSON values end, in compiled loops. Nothing is read outside the given bytes, whatever they are.
"""

from __future__ import annotations

import numpy as np

from bridge.kafka.record.loops import IN, WIDE, Bytes, Numbers, compiled, copy_wide, part, plain

_MOST_DEEP = 60
NO = -1
"""Not found, or not plain."""
QUOTE, BACKSLASH, COMMA, COLON, _MINUS, _DOT = 0x22, 0x5C, 0x2C, 0x3A, 0x2D, 0x2E
OPEN, CLOSE, _LIST, _END = 0x7B, 0x7D, 0x5B, 0x5D
STRING, NUMBER, BOOLEAN, NULL, OBJECT, ARRAY = range(6)
"""What a value is."""
_MOST_FIELDS = 64
_Texts = tuple[Bytes, Numbers]
"""Texts behind one another, and where each begins; the end of the last one."""


@part
def past_blanks(data: Bytes, at: int, end: int) -> int:
    """Finds where blanks end."""
    while at < end and (data[at] == 0x20 or data[at] == 0x0A or data[at] == 0x0D or data[at] == 0x09):
        at += 1
    return at


@part
def _hex(data: Bytes, at: int) -> int:
    """Reads a hexadecimal digit; NO for none."""
    digit = int(data[at])
    if 0x30 <= digit <= 0x39:
        return digit - 0x30
    digit |= 0x20
    return digit - 0x57 if 0x61 <= digit <= 0x66 else NO


@part
def _escaped(data: Bytes, at: int, end: int) -> int:
    """Finds where an escape ends whose backslash stands before; NO for surrogates, which json_paths reads."""
    if at >= end:
        return NO
    kind = data[at]
    if kind != 0x75:
        for escape in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74):
            if kind == escape:
                return at + 1
        return NO
    if at + 5 > end:
        return NO
    for digit in range(at + 1, at + 5):
        if _hex(data, digit) < 0:
            return NO
    if _hex(data, at + 1) == 13 and _hex(data, at + 2) >= 8:
        return NO
    return at + 5


@part
def _string(data: Bytes, at: int, end: int) -> int:
    """Finds where a string ends, behind its closing quote; its opening quote stands before."""
    while True:
        while at + WIDE <= end and plain(data, at):
            at += WIDE
        while at < end and data[at] != QUOTE and data[at] != BACKSLASH and data[at] >= 0x20:
            at += 1
        if at >= end or data[at] < 0x20:
            return NO
        if data[at] == QUOTE:
            return at + 1
        at = _escaped(data, at + 1, end)
        if at < 0:
            return NO


@part
def _digits(data: Bytes, at: int, end: int) -> int:
    """Finds where digits end; NO for none."""
    begin = at
    while at < end and 0x30 <= data[at] <= 0x39:
        at += 1
    return at if at > begin else NO


@part
def _number(data: Bytes, at: int, end: int) -> int:
    if data[at] == _MINUS:
        at += 1
    begin, at = at, _digits(data, at, end)
    if at < 0 or (data[begin] == 0x30 and at > begin + 1):
        return NO
    if at < end and data[at] == _DOT:
        at = _digits(data, at + 1, end)
        if at < 0:
            return NO
    if at < end and data[at] | 0x20 == 0x65:
        at += 1
        if at < end and (data[at] == _MINUS or data[at] == 0x2B):
            at += 1
        at = _digits(data, at, end)
    return at


@part
def _literal(data: Bytes, at: int, end: int) -> int:
    """Finds where true, false or null ends; NO for none of them."""
    first = data[at]
    if first == 0x66:
        for step, letter in enumerate((0x66, 0x61, 0x6C, 0x73, 0x65)):
            if at + step >= end or data[at + step] != letter:
                return NO
        return at + 5
    for step, (yes, no) in enumerate(((0x74, 0x6E), (0x72, 0x75), (0x75, 0x6C), (0x65, 0x6C))):
        if at + step >= end or data[at + step] != (yes if first == 0x74 else no):
            return NO
    return at + 4


@part
def kind_of(first: int) -> int:
    """Returns the kind of a value by its first character; NO for none."""
    if first == QUOTE:
        return STRING
    if first == _MINUS or 0x30 <= first <= 0x39:
        return NUMBER
    if first == 0x74 or first == 0x66:
        return BOOLEAN
    if first == 0x6E:
        return NULL
    return OBJECT if first == OPEN else ARRAY if first == _LIST else NO


@part
def _simple(data: Bytes, at: int, end: int, kind: int) -> int:
    if kind == STRING:
        return _string(data, at + 1, end)
    if kind == NUMBER:
        return _number(data, at, end)
    return _literal(data, at, end) if kind in (BOOLEAN, NULL) else NO


@part
def _named(data: Bytes, at: int, end: int) -> int:
    """Finds where the value of a member begins; its name begins here."""
    if at >= end or data[at] != QUOTE:
        return NO
    at = _string(data, at + 1, end)
    if at < 0:
        return NO
    at = past_blanks(data, at, end)
    return past_blanks(data, at + 1, end) if at < end and data[at] == COLON else NO


@part
def past_value(data: Bytes, at: int, end: int) -> int:
    """Finds where a value ends; NO for no value, and for one that is nested too deep."""
    deep = objects = 0  # of those that are open, a bit each
    while True:
        if at >= end:
            return NO
        kind = kind_of(int(data[at]))
        if kind in (OBJECT, ARRAY):
            at = past_blanks(data, at + 1, end)
            if at >= end or deep == _MOST_DEEP:
                return NO
            if data[at] != (CLOSE if kind == OBJECT else _END):
                deep, objects = deep + 1, objects << 1 | (1 if kind == OBJECT else 0)
                if kind == OBJECT:
                    at = _named(data, at, end)
                    if at < 0:
                        return NO
                continue
            at += 1
        else:
            at = _simple(data, at, end, kind)
            if at < 0:
                return NO
        while deep:
            at = past_blanks(data, at, end)
            if at >= end:
                return NO
            if data[at] == COMMA:
                at = past_blanks(data, at + 1, end)
                if objects & 1:
                    at = _named(data, at, end)
                    if at < 0:
                        return NO
                break
            if data[at] != (CLOSE if objects & 1 else _END):
                return NO
            at, deep, objects = at + 1, deep - 1, objects >> 1
        else:
            return at


class Masks:
    """Masks these fields. `left`: by kind of value, the text that takes its place; None for what json_paths has to look
    at."""

    def __init__(self, names: list[str], left: list[bytes | None]) -> None:
        self._names = _texts([name.encode() for name in names])
        self._left = _texts([text or b"" for text in left])
        self._supported = np.array([text is not None for text in left], np.uint8)
        self._longest = len(names) * max(5, *(len(text or b"") for text in left))

    def apply(
        self, validity: Bytes, ends: np.ndarray, data: Bytes, rows: int
    ) -> tuple[np.ndarray, Bytes, list[int]] | None:
        """Returns ends and bytes of a column of byte strings (see bridge.kafka.record.arrow_columns.Texts) with all
        fields masked, and the rows that were left out, which are empty. None for a column that is too large."""
        size = int(ends[rows]) + rows * self._longest
        if size >= 1 << 31:
            return None
        out, out_ends, unmasked = (
            np.empty(size, np.uint8),
            np.zeros(rows + 1, np.int32),
            np.zeros(rows, np.uint8),
        )
        nulls = np.empty(0, np.intp)
        if len(validity):
            nulls = np.flatnonzero(np.unpackbits(validity, count=rows, bitorder="little") == 0)
            unmasked[nulls] = 1
        mask(data, ends, *self._names, *self._left, self._supported, out, out_ends, unmasked)
        unmasked[nulls] = 0
        return out_ends, out[: out_ends[rows]], np.flatnonzero(unmasked).tolist()


def _texts(texts: list[bytes]) -> _Texts:
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(b"".join(texts) or b" ", np.uint8), ends


@part
def _copied(data: Bytes, at: int, end: int, out: Bytes, out_at: int) -> int:
    """Copies data[at:end] to out[put:]; more where there is room, which the next write covers. Returns where it
    ends."""
    while at < end and at + WIDE <= len(data) and out_at + WIDE <= len(out):
        copy_wide(data, at, out, out_at)
        at, out_at = at + WIDE, out_at + WIDE
    if at < end:
        for step in range(end - at):
            out[out_at + step] = data[at + step]
    return out_at + end - at


@part
def _is(data: Bytes, at: int, end: int, text: Bytes, begin: int, size: int) -> bool:
    if end - at != size:
        return False
    step = 0
    while step < size and data[at + step] == text[begin + step]:
        step += 1
    return step == size


@part
def _object(
    data: Bytes,
    begin: int,
    end: int,
    names: Bytes,
    name_ends: Numbers,
    left: Bytes,
    left_ends: Numbers,
    supported: Bytes,
    seen: Numbers,
    out: Bytes,
    first: int,
) -> int:
    """Masks one object into `out` from `first` on; returns where it ends, NO where json_paths has to do it."""
    position = past_blanks(data, begin, end)
    if position >= end or data[position] != OPEN:
        return NO
    out_at, copied_to, count, touched = (
        first,
        position,
        0,
        False,
    )  # what lies between `copied_to` and `at` is still to be copied
    position += 1
    while True:
        past = past_blanks(data, position, end)
        if past >= end:
            return NO
        if past > position:
            out_at, copied_to = _copied(data, copied_to, position, out, out_at), past
        position = past
        if data[position] == CLOSE and count == 0:
            position += 1
            break
        if data[position] != QUOTE or count == _MOST_FIELDS:
            return NO
        name, mark = position + 1, 0
        position = name
        while position < end and data[position] != QUOTE:
            if data[position] < 0x20 or data[position] >= 0x80 or data[position] == BACKSLASH:
                return NO
            mark = (mark * 31 + int(data[position])) & 0xFFFFFFFFFFFF
            position += 1
        for other in range(count):
            if seen[other] == mark:
                return NO  # twice, most likely
        seen[count] = mark
        count, until = count + 1, position
        past = past_blanks(data, position + 1, end)
        if past >= end or data[past] != COLON:
            return NO
        if past > position + 1:
            out_at, copied_to = _copied(data, copied_to, position + 1, out, out_at), past
        position = past + 1
        past = past_blanks(data, position, end)
        if past > position:
            out_at, copied_to = _copied(data, copied_to, position, out, out_at), past
        value, position = past, past_value(data, past, end)
        if position < 0:
            return NO
        for number in range(len(name_ends) - 1):
            start, size = name_ends[number], name_ends[number + 1] - name_ends[number]
            if _is(data, name, until, names, start, size):
                kind = kind_of(int(data[value]))
                if not supported[kind]:
                    return NO
                start, size = left_ends[kind], left_ends[kind + 1] - left_ends[kind]
                if not _is(data, value, position, left, start, size):
                    out_at = _copied(data, copied_to, value, out, out_at)
                    out_at, copied_to, touched = (
                        _copied(left, start, start + size, out, out_at),
                        position,
                        True,
                    )
        past = past_blanks(data, position, end)
        if past >= end:
            return NO
        if past > position:
            out_at, copied_to = _copied(data, copied_to, position, out, out_at), past
        position = past + 1
        if data[past] == CLOSE:
            break
        if data[past] != COMMA:
            return NO
    if past_blanks(data, position, end) != end:
        return NO
    return (
        _copied(data, copied_to, position, out, out_at) if touched else _copied(data, begin, end, out, first)
    )


@compiled(
    f"void({IN}, Array(int32, 1, 'C', readonly=True), {IN}, int64[::1], {IN}, int64[::1], uint8[::1], uint8[::1], "
    "int32[::1], uint8[::1])"
)
def mask(
    data: Bytes,
    begins: np.ndarray,
    names: Bytes,
    name_ends: Numbers,
    left: Bytes,
    left_ends: Numbers,
    supported: Bytes,
    out: Bytes,
    ends: np.ndarray,
    unmasked: Bytes,
) -> None:
    """Masks all rows whose `unmasked` is not set; sets it for rows that json_paths has to do. Rows with it are
    empty."""
    out_at, seen = 0, np.empty(_MOST_FIELDS, np.int64)
    for row in range(len(unmasked)):
        if not unmasked[row]:
            position, end = int(begins[row]), int(begins[row + 1])
            done = _object(
                data, position, end, names, name_ends, left, left_ends, supported, seen, out, out_at
            )
            if done < 0:
                unmasked[row] = 1
            else:
                out_at = done
        ends[row + 1] = out_at

"""Finds where JSON values end, in compiled loops. Nothing is read outside the given bytes, whatever they are."""

from __future__ import annotations

from bridge.kafka.record.jit import WIDE, Bytes, part, plain

_MOST_DEEP = 60
NO = -1
"""Not found, or not plain."""
QUOTE, BACKSLASH, COMMA, COLON, _MINUS, _DOT = 0x22, 0x5C, 0x2C, 0x3A, 0x2D, 0x2E
OPEN, CLOSE, _LIST, _END = 0x7B, 0x7D, 0x5B, 0x5D
STRING, NUMBER, BOOLEAN, NULL, OBJECT, ARRAY = range(6)
"""What a value is."""


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

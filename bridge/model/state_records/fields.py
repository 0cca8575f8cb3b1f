"""Reads and writes the fields of records of internal topics: numbers of fixed size, big-endian; BYTES, which are their
length as INT16 and that many bytes; and STRINGs, the same in UTF-8. Invalid UTF-8 becomes as many U+FFFD as in Java.
"""

from __future__ import annotations

import re
from struct import Struct, error

LAST_OFFSET = 2**63 - 2
"""That a log can have: the one after it still is an INT64."""
_INT16 = Struct(">h")
_LONGEST = 2**15 - 1
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""An encoded surrogate: Java puts one U+FFFD for it, Python one for each byte."""


class SchemaError(ValueError):
    """Raised for a record that can't be read, or a value that can't be written; the text names the field."""


def read_numbers(layout: Struct, buffer: bytes | None, at: int, what: str) -> tuple[int, ...]:
    if buffer is None:
        raise SchemaError(f"no {what}: it is null")
    try:
        return layout.unpack_from(buffer, at)
    except error:
        left = max(0, len(buffer) - at)
        raise SchemaError(f"no {what}: {layout.size} bytes needed, {left} there") from None


def read_string(buffer: bytes | None, at: int, what: str) -> tuple[str, int]:
    """Returns the text, and where the next field begins."""
    encoded, end = read_bytes(buffer, at, what)
    return _text(encoded), end


def read_bytes(buffer: bytes | None, at: int, what: str) -> tuple[bytes, int]:
    """Returns the bytes, whose length as INT16 stands before them, and where the next field begins."""
    (length,) = read_numbers(_INT16, buffer, at, what)
    assert buffer is not None
    if length < 0:
        raise SchemaError(f"no {what}: its length is {length}")
    begin, end = at + _INT16.size, at + _INT16.size + length
    if end > len(buffer):
        raise SchemaError(f"no {what}: {length} bytes needed, {len(buffer) - begin} there")
    return buffer[begin:end], end


def _text(encoded: bytes) -> str:
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", encoded).decode("utf-8", "replace")


def write_numbers(layout: Struct, what: str, *numbers: int) -> bytes:
    try:
        return layout.pack(*numbers)
    except error as problem:
        raise SchemaError(f"{what}: {', '.join(map(str, numbers))} can't be written: {problem}") from None


def write_string(text: str, what: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError as problem:
        raise SchemaError(f"{what} {text!r} can't be written as UTF-8: {problem.reason}") from None
    return write_bytes(encoded, what)


def write_bytes(data: bytes, what: str) -> bytes:
    if len(data) > _LONGEST:
        raise SchemaError(f"{what} has {len(data)} bytes; {_LONGEST} are the most")
    return _INT16.pack(len(data)) + data

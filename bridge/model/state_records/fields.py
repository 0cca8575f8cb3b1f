"""Reads and writes the fields of records of internal topics: numbers of fixed size, big-endian; BYTES, which are their
length as INT16 and that many bytes; and STRINGs, the same in UTF-8. Invalid UTF-8 becomes as many U+FFFD as in Java.

Reads fields of state records that are JSON objects, and checks each for its type and range.

Whoever may write to a state topic may write anything there: these raise nothing but SchemaError, and return no value
that a later step could fail on.

Defines the base class of values of the readiness topic; readiness_records lists its kinds. Pure.

Counts records of internal topics that can't be read, and words their log lines. Pure.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct, error
from typing import Any, ClassVar, Self

LAST_OFFSET = 2**63 - 2
"""That a log can have: the one after it still is an INT64."""
_INT16 = Struct(">h")
_LONGEST = 2**15 - 1
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""An encoded surrogate: Java puts one U+FFFD for it, Python one for each byte."""
LAST_MS = 253_402_300_799_999
"""Ms since the epoch at the end of the year 9999: no calendar shows what is later."""
_SHOWN = 60
_NUMBERS = -(2**63), 2**63 - 1
VERSION = 1
MOST_TASKS = 10_000
_NAMED = 10
"""Records that are named one by one between two calls of `drain_lines`: a topic may be full of them."""


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


def read_object(encoded: bytes | None, what: str) -> Mapping[str, Any]:
    """Decodes a JSON object. Raises SchemaError."""
    if encoded is None:
        raise SchemaError(f"no {what}: it is null")
    try:
        obj = json.loads(encoded)
    except RecursionError:
        raise SchemaError(f"no {what}: it is nested too deep") from None
    except ValueError:
        raise SchemaError(f"no {what}: it is not JSON") from None
    if not isinstance(obj, dict):
        raise SchemaError(f"no {what}: it is a {type(obj).__name__} and no object")
    return obj


def number(obj: Mapping[str, Any], name: str, least: int, most: int) -> int:
    """Raises SchemaError."""
    value = obj.get(name)
    # A bool is an int to Python.
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(obj, name, f"a whole number from {least} to {most}")
    return value


def text(obj: Mapping[str, Any], name: str, least: int = 0) -> str:
    """Reads a text of at least so many characters. Raises SchemaError; also for a text that can't be encoded in UTF-8,
    for it could not be shown."""
    value = obj.get(name)
    if isinstance(value, str) and least <= len(value) <= _LONGEST:
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise _wrong(obj, name, f"a text of {least} to {_LONGEST} characters")


def flag(obj: Mapping[str, Any], name: str) -> bool:
    """Raises SchemaError."""
    value = obj.get(name)
    if not isinstance(value, bool):
        raise _wrong(obj, name, "true or false")
    return value


def number_or_none(obj: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """Reads an optional field; None where it is missing. Raises SchemaError."""
    return None if obj.get(name) is None else number(obj, name, least, most)


def text_or_none(obj: Mapping[str, Any], name: str) -> str | None:
    """Reads an optional field; None where it is missing. Raises SchemaError."""
    return None if obj.get(name) is None else text(obj, name)


def objects(obj: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    """Yields the objects of a list. Raises SchemaError."""
    for fields in _listed(obj, name):
        if not isinstance(fields, dict):
            raise SchemaError(f"{name} holds a {type(fields).__name__}: objects are needed")
        yield fields


def numbers(obj: Mapping[str, Any], name: str, ranges: Sequence[tuple[int, int]]) -> Iterator[Sequence[int]]:
    """Yields the rows of a list, each with a whole number of each of the ranges. Raises SchemaError."""
    for row in _listed(obj, name):
        if not isinstance(row, list) or len(row) != len(ranges):
            raise SchemaError(f"{name} holds what is no list of {len(ranges)} whole numbers")
        yield [number({name: item}, name, *span) for item, span in zip(row, ranges, strict=True)]


def texts(obj: Mapping[str, Any], name: str) -> list[str]:
    """Reads a list of texts; empty where there is none. Raises SchemaError."""
    return [text({name: item}, name) for item in _listed(obj, name)] if obj.get(name) is not None else []


def simple_values(obj: Mapping[str, Any], name: str) -> dict[str, str | int | None]:
    """Reads an object of texts, whole numbers and nulls; empty where there is none. Raises SchemaError."""
    values = obj.get(name)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _wrong(obj, name, "an object")
    made: dict[str, str | int | None] = {}
    for key, value in values.items():
        field = f"{name}.{text({name: key}, name)[:_SHOWN]}"
        if value is not None:
            at = {field: value}
            value = text(at, field) if isinstance(value, str) else number(at, field, *_NUMBERS)
        made[key] = value
    return made


def _listed(obj: Mapping[str, Any], name: str) -> list[Any]:
    values = obj.get(name)
    if not isinstance(values, list):
        raise _wrong(obj, name, "a list")
    return values


def _wrong(obj: Mapping[str, Any], name: str, needed: str) -> SchemaError:
    if name not in obj:
        return SchemaError(f"{name} is missing: {needed} is needed")
    value = obj[name]
    # What is nested may be so deep that it can be read, and not be printed.
    shown = f"a {type(value).__name__}" if isinstance(value, dict | list) else ascii(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return SchemaError(f"{name} is {shown}: {needed} is needed")


class Value(ABC):
    """The value of a record. Immutable."""

    __slots__ = ()
    kind: ClassVar[str]

    @property
    @abstractmethod
    def meaning(self) -> int:
        """A hash that is equal for values that differ only in their times: such a value is not written again."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Returns the value as JSON, without the version."""

    @classmethod
    @abstractmethod
    def read(cls, obj: Mapping[str, Any]) -> Self:
        """Reads and checks a value. Raises SchemaError."""

    @classmethod
    def trusted(cls, obj: Mapping[str, Any]) -> Self:
        """Reads fields that were checked before, without checking them again."""
        return cls.read(obj)


class UnreadableRecords:
    """The unreadable records of topics' partition 0. A record counts once, however often its topic is read."""

    def __init__(self, topics: Iterable[str]) -> None:
        """`topics`: those that have a count of 0 from the beginning."""
        self._counts = Counter(dict.fromkeys(topics, 0))
        self._read: dict[str, int] = {}
        """The last offset that was looked at, by topic."""
        self._lines: list[str] = []
        self._more: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts by topic, as they are now."""
        return dict(self._counts)

    def add(self, topic: str, offset: int, why: str) -> None:
        if offset <= self._read.get(topic, -1):
            return
        self._read[topic] = offset
        self._counts[topic] += 1
        if len(self._lines) < _NAMED:
            self._lines.append(
                f"{topic}-0 at offset {offset}: the record can't be read and is left out: {why}"
            )
        else:
            self._more[topic] += 1

    def add_batches(self, topic: str, count: int) -> None:
        """Batches that can't be decoded, which nobody can say more of."""
        if count:
            self._counts[topic] += count
            self._lines.append(f"{topic}-0: {count} batch(es) can't be decoded and are left out")

    def restarted(self, topic: str) -> None:
        """Starts over with a topic that was created again: its offsets are other records now."""
        self._read.pop(topic, None)

    def drain_lines(self) -> list[str]:
        """Returns lines for the log, each once."""
        more = [f"{topic}-0: {count} more records can't be read" for topic, count in self._more.items()]
        lines = [*self._lines, *more]
        self._lines, self._more = [], Counter()
        return lines

"""How Java and Kafka read the texts of a configuration: `String.trim()`, and the types of ConfigDef. Pure.

Each way in takes its values through here: what Connect sends, files, options.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Final

WHITESPACE: Final = "".join(map(chr, range(33)))
"""What `String.trim()` takes away: everything up to the blank, and nothing beyond ASCII, as Python's strip() does."""
_AROUND_COMMAS = " \t\n\r\f\v"
_INTEGER = re.compile(r"([+-]?)((?:(?![\U00010000-\U0010ffff])\d)+)")
"""Digits of all scripts, but for those beyond U+FFFF: Java looks at UTF-16."""
_DECIMAL = re.compile(r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)", re.ASCII)
_HEXADECIMAL = re.compile(
    r"([+-]?)(0[xX](?=\.?[\da-fA-F])[\da-fA-F]*\.?[\da-fA-F]*[pP][+-]?\d+)[fFdD]?", re.ASCII
)


def trimmed(text: str) -> str:
    """Returns a text as ConfigDef reads it, whatever its type."""
    return text.strip(WHITESPACE)


def given(props: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the properties that are given, trimmed: one given as null, as JSON may have it, counts as not given."""
    return {key: trimmed(value) for key, value in props.items() if value is not None}


def split_list(text: str) -> tuple[str, ...]:
    """Splits a value of type LIST."""
    text = trimmed(text)
    # Not by Kafka's expression \s*,\s*, which holds everybody up for minutes over a megabyte of spaces.
    return tuple(item.strip(_AROUND_COMMAS) for item in text.split(",")) if text else ()


def boolean(text: str) -> bool | None:
    """Returns a value of type BOOLEAN, None for any other text."""
    # Java compares letter by letter in upper case and in lower case, which is what folding does.
    return {"true": True, "false": False}.get(trimmed(text).casefold())


def integer(text: str, bits: int = 64) -> int | None:
    """Returns a value of type SHORT, INT or LONG, None for any other text."""
    match = _INTEGER.fullmatch(trimmed(text))
    if match is None:
        return None
    digits = "".join(str(unicodedata.decimal(digit)) for digit in match[2]).lstrip("0") or "0"
    # Twenty digits are more than a LONG has; int() refuses thousands of them in words of its own.
    number = int(match[1] + digits[:20])
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None


def double(text: str) -> float | None:
    """Returns a value of type DOUBLE, None for any other text."""
    text = trimmed(text)
    if _DECIMAL.fullmatch(text) is not None:
        return float(text.rstrip("fFdD"))
    match = _HEXADECIMAL.fullmatch(text)
    if match is None:
        return None
    try:
        return float.fromhex(match[1] + match[2])
    except OverflowError:
        return -math.inf if match[1] == "-" else math.inf

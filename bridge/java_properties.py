"""Java's .properties files, as java.util.Properties reads them."""

from __future__ import annotations

import re
from pathlib import Path

_SKIPPED = re.compile(r"(?:[ \t\f\r\n]+|[#!][^\r\n]*|\\\r\n|\\[\r\n](?!\Z))*")
"""Between logical lines: blanks, empty lines and comments. What goes on before anything has begun is nothing, but for a
backslash on the file's last line: Java makes an empty key of that."""
_LOGICAL = re.compile(r"(?:\\(?:\r\n|.|\Z)|[^\\\r\n]+)+", re.DOTALL)
_CONTINUED = re.compile(r"\\(?:\r\n|[\r\n])[ \t\f]*|\\\Z|(\\.)", re.DOTALL)
_NATURAL_END = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)


class PropertiesProblem(ValueError):
    """The file can't be read, or is malformed; the text names file and line."""


def load_properties(path: Path) -> dict[str, str]:
    """The properties of a file. Raises PropertiesProblem."""
    try:
        # Java's encoding for these files; anything beyond it is written as \\uXXXX there.
        text = path.read_bytes().decode("latin-1")
    except OSError as error:
        raise PropertiesProblem(f"can't read {path}: {error.strerror}") from None
    return parse_properties(text, str(path))


def parse_properties(text: str, where: str) -> dict[str, str]:
    """The properties of a text; of a key that is given twice the last value counts. `where`: the file, for errors.
    Raises PropertiesProblem."""
    properties: dict[str, str] = {}
    begin, number, end = _end(_SKIPPED, text, 0), 1, 0
    while begin < len(text):
        number += len(_NATURAL_END.findall(text, end, begin))
        end = _end(_LOGICAL, text, begin)
        line = _CONTINUED.sub(lambda match: match[1] or "", text[begin:end])
        key, value = _pair(line, f"{where}, line {number}")
        properties[key] = value
        number += len(_NATURAL_END.findall(text, begin, end))
        begin = _end(_SKIPPED, text, end)
    return properties


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None
    return match.end()


def _pair(line: str, where: str) -> tuple[str, str]:
    """Key and value of a logical line. `where`: file and line, for errors."""
    split = _KEY.match(line)
    assert split is not None
    return _unescaped(split[1], where), _unescaped(line[split.end() :], where)


def _unescaped(text: str, where: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            raise PropertiesProblem(f"{where}: \\u is not followed by four hexadecimal digits")
        return chr(int(code[1:], 16)) if len(code) > 1 else _NAMED.get(code, code)

    # Java joins the two halves of a character beyond U+FFFF by itself.
    return _ESCAPE.sub(replaced, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

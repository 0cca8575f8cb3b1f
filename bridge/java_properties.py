"""Java's .properties files, as java.util.Properties reads them."""

from __future__ import annotations

import re
from pathlib import Path

_BLANK = " \t\f"
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
    return dict(_pair(line, f"{where}, line {number}") for number, line in _logical_lines(text))


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments and blanks, continued ones joined, each with the number of its first line."""
    logical: list[tuple[int, str]] = []
    begun: tuple[int, str] | None = None
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(_BLANK)
        if begun is None or not begun[1]:
            begun = None
            if not line or line[0] in "#!":
                continue
            begun = (number, "")
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun = (begun[0], begun[1] + (line[:-1] if continued else line))
        if not continued:
            logical.append(begun)
            begun = None
    return [*logical, begun] if begun is not None and begun[1] else logical


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

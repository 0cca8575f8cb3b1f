"""Reads a JSON object with one long list in parts, so that everybody else waits for one part only.

A part is cut by brackets and strings alone. Whether the JSON is valid is left to pydantic's parser, which gets every
character of it, but for the commas between parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

PART = 4_096
"""Characters of a part, and the rest of its last item."""
_TOKENS = 1_000
"""Strings and brackets after which others have their turn, whether a part is complete or not."""
STRETCH = 1 << 15
"""Characters that are searched for the next string, or for its end, before others have their turn; 2 at least."""
_BEGIN = re.compile(r'["\[\]{}]')
_IN_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_COMMA = re.compile(r"[ \t\n\r]*+,")
_LIST = re.compile(r"[ \t\n\r]*+:[ \t\n\r]*+\[")


class NotJson(Exception):
    """The list is no valid JSON."""


@dataclass(slots=True)
class LongList:
    """The list under one key of the object `text`. Once `parts` is used up, `rest` is the object with an empty list in
    its place. Pure."""

    text: str
    key: str
    rest: str = field(default="", init=False)

    def parts(self) -> Iterator[str]:
        """The items, in order, as JSON lists; "" after each stretch without one. Raises NotJson."""
        text, name = self.text, f'"{self.key}"'
        kept: list[str] = []
        depth = begin = 0
        opens = -1
        """Where the bracket of the list is, once its key is read; the list's items are at depth 2."""
        inside = cut = False
        for number, token in enumerate(_tokens(text), 1):
            if token is None or number % _TOKENS == 0:
                yield ""
            if token is None:
                continue
            start, end = token
            match text[start]:
                case "[" | "{":
                    depth += 1
                    if start == opens and depth == 2:
                        kept.append(text[begin:end])
                        begin, inside, cut = end, True, False
                    continue
                case "]" | "}":
                    depth -= 1
                case _ if depth == 1 and text[start:end] == name and (found := _LIST.match(text, end)):
                    if opens >= 0:
                        raise NotJson(f"{self.key} is there twice")
                    opens = found.end() - 1
            if inside and depth < 2:
                left = text[begin:start]
                if cut and not left.strip():
                    raise NotJson("the list ends with a comma")
                yield f"[{left}]"
                begin, inside = start, False
            elif inside and depth == 2 and end - begin >= PART and (comma := _COMMA.match(text, end)):
                yield f"[{text[begin:end]}]"
                begin, cut = comma.end(), True
        kept.append(text[begin:])
        self.rest = "".join(kept)


def _tokens(text: str) -> Iterator[tuple[int, int] | None]:
    """Yields where strings and brackets begin and end; None after each stretch in which none begins or ends. A string
    without an end reaches to the end of the text: a search from each of its quotes would be quadratic."""
    at = 0
    while at < len(text):
        begin = _BEGIN.search(text, at, at + STRETCH)
        if begin is None:
            at += STRETCH
            yield None
            continue
        start, at = begin.span()
        if text[start] == '"':
            while True:
                inside = _IN_STRING.match(text, at, at + STRETCH)
                assert inside is not None  # it matches the empty text too
                at = inside.end()
                if text.startswith('"', at):
                    at += 1
                    break
                if len(text) - at < 2:  # nothing is left, or a backslash
                    at = len(text)
                    break
                yield None
        yield start, at

"""Converts escapes and character classes of Java regexes: unions, intersections, POSIX names, quotes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bridge.patterns import PatternProblem

DEEPEST = 100
"""Groups, or classes, in each other: engines go into each by a call."""
_HORIZONTAL = r"\t\x20\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL = r"\n\x0b\x0c\r\x85\u2028\u2029"

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": r"\x20-~",
    "Blank": r"\x20\t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r"\x20\t\n\x0b\x0c\r",
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_NEGATED_SETS = {"H": _HORIZONTAL, "V": _VERTICAL}
_OCTAL = re.compile(r"0([0-3]?[0-7]{1,2})")
_HEX = re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\})|u([0-9a-fA-F]{4})")
_PROPERTY = re.compile(r"[pP](?:\{([^{}]*)\}|(.))")


class Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def done(self) -> bool:
        return self.at >= len(self.text)

    def next(self) -> str:
        char = self.peek()
        self.at += 1
        return char

    def peek(self) -> str:
        if self.done:
            raise self.problem("it ends in the middle")
        return self.text[self.at]

    def startswith(self, prefix: str) -> bool:
        return self.text.startswith(prefix, self.at)

    def rest(self, length: int) -> str:
        return self.text[self.at : self.at + length]

    def quoted(self) -> str:
        """Reads the text up to `\\E`, or to the end."""
        end = self.text.find("\\E", self.at)
        start, stop = self.at, len(self.text) if end < 0 else end
        self.at = stop if end < 0 else end + 2
        return self.text[start:stop]

    def problem(self, what: str) -> PatternProblem:
        return PatternProblem(f"{self.text} is not a regular expression: {what} (at position {self.at})")


@dataclass(frozen=True, slots=True)
class Atom:
    """The meaning of one escape: `inside` a class, and `alone`; `char` when it is a single character."""

    inside: str
    alone: str
    char: str | None = None


class CharClassReader:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self._depth = 0

    def escape(self) -> Atom:
        """Reads what follows a backslash."""
        scanner = self.scanner
        for pattern in (_OCTAL, _HEX):
            if match := pattern.match(scanner.text, scanner.at):
                scanner.at = match.end()
                digits = next(group for group in match.groups() if group is not None)
                return _char(self._code_point(int(digits, 8 if pattern is _OCTAL else 16)))
        if named := _PROPERTY.match(scanner.text, scanner.at):
            scanner.at = named.end()
            return self._property(named.group(1) or named.group(2), negated=named.group().startswith("P"))
        char = scanner.next()
        if char in "dDsSwW":
            return Atom("\\" + char, "\\" + char)
        if char in _CONTROLS:
            return _char(_CONTROLS[char])
        if char == "c":
            return _char(chr(ord(scanner.next()) ^ 64))
        if char in "hv":
            text = _HORIZONTAL if char == "h" else _VERTICAL
            return Atom(text, f"[{text}]")
        if char in _NEGATED_SETS:
            # As a class on its own, because a negated set can't stand inside another one.
            return Atom("", f"[^{_NEGATED_SETS[char]}]")
        if char.isascii() and char.isalnum():
            raise scanner.problem(f"the escape \\{char} is not supported")
        return _char(char)

    def _code_point(self, number: int) -> str:
        if number > 0x10FFFF:
            raise self.scanner.problem("there is no such character")
        return chr(number)

    def _property(self, name: str, *, negated: bool) -> Atom:
        text = _POSIX.get(name)
        if text is None:
            construct = f"\\{'P' if negated else 'p'}{{{name}}}"
            raise self.scanner.problem(f"{construct} is not supported; \\p takes one of: {', '.join(_POSIX)}")
        return Atom("", f"[^{text}]") if negated else Atom(text, f"[{text}]")

    def read(self) -> str:
        """Converts a class after its `[` to a Python expression for one character."""
        scanner = self.scanner
        negated = scanner.startswith("^")
        scanner.at += negated
        operands: list[str] = []
        items: list[str] = []
        nested: list[str] = []
        first = True
        while True:
            if scanner.done:
                raise scanner.problem("a character class is not closed")
            if scanner.startswith("&&"):
                scanner.at += 2
                first = False
                if items or nested:
                    operands.append(_union(items, nested))
                items, nested = [], []
                continue
            char = scanner.next()
            if char == "]" and not first:
                break
            first = False
            if char == "[":
                nested.append(self._nested())
            elif char == "\\" and scanner.startswith("Q"):
                scanner.at += 1
                items.extend(re.escape(quoted) for quoted in scanner.quoted())
            else:
                self._item(char, items, nested)
        if items or nested:
            operands.append(_union(items, nested))
        if not operands:
            raise scanner.problem("a character class is empty")
        if len(operands) == 1 and not nested and operands[0].startswith("[") and negated:
            return "[^" + operands[0][1:]
        whole = "".join(f"(?={operand})" for operand in operands[:-1]) + operands[-1]
        if negated:
            return f"(?:(?!{whole})(?s:.))"
        return f"(?:{whole})" if len(operands) > 1 else whole

    def _nested(self) -> str:
        if self._depth >= DEEPEST:
            raise self.scanner.problem(f"character classes stand in each other more than {DEEPEST} deep")
        self._depth += 1
        read = self.read()
        self._depth -= 1
        return read

    def _item(self, char: str, items: list[str], nested: list[str]) -> None:
        scanner = self.scanner
        atom = self.escape() if char == "\\" else _char(char)
        if atom.char is not None and scanner.startswith("-") and scanner.rest(2)[1:] not in ("]", "[", ""):
            scanner.at += 1
            end = scanner.next()
            upper = self.escape() if end == "\\" else _char(end)
            if upper.char is None or upper.char < atom.char:
                raise scanner.problem("illegal character range")
            items.append(f"{atom.inside}-{upper.inside}")
        elif atom.inside:
            items.append(atom.inside)
        else:
            nested.append(atom.alone)


def _union(items: list[str], nested: list[str]) -> str:
    plain = f"[{''.join(items)}]" if items else ""
    if not nested:
        return plain
    return "(?:" + "|".join([plain, *nested] if plain else nested) + ")"


def _char(char: str) -> Atom:
    return Atom(re.escape(char), re.escape(char), char)

"""Converts Java's regular expressions to Python's: the same matches, or a PatternProblem that names the construct.

Flags of a Java pattern hold from where they stand to the end of their group, across `|`; Python wants scoped
ones, so `a(?i)b|c` becomes `a(?i:b)|(?i:c)`. Everything is ASCII unless asked for, as in Java.

Converts escapes and character classes of Java regexes: unions, intersections, POSIX names, quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from bridge.patterns import LINE_BREAKS, NO_LINE_BREAK, JavaPattern, PatternProblem, PatternTooSlow

__all__ = ["JavaPattern", "PatternProblem", "PatternTooSlow", "compile_java", "exactly"]


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
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_REPETITION = re.compile(r"\{(\d{1,9})(?:,\d{0,9})?\}")
MOST_REPEATED = 100_000
"""Characters that a pattern's counted repetitions may come to at least, beyond what it has itself: an engine writes
them out when it compiles, and holds the interpreter meanwhile. A topic's name has 249."""
_FLAGS = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAMED = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>")
_BACKREFERENCE = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>")
_PLAIN_GROUPS = ("?:", "?=", "?!", "?>", "?<=", "?<!")
_NOT_INSIDE_CRLF = r"(?!(?<=\r)\n)"
_FINAL_BREAK = rf"(?={_NOT_INSIDE_CRLF}(?:\r\n|[{LINE_BREAKS}])?\Z)"
_LINE_START = rf"(?:\A|(?<=[{LINE_BREAKS}]){_NOT_INSIDE_CRLF}(?!\Z))"
_LINE_END = rf"(?:{_NOT_INSIDE_CRLF}(?=[{LINE_BREAKS}])|\Z)"
_LINE_BREAK = rf"(?>\r\n|[\x0b\x0c{LINE_BREAKS}])"
_ANCHORS = {"A": r"\A", "z": r"\Z", "Z": _FINAL_BREAK, "b": r"\b", "B": r"\B", "R": _LINE_BREAK}


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


def compile_java(pattern: str, key: str = "") -> JavaPattern:
    """Matches as Java's `Pattern.compile(pattern)` does, within a limit; raises PatternProblem. `key` names the setting
    in errors of a pattern that takes too long."""
    translator = Translator(pattern)
    return JavaPattern(pattern, translator.run(), quick=translator.quick, key=key)


def exactly(text: str) -> JavaPattern:
    """Matches the text and nothing else."""
    return JavaPattern(text, re.escape(text), quick=True)


@dataclass(frozen=True, slots=True)
class _Level:
    """A group that is open: the scoped flags inside it, to be closed and opened again at each `|`."""

    dot_all: bool = False
    unix_lines: bool = False
    multiline: bool = False
    scopes: tuple[str, ...] = ()


class _Size:
    """What a group comes to at least when its counted repetitions are written out, in characters."""

    def __init__(self) -> None:
        self.whole = self._last = 0

    def add(self, size: int) -> None:
        self._last = size
        self.whole += size

    def repeat(self, times: int) -> None:
        """What came last stands there so many times."""
        self.whole += self._last * (max(times, 1) - 1)
        self._last *= max(times, 1)


class Translator:
    def __init__(self, pattern: str) -> None:
        self.scanner = Scanner(pattern)
        self.classes = CharClassReader(self.scanner)
        self.out: list[str] = []
        self.levels = [_Level()]
        self.sizes = [_Size()]
        self.groups = 0
        self.repeats = self.most_repeats = 0
        self.nested = False

    @property
    def quick(self) -> bool:
        """Whether it takes no more than about a million steps for a text of a thousand characters: no alternative has
        more than two repetitions or choices, and none repeats a group or refers back."""
        return not self.nested and max(self.repeats, self.most_repeats) <= 2

    def run(self) -> str:
        scanner = self.scanner
        while not scanner.done:
            char = scanner.next()
            if char == "\\":
                self._escape()
                self.sizes[-1].add(1)
            elif char == "[":
                self.out.append(self.classes.read())
                self.sizes[-1].add(1)
            elif char == "(":
                self._open()
            elif char == ")":
                self._close()
            elif char == "|":
                scopes = self.levels[-1].scopes
                if len(self.levels) == 1:
                    self.most_repeats, self.repeats = max(self.most_repeats, self.repeats), 0
                else:
                    self.repeats += 1
                self.out.append(")" * len(scopes) + "|" + "".join(scopes))
            elif char == ".":
                self.out.append(self._dot())
                self.sizes[-1].add(1)
            elif char == "{":
                self._repetition()
            elif char in "^$":
                self.out.append(self._line_anchor(char))
            elif char in "*+?":
                self._repeats(char)
            elif plain := _PLAIN.match(scanner.text, scanner.at):
                self.out.append(
                    re.escape(char + plain.group())
                )  # in one go: there may be a megabyte of names
                scanner.at = plain.end()
                self.sizes[-1].add(len(plain.group()))
                self.sizes[-1].add(1)
            else:
                self.out.append(re.escape(char))
                self.sizes[-1].add(1)
        if len(self.levels) > 1:
            raise scanner.problem("a group is not closed")
        self.out.append(")" * len(self.levels[0].scopes))
        return "".join(self.out)

    def _dot(self) -> str:
        level = self.levels[-1]
        if level.dot_all:
            return "(?s:.)"
        return r"[^\n]" if level.unix_lines else NO_LINE_BREAK

    def _line_anchor(self, char: str) -> str:
        level = self.levels[-1]
        if not level.multiline:
            return r"\A" if char == "^" else r"(?=\n?\Z)" if level.unix_lines else _FINAL_BREAK
        if level.unix_lines:
            return r"(?:\A|(?<=\n)(?!\Z))" if char == "^" else r"(?=\n|\Z)"
        return _LINE_START if char == "^" else _LINE_END

    def _repetition(self) -> None:
        match = _REPETITION.match(self.scanner.text, self.scanner.at - 1)
        if match is None:
            raise self.scanner.problem("illegal repetition: { wants a number, of nine digits at most")
        self._repeats(match.group())
        self.scanner.at = match.end()
        size = self.sizes[-1]
        size.repeat(int(match.group(1)))
        if size.whole > MOST_REPEATED + len(self.scanner.text):
            raise self.scanner.problem(
                f"its repetitions come to {size.whole:,} characters, and {MOST_REPEATED:,} is the limit"
            )

    def _repeats(self, how: str) -> None:
        self.nested |= bool(self.out) and self.out[-1].endswith(")") and not self.out[-1].endswith("\\)")
        self.repeats += 1
        self.out.append(how)

    def _open(self) -> None:
        scanner, level = self.scanner, self.levels[-1]
        if not scanner.startswith("?"):
            self.groups += 1
            self._push("(", level)
            return
        for plain in _PLAIN_GROUPS:
            if scanner.startswith(plain):
                scanner.at += len(plain)
                self._push("(" + plain, level)
                return
        if named := _NAMED.match(scanner.text, scanner.at):
            self.groups += 1
            scanner.at = named.end()
            self._push(f"(?P<{named.group(1)}>", level)
            return
        flags = _FLAGS.match(scanner.text, scanner.at)
        if flags is None:
            raise scanner.problem(f"unknown group construct ({scanner.rest(4)}")
        scanner.at = flags.end()
        self._flags(flags.group(1), flags.group(2) or "", scoped=flags.group(3) == ":")

    def _push(self, opening: str, level: _Level) -> None:
        self.out.append(opening)
        self._deeper(level)

    def _deeper(self, level: _Level) -> None:
        if len(self.levels) > DEEPEST:
            raise self.scanner.problem(f"groups stand in each other more than {DEEPEST} deep")
        self.levels.append(replace(level, scopes=()))
        self.sizes.append(_Size())

    def _flags(self, on: str, off: str, *, scoped: bool) -> None:
        level = self.levels[-1]
        unknown = set(on + off) - set("imsd")
        if unknown:
            raise self.scanner.problem(f"the flag (?{min(unknown)}) is not supported")
        names = {"s": "dot_all", "d": "unix_lines", "m": "multiline"}
        changed: dict[str, Any] = {name: flag not in off for flag, name in names.items() if flag in on + off}
        level = replace(level, **changed)
        ignore_case = "-i" if "i" in off else "i" if "i" in on else ""
        opening = f"(?{ignore_case}:"
        self.out.append(opening)
        if scoped:
            self._deeper(level)
        else:
            self.levels[-1] = replace(level, scopes=(*level.scopes, opening))

    def _close(self) -> None:
        if len(self.levels) == 1:
            raise self.scanner.problem("unmatched closing )")
        self.out.append(")" * (len(self.levels.pop().scopes) + 1))
        size = self.sizes.pop().whole
        self.sizes[-1].add(size)

    def _escape(self) -> None:
        scanner = self.scanner
        char = scanner.peek()
        if char == "Q":
            scanner.at += 1
            self.out.append(re.escape(scanner.quoted()))
        elif char in "123456789":
            self._backreference()
        elif char == "k":
            named = _BACKREFERENCE.match(scanner.text, scanner.at - 1)
            if named is None:
                raise scanner.problem(r"\k wants <name>")
            scanner.at = named.end()
            self.nested = True
            self.out.append(f"(?P={named.group(1)})")
        elif char in _ANCHORS:
            scanner.at += 1
            if char == "b" and scanner.startswith("{"):
                raise scanner.problem(r"\b{...} is not supported")
            self.out.append(_ANCHORS[char])
        else:
            atom = self.classes.escape()
            self.out.append(atom.alone)

    def _backreference(self) -> None:
        scanner = self.scanner
        self.nested = True
        number = int(scanner.next())
        while not scanner.done and scanner.peek() in "0123456789":
            longer = number * 10 + int(scanner.peek())
            if longer > self.groups:
                break
            number = longer
            scanner.at += 1
        self.out.append(rf"(?:\{number})")

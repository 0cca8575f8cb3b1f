"""Converts Java's regular expressions to Python's: the same matches, or a PatternProblem that names the construct.

Flags of a Java pattern hold from where they stand to the end of their group, across `|`; Python wants scoped
ones, so `a(?i)b|c` becomes `a(?i:b)|(?i:c)`. Everything is ASCII unless asked for, as in Java.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from bridge.mm2.java_charclass import DEEPEST, CharClassReader, Scanner
from bridge.patterns import LINE_BREAKS, NO_LINE_BREAK, JavaPattern, PatternProblem, PatternTooSlow

__all__ = ["JavaPattern", "PatternProblem", "PatternTooSlow", "compile_java", "exactly"]

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


_ANCHORS = {"A": r"\A", "z": r"\Z", "Z": _FINAL_BREAK, "b": r"\b", "B": r"\B", "R": _LINE_BREAK}

"""Reads the patterns of topic maps: the part of Java's regexes that describes regular languages of topic names.

Characters, `.`, classes, `\\d`, `\\w`, groups, `|` and quantifiers. Everything else (look-around, back references,
anchors, reluctant and possessive quantifiers) is an error that names it.
"""

from __future__ import annotations

import string
from typing import NamedTuple

from bridge.policies.languages import ALPHABET, Languages

LONGEST = 200
"""Limit of a pattern's length, in characters, classes and points, after repetitions are expanded."""
_CLASSES = {"d": frozenset(string.digits), "w": ALPHABET - frozenset(".-")}
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_METACHARACTERS = frozenset("*+?{}()[]|^$\\")


class Unprovable(ValueError):
    """Raised for a pattern that is invalid or outside this subset; the text says why."""


class Pattern(NamedTuple):
    """A pattern's languages. `whole`: what it matches. `group`: what its only capturing group matches, where all around
    that is fixed text, `before` and `behind`; None otherwise."""

    whole: int
    group: int | None
    before: str
    behind: str


class _Item(NamedTuple):
    language: int
    text: str | None
    """The fixed text that it is, None for anything else."""
    captured: bool = False
    atoms: int = 1


def read_pattern(text: str, languages: Languages) -> Pattern:
    """Raises Unprovable."""
    reader = _Reader(text, languages)
    branches = reader.branches()
    if not reader.at_end:
        raise Unprovable("it has a ')' without a '('")
    whole = languages.union(*(languages.sequence(*(item.language for item in items)) for items in branches))
    group, before, behind = None, "", ""
    items = branches[0]
    captured = [at for at, item in enumerate(items) if item.captured]
    if len(branches) == 1 and reader.groups == len(captured) == 1:
        around = [[item.text for item in part] for part in (items[: captured[0]], items[captured[0] + 1 :])]
        if None not in around[0] and None not in around[1]:
            group = items[captured[0]].language
            before, behind = ("".join(each for each in part if each) for part in around)
    return Pattern(whole, group, before, behind)


class _Reader:
    def __init__(self, text: str, languages: Languages) -> None:
        self._text, self._languages, self._at = text, languages, 0
        self.groups = 0
        """Capturing groups so far."""

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def branches(self) -> list[list[_Item]]:
        """Reads what stands between `|`, up to the end or a `)`."""
        choices: list[list[_Item]] = [[]]
        while not self.at_end and (character := self._text[self._at]) != ")":
            if character == "|":
                self._at += 1
                choices.append([])
            else:
                choices[-1].append(self._quantified(self._atom()))
        if sum(item.atoms for items in choices for item in items) > LONGEST:
            raise Unprovable(f"it has more than {LONGEST} characters, repeated ones included")
        return choices

    def _quantified(self, item: _Item) -> _Item:
        least, most = self._quantifier()
        if (least, most) == (1, 1):
            return item
        if not self.at_end and self._text[self._at] in "?+*{":
            raise Unprovable(f"'{self._text[self._at]}' behind a quantifier is not supported")
        languages, one = self._languages, item.language
        count = max(least, most or 0)
        if item.atoms * count > LONGEST:
            raise Unprovable(f"it has more than {LONGEST} characters, repeated ones included")
        again = [one] * least
        if most is None:
            again.append(languages.repeat(one))
        else:
            again += [languages.union(one, languages.blank)] * (most - least)
        return _Item(languages.sequence(*again), None, atoms=item.atoms * max(1, count))

    def _quantifier(self) -> tuple[int, int | None]:
        character = self._text[self._at : self._at + 1]
        if character in _QUANTIFIERS:
            self._at += 1
            return _QUANTIFIERS[character]
        if character != "{":
            return 1, 1
        inside = self._until("}", "a '{' without a '}'")
        low, comma, high = inside.partition(",")
        if not _number(low) or (high and not _number(high)):
            raise Unprovable(f"{{{inside}}} is not a valid quantifier")
        least, most = int(low), int(high) if high else None if comma else int(low)
        if most is not None and most < least:
            raise Unprovable(f"{{{inside}}} is not a valid quantifier")
        return least, most

    def _atom(self) -> _Item:
        character = self._text[self._at]
        self._at += 1
        match character:
            case "(":
                return self._group()
            case "[":
                return _Item(self._languages.letters(self._class()), None)
            case ".":
                return _Item(self._languages.letters(ALPHABET), None)
            case "\\":
                characters = self._escaped()
                return _Item(
                    self._languages.letters(characters), min(characters) if len(characters) == 1 else None
                )
        if character in _METACHARACTERS:
            raise Unprovable(f"'{character}' at this place is not supported")
        return _Item(self._languages.letters(_legal(character)), character)

    def _group(self) -> _Item:
        captured = not self._text.startswith("?", self._at)
        if not captured:
            if not self._text.startswith("?:", self._at):
                raise Unprovable(f"(?{self._text[self._at + 1 : self._at + 2]}…) is not supported")
            self._at += 2
        self.groups += captured
        branches = self.branches()
        if self.at_end:
            raise Unprovable("it has a '(' without a ')'")
        self._at += 1
        languages = self._languages
        language = languages.union(
            *(languages.sequence(*(item.language for item in items)) for items in branches)
        )
        return _Item(
            language, None, captured, max(1, sum(item.atoms for items in branches for item in items))
        )

    def _class(self) -> frozenset[str]:
        negated = self._text.startswith("^", self._at)
        self._at += negated
        characters = set[str]()
        first = True
        while first or not self._text.startswith("]", self._at):
            if self.at_end or self._text[self._at] in "[&":
                raise Unprovable("it has a character class that is not supported")
            low = self._class_character()
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                if self.at_end:
                    raise Unprovable("it has a character class that is not supported")
                high = self._class_character()
                if len(low) > 1 or len(high) > 1 or min(high) < min(low):
                    raise Unprovable("it has an invalid range of characters")
                low = frozenset(map(chr, range(ord(min(low)), ord(min(high)) + 1)))
            characters |= low
            first = False
        self._at += 1
        return ALPHABET - characters if negated else ALPHABET & characters

    def _class_character(self) -> frozenset[str]:
        character = self._text[self._at]
        self._at += 1
        return self._escaped() if character == "\\" else frozenset(character)

    def _escaped(self) -> frozenset[str]:
        if self.at_end:
            raise Unprovable("it ends with a backslash")
        character = self._text[self._at]
        self._at += 1
        if character.lower() in _CLASSES:
            those = _CLASSES[character.lower()]
            return those if character.islower() else ALPHABET - those
        if character.isalnum():
            raise Unprovable(f"\\{character} is not supported")
        return frozenset(character)

    def _until(self, end: str, otherwise: str) -> str:
        closing = self._text.find(end, self._at)
        if closing < 0:
            raise Unprovable(f"it has {otherwise}")
        inside, self._at = self._text[self._at + 1 : closing], closing + 1
        return inside


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 4


def _legal(character: str) -> str:
    if character not in ALPHABET:
        raise Unprovable(f"'{character}' is in no topic's name")
    return character

r"""Regular languages over the characters of topic names, with intersection and complement, by derivatives (Brzozowski).

A language is a number, equal for equal expressions. The derivative of a language by a character is what may follow that
character: so matching, the shortest word of a language, and whether it has any, are all walks from one to the next.

Reads the patterns of topic maps: the part of Java's regexes that describes regular languages of topic names.

Characters, `.`, classes, `\d`, `\w`, groups, `|` and quantifiers. Everything else (look-around, back references,
anchors, reluctant and possessive quantifiers) is an error that names it.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from functools import reduce
from typing import Final, Literal, NamedTuple

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
"""All characters that a topic's name may have."""
MOST = 20_000
"""Expressions that a proof may make; sensible patterns make some hundreds."""
Kind = Literal["letters", "blank", "sequence", "union", "intersection", "repeat", "complement"]
LONGEST = 200
"""Limit of a pattern's length, in characters, classes and points, after repetitions are expanded."""
_CLASSES = {"d": frozenset(string.digits), "w": ALPHABET - frozenset(".-")}
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_METACHARACTERS = frozenset("*+?{}()[]|^$\\")


class TooComplex(Exception):
    """Raised for expressions of which more follow than anybody waits for."""


class _Expression(NamedTuple):
    kind: Kind
    letters: frozenset[str] = frozenset()
    parts: tuple[int, ...] = ()


class Languages:
    """Makes and compares languages. The numbers of one object mean nothing to another."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._expressions: list[_Expression] = []
        self._nullable: list[bool] = []
        self._numbers: dict[_Expression, int] = {}
        self._derivatives: dict[tuple[int, str], int] = {}
        self.nothing = self.letters(())
        self.blank = self._number(_Expression("blank"))
        self.everything = self._number(_Expression("complement", parts=(self.nothing,)))

    # -- making ------------------------------------------------------------------------------------------------------

    def letters(self, characters: Iterable[str]) -> int:
        """One of these characters."""
        return self._number(_Expression("letters", frozenset(characters) & ALPHABET))

    def word(self, text: str) -> int:
        return self.sequence(*(self.letters(character) for character in text))

    def sequence(self, *parts: int) -> int:
        """Words of these languages, one after the other."""
        return reduce(lambda rest, first: self._two(first, rest), reversed(parts), self.blank)

    def _two(self, first: int, rest: int) -> int:
        if self.nothing in (first, rest):
            return self.nothing
        if first == self.blank:
            return rest
        if rest == self.blank:
            return first
        expression = self._expressions[first]
        if expression.kind == "sequence":
            return self._two(expression.parts[0], self._two(expression.parts[1], rest))
        return self._number(_Expression("sequence", parts=(first, rest)))

    def union(self, *parts: int) -> int:
        several = self._flat("union", parts) - {self.nothing}
        if self.everything in several:
            return self.everything
        letters = [number for number in several if self._expressions[number].kind == "letters"]
        if len(letters) > 1:
            merged = self.letters(
                frozenset().union(*(self._expressions[letter].letters for letter in letters))
            )
            several = several - set(letters) | {merged}
        return self._joined("union", several, self.nothing)

    def intersection(self, *parts: int) -> int:
        several = self._flat("intersection", parts) - {self.everything}
        return (
            self.nothing
            if self.nothing in several
            else self._joined("intersection", several, self.everything)
        )

    def repeat(self, part: int) -> int:
        """Any number of words of this language, one after the other; none is a number too."""
        if part in (self.nothing, self.blank):
            return self.blank
        return (
            part
            if self._expressions[part].kind == "repeat"
            else self._number(_Expression("repeat", parts=(part,)))
        )

    def complement(self, part: int) -> int:
        """All texts that are no words of this language."""
        expression = self._expressions[part]
        if expression.kind == "complement":
            return expression.parts[0]
        return self._number(_Expression("complement", parts=(part,)))

    def without(self, part: int, other: int) -> int:
        return self.intersection(part, self.complement(other))

    def _flat(self, kind: Kind, parts: Iterable[int]) -> set[int]:
        several = set[int]()
        for part in parts:
            expression = self._expressions[part]
            several.update(expression.parts if expression.kind == kind else (part,))
        return several

    def _joined(self, kind: Kind, several: set[int], none: int) -> int:
        if len(several) < 2:
            return next(iter(several), none)
        return self._number(_Expression(kind, parts=tuple(sorted(several))))

    def _number(self, expression: _Expression) -> int:
        known = self._numbers.get(expression)
        if known is not None:
            return known
        if len(self._expressions) >= self._most:
            raise TooComplex
        self._numbers[expression] = number = len(self._expressions)
        self._expressions.append(expression)
        self._nullable.append(self._holds_blank(expression))
        return number

    def _holds_blank(self, expression: _Expression) -> bool:
        parts = [self._nullable[part] for part in expression.parts]
        match expression.kind:
            case "sequence" | "intersection":
                return all(parts)
            case "union":
                return any(parts)
            case "complement":
                return not parts[0]
        return expression.kind != "letters"

    # -- asking ------------------------------------------------------------------------------------------------------

    def holds(self, language: int, text: str) -> bool:
        return self._nullable[self.after(language, text)]

    def after(self, language: int, text: str) -> int:
        """Returns what may follow this text in a word of the language."""
        for character in text:
            if language == self.nothing or character not in ALPHABET:
                return self.nothing
            language = self._derivative(language, character)
        return language

    def before(self, language: int, text: str) -> int:
        """Returns what may stand before this text in a word of the language."""
        return self._reversed(self.after(self._reversed(language), text[::-1]))

    def shortest(self, language: int) -> str | None:
        """The shortest word, None for a language that has none."""
        characters = self._representatives()
        ways = {language: ""}
        for number in (waiting := [language]):
            if self._nullable[number]:
                return ways[number]
            for character in characters:
                following = self._derivative(number, character)
                if following != self.nothing and following not in ways:
                    ways[following] = ways[number] + character
                    waiting.append(following)
        return None

    def several(self, language: int) -> bool:
        """Whether it has more than one word."""
        word = self.shortest(language)
        return word is not None and self.shortest(self.without(language, self.word(word))) is not None

    def _derivative(self, language: int, character: str) -> int:
        key = language, character
        known = self._derivatives.get(key)
        if known is None:
            known = self._derivatives[key] = self._made_derivative(language, character)
        return known

    def _made_derivative(self, language: int, character: str) -> int:
        kind, letters, parts = self._expressions[language]
        match kind:
            case "letters":
                return self.blank if character in letters else self.nothing
            case "sequence":
                first, rest = parts
                begun = self.sequence(self._derivative(first, character), rest)
                return (
                    self.union(begun, self._derivative(rest, character)) if self._nullable[first] else begun
                )
            case "union":
                return self.union(*(self._derivative(part, character) for part in parts))
            case "intersection":
                return self.intersection(*(self._derivative(part, character) for part in parts))
            case "repeat":
                return self.sequence(self._derivative(parts[0], character), language)
            case "complement":
                return self.complement(self._derivative(parts[0], character))
        return self.nothing

    def _reversed(self, language: int) -> int:
        kind, _, parts = self._expressions[language]
        turned = [self._reversed(part) for part in parts]
        match kind:
            case "sequence":
                return self.sequence(*reversed(turned))
            case "union":
                return self.union(*turned)
            case "intersection":
                return self.intersection(*turned)
            case "repeat":
                return self.repeat(turned[0])
            case "complement":
                return self.complement(turned[0])
        return language

    def _representatives(self) -> list[str]:
        """One character of each set of those that no expression tells apart."""
        sets = {expression.letters for expression in self._expressions if expression.kind == "letters"}
        classes = {
            tuple(character in letters for letters in sets): character
            for character in sorted(ALPHABET, reverse=True)
        }
        return sorted(classes.values())


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
    captured = [index for index, item in enumerate(items) if item.captured]
    if len(branches) == 1 and reader.groups == len(captured) == 1:
        around = [[item.text for item in part] for part in (items[: captured[0]], items[captured[0] + 1 :])]
        if None not in around[0] and None not in around[1]:
            group = items[captured[0]].language
            before, behind = ("".join(text for text in part if text) for part in around)
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

"""Finds the keys that an unknown one may be a misspelling of.

Two names are near when removing at most one character from each makes them the same. Case does not count, and `_` and
`-` count as `.`. So a name may have one character too many, one missing, a wrong one, or one that has moved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

LEAST, MOST = 5, 120
"""Least length of a known key, and most of an unknown one: short keys have too many neighbours, ours are shorter."""
OTHERS = frozenset({"offset.storage.topic"})
"""Keys of Kafka that are not misspelt, though near a connector's key: this one is a Connect worker's."""
_SEPARATORS = str.maketrans("_-", "..")


def _plain(text: str) -> str:
    return text.strip().lower().translate(_SEPARATORS)


def _shortened(text: str) -> Iterator[str]:
    """Yields the text, and the text without each of its characters."""
    yield text
    yield from (text[:at] + text[at + 1 :] for at in range(len(text)))


class Names:
    """An index of names, searched by a text that is near."""

    def __init__(self, names: Collection[str]) -> None:
        self._by_text: dict[str, set[str]] = {}
        for name in names:
            for text in _shortened(_plain(name)):
                self._by_text.setdefault(text, set()).add(name)

    def near(self, text: str) -> set[str]:
        """Returns the names near a text, with the text itself where it is one."""
        matches = set[str]()
        for each in _shortened(_plain(text)):
            matches |= self._by_text.get(each, set())
        return matches


class NearKeys:
    """What a key may have been meant as: one of `keys`, or a client's property behind one of `prefixes`."""

    def __init__(self, keys: Collection[str], prefixes: Collection[str], properties: Collection[str]) -> None:
        self._keys = Names([key for key in keys if len(key) >= LEAST])
        self._prefixes = Names(prefixes)
        self._properties = Names(properties)

    def of(self, key: str) -> list[str]:
        """Returns the names near an unknown key, the nearest first."""
        if key in OTHERS or len(key) > MOST:
            return []
        matches = self._keys.near(key)
        for at, character in enumerate(key):
            if character not in "._-":
                continue
            for prefix in self._prefixes.near(key[:at]):
                matches |= {f"{prefix}.{name}" for name in self._properties.near(key[at + 1 :])}
        return sorted(matches, key=lambda other: (_edits(_plain(key), _plain(other)), -len(other), other))


def _edits(text: str, other: str) -> int:
    """Returns how many characters are too many, missing, or different, of two near texts."""
    if len(text) != len(other):
        return abs(len(text) - len(other))
    wrong = [pair for pair in zip(text, other, strict=True) if pair[0] != pair[1]]
    swapped = len(wrong) == 2 and wrong[0] == wrong[1][::-1]
    return 1 if swapped else min(len(wrong), 2)

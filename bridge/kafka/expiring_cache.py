"""A cache whose entries expire."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """Entries expire when nobody has read or written them for `seconds`; at the latest after twice that.

    There are two generations: a read moves an entry into the young one, and the old one is dropped as a whole. So no
    ages are kept, and the size is that of what was used lately, however many keys there ever were.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] | None = None) -> None:
        """`clock` in seconds; the monotonic one if not given."""
        self._seconds, self._clock = seconds, clock or time.monotonic
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._turned = self._clock()

    def __len__(self) -> int:
        self._turn()
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        self._turn()
        value = self._young.get(key)
        if value is None and (value := self._old.pop(key, None)) is not None:
            self._young[key] = value
        return value

    def put(self, key: K, value: V) -> None:
        self._turn()
        self._old.pop(key, None)
        self._young[key] = value

    def drop(self, key: K) -> None:
        self._young.pop(key, None)
        self._old.pop(key, None)

    def _turn(self) -> None:
        past = self._clock() - self._turned
        if past < self._seconds:
            return
        self._old = self._young if past < 2 * self._seconds else {}
        self._young = {}
        self._turned += past

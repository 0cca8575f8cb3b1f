"""Regexes that match within a limit. Backtracking can take longer than the universe lasts, in `re` with the
interpreter's lock held; so `re` is used where it is quick whatever comes, and the `regex` library, which lets other
threads run and ends when its time is over, for all else.
"""

from __future__ import annotations

import re
import time

import regex

MATCH_SECONDS = 0.5
"""For one text. What is written sensibly takes microseconds."""
WINDOW_SECONDS = 60.0
_SLOW_SECONDS = 0.01
"""A match that takes longer counts. All of them in a window have MATCH_SECONDS too, of which one that ends by itself
costs a fifth at most: a machine that was suspended is not the pattern's fault."""
_SHORT = 1_000
"""Characters, up to which what is quick is so: topics have 249 at most."""
_SHOWN = 200


class PatternProblem(ValueError):
    """A pattern that is not a Java regex, or one that can't be had here; the message says which and why."""


class PatternTooSlow(PatternProblem):
    """It has taken too long to match a text. `key`: the setting, empty for none."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}" if key else why)
        self.key = key


class JavaPattern:
    """`quick`: whether no text of usual length takes `re` long. `translated` is Python's form of `source`; `key` names
    the setting in errors. Raises PatternProblem."""

    def __init__(self, source: str, translated: str, *, quick: bool, key: str = "") -> None:
        self.pattern = source
        self._translated, self._key = translated, key
        self._slow = self._window = 0.0
        self._limited: regex.Pattern[str] | None = None
        self._quick: re.Pattern[str] | None = None
        try:
            compiled = re.compile(translated, re.ASCII)
            if quick:
                self._quick = compiled
            else:
                self._limited = self._compiled()
        except (re.error, regex.error, OverflowError, RecursionError) as error:
            raise PatternProblem(f"{source} is not a regular expression: {error}") from None

    @property
    def exact(self) -> bool:
        """Whether it matches its own source and nothing else."""
        return self._translated == re.escape(self.pattern)

    def fullmatch(self, text: str) -> bool:
        """Raises PatternTooSlow."""
        if self._quick is not None and len(text) <= _SHORT:
            return self._quick.fullmatch(text) is not None
        if self._slow > MATCH_SECONDS:
            raise self._too_slow(text)
        if self._limited is None:
            self._limited = self._compiled()
        began = time.perf_counter()
        try:
            return self._limited.fullmatch(text, timeout=MATCH_SECONDS) is not None
        except TimeoutError:
            self._slow = 2 * MATCH_SECONDS
            raise self._too_slow(text) from None
        finally:
            took = time.perf_counter() - began
            if took > _SLOW_SECONDS:
                self._count(began, took)

    def _compiled(self) -> regex.Pattern[str]:
        return regex.compile(self._translated, regex.ASCII | regex.VERSION0)

    def _count(self, now: float, took: float) -> None:
        if self._slow <= MATCH_SECONDS and now - self._window > WINDOW_SECONDS:
            self._window, self._slow = now, 0.0
        self._slow += min(took, MATCH_SECONDS / 5)

    def _too_slow(self, text: str) -> PatternTooSlow:
        shown = self.pattern if len(self.pattern) <= _SHOWN else f"{self.pattern[:_SHOWN]}…"
        return PatternTooSlow(
            self._key,
            f"the pattern {shown} takes too long to match, more than {MATCH_SECONDS:g} s for {text[:80]!r}: "
            "write it without repetitions inside of repetitions",
        )

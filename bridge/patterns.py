"""Regular expressions of users, matched within a time limit.

Backtracking can take years, and `re` holds the interpreter's lock meanwhile. So `re` matches only patterns that are
quick on every text; all others go to the `regex` library, which releases the lock and has a timeout.
"""

from __future__ import annotations

import re
import time

import regex

MATCH_SECONDS = 0.5
"""For one text. A sensible pattern takes microseconds."""
WINDOW_SECONDS = 60.0
_SLOW_SECONDS = 0.01
"""Matches that take longer than this are added up, and may take MATCH_SECONDS in a window together. One that ends by
itself counts as a fifth of that at most: a machine that was suspended is not the pattern's fault."""
_SHORT = 1_000
"""Characters up to which a quick pattern is quick: topic names have 249 at most."""
_SHOWN = 200
LINE_BREAKS = r"\n\r\u0085\u2028\u2029"
NO_LINE_BREAK = f"[^{LINE_BREAKS}]"
"""Java's dot."""


class PatternProblem(ValueError):
    """A pattern that is not a Java regex, or that Python has no form of; the message names it and says why."""


class PatternTooSlow(PatternProblem):
    """A pattern took too long to match a text. `key`: the configuration key that holds it, "" for none."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}" if key else why)
        self.key = key


class JavaPattern:
    """A Java regex. `translated`: its form in Python; `quick`: whether `re` matches every text of usual length quickly;
    `key`: the configuration key that errors name. Raises PatternProblem.

    For printable texts, which have no line breaks, Java's dot is Python's: 20,000 of them compile in a third of the
    time. The form with Java's own dot is compiled when another text comes.
    """

    def __init__(self, source: str, translated: str, *, quick: bool, key: str = "") -> None:
        self.pattern = source
        self._translated, self._key = translated, key
        self._slow = self._window = 0.0
        self._printable = translated.replace(NO_LINE_BREAK, ".")
        self._limited = dict[str, regex.Pattern[str]]()
        self._quick: re.Pattern[str] | None = None
        try:
            compiled = re.compile(self._printable, re.ASCII)
            if quick:
                self._quick = compiled
            else:
                self._compiled(self._printable)
        except (re.error, regex.error, OverflowError, RecursionError) as error:
            raise PatternProblem(f"{source} is not a regular expression: {error}") from None

    @property
    def exact(self) -> bool:
        """Whether it matches its own source and nothing else."""
        return self._translated == re.escape(self.pattern)

    def fullmatch(self, text: str) -> bool:
        """Raises PatternTooSlow."""
        printable = text.isprintable()
        if self._quick is not None and printable and len(text) <= _SHORT:
            return self._quick.fullmatch(text) is not None
        if self._slow > MATCH_SECONDS:
            raise self._too_slow(text)
        limited = self._compiled(self._printable if printable else self._translated)
        began = time.perf_counter()
        try:
            return limited.fullmatch(text, timeout=MATCH_SECONDS) is not None
        except TimeoutError:
            self._slow = 2 * MATCH_SECONDS
            raise self._too_slow(text) from None
        finally:
            took = time.perf_counter() - began
            if took > _SLOW_SECONDS:
                self._count(began, took)

    def _compiled(self, translated: str) -> regex.Pattern[str]:
        compiled = self._limited.get(translated)
        if compiled is None:
            compiled = self._limited[translated] = regex.compile(translated, regex.ASCII | regex.VERSION0)
        return compiled

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

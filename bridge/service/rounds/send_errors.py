"""Remembers what the rounds process could not send of an instance, so that its summaries have it as an error."""

from __future__ import annotations

import logging
from dataclasses import replace

from connectors.base import Summary

log = logging.getLogger(__name__)

Of = tuple[str, int]
"""Name and generation of an instance."""


class SendErrors:
    """The errors of all instances, each until the next one of its name."""

    def __init__(self) -> None:
        self._errors: dict[str, tuple[int, dict[str, str]]] = {}
        """By name: generation, and the newest error of each kind of message."""

    def started(self, name: str, generation: int) -> None:
        """Forgets the errors of earlier instances."""
        if name in self._errors and self._errors[name][0] < generation:
            del self._errors[name]

    def add(self, of: Of, kind: str, error: str) -> None:
        name, generation = of
        self.started(name, generation)
        errors = self._errors.setdefault(name, (generation, {}))[1]
        if kind not in errors:
            log.error("%s", error, extra={"connector": name})
        errors[kind] = error

    def named(self, of: Of, summary: Summary) -> Summary:
        """The summary with these errors."""
        generation, errors = self._errors.get(of[0], (0, {}))
        if generation != of[1]:
            return summary
        return replace(summary, errors=(*errors.values(), *summary.errors))

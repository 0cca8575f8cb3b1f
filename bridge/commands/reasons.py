"""Reasons as lines for people: each once, with the groups that have it, the most frequent first, and what follows from
it behind it. Ten thousand groups that have one reason are read at a glance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from bridge.model.times import iso_time

if TYPE_CHECKING:
    from bridge.protocol.messages import CountedReason

SCREEN = 20
"""Lines of an answer, at most."""
_NAMED = 3


def listed(names: Sequence[str], groups: int = 0) -> str:
    """The first names, and how many more there are, of so many in all."""
    more = max(groups, len(names)) - _NAMED
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def reason_lines(reasons: Iterable[CountedReason], most: int, rest: str) -> list[str]:
    """Returns at most so many lines. `rest`: where those are that do not fit."""
    lines = [_line(each, depth) for each, depth in _tree(_merged(reasons))]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"and {len(lines) - most + 1} more reasons: {rest}"]


def _merged(reasons: Iterable[CountedReason]) -> list[CountedReason]:
    """Each reason once, as several flows have it."""
    merged: dict[str, CountedReason] = {}
    for each in reasons:
        known = merged.get(each.detail)
        if known is None:
            merged[each.detail] = each
        else:
            update = {"groups": known.groups + each.groups, "names": [*known.names, *each.names]}
            merged[each.detail] = known.model_copy(update=update)
    return list(merged.values())


def _tree(reasons: list[CountedReason]) -> Iterator[tuple[CountedReason, int]]:
    """The reasons with their depths, each behind the first of those that it follows from."""
    codes = {each.reason for each in reasons}
    ordered = sorted(reasons, key=lambda each: -each.groups)

    def below(cause: str | None, depth: int) -> Iterator[tuple[CountedReason, int]]:
        told: set[str] = set()
        for each in ordered:
            if (each.follows_from if each.follows_from in codes else None) != cause:
                continue
            yield each, depth
            if each.reason not in told:
                told.add(each.reason)
                yield from below(each.reason, depth + 1)

    return below(None, 0)


def _line(reason: CountedReason, depth: int) -> str:
    since = "" if reason.since_ms is None else f" since {iso_time(reason.since_ms)}"
    named = listed(reason.names, reason.groups) if reason.names else ""
    of = f", {reason.groups} group(s)" if reason.groups else ""
    indent = "  " * depth + ("so " if depth else "")
    return f"{indent}{reason.reason}{since}{of}{f' ({named})' if named else ''}: {reason.detail}"

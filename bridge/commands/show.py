"""Prints results for people, as tables, and for programs, as JSON.

Reasons as lines for people: each once, with the groups that have it, the most frequent first, and what follows from
it behind it. Ten thousand groups that have one reason are read at a glance.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.model.values import Committed, TopicPartition, iso_time

if TYPE_CHECKING:
    from rich.table import Table

    from bridge.protocol.messages import CountedReason
SCREEN = 20
"""Lines of an answer, at most."""
_NAMED = 3


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="For people, or for programs.")]


def show_names(names: set[str], output: Output) -> None:
    """Prints names sorted, one a line or as a JSON array."""
    if output is Output.JSON:
        show_json(sorted(names))
    else:
        sys.stdout.writelines(f"{printable(name)}\n" for name in sorted(names))


def show_offsets(offsets: Mapping[str, Mapping[TopicPartition, Committed]], output: Output) -> None:
    rows = [
        {"group": group, "topic": topic, "partition": partition, "offset": at.offset, "metadata": at.metadata}
        for group, some in sorted(offsets.items())
        for (topic, partition), at in sorted(some.items())
    ]
    show_rows(rows, ("group", "topic", "partition", "offset", "metadata"), output)


def show_rows(rows: Sequence[Mapping[str, object]], columns: Sequence[str], output: Output) -> None:
    """Prints rows as a table, numbers aligned to the right, or as a JSON array."""
    if output is Output.JSON:
        show_json(rows)
    else:
        show_table(rows, columns, right=[name for name in columns if _numbers(row[name] for row in rows)])


def _numbers(column: Iterable[object]) -> bool:
    return all(value is None or isinstance(value, int) for value in column)


def show_table(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], right: Sequence[str] = ()
) -> None:
    from rich.console import Console
    from rich.measure import Measurement

    drawn = table(rows, columns, right)
    console = Console(highlight=False)
    # Names are never cut: a terminal that is too narrow wraps the lines itself.
    console.width = max(
        console.width, Measurement.get(console, console.options.update(width=100_000), drawn).maximum
    )
    console.print(drawn)


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str], right: Sequence[str] = ()) -> Table:
    """A table of rows, by the names of its columns. `right`: columns aligned to the right. None becomes a dash."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, show_edge=False)
    for name in columns:
        drawn.add_column(name.upper(), justify="right" if name in right else "left", no_wrap=True)
    for row in rows:
        values = (row[name] for name in columns)
        drawn.add_row(*(Text("-" if value is None else printable(str(value))) for value in values))
    return drawn


def show_json(value: Mapping[str, object] | Sequence[object]) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def printable(text: str) -> str:
    """Escapes what is not printable: group ids and metadata may hold anything, also what moves a terminal's cursor."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def listed(names: Sequence[str], groups: int = 0) -> str:
    """The first names, and how many more there are, of so many in all."""
    more = max(groups, len(names)) - _NAMED
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def reason_lines(reasons: Iterable[CountedReason], most: int, rest: str) -> list[str]:
    """Returns at most so many lines. `rest`: where those are that do not fit."""
    lines = [_line(reason, depth) for reason, depth in _tree(_merged(reasons))]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"and {len(lines) - most + 1} more reasons: {rest}"]


def _merged(reasons: Iterable[CountedReason]) -> list[CountedReason]:
    """Each reason once, as several flows have it."""
    merged: dict[str, CountedReason] = {}
    for reason in reasons:
        known = merged.get(reason.detail)
        if known is None:
            merged[reason.detail] = reason
        else:
            update = {"groups": known.groups + reason.groups, "names": [*known.names, *reason.names]}
            merged[reason.detail] = known.model_copy(update=update)
    return list(merged.values())


def _tree(reasons: list[CountedReason]) -> Iterator[tuple[CountedReason, int]]:
    """The reasons with their depths, each behind the first of those that it follows from."""
    codes = {reason.reason for reason in reasons}
    ordered = sorted(reasons, key=lambda each: -each.groups)

    def below(cause: str | None, depth: int) -> Iterator[tuple[CountedReason, int]]:
        shown: set[str] = set()
        for reason in ordered:
            if (reason.follows_from if reason.follows_from in codes else None) != cause:
                continue
            yield reason, depth
            if reason.reason not in shown:
                shown.add(reason.reason)
                yield from below(reason.reason, depth + 1)

    return below(None, 0)


def _line(reason: CountedReason, depth: int) -> str:
    since = "" if reason.since_ms is None else f" since {iso_time(reason.since_ms)}"
    named = listed(reason.names, reason.groups) if reason.names else ""
    of = f", {reason.groups} group(s)" if reason.groups else ""
    indent = "  " * depth + ("so " if depth else "")
    return f"{indent}{reason.reason}{since}{of}{f' ({named})' if named else ''}: {reason.detail}"

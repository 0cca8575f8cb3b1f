"""Answers of a cluster, for people and for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bridge.model.values import Committed, TopicPartition


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="For people, or for programs.")]


def show_names(names: set[str], output: Output) -> None:
    """One a line, or a JSON array; sorted."""
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
    """A table with numbers to the right, or a JSON array of the rows."""
    if output is Output.JSON:
        show_json(rows)
    else:
        show_table(rows, columns, right=[name for name in columns if _numbers(row[name] for row in rows)])


def _numbers(column: Iterable[object]) -> bool:
    return all(value is None or isinstance(value, int) for value in column)


def show_table(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], right: Sequence[str] = ()
) -> None:
    made = table(rows, columns, right)
    console = Console(highlight=False)
    # Names are cut nowhere: a terminal that is too narrow breaks the lines itself.
    console.width = max(
        console.width, Measurement.get(console, console.options.update(width=100_000), made).maximum
    )
    console.print(made)


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str], right: Sequence[str] = ()) -> Table:
    """`right`: columns of numbers. None is a dash."""
    made = Table(box=SIMPLE_HEAD)
    for name in columns:
        made.add_column(name.upper(), justify="right" if name in right else "left", no_wrap=True)
    for row in rows:
        values = (row[name] for name in columns)
        made.add_row(*(Text("-" if value is None else printable(str(value))) for value in values))
    return made


def show_json(value: Mapping[str, object] | Sequence[object]) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def printable(text: str) -> str:
    """Group ids and metadata may hold anything, what moves a terminal's cursor too."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)

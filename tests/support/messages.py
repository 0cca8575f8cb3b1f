"""The texts that operators read. tests/messages.toml has each of them once; tests name them."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from string import Formatter

TABLE = Path(__file__).parents[1] / "messages.toml"


@cache
def texts() -> dict[str, str]:
    """Returns the table: each text by `section.name`."""
    table = tomllib.loads(TABLE.read_text("utf-8"))
    return {f"{section}.{name}": text for section, rows in table.items() for name, text in rows.items()}


def message(name: str, /, **values: object) -> str:
    """Returns a text of the table with these values in it."""
    return texts()[name].format(**values)


def message_pattern(name: str, /, **values: object) -> str:
    """Returns a regular expression for a text of the table: a place that has no value here may hold anything."""
    parts = Formatter().parse(texts()[name])
    return "".join(
        re.escape(text)
        + ("" if place is None else re.escape(str(values[place])) if place in values else ".*")
        for text, place, _, _ in parts
    )

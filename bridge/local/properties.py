"""Writes Java properties files, as Kafka's main classes read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_properties(path: Path, values: Mapping[str, str]) -> None:
    """Writes the file. Backslashes and line breaks, which this format treats specially, are escaped."""
    lines = [f"{key}={_escaped(value)}\n" for key, value in values.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")

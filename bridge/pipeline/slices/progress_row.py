"""Rows that tell Spark's UI what slices have copied. How far a copy is, the runs topic says alone. Pure."""

from __future__ import annotations

from typing import NamedTuple

SCHEMA = (
    "connector string, layout bigint, slot bigint, records bigint, bytes bigint, at timestamp, ended string"
)
"""Of rows, as Spark writes it."""


class ProgressRow(NamedTuple):
    """What a slice has committed since its last row; `at` in µs since the epoch; `ended`: why, in its last row."""

    connector: str
    layout: int
    slot: int
    records: int
    bytes: int
    at: int
    ended: str | None = None


class Tally:
    """Counts what a slice has committed since somebody asked last."""

    def __init__(self) -> None:
        self._records = self._bytes = 0

    def add(self, records: int, size: int) -> None:
        self._records += records
        self._bytes += size

    def take(self) -> tuple[int, int]:
        """Returns records and their bytes since the last call."""
        taken = self._records, self._bytes
        self._records = self._bytes = 0
        return taken

"""Files of positions and of answers: CSV, Parquet, and JSON (out only)."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from bridge.positions.tables import NAMED, PositionsRejected, column_errors, positions_of, with_answers
from bridge.positions.translator import PositionColumns, TranslatedPositions
from bridge.whole_files import whole_file

READ = (".csv", ".parquet")
WRITTEN = (".csv", ".parquet", ".json")


def read_table(path: Path) -> tuple[pa.Table, PositionColumns]:
    """Reads positions; the table has all columns of the file, those of CSV as text. Raises PositionsRejected, whose
    lines name the rows of the file."""
    if path.suffix.lower() not in READ:
        raise PositionsRejected(f"the input's name must end with {' or '.join(READ)}")
    try:
        return _read_csv(path) if path.suffix.lower() == ".csv" else _read_parquet(path)
    except OSError as error:
        raise PositionsRejected(f"can't read the input: {error.strerror or error}") from None
    except pa.ArrowException as error:
        raise PositionsRejected(f"can't read the input: {str(error).splitlines()[0]}") from None


def _read_parquet(path: Path) -> tuple[pa.Table, PositionColumns]:
    table = parquet.read_table(path)
    return table, positions_of(table, lambda row: f"row {row + 1}")


def _read_csv(path: Path) -> tuple[pa.Table, PositionColumns]:
    """Reads every value as text, so that no number is taken for another, and what is wrong can be shown."""
    with path.open("rb") as file:
        names = csv.read_csv(pa.BufferReader(file.readline()), parse_options=_PLAIN).column_names
    if errors := column_errors(names):
        raise PositionsRejected("\n".join(errors))
    invalid_rows: list[csv.InvalidRow] = []

    def invalid(row: csv.InvalidRow) -> str:
        invalid_rows.append(row)
        return "skip"

    table = csv.read_csv(
        path,
        csv.ReadOptions(use_threads=False, block_size=16 << 20),
        csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=invalid),
        csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
    )
    if invalid_rows:
        lines = [
            f"line {row.number}: {row.actual_columns} values, and there are {row.expected_columns} columns"
            for row in invalid_rows[:NAMED]
        ]
        more = [f"and {len(invalid_rows) - NAMED} more lines"] if len(invalid_rows) > NAMED else []
        raise PositionsRejected("\n".join([*lines, *more]))
    return table, positions_of(table, lambda row: f"line {row + 2}")


_PLAIN = csv.ParseOptions(ignore_empty_lines=False)


def write_table(path: Path, table: pa.Table, translated: TranslatedPositions) -> None:
    """Writes the table and its answers, whole or not at all. Raises OSError."""
    table = with_answers(table, translated)
    with whole_file(path) as file:
        if path.suffix.lower() == ".parquet":
            parquet.write_table(table, file)
        elif path.suffix.lower() == ".csv":
            flags = table.column_names.index("flags")
            joined = pc.binary_join(table.column("flags"), " ")
            csv.write_csv(table.set_column(flags, "flags", joined), file)
        else:
            write_json(table, file)


def write_json(table: pa.Table, file: IO[bytes]) -> None:
    """Writes a JSON array, a line for each position."""
    import json

    first = True
    file.write(b"[")
    for batch in table.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            file.write(b"\n" if first else b",\n")
            file.write(json.dumps(row, ensure_ascii=False, default=str).encode())
            first = False
    file.write(b"\n]\n")

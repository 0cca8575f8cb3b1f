"""The files of `mirror-bridge audit --output`: JSON, or a folder of Parquet. Whether they can be written is found out
before an audit, which may take hours; what was there stays until all of it is written.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.audit.report import (
    DIFFERENCES,
    SUMMARY,
    difference_rows,
    not_compared,
    summary_rows,
)
from bridge.whole_files import whole_file, whole_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from bridge.audit.report import AuditReport


_JSON, _PARQUET = ".json", ".parquet"


_PARTS = ("summary", "differences")


class CannotWrite(Exception):
    """Raised when a report can't be written; the text goes on from the file's name."""


class ReportFile:
    """The file or folder that an audit's report is written to."""

    def __init__(self, path: Path) -> None:
        """Raises CannotWrite unless the name ends with .json or .parquet."""
        self._path, self._kind = path, path.suffix.lower()
        if self._kind not in (_PARQUET, _JSON):
            raise CannotWrite(f" must end with {_PARQUET} or {_JSON}")

    def verify(self) -> None:
        """Raises CannotWrite where `write` would fail, as far as can be told before."""
        if self._kind == _PARQUET and find_spec("pyarrow") is None:
            raise CannotWrite(
                " needs pyarrow, which is not installed: pip install pyarrow; .json does not need it"
            )
        folder = self._path.parent
        if not folder.is_dir():
            raise CannotWrite(f": there is no folder {folder}")
        if self._kind == _JSON and self._path.is_dir():
            raise CannotWrite(" is a folder: give the name of a file")
        try:
            if self._kind == _PARQUET and self._path.exists():
                self._verify_folder()
            # Rights alone do not tell: a file system may be mounted read-only.
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise CannotWrite(f": can't write into {folder}: {error.strerror or error}") from None

    def _verify_folder(self) -> None:
        """Refuses a folder with anything that is not an audit's own: that is never replaced. Raises CannotWrite and
        OSError."""
        if not self._path.is_dir():
            raise CannotWrite(
                f" is a file, and {_PARQUET} is written as a folder: give another name, or remove it"
            )
        more = sorted(path.name for path in self._path.iterdir() if path.name not in _PARTS)
        if more:
            raise CannotWrite(
                f" holds more than an audit ({more[0]}), and is not replaced: give another name, or move {more[0]} away"
            )

    def write(self, report: AuditReport) -> None:
        """Raises OSError."""
        if self._kind == _JSON:
            with whole_file(self._path) as file:
                file.write((json.dumps(document(report), indent=2, ensure_ascii=False) + "\n").encode())
            return
        from pyarrow import parquet

        # Not by Spark, whose executors would write to their own disks.
        tables = (SUMMARY, summary_rows(report)), (DIFFERENCES, difference_rows(report))
        with whole_folder(self._path) as folder:
            for name, (columns, rows) in zip(_PARTS, tables, strict=True):
                (folder / name).mkdir()
                parquet.write_table(table(columns, rows), folder / name / "part-00000.parquet")


def table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Makes a table of rows. `columns`: with their types as Spark writes them."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "map<string, bigint>": pa.map_(pa.string(), pa.int64()),
        "array<string>": pa.list_(pa.string()),
    }
    arrays = {
        name: pa.array(
            [list(row[name].items()) if isinstance(row[name], dict) else row[name] for row in rows],
            types[kind],
        )
        for name, kind in columns.items()
    }
    return pa.table(arrays)


def document(report: AuditReport) -> dict[str, Any]:
    """Returns the report as JSON has it."""

    def plain(row: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()
        }

    return {
        "verdict": report.verdict.value,
        "sample": report.sample,
        "not_compared": not_compared(report),
        "failures": report.failures,
        "summary": [plain(row) for row in summary_rows(report)],
        "differences": [plain(row) for row in difference_rows(report)],
        "differences_left_out": sum(part.findings.left_out for part in report.partitions),
    }

"""Files of positions and of answers: what is wrong is named row by row, and what is written is whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from bridge.model.values import Evidence, Flag, Judgement, Reason, Verdict
from bridge.positions import files
from bridge.positions.files import read_table, write_table
from bridge.positions.tables import PositionsRejected
from bridge.positions.translator import AnswerArrays, TranslatedPositions
from tests.support.messages import message


def rejected(path: Path) -> list[str]:
    with pytest.raises(PositionsRejected) as caught:
        read_table(path)
    return str(caught.value).splitlines()


def wrong(place: str, column: str, value: object) -> str:
    """The line for a number that the column can't have."""
    most = {"partition": 2**31 - 1, "offset": 2**63 - 1}[column]
    return message("positions.number", place=place, column=column, least=0, most=most, value=value)


def written(folder: Path, text: str) -> Path:
    path = folder / "positions.csv"
    path.write_text(text)
    return path


def test_positions_are_read_from_csv_and_parquet_alike(tmp_path: Path) -> None:
    path = written(tmp_path, 'job,offset,partition,topic\na,5,0,orders\n"b,c",9223372036854775807,1,orders\n')
    table, positions = read_table(path)
    assert table.column("job").to_pylist() == ["a", "b,c"]
    other = tmp_path / "positions.parquet"
    columns = {"topic": ["orders", "orders"], "partition": [0, 1], "offset": [5, 2**63 - 1]}
    parquet.write_table(pa.table(columns), other)
    for each in (positions, read_table(other)[1]):
        assert (each.topics, each.topic.tolist()) == (["orders"], [0, 0])
        assert (each.partition.tolist(), each.offset.tolist()) == ([0, 1], [5, 2**63 - 1])


def test_every_bad_row_is_named_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "topic,partition,offset\norders,0,1\n,0,1\norders,-1,x\norders,0,9223372036854775808\norders,1.5,3\n",
    )
    assert rejected(path) == [
        message("positions.empty", place="line 3", value=""),
        wrong("line 4", "partition", "-1"),
        wrong("line 4", "offset", "x"),
        wrong("line 5", "offset", "9223372036854775808"),
        wrong("line 6", "partition", "1.5"),
    ]


def test_of_many_bad_rows_some_are_named_and_the_others_counted(tmp_path: Path) -> None:
    lines = rejected(written(tmp_path, "topic,partition,offset\n" + "orders,0,-1\n" * 100))
    assert (len(lines), lines[0], lines[-1]) == (
        21,
        wrong("line 2", "offset", "-1"),
        "and 80 more rows",
    )


def test_lines_with_too_few_values_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, "topic,partition,offset\norders,0,1\norders,0\norders,0,2\na,b,c,d\n")
    assert rejected(path) == [
        "line 3: 2 values, and there are 3 columns",
        "line 5: 4 values, and there are 3 columns",
    ]
    path = written(tmp_path, "topic,partition,offset\n\norders,0,1\n")
    assert rejected(path)[0] == message("positions.empty", place="line 2", value="")


def test_columns_that_are_missing_or_would_be_overwritten_are_named(tmp_path: Path) -> None:
    columns = "Topic, partition, bound"
    assert rejected(written(tmp_path, "Topic,partition,bound\n")) == [
        message("positions.no_column", column="topic", columns=columns),
        message("positions.no_column", column="offset", columns=columns),
        message("positions.overwritten", column="bound"),
    ]
    assert rejected(written(tmp_path, "")) == ["can't read the input: Empty CSV file"]
    assert rejected(tmp_path / "none.csv") == [message("positions.missing_input")]
    assert rejected(tmp_path / "positions.txt") == [message("positions.suffix")]


def test_other_types_are_refused_and_nulls_named_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "positions.parquet"
    parquet.write_table(pa.table({"topic": ["a", None], "partition": [0, 1], "offset": [None, 2]}), path)
    assert rejected(path) == [
        wrong("row 1", "offset", None),
        message("positions.empty", place="row 2", value=None),
    ]
    parquet.write_table(pa.table({"topic": [1], "partition": [0], "offset": [1.5]}), path)
    assert rejected(path) == [message("positions.not_text", type="int64")]


def answers() -> tuple[pa.Table, TranslatedPositions]:
    table = pa.table({"topic": ["orders"] * 3, "partition": [0, 0, 1], "offset": [1, 2, 3]})
    three = AnswerArrays.empty(3)
    three.set(0, Verdict(Judgement.EXACT, 8, 0, Evidence.RUN))
    three.set(
        1, Verdict(Judgement.BOUNDED, 9, 4, Evidence.VERIFIED, flags=(Flag.TRUNCATED, Flag.AHEAD_OF_MIRROR))
    )
    three.set(2, Verdict.pending(Reason.COPY_NOT_FOUND))
    return table, TranslatedPositions(["A.orders"], np.array([0, 0, -1], np.int32), three)


def test_answers_are_written_as_csv_parquet_and_json(tmp_path: Path) -> None:
    expected = [
        ("A.orders", 8, "exact", 0, "run", None, []),
        ("A.orders", 9, "bounded", 4, "verified", None, ["truncated", "ahead_of_mirror"]),
        (None, None, "pending", None, None, "copy_not_found", []),
    ]
    names = ("target_topic", "target_offset", "verdict", "bound", "evidence", "reason", "flags")
    for suffix in ("parquet", "json", "csv"):
        path = tmp_path / f"answers.{suffix}"
        write_table(path, *answers())
        rows = {
            "parquet": lambda path: parquet.read_table(path).to_pylist(),
            "json": lambda path: json.loads(path.read_text()),
            "csv": lambda path: csv.read_csv(
                path, convert_options=csv.ConvertOptions(strings_can_be_null=True)
            ).to_pylist(),
        }[suffix](path)
        assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
            ("orders", 0, 1),
            ("orders", 0, 2),
            ("orders", 1, 3),
        ]
        for row, wanted in zip(rows, expected, strict=True):
            flags = row["flags"]
            row["flags"] = (flags or "").split() if suffix == "csv" else flags
            assert tuple(row[name] for name in names) == wanted, suffix


def test_what_can_not_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "answers.json"
    path.write_text("before")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_json", fail)
    with pytest.raises(OSError, match="No space left"):
        write_table(path, *answers())
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["answers.json"]

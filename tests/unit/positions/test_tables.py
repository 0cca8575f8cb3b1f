"""Rows that hold no position beside those that do."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bridge.positions.tables import OUTPUT, PositionsRejected, sound_rows

ANSWERS = {
    "target_topic": ["A.orders", "A.audit"],
    "target_offset": [7, 9],
    "verdict": ["exact", "bounded"],
    "bound": [0, 3],
    "not_on_target": [0, 0],
    "evidence": ["runs", "verified"],
    "reason": [None, None],
    "flags": [["a"], []],
}


def answered() -> list[pa.Array]:
    return [pa.array(ANSWERS[field.name], field.type) for field in OUTPUT]


def test_a_row_without_a_position_is_invalid_and_the_others_have_their_answers() -> None:
    table = pa.table(
        {
            "topic": ["orders", None, "orders", "audit", "", "orders"],
            "partition": pa.array([0, 0, -1, 2, 0, 0], pa.int64()),
            "offset": pa.array([5, 5, None, 6, 5, -1], pa.int64()),
        }
    )
    rows = sound_rows(table)
    names = [rows.positions.topics[code] for code in rows.positions.topic]
    assert [*zip(names, rows.positions.partition.tolist(), rows.positions.offset.tolist(), strict=True)] == [
        ("orders", 0, 5),
        ("audit", 2, 6),
    ]
    columns = dict(
        zip(OUTPUT.names, (each.to_pylist() for each in rows.with_invalid(answered())), strict=True)
    )
    assert columns["verdict"] == ["exact", "invalid", "invalid", "bounded", "invalid", "invalid"]
    assert columns["reason"] == [
        None,
        "invalid_topic",
        "invalid_partition",
        None,
        "invalid_topic",
        "invalid_offset",
    ]
    assert columns["target_offset"] == [7, None, None, 9, None, None]
    assert columns["flags"] == [["a"], [], [], [], [], []]


def test_rows_that_all_hold_one_have_their_answers() -> None:
    rows = sound_rows(pa.table({"topic": ["orders", "audit"], "partition": [0, 2], "offset": ["5", "6"]}))
    assert rows.with_invalid(answered()) == answered()


def test_a_column_that_is_missing_is_an_error() -> None:
    with pytest.raises(PositionsRejected, match="no column offset"):
        sound_rows(pa.table({"topic": ["orders"], "partition": [0]}))

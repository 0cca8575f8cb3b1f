"""Positions as Arrow tables: what is wrong with one, and its answers as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bridge.model.values import LAST_PARTITION
from bridge.positions.translator import (
    EVIDENCES,
    FLAGS,
    REASONS,
    VERDICTS,
    PositionColumns,
    TranslatedPositions,
)

INPUT = ("topic", "partition", "offset")
OUTPUT = pa.schema(
    [
        ("target_topic", pa.string()),
        ("target_offset", pa.int64()),
        ("verdict", pa.string()),
        ("bound", pa.int64()),
        ("not_on_target", pa.int64()),
        ("evidence", pa.string()),
        ("reason", pa.string()),
        ("flags", pa.list_(pa.string())),
    ]
)
"""Columns that answers add."""
INVALID = "invalid"
"""The verdict on a row that holds no position."""
_OF_INVALID: Mapping[str, list[object]] = {
    "verdict": [INVALID],
    "flags": [[]],
    "reason": [f"invalid_{name}" for name in INPUT],
}
NAMED = 20
"""Rows that an error names; of more it says how many."""
_LAST_OFFSET = 2**63 - 1
_FLAG_LISTS = [[flag for bit, flag in enumerate(FLAGS) if bits >> bit & 1] for bits in range(1 << len(FLAGS))]


class PositionsRejected(ValueError):
    """Positions that can't be read: one line for each thing that is wrong."""


def column_errors(names: Sequence[str]) -> list[str]:
    """Returns what is wrong with the columns of an input."""
    errors = [
        f"no column {name}; there are: {', '.join(names) or 'none'}" for name in INPUT if name not in names
    ]
    errors += [f"column {name} is there twice" for name in INPUT if names.count(name) > 1]
    errors += [
        f"column {name} would be overwritten: the answers have a column of that name"
        for name in OUTPUT.names
        if name in names
    ]
    return errors


def positions_of(table: pa.Table, where: Callable[[int], str]) -> PositionColumns:
    """The positions of a table. `where`: names a row by its number, from 0. Raises PositionsRejected with all that is
    wrong, as far as NAMED rows."""
    topic, partition, offset, valid = _parsed(table)
    if not np.logical_and.reduce(valid).all():
        raise PositionsRejected("\n".join(_row_errors(table, valid, where)))
    return _columns(topic, partition, offset)


class SoundRows(NamedTuple):
    """The positions of the rows that hold one. `valid`: for each column of INPUT, which rows hold a value that it may
    have."""

    positions: PositionColumns
    valid: Sequence[npt.NDArray[np.bool_]]

    def with_invalid(self, answers: Sequence[pa.Array]) -> list[pa.Array]:
        """Returns the columns of OUTPUT for all rows, from those of the positions: the other rows are INVALID, and have
        the column that is wrong as their reason."""
        sound = np.logical_and.reduce(self.valid)
        if sound.all():
            return [*answers]
        numbers, wrong = np.cumsum(sound) - 1, np.argmin(np.stack(self.valid), axis=0)
        columns = []
        for field, column in zip(OUTPUT, answers, strict=True):
            values = pa.array(_OF_INVALID.get(field.name, [None]), field.type)
            index = len(column) + (wrong if field.name == "reason" else 0)
            whole = pa.concat_arrays([column.cast(field.type), values])
            columns.append(whole.take(pa.array(np.where(sound, numbers, index))))
        return columns


def sound_rows(table: pa.Table) -> SoundRows:
    """Raises PositionsRejected for what is wrong with whole columns."""
    topic, partition, offset, valid = _parsed(table)
    rows = np.logical_and.reduce(valid)
    return SoundRows(_columns(topic.filter(pa.array(rows)), partition[rows], offset[rows]), valid)


class _Parsed(NamedTuple):
    topic: pa.Array
    partition: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    valid: Sequence[npt.NDArray[np.bool_]]
    """As in SoundRows."""


def _parsed(table: pa.Table) -> _Parsed:
    """Raises PositionsRejected for what is wrong with a whole column."""
    if errors := column_errors(table.column_names):
        raise PositionsRejected("\n".join(errors))
    topic = table.column("topic").combine_chunks()
    (partition, partition_valid), (offset, offset_valid) = (
        _whole_numbers(table.column(name).combine_chunks(), most)
        for name, most in (("partition", LAST_PARTITION), ("offset", _LAST_OFFSET))
    )
    if not (pa.types.is_string(topic.type) or pa.types.is_large_string(topic.type)):
        raise PositionsRejected(f"column topic has the type {topic.type}: it must be text")
    named = pc.fill_null(pc.greater(pc.utf8_length(topic), 0), False).to_numpy(zero_copy_only=False)
    return _Parsed(topic, partition, offset, (named, partition_valid, offset_valid))


def _columns(
    topic: pa.Array, partition: npt.NDArray[np.int64], offset: npt.NDArray[np.int64]
) -> PositionColumns:
    encoded = topic.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    return PositionColumns(encoded.dictionary.to_pylist(), codes, partition.astype(np.int32), offset)


def _whole_numbers(column: pa.Array, most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The numbers of a column, and which of them are whole and between 0 and `most`."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = pc.utf8_trim_whitespace(column)
        # Of 19 digits some are more than a long holds: those are compared as text.
        digits = pc.fill_null(pc.match_substring_regex(text, r"^[0-9]{1,19}$"), False)
        fits = pc.or_(pc.less(pc.utf8_length(text), 19), pc.less_equal(text, str(_LAST_OFFSET)))
        good = pc.and_(digits, pc.fill_null(fits, False))
        column = pc.if_else(good, text, "0").cast(pa.int64())
    elif pa.types.is_integer(kind):
        good = column.is_valid()
        column = pc.fill_null(column, 0)
        if kind == pa.uint64():
            good = pc.and_(good, pc.less_equal(column, _LAST_OFFSET))
            column = pc.if_else(good, column, pa.scalar(0, pa.uint64()))
        column = column.cast(pa.int64())
    else:
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    numbers = column.to_numpy(zero_copy_only=False)
    return numbers, good.to_numpy(zero_copy_only=False) & (numbers >= 0) & (numbers <= most)


def _row_errors(
    table: pa.Table, sound: Sequence[npt.NDArray[np.bool_]], where: Callable[[int], str]
) -> Iterator[str]:
    rows = np.flatnonzero(~np.logical_and.reduce(sound))
    whats = ("must not be empty", f"must be 0 to {LAST_PARTITION}", f"must be 0 to {_LAST_OFFSET}")
    for row in rows[:NAMED]:
        for name, what, good in zip(INPUT, whats, sound, strict=True):
            if not good[row]:
                yield f"{where(int(row))}: {name} {what}, and is {table.column(name)[int(row)].as_py()!r}"
    if len(rows) > NAMED:
        yield f"and {len(rows) - NAMED} more rows"


def answer_columns(translated: TranslatedPositions) -> list[pa.Array]:
    """The columns of OUTPUT."""
    answers = translated.answers
    flags = pa.array(_FLAG_LISTS, OUTPUT.field("flags").type)
    return [
        _words(translated.target, translated.target_topics),
        pa.array(answers.offset, mask=answers.offset < 0),
        _words(answers.verdict, VERDICTS),
        pa.array(answers.bound, mask=answers.bound < 0),
        pa.array(answers.not_on_target, mask=answers.not_on_target < 0),
        _words(answers.evidence, EVIDENCES),
        _words(answers.reason, REASONS),
        flags.take(pa.array(answers.flags)),
    ]


def with_answers(table: pa.Table, translated: TranslatedPositions) -> pa.Table:
    """Returns a table of positions with the columns of OUTPUT."""
    for field, column in zip(OUTPUT, answer_columns(translated), strict=True):
        table = table.append_column(field, column)
    return table


def _words(codes: npt.NDArray[np.int8] | npt.NDArray[np.int32], words: Sequence[str]) -> pa.Array:
    """The words of codes, null for -1."""
    return pa.array(words, pa.string()).take(pa.array(codes, mask=codes < 0))

"""Records of every internal topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync
from bridge.model.copying import Gap, GapKind
from bridge.model.state_records.fields import SchemaError
from bridge.model.state_records.group_record import GroupRecord, GroupRow
from bridge.model.state_records.readiness_records import MissingRecord, RecordKey, TaskRecord, decode, encode
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline.gaps import ledger_entry, read_ledger
from bridge.pipeline.layout_records import (
    Claim,
    LayoutRecord,
    SliceReport,
    layout_key,
    read_layouts,
    report_key,
    unreadable,
)
from bridge.translation.runs.holes import CopySpan, decoded, listed
from bridge.translation.runs.run_table import read_runs
from bridge.translation.runs.runs import OffsetRun, decode_change
from tests.support.fuzz.mutation import mutated
from tests.support.pipeline_spec import SPEC

Decode = Callable[[bytes | None, bytes | None], object]
_PLACE = TopicPartition("orders", 2)
_SYNC, _CHECKPOINT = OffsetSync(_PLACE, 5, 7), Checkpoint("billing", _PLACE, 5, 7, "metadata")
_BEAT = Heartbeat("A", "B", 1_700_000_000_000)
_HOLES = listed([CopySpan(3, 0, 2), CopySpan(1, 1, 1), CopySpan(9)])
_RUN = OffsetRun(_PLACE, "s1", "A.orders", "t1", 5, 7, 900, 10, 2, 1, 3, 20, 1234567890, 77)
_GAP = Gap(_PLACE, GapKind.RECORD_REFUSED, "id", 3, 9, 1_700_000_000_000, "why", "A.orders")
_ROW = GroupRow("orders", 3, 120, "by hand", "A.orders", 127, "bounded", 4, "run", flags=("truncated",))
_GROUP = GroupRecord(1_700_000_000_000, 1, 2, "EMPTY", "group_active_on_target", (_ROW,))
_TASK = TaskRecord(1_700_000_000_000, 2, 60_000, "one")
_MISSING = MissingRecord(1_700_000_000_000, ((0, 12, 1_699_999_999_999), (1, -1, -1)))


def _run(key: bytes | None, value: bytes | None) -> None:
    read_runs([LogRecord(3, 0, key, value), LogRecord(4, 0, *_GOOD_RUN)])
    decode_change(key, value)


def _layout(key: bytes | None, value: bytes | None) -> None:
    unreadable(key, value)
    read_layouts([LogRecord(3, 0, key, value)], SPEC)


def _holes(_: bytes | None, value: bytes | None) -> None:
    result = decoded(value or b"")
    assert result.copies_before(5) <= 5


_GOOD_RUN = _RUN.key(), _RUN.value()
_GOLDEN: tuple[tuple[Decode, bytes, bytes], ...] = (
    (OffsetSync.decode, _SYNC.key(), _SYNC.value()),
    (Checkpoint.decode, _CHECKPOINT.key(), _CHECKPOINT.value()),
    (Heartbeat.decode, _BEAT.key(), _BEAT.value()),
    (_run, *_GOOD_RUN),
    (_holes, b"", _HOLES),
    (read_ledger, *ledger_entry(_GAP, "mirror")),
    (_layout, layout_key(SPEC), LayoutRecord(3, 2).value()),
    (_layout, report_key(SPEC, 2), SliceReport(3, 2, "error").value()),
    (_layout, Claim("orders", "A.orders", "m").key(), Claim("orders", "A.orders", "m").value()),
    (decode, RecordKey("c", "group", "billing").encode(), encode(_GROUP)),
    (decode, RecordKey("c", "task", "1").encode(), encode(_TASK)),
    (decode, RecordKey("c", "missing", "orders").encode(), encode(_MISSING)),
)
_NEST = (b"[" * 200_000, b'{"a":' * 100_000, b"[" * 500 + b"]" * 500)
_VALUES: tuple[object, ...] = (
    None,
    True,
    -1,
    1 << 64,
    1e308,
    float("nan"),
    "\ud800",
    "x" * 40_000,
    [],
    {},
    [[]],
    "é" * 9,
    0,
    1.5,
)
_ODD = (b"9" * 5000, b'"\\ud800"', b"1e999", b"NaN", b"\xff\xfe")
_ALL = (*_ODD, *(each for _, key, value in _GOLDEN for each in (key, value)))


def case(dice: Random) -> None:
    """Raises for what must not be."""
    read, *golden = dice.choice(_GOLDEN)
    pair: list[bytes | None] = [*golden]
    for at in range(2):
        if dice.random() < 0.7:
            pair[at] = _wrong(dice, golden[at])
    try:
        read(*pair)
    except SchemaError as problem:
        str(problem).encode()


def _wrong(dice: Random, data: bytes) -> bytes | None:
    way = dice.random()
    if way < 0.03:
        return None
    if way < 0.06:
        return dice.choice(_NEST)
    if way < 0.4 and data[:1] == b"{":
        decoded = json.loads(data)
        for _ in range(dice.randint(1, 3)):
            _replace(dice, decoded)
        return json.dumps(decoded).encode()
    return bytes(mutated(dice, data, _ALL))


def _replace(dice: Random, fields: dict[str, object]) -> None:
    """A field, here or further inside."""
    name = dice.choice(list(fields) or ["x"])
    inner = fields.get(name)
    if isinstance(inner, list) and inner and isinstance(inner[0], dict) and dice.random() < 0.7:
        _replace(dice, inner[0])
    elif dice.random() < 0.1:
        fields.pop(name, None)
    else:
        fields[name] = dice.choice(_VALUES)

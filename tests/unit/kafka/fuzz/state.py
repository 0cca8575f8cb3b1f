"""Records of every internal topic, and of the topics of stock's workers and of Spark's sink."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from bridge.dedicated.stock_offsets import Offsets, put
from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync
from bridge.model.copying import Copied, Gap, GapKind, Latencies
from bridge.model.partition_states import Skip
from bridge.model.state_records.claims import Claim
from bridge.model.state_records.fields import SchemaError
from bridge.model.state_records.group_record import (
    Alone,
    Furthest,
    FurthestRecord,
    GroupRecord,
    GroupRow,
    NotBegunRow,
)
from bridge.model.state_records.move_record import MOVED, MoveRecord, MoveRow, NotBegunMoved, Standing
from bridge.model.state_records.readiness_records import MissingRecord, RecordKey, TaskRecord, decode, encode
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline.driver.progress_watcher import ProgressTable
from bridge.pipeline.layouts import records
from bridge.pipeline.layouts.records import (
    LayoutRecord,
    SliceReport,
    layout_key,
    read_layouts,
    report_key,
    unreadable,
)
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.gaps import ledger_entry, read_ledger
from bridge.service.state.source_offsets import pack_stored_offsets
from bridge.spark.writing.commits import CommitRecord, SinkTask, WrittenTotals, unpacked
from bridge.translation.runs.holes import CopySpan, decoded, listed
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.runs import OffsetRun, decode_change, encode_times
from tests.support.pipeline_spec import SPEC
from tests.unit.kafka.fuzz.mutation import mutated

Decode = Callable[[bytes | None, bytes | None], object]
_PLACE = TopicPartition("orders", 2)
_SYNC, _CHECKPOINT = OffsetSync(_PLACE, 5, 7), Checkpoint("billing", _PLACE, 5, 7, "metadata")
_BEAT = Heartbeat("A", "B", 1_700_000_000_000)
_HOLES = listed([CopySpan(3, 0, 2), CopySpan(1, 1, 1), CopySpan(9)])
_RUN = OffsetRun(_PLACE, "s1", "A.orders", "t1", 5, 7, 900, 10, 2, 1, 3, 20, 1234567890, 77)
_TIMES = encode_times(Latencies(30, 4500, 100, 200), Latencies(30, 9000, 200, 400))
_NEXT = _RUN._replace(
    covered_from=20,
    upstream_start=20,
    downstream_start=911,
    position=40,
    last_timestamp=1_700_000_000_000,
)
"""The run of the next commit."""
_GAP = Gap(_PLACE, GapKind.RECORD_REFUSED, "id", 3, 9, 1_700_000_000_000, "why", "A.orders")
_ROW = GroupRow("orders", 3, 120, "by hand", "A.orders", 127, "bounded", 4, "run", flags=("truncated",))
_GROUP = GroupRecord(
    *(1_700_000_000_000, 1, 2, "EMPTY", "group_active_on_target", (_ROW,)),
    not_begun=(NotBegunRow("orders", 4, 100), NotBegunRow("orders", 5, None)),
)
_TASK = TaskRecord(1_700_000_000_000, 2, 60_000, "one", groups=True)
_MISSING = MissingRecord(1_700_000_000_000, ((0, 12, 1_699_999_999_999), (1, -1, -1)))
_ROW_MOVED = MoveRow("orders", 3, 120, "A.orders", 127, "bounded", 4, 1)
_MOVE = MoveRecord(
    *(MOVED, 1_700_000_000_000, 2, True, 7, (_ROW_MOVED,), (Standing("A.orders", 3, 9, "m", 2),)),
    not_begun=(NotBegunMoved("orders", 4, 100, 112), NotBegunMoved("orders", 5, None, None)),
)
_COPY = TopicPartition("A.orders", 0)
_FURTHEST = FurthestRecord(1_700_000_000_000, {_COPY: Furthest(5, 9, 9)}, {_COPY: Alone(5, 8, -1)})
_SLICE = Slice(SPEC, 7, 1, 60.0, [], [], secret=b"s" * 32)
_ADDED = records.Additions(
    [records.Addition(Copied(_PLACE, "s1", "A.orders", "t1", 12), [LogRecord(5, 9, b"key", b"\0value")])],
    [Skip("orders", 0, 5, 9)],
)
_STOCK = "MirrorSourceConnector"
_COMMIT = CommitRecord(SinkTask("query", 3, 7), WrittenTotals(10, 1000))


def _run(key: bytes | None, value: bytes | None) -> None:
    read_runs([LogRecord(3, 0, key, value), LogRecord(4, 0, *_GOOD_RUN)])
    decode_change(key, value)
    table = ProgressTable(0)
    for record in (_GOOD_RUN, (key, value), (_NEXT.key(), _NEXT.value(_TIMES))):
        table.apply(LogRecord(3, 1_700_000_000_500, *record))
    for sample in table.drain_samples([_RUN.copy]):
        assert all(0 <= number < 1 << 63 for number in (*sample.age, *sample.latency)), sample


def _added(_: bytes | None, value: bytes | None) -> None:
    """Checks that nobody without the key adds anything."""
    assert records.decode(value, _SLICE) in (None, _ADDED)


def _stored(key: bytes | None, value: bytes | None) -> None:
    offsets: Offsets = {}
    put(offsets, _STOCK, key, value)
    pack_stored_offsets("mirror", 1, [({"topic": "orders"}, offset) for offset in offsets.values()])
    assert all(0 <= number < 1 << 63 for offset in offsets.values() for number in offset.values())


def _committed(key: bytes | None, value: bytes | None) -> None:
    record = unpacked(key, value)
    assert record is None or isinstance(record.task.epoch, int)


def _readiness(key: bytes | None, value: bytes | None) -> None:
    """Checks that what was checked once is read without checks from then on."""
    _, read = decode(key, value)
    if read is not None:
        again = type(read).trusted(json.loads(value or b""))
        assert again == read
        assert again.meaning == read.meaning
        assert decode(key, encode(read))[1] == read


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
    (Checkpoint.checked, _CHECKPOINT.key(), _CHECKPOINT.value()),
    (Heartbeat.decode, _BEAT.key(), _BEAT.value()),
    (_run, *_GOOD_RUN),
    (_run, _NEXT.key(), _NEXT.value(_TIMES)),
    (_run, _NEXT.key(), _NEXT._replace(holes=_HOLES).value(_TIMES)),
    (_holes, b"", _HOLES),
    (read_ledger, *ledger_entry(_GAP, "mirror")),
    (_layout, layout_key(SPEC), LayoutRecord(3, 2).value()),
    (_layout, report_key(SPEC, 2), SliceReport(3, 2, "error").value()),
    (_layout, Claim("orders", "A.orders", "m").key(), Claim("orders", "A.orders", "m").value()),
    (_added, records.additions_key(SPEC, 1), records.encode(_SLICE, _ADDED)),
    (_readiness, RecordKey("c", "group", "billing").encode(), encode(_GROUP)),
    (_readiness, RecordKey("c", "task", "1").encode(), encode(_TASK)),
    (_readiness, RecordKey("c", "missing", "orders").encode(), encode(_MISSING)),
    (_readiness, RecordKey("c", "move", "billing").encode(), encode(_MOVE)),
    (_readiness, RecordKey("c", "furthest", "billing").encode(), encode(_FURTHEST)),
    (_stored, b'["%s",{"cluster":"A","partition":3,"topic":"t"}]' % _STOCK.encode(), b'{"offset":42}'),
    (_committed, _COMMIT.packed[0], _COMMIT.packed[1] or b""),
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

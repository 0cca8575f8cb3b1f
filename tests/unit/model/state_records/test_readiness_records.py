"""Records of the readiness topic: what is written can be read, and nothing else is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.state_records.fields import LAST_MS, LAST_OFFSET, SchemaError, Value
from bridge.model.state_records.group_record import Alone, Furthest, FurthestRecord, GroupRecord, GroupRow
from bridge.model.state_records.readiness_records import (
    VALUES,
    MissingRecord,
    RecordKey,
    TaskRecord,
    decode,
    encode,
)
from bridge.model.values import TopicPartition

_ROW = GroupRow(
    topic="orders",
    partition=3,
    offset=120,
    metadata="by hand",
    target_topic="A.orders",
    target_offset=127,
    verdict="bounded",
    bound=4,
    evidence="run",
    reason="target_ahead",
    standing=130,
    flags=("truncated",),
    detail={"run_from": 7, "said": "no", "next": None},
)
_PENDING = GroupRow("orders", 4, 5, "", "A.orders", None, "pending", reason="copy_not_found")
_GROUP = GroupRecord(1_700_000_000_000, 1, 2, "EMPTY", "group_active_on_target", (_ROW, _PENDING))
_TASK = TaskRecord(1_700_000_000_000, 2, 60_000, "one")
_MISSING = MissingRecord(1_700_000_000_000, ((0, 12, 1_699_999_999_999), (1, -1, -1)))

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_OFFSETS = st.integers(0, LAST_OFFSET + 1)
_TIMES = st.integers(0, LAST_MS)
_ROWS = st.builds(
    GroupRow,
    topic=_TEXTS.filter(bool),
    partition=st.integers(0, 2**31 - 1),
    offset=_OFFSETS,
    metadata=_TEXTS,
    target_topic=_TEXTS.filter(bool),
    target_offset=_OFFSETS,
    verdict=st.sampled_from(["exact", "bounded", "pending"]),
    bound=st.none() | st.integers(0, 2**63 - 1),
    evidence=st.none() | _TEXTS,
    reason=st.none() | _TEXTS,
    standing=st.none() | _OFFSETS,
    flags=st.lists(_TEXTS, max_size=3).map(tuple),
    detail=st.dictionaries(_TEXTS, st.none() | _TEXTS | st.integers(-(2**63), 2**63 - 1), max_size=3),
)
_VALUES: st.SearchStrategy[Value] = st.one_of(
    st.builds(
        GroupRecord,
        _TIMES,
        st.just(0),
        st.integers(1, 9),
        _TEXTS,
        st.none() | _TEXTS,
        st.tuples(_ROWS, _ROWS),
    ),
    st.builds(
        TaskRecord, _TIMES, st.integers(1, 10_000), st.integers(1, 2**53), _TEXTS.filter(bool), st.booleans()
    ),
    st.builds(MissingRecord, _TIMES, st.just(((0, 5, -1), (2**31 - 1, -1, LAST_MS)))),
    st.builds(
        FurthestRecord,
        _TIMES,
        st.dictionaries(
            st.builds(TopicPartition, _TEXTS.filter(bool), st.integers(0, 2**31 - 1)),
            st.builds(Furthest, _OFFSETS, _OFFSETS, _OFFSETS),
            max_size=5,
        ),
    ),
)


def key(value: Value, name: str = "0") -> bytes:
    return RecordKey("groups", value.kind, name).encode()


@given(value=_VALUES)
def test_what_is_written_can_be_read(value: Value) -> None:
    assert decode(key(value), encode(value)) == (RecordKey("groups", value.kind, "0"), value)


def test_keys_and_values_are_those_of_the_docs() -> None:
    assert key(_GROUP, "billing") == b'{"connector":"groups","kind":"group","name":"billing"}'
    assert json.loads(encode(_TASK)) == {
        "version": 1,
        "asOfMs": 1_700_000_000_000,
        "taskCount": 2,
        "intervalMs": 60_000,
        "writer": "one",
    }
    assert json.loads(encode(_GROUP))["partitions"][1] == {
        "topic": "orders",
        "partition": 4,
        "offset": 5,
        "targetTopic": "A.orders",
        "verdict": "pending",
        "reason": "copy_not_found",
    }


def test_a_null_value_takes_back_what_was_there() -> None:
    assert decode(key(_TASK), None) == (RecordKey("groups", "task", "0"), None)


def test_fields_that_are_not_known_are_passed_over() -> None:
    decoded = json.loads(encode(_GROUP))
    decoded["later"] = {"more": 1}
    decoded["partitions"][0]["later"] = []
    assert decode(key(_GROUP), json.dumps(decoded).encode())[1] == _GROUP


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        b"",
        b"null",
        b"[]",
        b"groups",
        b'{"connector":"groups","kind":"group"}',
        b'{"connector":"","kind":"group","name":"g"}',
        b'{"connector":"groups","kind":"shape","name":"g"}',
        b'{"connector":"groups","kind":"group","name":7}',
        b'{"connector":"groups","kind":"task","name":"01"}',
        b'{"connector":"groups","kind":"task","name":"-1"}',
        b'{"connector":"groups","kind":"task","name":"10000"}',
        b'{"connector":"groups","kind":"group","name":"g","more":1}',
        b'{"name":"g","kind":"group","connector":"groups"}',
        b'{"connector": "groups","kind":"group","name":"g"}',
        b'{"connector":"groups","kind":"group","name":"\\ud800"}',
    ],
)
def test_other_keys_are_refused(wrong: bytes | None) -> None:
    with pytest.raises(SchemaError):
        decode(wrong, encode(_GROUP))


@pytest.mark.parametrize(
    ("value", "place", "wrong"),
    [
        *((_GROUP, ("version",), each) for each in (0, 2, "1", True, None)),
        *((_GROUP, ("asOfMs",), each) for each in (-1, LAST_MS + 1, 1.5, "1")),
        *((_GROUP, ("task",), each) for each in (-1, 2, None)),
        *((_GROUP, ("taskCount",), each) for each in (0, 10_001)),
        *((_GROUP, ("state",), each) for each in (None, 7, "\ud800")),
        (_GROUP, ("reason",), 7),
        *((_GROUP, ("partitions",), each) for each in (None, dict[str, object](), [7], "x")),
        *((_GROUP, ("partitions", 0, "topic"), each) for each in (None, "", 7, "x" * 40_000)),
        *((_GROUP, ("partitions", 0, "partition"), each) for each in (-1, 2**31)),
        *((_GROUP, ("partitions", 0, "offset"), each) for each in (-1, 2**63, None, 1e3)),
        *((_GROUP, ("partitions", 0, "targetTopic"), each) for each in (None, "")),
        *((_GROUP, ("partitions", 0, "targetOffset"), each) for each in (-1, 2**63, None)),
        *((_GROUP, ("partitions", 0, "verdict"), each) for each in (None, "perhaps", 1)),
        *((_GROUP, ("partitions", 0, "bound"), each) for each in (-1, 2**63, "4")),
        *((_GROUP, ("partitions", 0, "committed"), each) for each in (-1, 2**63, False)),
        *(
            (_GROUP, ("partitions", 0, name), 7)
            for name in ("metadata", "evidence", "reason", "flags", "detail")
        ),
        *((_GROUP, ("partitions", 0, "flags"), each) for each in ("x", [7], ["\ud800"])),
        (_GROUP, ("partitions", 0, "detail"), []),
        *((_GROUP, ("partitions", 0, "detail"), each) for each in ({"x": 1.5}, {"x": None, "\ud800": 1})),
        *((_TASK, ("writer",), each) for each in (None, "", 7)),
        *((_TASK, ("intervalMs",), each) for each in (0, 2**53 + 1, None)),
        *((_MISSING, ("partitions",), each) for each in ([[1, 2]], [[-1, 0, 0]], [[0, -2, 0]])),
        (_MISSING, ("partitions",), [7]),
        (_MISSING, ("partitions",), None),
        (_MISSING, ("partitions",), [[0, 1, LAST_MS + 1]]),
    ],
)
def test_a_field_out_of_its_range_costs_the_record(
    value: Value, place: tuple[str | int, ...], wrong: object
) -> None:
    decoded: Any = json.loads(encode(value))
    inner = decoded
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = wrong
    with pytest.raises(SchemaError):
        decode(key(value), json.dumps(decoded).encode())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_FURTHEST = {"topics": [{"targetTopic": "A.orders", "partitions": [[0, 5, 9, 9]]}]}
_FIELDS = sorted({*_FURTHEST, *json.loads(encode(_GROUP)), *json.loads(encode(_TASK)), *_ROW.fields()})


@given(
    kind=st.sampled_from(sorted(VALUES)),
    changed=st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=4),
    row=st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=4),
)
def test_nothing_but_schema_errors_comes_of_nonsense(
    kind: str, changed: dict[str, object], row: dict[str, object]
) -> None:
    decoded = json.loads(encode(_GROUP)) | {"intervalMs": 1, "writer": "one"} | _FURTHEST | changed
    if changed.get("partitions") is None:
        decoded["partitions"] = [_ROW.fields() | row]
    try:
        _, value = decode(RecordKey("groups", kind, "0").encode(), json.dumps(decoded).encode())
    except SchemaError:
        return
    assert value is not None
    assert decode(RecordKey("groups", kind, "0").encode(), encode(value))[1] == value


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_of_any_kind_cost_the_record_alone(some: bytes, value: bytes) -> None:
    for each in (some, key(_GROUP)):
        with pytest.raises(SchemaError):
            decode(each, value)


def test_only_what_reads_the_same_means_the_same() -> None:
    later = replace(_GROUP, as_of_ms=5, rows=(_ROW._replace(detail={}, evidence="verified"), _PENDING))
    assert later.meaning == _GROUP.meaning
    changes: list[dict[str, Any]] = [
        {"offset": 121},
        {"target_offset": 126},
        {"bound": 3},
        {"verdict": "exact"},
        {"reason": None},
        {"standing": None},
        {"flags": ()},
        {"target_topic": "B.orders"},
    ]
    for changed in changes:
        assert replace(_GROUP, rows=(_ROW._replace(**changed), _PENDING)).meaning != _GROUP.meaning, changed
    assert replace(_GROUP, task=0).meaning != _GROUP.meaning
    assert replace(_GROUP, reason=None).meaning != _GROUP.meaning
    rows = {TopicPartition("A.orders", 0): Furthest(5, 9, 9)}
    shared = TopicPartition("merged", 1)
    kept = FurthestRecord(1, rows, {shared: Alone(5, 8, -1)})
    assert kept.meaning != FurthestRecord(1, rows, {shared: Alone(5, 9, -1)}).meaning
    assert replace(kept, as_of_ms=2).meaning == kept.meaning
    assert replace(kept, rows={TopicPartition("A.orders", 0): Furthest(5, 9, 10)}).meaning != kept.meaning
    assert replace(_MISSING, as_of_ms=1).meaning == _MISSING.meaning
    assert replace(_MISSING, rows=((0, 13, -1),)).meaning != _MISSING.meaning
    assert replace(_TASK, as_of_ms=1).meaning != _TASK.meaning

"""The internal topics of mirrors as tables: which columns each has, and the rows of its records. Pure.

A row has the fields of its record, and these columns behind them: whether the record takes back what its key names, why
it can't be read, and where it stands.

When the rounds were that stored answers about groups have held in. Pure.

A group's record is written when its meaning changes, its task's after each round: what a record says held until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync
from bridge.model.state_records.fields import SchemaError
from bridge.model.state_records.group_record import GroupRecord
from bridge.model.state_records.readiness_records import TaskRecord, decode
from bridge.model.values import task_of
from bridge.pipeline.slices.gaps import read_ledger
from bridge.translation.runs.runs import decode_change

Rounds = Mapping[tuple[str, str], Sequence[tuple[int, int, int]]]
"""By readiness topic and connector: task, number of tasks, and when the task's last round began (ms)."""
Fields = dict[str, Any]
_STRING, _INT, _LONG, _BOOLEAN, _TIME = (
    StringType(),
    IntegerType(),
    LongType(),
    BooleanType(),
    TimestampType(),
)
_BEHIND: dict[str, DataType] = {
    "deleted": _BOOLEAN,
    "error": _STRING,
    "record_topic": _STRING,
    "record_offset": _LONG,
    "record_timestamp": _TIME,
}
_NO_VALUE = bytes(64)
"""For decoders that read key and value together, where only the key counts."""
_COPY = {"topic": _STRING, "partition": _INT, "target_topic": _STRING}
_POSITION = {"upstream_offset": _LONG, "downstream_offset": _LONG}
_RUN_FIELDS: dict[str, DataType] = {
    **_COPY,
    "topic_id": _STRING,
    "target_topic_id": _STRING,
    **dict.fromkeys(("covered_from", "upstream_start", "upstream_end", "downstream_start"), _LONG),
    **dict.fromkeys(("downstream_end", "skipped", "extra", "position"), _LONG),
    "leader_epoch": _INT,
    "last_timestamp": _TIME,
    "bytes": _LONG,
    **dict.fromkeys(("handed_back", "again", "transformed", "found"), _BOOLEAN),
}
_GAP_FIELDS: dict[str, DataType] = {
    **_COPY,
    **dict.fromkeys(("topic_id", "kind"), _STRING),
    **dict.fromkeys(("upstream_from", "upstream_to"), _LONG),
    "seen_at": _TIME,
    **dict.fromkeys(("detail", "connector"), _STRING),
}
_GROUP_FIELDS: dict[str, DataType] = {
    "group": _STRING,
    "topic": _STRING,
    "partition": _INT,
    **dict.fromkeys(("offset", "lag"), _LONG),
    "target_topic": _STRING,
    "target_offset": _LONG,
    "verdict": _STRING,
    **dict.fromkeys(("bound", "not_on_target"), _LONG),
    **dict.fromkeys(("evidence", "reason"), _STRING),
    "flags": ArrayType(_STRING),
    "committed": _LONG,
    "state": _STRING,
    "as_of": _TIME,
    "fresh": _BOOLEAN,
    "connector": _STRING,
}


def task_rounds(records: Iterable[tuple[bytes | None, bytes | None, str]]) -> Rounds:
    """Returns the rounds that records tell of: keys, values and topics."""
    rounds: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for key, value, topic in records:
        try:
            record_key, record = decode(key, value)
        except SchemaError:
            continue  # it has a row of its own that says so
        if isinstance(record, TaskRecord):
            each = int(record_key.name), record.task_count, record.as_of_ms
            rounds.setdefault((topic, record_key.connector), []).append(each)
    return rounds


def last_round(rounds: Rounds, topic: str, connector: str, group: str) -> int:
    """Returns when the last round of the group's task began, -1 for not known."""
    of_connector = rounds.get((topic, connector), ())
    return max(
        (position for task, count, position in of_connector if task_of(group, count) == task), default=-1
    )


@dataclass(frozen=True)
class Table:
    """An internal topic as a table. `pattern`: the topics that are read by default. `rows`: of a record, none for one
    that is not of this table; with a null value those of its key alone. Raises SchemaError."""

    name: str
    pattern: str
    fields: Mapping[str, DataType]
    rows: Callable[[bytes | None, bytes | None], list[Fields]]

    @property
    def columns(self) -> dict[str, DataType]:
        return {**self.fields, **_BEHIND}

    @property
    def schema(self) -> StructType:
        return StructType([StructField(name, kind) for name, kind in self.columns.items()])

    def read(
        self, key: bytes | None, value: bytes | None, topic: str, offset: int, timestamp: int
    ) -> list[Fields]:
        """The rows of a record; one with `error` where it can't be read."""
        behind: Fields = {
            "deleted": value is None,
            "record_topic": topic,
            "record_offset": offset,
            "record_timestamp": _time(timestamp),
        }
        try:
            return [{**fields, **behind} for fields in self.rows(key, value)]
        except SchemaError as problem:
            return [{**behind, "error": str(problem)}]


def _runs(key: bytes | None, value: bytes | None) -> list[Fields]:
    run_key, run = decode_change(key, value)
    fields: Fields = {
        "topic": run_key.source.topic,
        "partition": run_key.source.partition,
        "target_topic": run_key.target_topic or None,
        "upstream_start": run_key.upstream_start,
    }
    if run is None:
        return [fields]
    return [
        {
            **fields,
            "target_topic": run.target_topic,
            "topic_id": run.source_topic_id,
            "target_topic_id": run.target_topic_id,
            "covered_from": run.covered_from,
            "upstream_end": run.upstream_end,
            "downstream_start": run.downstream_start,
            "downstream_end": run.downstream_end,
            "skipped": run.skipped,
            "extra": run.extra,
            "position": run.position,
            "leader_epoch": run.leader_epoch,
            "last_timestamp": _time(run.last_timestamp),
            "bytes": run.size,
            "handed_back": run.handed_back,
            "again": run.again,
            "transformed": run.transformed,
            "found": run.found,
        }
    ]


def _gaps(key: bytes | None, value: bytes | None) -> list[Fields]:
    gap = read_ledger(key, value)
    if gap is None:
        return []
    return [
        {
            "topic": gap.source.topic,
            "partition": gap.source.partition,
            "topic_id": gap.topic_id,
            "target_topic": gap.target_topic or None,
            "kind": gap.kind.value,
            "upstream_from": None if gap.upstream_from < 0 else gap.upstream_from,
            "upstream_to": None if gap.upstream_to < 0 else gap.upstream_to,
            "seen_at": _time(gap.seen_at_ms),
            "detail": gap.detail,
            "connector": gap.connector or None,
        }
    ]


def _checkpoints(key: bytes | None, value: bytes | None) -> list[Fields]:
    checkpoint = Checkpoint.decode(key, _NO_VALUE if value is None else value)
    topic, partition = checkpoint.topic_partition
    fields: Fields = {"group": checkpoint.group, "topic": topic, "partition": partition}
    if value is not None:
        fields["upstream_offset"] = checkpoint.upstream_offset
        fields["downstream_offset"] = checkpoint.downstream_offset
        fields["metadata"] = checkpoint.metadata
    return [fields]


def _offset_syncs(key: bytes | None, value: bytes | None) -> list[Fields]:
    sync = OffsetSync.decode(key, _NO_VALUE if value is None else value)
    fields: Fields = {"topic": sync.topic_partition.topic, "partition": sync.topic_partition.partition}
    if value is not None:
        fields["upstream_offset"] = sync.upstream_offset
        fields["downstream_offset"] = sync.downstream_offset
    return [fields]


def _heartbeats(key: bytes | None, value: bytes | None) -> list[Fields]:
    heartbeat = Heartbeat.decode(key, _NO_VALUE if value is None else value)
    fields: Fields = {"source": heartbeat.source_alias, "target": heartbeat.target_alias}
    return [fields if value is None else {**fields, "timestamp": _time(heartbeat.timestamp)}]


def _time(timestamp: int) -> datetime | None:
    """Ms since the epoch, null for none, and for one that no calendar has."""
    if timestamp < 0:
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)
    except OverflowError:
        return None


def _groups(key: bytes | None, value: bytes | None) -> list[Fields]:
    record_key, record = decode(key, value)
    if record_key.kind != GroupRecord.kind:
        return []
    fields: Fields = {"group": record_key.name, "connector": record_key.connector}
    if not isinstance(record, GroupRecord):
        return [fields]
    fields |= {
        "as_of": _time(record.as_of_ms),
        "fresh": False,
        "state": record.state or None,
        "reason": record.reason,
        "flags": [],
    }
    rows = [
        {
            **fields,
            "topic": row.topic,
            "partition": row.partition,
            "offset": row.offset,
            "target_topic": row.target_topic,
            "target_offset": row.target_offset,
            "verdict": row.verdict,
            "bound": row.bound,
            "evidence": row.evidence,
            "reason": row.reason or record.reason,
            "committed": row.standing,
            "flags": list(row.flags),
        }
        for row in record.rows
    ]
    return rows or [fields]


def renewed(fields: Fields, rounds: Rounds) -> Fields:
    """A row of `mirror-groups` with the time of the last round in which it was found so, if that is known."""
    if fields.get("as_of") is None:
        return fields
    position = last_round(rounds, fields["record_topic"], fields["connector"], fields["group"])
    return {**fields, "as_of": max(fields["as_of"], _time(position) or fields["as_of"])}


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table("mirror-runs", r"mm2-offset-runs\..*\.internal", _RUN_FIELDS, _runs),
        Table("mirror-gaps", r"mm2-gaps\..*\.internal", _GAP_FIELDS, _gaps),
        Table(
            "mirror-checkpoints",
            r".*\.checkpoints\.internal",
            {"group": _STRING, "topic": _STRING, "partition": _INT, **_POSITION, "metadata": _STRING},
            _checkpoints,
        ),
        Table(
            "mirror-offset-syncs",
            r"mm2-offset-syncs\..*\.internal",
            {"topic": _STRING, "partition": _INT, **_POSITION},
            _offset_syncs,
        ),
        Table(
            "mirror-heartbeats",
            r"(.*\.)?heartbeats",
            {"source": _STRING, "target": _STRING, "timestamp": _TIME},
            _heartbeats,
        ),
        Table("mirror-groups", r"mm2-group-readiness\..*\.internal", _GROUP_FIELDS, _groups),
    )
}

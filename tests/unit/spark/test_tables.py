"""Rows of internal topics."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync
from bridge.mm2.replication_policy import DefaultReplicationPolicy
from bridge.model.copying import Gap, GapKind
from bridge.model.state_records.group_record import GroupRecord, GroupRow
from bridge.model.state_records.readiness_records import RecordKey, TaskRecord, encode
from bridge.model.values import TopicPartition, task_of
from bridge.pipeline.slices.gaps import ledger_entry
from bridge.spark.decoding import StoredRecord, newest
from bridge.spark.internal_topics import SOURCES
from bridge.spark.tables import TABLES, Fields, renewed, task_rounds
from bridge.translation.runs.runs import OffsetRun

TP = TopicPartition("orders", 3)
AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
MS = 1_700_000_000_000
RUN = OffsetRun(TP, "id", "A.orders", "its", 5, 10, 100, 50, 2, 3, 7, 60, MS, 999, again=True)
GAP = Gap(TP, GapKind.TRUNCATED, "id", 5, -1, MS, "retention", "A.orders")
ROW = GroupRow("orders", 3, 40, "", "A.orders", 130, "exact", 0, "run", None, 120, ("truncated",))


def rows(name: str, key: bytes | None, value: bytes | None) -> list[Fields]:
    table = TABLES[name]
    read = table.read(key, value, "log", 8, MS)
    for fields in read:
        assert fields.keys() <= table.columns.keys()
        table.schema.toInternal(tuple(map(fields.get, table.schema.names)))
    return read


def test_runs() -> None:
    (row,) = rows("mirror-runs", RUN.key(), RUN.value())
    assert row["topic"] == "orders"
    assert (row["upstream_start"], row["upstream_end"]) == (10, 60)
    assert (row["downstream_start"], row["downstream_end"]) == (100, 151)
    assert (row["last_timestamp"], row["again"], row["deleted"]) == (AT, True, False)
    assert (row["record_topic"], row["record_offset"], row["record_timestamp"]) == ("log", 8, AT)
    (dropped,) = rows("mirror-runs", RUN.key(), None)
    assert (dropped["upstream_start"], dropped["target_topic"], dropped["deleted"]) == (10, "A.orders", True)


def test_gaps() -> None:
    (row,) = rows("mirror-gaps", *ledger_entry(GAP, "copy"))
    assert (row["kind"], row["upstream_from"], row["upstream_to"], row["connector"]) == (
        "truncated",
        5,
        None,
        "copy",
    )


def test_stocks_own_topics() -> None:
    checkpoint = Checkpoint("billing", TP, 40, 130, "m")
    (row,) = rows("mirror-checkpoints", checkpoint.key(), checkpoint.value())
    assert (row["group"], row["upstream_offset"], row["downstream_offset"], row["metadata"]) == (
        "billing",
        40,
        130,
        "m",
    )
    sync = OffsetSync(TP, 40, 130)
    (row,) = rows("mirror-offset-syncs", sync.key(), sync.value())
    assert (row["partition"], row["downstream_offset"]) == (3, 130)
    heartbeat = Heartbeat("A", "B", MS)
    (row,) = rows("mirror-heartbeats", heartbeat.key(), heartbeat.value())
    assert (row["source"], row["target"], row["timestamp"]) == ("A", "B", AT)
    for name, key in (("mirror-checkpoints", checkpoint.key()), ("mirror-offset-syncs", sync.key())):
        (row,) = rows(name, key, None)
        assert row["deleted"]
        assert "upstream_offset" not in row


def test_groups() -> None:
    key = RecordKey("groups", "group", "billing").encode()
    record = GroupRecord(MS, 0, 1, "EMPTY", None, (ROW, ROW._replace(partition=4, reason="pending")))
    first, second = rows("mirror-groups", key, encode(record))
    assert (first["group"], first["target_offset"], first["evidence"], first["committed"]) == (
        "billing",
        130,
        "run",
        120,
    )
    assert (first["as_of"], first["flags"], second["reason"]) == (AT, ["truncated"], "pending")
    whole = encode(GroupRecord(MS, 0, 1, "", "source_not_authorized", ()))
    (row,) = rows("mirror-groups", key, whole)
    assert (row["group"], row["reason"]) == ("billing", "source_not_authorized")
    task = encode(TaskRecord(MS, 1, 1000, "me"))
    assert rows("mirror-groups", RecordKey("groups", "task", "0").encode(), task) == []


def test_an_answer_about_a_group_is_as_old_as_its_tasks_last_round() -> None:
    key = RecordKey("groups", "group", "billing").encode()
    value = encode(GroupRecord(MS, 0, 1, "EMPTY", None, (ROW,)))
    (row,) = rows("mirror-groups", key, value)

    def as_of(*tasks: tuple[str, str, TaskRecord]) -> datetime:
        records = [(RecordKey(name, "task", at).encode(), encode(task), "log") for name, at, task in tasks]
        found: datetime = renewed(row, task_rounds([*records, (b"?", b"?", "log"), (key, value, "log")]))[
            "as_of"
        ]
        return found

    later = TaskRecord(MS + 5000, 1, 1000, "me")
    assert as_of() == AT
    assert as_of(("groups", "0", later)) == AT + timedelta(seconds=5)
    assert as_of(("groups", "0", replace(later, as_of_ms=MS - 1))) == AT, (
        "what was found since has a time of its own"
    )
    assert as_of(("others", "0", later)) == AT
    other = str(1 - task_of("billing", 2))
    assert as_of(("groups", other, replace(later, task_count=2))) == AT, "a task that has not looked at it"


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_record_that_cannot_be_read_is_a_row_that_says_so(name: str) -> None:
    (row,) = rows(name, b"\0", b"nothing")
    assert row["error"]
    assert row["record_offset"] == 8


def test_the_newest_of_each_key_counts() -> None:
    stored = [
        StoredRecord(key, value, topic, offset, MS)
        for offset, (topic, key, value) in enumerate(
            [
                ("a", b"1", b"old"),
                ("a", b"2", b"gone"),
                ("a", None, b"no key"),
                ("a", b"1", b"new"),
                ("a", b"2", None),
                ("b", b"1", b"of another topic"),
            ]
        )
    ]
    assert [record.offset for record in newest(stored)] == [2, 3, 5]


def test_every_table_is_a_source_that_reads_the_topics_of_every_mirror() -> None:
    assert [source.name() for source in SOURCES] != []
    assert {source.name() for source in SOURCES} == TABLES.keys()
    policy = DefaultReplicationPolicy()
    for name, topic in {
        "mirror-runs": policy.offset_runs_topic("A"),
        "mirror-gaps": policy.gaps_topic("A"),
        "mirror-groups": policy.readiness_topic("A"),
        "mirror-checkpoints": policy.checkpoints_topic("A"),
        "mirror-offset-syncs": policy.offset_syncs_topic("B"),
        "mirror-heartbeats": policy.format_remote_topic("A", policy.heartbeats_topic()),
    }.items():
        assert [each for each, table in TABLES.items() if re.fullmatch(table.pattern, topic)] == [name]

"""How far each copy is, by the records of the runs topic in the log's order."""

from __future__ import annotations

import pytest

from bridge.model.copying import Copied, Progress
from bridge.model.state_records.fields import SchemaError
from bridge.model.values import CopyId, LogRecord, TopicPartition
from bridge.pipeline.driver.progress_watcher import ProgressTable, advanced
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import OffsetRun, RunKey, Segment

PLACE = TopicPartition("orders", 0)
COPIED = Copied(PLACE, "s", "A.orders", "t")
BEGAN = 5_000


class Log:
    """The runs topic as one slot writes it, which commits a bare position first."""

    def __init__(self) -> None:
        self.runs = PartitionRuns()
        self.table = ProgressTable(BEGAN)
        self.end = 0
        self.commit(0, 0)

    def write(self, changes: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in changes:
            self.table.apply(LogRecord(self.end, BEGAN + self.end, key, value))
            self.end += 1

    def commit(self, start: int, count: int, downstream: int | None = None) -> None:
        segment = Segment(start, start, start if downstream is None else downstream, count, 1, BEGAN, 100)
        self.write(self.runs.commit([segment] if count else [], start + count, COPIED))

    def of(self, copied: Copied = COPIED) -> Progress:
        result = self.table.get(copied.id)
        assert result is not None
        return result


def test_commits_add_up() -> None:
    log = Log()
    assert log.of() == Progress(*PLACE, "A.orders", 0)
    for at in range(5):
        log.commit(at * 10, 10)
    assert (log.of().position, log.of().records, log.of().bytes) == (50, 50, 500)


def test_the_first_run_counts_behind_offsets_that_have_no_copy() -> None:
    """An aborted transaction is in front: the bare position is dropped, and nothing is taken back by that."""
    log = Log()
    log.commit(2, 10, 0)
    assert (log.of().position, log.of().records, log.of().bytes) == (12, 10, 100)
    assert [each.records for each in log.table.drain_samples([COPIED.id])] == [10]
    log.commit(14, 10, 12)
    assert (log.of().position, log.of().records) == (24, 20)


def test_merging_moves_nothing() -> None:
    log = Log()
    for at in range(3000):
        log.commit(at * 10, 10, at * 11)
        assert log.of().position == at * 10 + 10
    assert log.of().records == 30_000


def test_a_log_that_took_another_way_is_followed_back() -> None:
    log = Log()
    for at in range(10):
        log.commit(at * 10, 10)
    log.commit(45, 3, 100)
    assert log.of().position == 48
    log.commit(48, 2, 103)
    assert (log.of().position, log.of().records) == (50, 105), "twice copied counts twice"


def test_a_topic_that_was_made_again_begins_anew() -> None:
    log = Log()
    for at in range(10):
        log.commit(at * 10, 10)
    again = COPIED.__class__(PLACE, "another", "A.orders", "t")
    log.write(log.runs.commit([Segment(0, 0, 200, 7)], 7, again))
    assert log.of().position == 7


def test_a_run_that_was_dropped_says_nothing_any_more() -> None:
    log = Log()
    log.commit(0, 100)
    wrong = OffsetRun(PLACE, "s", "A.orders", "t", 2**60, 2**60, 300, 5, 0, 0, 1, 2**61, 1)
    log.write([(wrong.key(), wrong.value())])
    assert log.of().position == 2**61
    log.write([(wrong.key(), None)])
    log.commit(100, 10)
    assert log.of().position == 110


def test_what_no_run_tells_of_any_more_is_forgotten() -> None:
    log = Log()
    log.commit(0, 10)
    other = Copied(TopicPartition("gone", 0), "s2", "A.gone", "t2")
    log.write(PartitionRuns().commit([Segment(0, 0, 0, 5)], 5, other))
    assert (log.of(other).position, len(log.table)) == (5, 2)
    log.table.keep({COPIED.id})
    assert log.table.get(other.id) is None
    assert len(log.table) == 1
    assert log.of().position == 10


def test_where_the_log_ends_stays_with_it() -> None:
    log = Log()
    assert log.table.end(CopyId(PLACE, "B.orders"), 7) is None
    log.commit(0, 10)
    log.table.end(COPIED.id, 30)
    assert (log.of().source_end, log.of().lag) == (30, 20)
    log.commit(10, 10)
    assert (log.of().source_end, log.of().lag) == (30, 10)


@pytest.mark.parametrize(("key", "value"), [(None, b""), (b"junk", None), (b"\0\7", b"\0\0")])
def test_what_cant_be_read_is_raised(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(SchemaError):
        ProgressTable(BEGAN).apply(LogRecord(0, 0, key, value))


def test_a_run_under_a_key_that_does_not_name_the_copy() -> None:
    """Of version 0: its value names the copy."""
    table = ProgressTable(BEGAN)
    run = OffsetRun(PLACE, "s", "A.orders", "t", 0, 0, 0, 9, 0, 0, 1, 9, 1)
    key = RunKey(PLACE, "", 0).encode()
    assert table.apply(LogRecord(0, 0, key, run.value())) == CopyId(PLACE, "A.orders")
    assert table.apply(LogRecord(1, 0, key, None)) is None
    result = table.get(run.copy)
    assert result is not None
    assert result.position == 9


# -- one run after the other -------------------------------------------------------------------------------------------


def run(
    start: int, count: int, *, skipped: int = 0, stamp: int = 5_900, position: int | None = None
) -> OffsetRun:
    return OffsetRun(
        source=PLACE,
        source_topic_id="s",
        target_topic="A.orders",
        target_topic_id="t",
        covered_from=start,
        upstream_start=start,
        downstream_start=start,
        upstream_count=count,
        skipped=skipped,
        extra=0,
        leader_epoch=0,
        position=start + count if position is None else position,
        last_timestamp=stamp,
        size=count * 100,
    )


def test_a_run_that_is_new_counts() -> None:
    before = Progress(*PLACE, "A.orders", 10, 30, 10, 1000, 0, 0, 1, 1)
    assert advanced(before, run(10, 5), 6_000, BEGAN) == Progress(
        *PLACE, "A.orders", 15, 30, 15, 1500, 0, 0, 100, 100
    )
    assert advanced(before, run(10, 5, skipped=2), 6_000, BEGAN).records == 13
    assert advanced(before, run(10, 5, stamp=-1), 6_000, BEGAN).replication_latency_ms == -1


@pytest.mark.parametrize(
    ("stored", "written_ms", "position"),
    [
        (run(10, 5), BEGAN - 1, 15),
        (run(0, 10), 6_000, 10),
        (run(0, 15), 6_000, 15),
        (run(10, 0, position=20), 6_000, 20),
        (run(0, 5), 6_000, 10),
    ],
    ids=["from before", "merged", "merged and more", "a position only", "older"],
)
def test_what_was_not_copied_just_now_moves_the_position_only(
    stored: OffsetRun, written_ms: int, position: int
) -> None:
    before = Progress(*PLACE, "A.orders", 10, 30, 10, 1000, 0, 0, 1, 1)
    assert advanced(before, stored, written_ms, BEGAN) == before._replace(position=position)

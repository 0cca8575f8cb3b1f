"""Where copying is to go on: what an operator may say, and what becomes of each partition."""

from __future__ import annotations

import pytest

from bridge.errors import OperationRefused
from bridge.model.values import Bounds, TopicPartition
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.reset_positions import (
    EARLIEST,
    LATEST,
    Destination,
    OutOfRange,
    ResetOutcome,
    ResetTo,
    destination,
    plan,
)
from bridge.translation.runs.run_evidence import ConsistentRuns, Stretch, read_runs
from bridge.translation.runs.runs import OffsetRun, Segment
from connectors.source.take_over import destinations, of_group
from tests.support.messages import message_pattern
from tests.unit.translation.runs.runs_topic import COPIED, PLACE, Topic

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
LOG = Bounds(10, 500)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("0", Destination(ResetTo.OFFSET, 0)),
        ("9223372036854775807", Destination(ResetTo.OFFSET, 2**63 - 1)),
        ("1970-01-01T00:00:01Z", Destination(ResetTo.TIMESTAMP, 1000)),
        ("1970-01-01T01:00:01.5+01:00", Destination(ResetTo.TIMESTAMP, 1500)),
        ("1970-01-02", Destination(ResetTo.TIMESTAMP, 86_400_000)),
    ],
)
def test_what_may_be_said(text: str, parsed: Destination) -> None:
    assert destination(text) == parsed


@pytest.mark.parametrize("text", ["", "Earliest", "-1", "1.5", "yesterday", "२", "2026-13-01"])
def test_what_else_is_said_is_named_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match=message_pattern("positions.destination")):
        destination(text)


def run(position: int, *, topic_id: str = "s", handed_back: bool = False) -> OffsetRun:
    return OffsetRun(ONE, topic_id, "A.t", "t", 0, 0, 0, position, 0, 0, 3, position, 1, 0, handed_back)


@pytest.mark.parametrize(
    ("destination", "to", "outcome"),
    [
        (EARLIEST, 10, ResetOutcome.AGAIN),
        (LATEST, 500, ResetOutcome.SKIPPED),
        (Destination(ResetTo.OFFSET, 300), 300, ResetOutcome.AGAIN),
        (Destination(ResetTo.OFFSET, 400), 400, ResetOutcome.UNCHANGED),
        (Destination(ResetTo.OFFSET, 500), 500, ResetOutcome.SKIPPED),
        (Destination(ResetTo.TIMESTAMP, 77), 350, ResetOutcome.AGAIN),
    ],
)
def test_where_a_partition_goes_on(destination: Destination, to: int, outcome: ResetOutcome) -> None:
    (row,) = plan(
        {ONE: run(400)}, {ONE: destination, TWO: destination}, {"t": "s"}, {ONE: LOG}, {ONE: 350}, {}
    )
    assert (row.position, row.to, row.outcome) == (400, to, outcome)
    assert row.changes is (outcome is not ResetOutcome.UNCHANGED)


@pytest.mark.parametrize(
    ("last", "topic_id", "outcome"),
    [
        (run(400, handed_back=True), "s", ResetOutcome.HANDED_BACK),
        (run(400), None, ResetOutcome.GONE),
        (run(400), "another", ResetOutcome.MADE_AGAIN),
    ],
)
def test_what_can_t_be_changed_is_said(last: OffsetRun, topic_id: str | None, outcome: ResetOutcome) -> None:
    (row,) = plan({ONE: last}, {ONE: EARLIEST}, {"t": topic_id}, {ONE: LOG}, {}, {})
    assert (row.to, row.outcome, row.changes) == (400, outcome, False)


@pytest.mark.parametrize("offset", [9, 501])
def test_an_offset_that_the_log_does_not_have_is_named(offset: int) -> None:
    with pytest.raises(OutOfRange, match=f"t-0 has no offset {offset}: its log begins at 10 and ends at 500"):
        plan({ONE: run(400)}, {ONE: Destination(ResetTo.OFFSET, offset)}, {"t": "s"}, {ONE: LOG}, {}, {})


@pytest.mark.parametrize(
    ("destination", "to", "outcome"),
    [
        (EARLIEST, 10, ResetOutcome.UNCHANGED),
        (Destination(ResetTo.OFFSET, 400), 400, ResetOutcome.SKIPPED),
        (LATEST, 500, ResetOutcome.SKIPPED),
    ],
)
def test_a_copy_that_was_deleted_would_begin_again(
    destination: Destination, to: int, outcome: ResetOutcome
) -> None:
    (row,) = plan({ONE: run(400)}, {ONE: destination}, {"t": "s"}, {ONE: LOG}, {}, {ONE: 10})
    assert (row.position, row.to, row.outcome) == (10, to, outcome)


# -- Connect's offsets -------------------------------------------------------------------------------------------------


def stored(place: TopicPartition, cluster: str = "A") -> dict[str, object]:
    return {"cluster": cluster, "topic": place.topic, "partition": place.partition}


def test_without_any_offset_all_that_was_copied_is_meant() -> None:
    assert destinations([], "A", [ONE, TWO], from_latest=False) == {ONE: EARLIEST, TWO: EARLIEST}
    assert destinations([], "A", [ONE], from_latest=True) == {ONE: LATEST}


def test_an_offset_is_that_of_the_last_record_that_counts_as_copied() -> None:
    offsets = [(stored(ONE), {"offset": 41}), (stored(TWO), None)]
    assert destinations(offsets, "A", [ONE, TWO, TopicPartition("u", 0)], from_latest=False) == {
        ONE: Destination(ResetTo.OFFSET, 42),
        TWO: EARLIEST,
    }


def test_all_that_connect_has_stored_is_deleted_with_all_that_was_copied() -> None:
    offsets = [(stored(ONE), None), (stored(TWO), None)]
    assert destinations(offsets, "A", [ONE], from_latest=False) == {ONE: EARLIEST, TWO: EARLIEST}


def test_what_is_not_clear_is_refused_and_says_how_to_say_it() -> None:
    with pytest.raises(OperationRefused, match=r"1 partition\(s\), and t-1 were copied too"):
        destinations([(stored(ONE), None)], "A", [ONE, TWO], from_latest=False)


def test_offsets_of_a_sinks_group_are_what_is_meant() -> None:
    """Connect commits an offset of every partition, so that DELETE lists them all, and none after a DELETE."""
    copied_here = [ONE, TWO]
    assert of_group([(stored(ONE), None)], "A", copied_here, from_latest=False) == {ONE: EARLIEST}
    altered = of_group(
        [(stored(ONE), {"offset": 41}), (stored(TWO), None)], "A", copied_here, from_latest=True
    )
    assert altered == {ONE: Destination(ResetTo.OFFSET, 42), TWO: LATEST}
    assert of_group([], "A", copied_here, from_latest=False) == {ONE: EARLIEST, TWO: EARLIEST}
    assert of_group([(stored(ONE), None)], "A", [], from_latest=False) == {ONE: EARLIEST}
    with pytest.raises(OperationRefused, match="nothing of t-0 was copied yet"):
        of_group([(stored(ONE), {"offset": 41})], "A", [TWO], from_latest=False)


def test_offsets_of_another_flow_are_refused_and_deleting_them_is_right() -> None:
    with pytest.raises(OperationRefused, match="none of source cluster A"):
        destinations([(stored(ONE, "B"), {"offset": 1})], "A", [ONE], from_latest=False)
    assert destinations([({}, None), (stored(ONE), {"offset": 3})], "A", [ONE], from_latest=False).keys() == {
        ONE
    }


# -- runs --------------------------------------------------------------------------------------------------------------


def copied(count: int) -> Topic:
    """`count` records, in commits of 100 with a marker behind each."""
    topic = Topic()
    for at in range(0, count, 100):
        topic.commit([Segment(at, at, at + at // 100, 100)], at + 100)
    return topic


def apply(topic: Topic, position: int, target_end: int) -> None:
    for key, value in topic.owner.reset(position, target_end):
        if value is None:
            topic.live.pop(key, None)
        else:
            topic.live[key] = value


def answer(topic: Topic, offset: int, target_end: int) -> int | None:
    known = ConsistentRuns(topic.read())
    start = known.target_from(offset)
    verdict = known.translate(offset, COPIED.target_topic_id, LogBounds(start, target_end))
    return None if verdict is None else verdict.offset


def test_what_is_copied_again_is_where_the_newer_copy_is() -> None:
    topic = copied(1000)
    apply(topic, 0, 1010)
    assert topic.owner.position == 0
    assert ConsistentRuns(topic.read()).target_from(0) == 1010
    assert answer(topic, 500, 1010) is None  # nothing is copied again yet, and the old copy does not count
    topic.commit([Segment(0, 0, 1010, 300)], 300)
    topic.commit([Segment(300, 300, 1311, 100)], 400)
    assert [answer(topic, offset, 1500) for offset in (0, 250, 350, 800)] == [1010, 1260, 1361, 1411]


def test_offsets_before_the_place_stay_in_the_old_copy() -> None:
    topic = copied(1000)
    apply(topic, 450, 1010)
    assert [answer(topic, offset, 1010) for offset in (0, 399, 449, 450, 700)] == [0, 402, 453, 1010, 1010]
    topic.commit([Segment(450, 450, 1010, 100)], 550)
    assert [answer(topic, offset, 1500) for offset in (0, 449, 450, 500, 700)] == [0, 453, 1010, 1060, 1110]


def test_a_second_reset_counts_as_the_first() -> None:
    topic = copied(1000)
    apply(topic, 0, 1010)
    topic.commit([Segment(0, 0, 1010, 300)], 300)
    apply(topic, 100, 1311)
    topic.commit([Segment(100, 100, 1311, 50)], 150)
    assert [answer(topic, offset, 1500) for offset in (50, 99, 100, 120, 400)] == [
        1060,
        1109,
        1311,
        1331,
        1361,
    ]


def test_no_run_covers_what_an_operator_has_skipped() -> None:
    topic = copied(1000)
    apply(topic, 1500, 1010)
    assert (topic.owner.position, ConsistentRuns(topic.read()).target_from(1500)) == (1500, 0)
    topic.commit([Segment(1500, 1500, 1010, 10)], 1510)
    assert [answer(topic, offset, 1500) for offset in (999, 1200, 1505)] == [1008, 1009, 1015]
    known = ConsistentRuns(topic.read())
    assert known.stretches == [Stretch(1000, 1500, 1009, 1010)]


def test_there_is_nothing_to_do_where_copying_is_there_or_never_was() -> None:
    assert PartitionRuns().reset(5, 7) == []
    topic = copied(200)
    assert topic.owner.reset(200, 300) == []


def test_runs_before_and_after_are_never_merged() -> None:
    topic = copied(1000)
    apply(topic, 500, 1010)
    at = 500
    for number in range(2000):
        topic.commit([Segment(at, at, 1010 + number * 101, 100)], at + 100)
        at += 100
    runs = topic.read()
    (first,) = (run for run in runs if run.again)
    assert (first.upstream_start, first.downstream_start) == (500, 1010)
    assert ConsistentRuns(runs).target_from(500) == 1010
    assert ConsistentRuns(runs).target_from(499) == 0
    assert read_runs([]) == {}
    assert COPIED.source == PLACE

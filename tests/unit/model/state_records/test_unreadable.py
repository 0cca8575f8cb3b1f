"""What is told of records that can't be read."""

from __future__ import annotations

from bridge.model.state_records.fields import UnreadableRecords
from tests.support.messages import message


def test_each_is_named_once_and_counted_by_topic() -> None:
    result = UnreadableRecords(["a"])
    result.add("a", 3, "no key: it is null")
    result.add("b", 0, "short")
    assert result.drain_lines() == [
        message("state.unreadable", place="a-0", offset=3, why="no key: it is null"),
        message("state.unreadable", place="b-0", offset=0, why="short"),
    ]
    for offset in (3, 4):
        result.add("a", offset, "again")
    assert result.drain_lines() == [message("state.unreadable", place="a-0", offset=4, why="again")]
    assert result.drain_lines() == []
    assert result.counts == {"a": 2, "b": 1}


def test_a_topic_that_was_made_anew_has_other_records() -> None:
    result = UnreadableRecords(["a"])
    result.add("a", 5, "x")
    result.restarted("a")
    result.add("a", 0, "y")
    assert (len(result.drain_lines()), result.counts) == (2, {"a": 2})


def test_a_topic_full_of_them_does_not_fill_the_log() -> None:
    result = UnreadableRecords(["a"])
    for offset in range(1000):
        result.add("a", offset, "x")
    lines = result.drain_lines()
    assert (len(lines), lines[-1]) == (11, "a-0: 990 more records can't be read")
    result.add("a", 1000, "x")
    assert len(result.drain_lines()) == 1
    assert result.counts == {"a": 1001}


def test_batches_that_cant_be_decoded_count() -> None:
    result = UnreadableRecords(["a"])
    result.add_batches("a", 0)
    assert (result.drain_lines(), result.counts) == ([], {"a": 0})
    result.add_batches("a", 2)
    assert result.drain_lines() == [message("state.undecodable", place="a-0", count=2)]
    assert result.counts == {"a": 2}

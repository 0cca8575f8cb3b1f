"""Offset runs as records: to the byte as docs/offset-runs.md has them, and nothing read that can't be true."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.state_records.fields import SchemaError
from bridge.model.values import TopicPartition
from bridge.translation.runs.holes import CopySpan, listed
from bridge.translation.runs.runs import OffsetRun, RunKey, decode_change
from tests.support.messages import message_pattern

RUN = OffsetRun(
    TopicPartition("orders", 2), "s1", "A.orders", "t1", 5, 7, 900, 10, 2, 1, 3, 20, 1234567890, 77
)
KEY = "000100066f7264657273000000020008412e6f72646572730000000000000007"
NAMELESS = "000000066f7264657273000000020000000000000007"
"""The key of version 0."""
VALUE = (
    "0000"
    "0000000000000005"  # coveredFrom
    "0000000000000384"  # downstreamStart
    "000000000000000a"  # upstreamCount
    "0000000000000002"  # skipped
    "0000000000000001"  # extra
    "0000000000000014"  # position
    "00000003"  # leaderEpoch
    "00000000499602d2"  # lastTimestamp
    "000000000000004d"  # size
    "00027331"
    "0008412e6f7264657273"
    "00027431"
)


def test_golden_bytes() -> None:
    assert (RUN.key().hex(), RUN.value().hex()) == (KEY, VALUE)
    assert OffsetRun.decode(bytes.fromhex(KEY), bytes.fromhex(VALUE)) == RUN
    assert (RUN.upstream_end, RUN.downstream_end) == (17, 909)
    flagged = {"01": RUN._replace(handed_back=True), "02": RUN._replace(again=True)}
    for flags, run in flagged.items():
        assert run.value().hex() == VALUE + flags
        assert OffsetRun.decode(run.key(), run.value()) == run
    listed_run = RUN._replace(holes=listed([CopySpan(3, 2, 1), CopySpan(5)]))
    assert listed_run.value().hex() == VALUE + "00" + "0005" + "0103030205"
    assert OffsetRun.decode(listed_run.key(), listed_run.value()) == listed_run
    both = listed_run._replace(handed_back=True)
    assert both.value().hex() == VALUE + "01" + "0005" + "0103030205"
    assert OffsetRun.decode(both.key(), both.value()) == both
    transformed = RUN._replace(transformed=True)
    assert transformed.value().hex() == VALUE + "04"
    assert OffsetRun.decode(transformed.key(), transformed.value()) == transformed
    everything = both._replace(transformed=True)
    assert everything.value().hex() == VALUE + "05" + "0005" + "0103030205"
    assert OffsetRun.decode(everything.key(), everything.value()) == everything
    recopied = RUN._replace(recopy_end=4096)
    assert recopied.value().hex() == VALUE + "00" + "0000" + "0000" + "0000000000001000"
    assert OffsetRun.decode(recopied.key(), recopied.value()) == recopied
    timed = listed_run._replace(recopy_end=4096)
    assert timed.value(b"xy").hex() == VALUE + "00" + "0005" + "0103030205" + "00027879" + "0000000000001000"
    assert OffsetRun.decode(timed.key(), timed.value(b"xy")) == timed


COUNT = st.integers(0, 2**40)


@given(
    st.tuples(*[COUNT] * 6),
    st.integers(0, 9),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
def test_what_is_written_is_read(numbers: tuple[int, ...], partition: int, topic: str) -> None:
    gap, covered, downstream, copies, holes, extra = numbers
    copies += 1
    run = OffsetRun(
        TopicPartition(topic, partition),
        topic,
        topic,
        "",
        covered,
        covered + gap,
        downstream,
        copies + holes,
        holes,
        extra,
        partition - 1,
        covered + gap + copies + holes,
        -1,
    )
    assert OffsetRun.decode(run.key(), run.value()) == run
    assert decode_change(run.key(), run.value()) == (RunKey(*run.copy, run.upstream_start), run)


def test_a_null_value_drops_the_run() -> None:
    assert decode_change(RUN.key(), None) == (RunKey(RUN.source, "A.orders", 7), None)


def test_a_key_of_version_0_is_read_and_does_not_name_the_copy() -> None:
    key = bytes.fromhex(NAMELESS)
    assert decode_change(key, RUN.value()) == (RunKey(RUN.source, "", 7), RUN)
    assert RunKey(RUN.source, "", 7).encode() == key


def test_a_key_of_another_copy_than_its_value_is_no_run() -> None:
    with pytest.raises(
        SchemaError, match=message_pattern("state.other_target", key="orders", value="A.orders")
    ):
        OffsetRun.decode(RUN._replace(target_topic="orders").key(), RUN.value())


def test_a_later_schema_may_add_fields() -> None:
    listed_run = RUN._replace(holes=listed([CopySpan(3, 2, 1), CopySpan(5)]))
    assert OffsetRun.decode(listed_run.key() + b"x", listed_run.value() + b"more") == listed_run


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("0002" + KEY[4:], VALUE, "version 2 of the key is not known; known: 0, 1"),
        (KEY, "0001" + VALUE[4:], "version 1 of the value is not known; known: 0"),
        (KEY[:-2], VALUE, "upstreamStart of the key: 8 bytes needed, 7 there"),
        (NAMELESS[:-2], VALUE, "partition and upstreamStart of the key: 12 bytes needed, 11 there"),
        (KEY[:28] + "0000" + KEY[-16:], VALUE, "no targetTopic of the key: it is empty"),
        (KEY, VALUE[:40], "offsets and counts of the value: 70 bytes needed, 20 there"),
        (KEY, VALUE + "00" + "0003" + "0103", "holes of the value: 3 bytes needed, 2 there"),
        (KEY, VALUE[:-2], "targetTopicId of the value: 2 bytes needed, 1 there"),
    ],
)
def test_what_cant_be_read_is_named(key: str, value: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        OffsetRun.decode(bytes.fromhex(key), bytes.fromhex(value))


@pytest.mark.parametrize(
    "wrong",
    [
        RUN._replace(covered_from=8),
        RUN._replace(covered_from=-1),
        RUN._replace(position=16),
        RUN._replace(downstream_start=-1),
        RUN._replace(skipped=10),
        RUN._replace(skipped=-1),
        RUN._replace(extra=-1),
        RUN._replace(upstream_count=0),
        RUN._replace(source=TopicPartition("orders", -1)),
        RUN._replace(source=TopicPartition("", 0)),
        RUN._replace(target_topic=""),
        RUN._replace(position=2**63 - 1),
        RUN._replace(downstream_start=2**63 - 2),
        RUN._replace(extra=2**63 - 1),
        RUN._replace(leader_epoch=-2),
        RUN._replace(last_timestamp=-2),
        RUN._replace(size=-1),
    ],
)
def test_numbers_that_no_run_can_have(wrong: OffsetRun) -> None:
    with pytest.raises(SchemaError, match="no run has these numbers"):
        OffsetRun.decode(wrong.key(), wrong.value())


@given(st.sampled_from([b"\0\0", b"\0\1"]), st.binary(max_size=40), st.binary(max_size=90))
def test_damage_is_a_schema_error_and_nothing_else(version: bytes, key: bytes, value: bytes) -> None:
    with suppress(SchemaError):
        decode_change(version + key, b"\0\0" + value)


def test_a_run_that_was_found_says_so_and_older_readers_see_one_that_was_handed_back() -> None:
    found = RUN._replace(found=True, handed_back=True)
    assert OffsetRun.decode(found.key(), found.value()) == found
    assert found.value()[:-1] == RUN._replace(handed_back=True).value()[:-1]
    assert (RUN._replace(handed_back=True).value()[-1], found.value()[-1]) == (1, 9)

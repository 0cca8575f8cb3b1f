"""The records of the internal topics, byte for byte as Kafka 4.3.1's classes write and read them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync, SchemaError, SyncColumns
from bridge.model.values import TopicPartition

Record = OffsetSync | Checkpoint | Heartbeat

GOLDEN: dict[str, tuple[Record, str, str, str]] = {
    "OffsetSyncTest.testSerde": (
        OffsetSync(TopicPartition("topic-1", 2), 3, 4),
        "0007746f7069632d3100000002",
        "00000000000000030000000000000004",
        "OffsetSync{topicPartition=topic-1-2, upstreamOffset=3, downstreamOffset=4}",
    ),
    "CheckpointTest.testSerde": (
        Checkpoint("group-1", TopicPartition("topic-2", 3), 4, 5, "metadata-6"),
        "000767726f75702d310007746f7069632d3200000003",
        "000000000000000000040000000000000005000a6d657461646174612d36",
        "Checkpoint{consumerGroupId=group-1, topicPartition=topic-2-3, upstreamOffset=4, downstreamOffset=5, "
        "metadata=metadata-6}",
    ),
    "HeartbeatTest.testSerde": (
        Heartbeat("source-1", "target-2", 1234567890),
        "0008736f757263652d3100087461726765742d32",
        "000000000000499602d2",
        "Heartbeat{sourceClusterAlias=source-1, targetClusterAlias=target-2, timestamp=1234567890}",
    ),
    "a checkpoint of the largest values": (
        Checkpoint("g", TopicPartition("é", 0), -1, 2**63 - 1, ""),
        "0001670002c3a900000000",
        "0000ffffffffffffffff7fffffffffffffff0000",
        "Checkpoint{consumerGroupId=g, topicPartition=é-0, upstreamOffset=-1, "
        "downstreamOffset=9223372036854775807, metadata=}",
    ),
}


@pytest.mark.parametrize(("record", "key", "value", "text"), GOLDEN.values(), ids=GOLDEN)
def test_golden_bytes(record: Record, key: str, value: str, text: str) -> None:
    assert (record.key().hex(), record.value().hex(), str(record)) == (key, value, text)
    assert type(record).decode(bytes.fromhex(key), bytes.fromhex(value)) == record


LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
PARTITION = st.builds(TopicPartition, TEXT, INT)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(OffsetSync, PARTITION, LONG, LONG),
    st.builds(Checkpoint, TEXT, PARTITION, LONG, LONG, TEXT),
    st.builds(Heartbeat, TEXT, TEXT, LONG),
)


@given(RECORDS, st.binary(max_size=5))
def test_what_was_written_is_read_again_and_more_bytes_are_passed_over(record: Record, more: bytes) -> None:
    assert type(record).decode(record.key() + more, record.value() + more) == record


@given(RECORDS, st.data())
def test_whatever_is_cut_off_is_seen(record: Record, data: st.DataObject) -> None:
    key, value = record.key(), record.value()
    with pytest.raises(SchemaError, match="of the key"):
        type(record).decode(key[: data.draw(st.integers(0, len(key) - 1))], value)
    with pytest.raises(SchemaError, match="of the value"):
        type(record).decode(key, value[: data.draw(st.integers(0, len(value) - 1))])


@given(st.sampled_from([OffsetSync, Checkpoint, Heartbeat]), st.binary(max_size=64), st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(kind: type[Record], key: bytes, value: bytes) -> None:
    with suppress(SchemaError):
        assert isinstance(kind.decode(key, value), kind)


SYNC, CHECKPOINT, BEAT = (GOLDEN[name][0] for name in list(GOLDEN)[:3])


@pytest.mark.parametrize(
    ("kind", "key", "value", "why"),
    [
        (OffsetSync, None, SYNC.value(), "no topic of the key: it is null"),
        (OffsetSync, SYNC.key(), None, "no upstreamOffset and offset of the value: it is null"),
        (
            Checkpoint,
            CHECKPOINT.key(),
            None,
            "no version, upstreamOffset and offset of the value: it is null",
        ),
        (Heartbeat, None, BEAT.value(), "no sourceClusterAlias of the key: it is null"),
        (OffsetSync, b"", SYNC.value(), "no topic of the key: 2 bytes needed, 0 there"),
        (OffsetSync, b"\xff\xffabc", SYNC.value(), "no topic of the key: its length is -1"),
        (OffsetSync, b"\x00\x07topic", SYNC.value(), "no topic of the key: 7 bytes needed, 5 there"),
        (OffsetSync, SYNC.key()[:-1], SYNC.value(), "no partition of the key: 4 bytes needed, 3 there"),
        (
            OffsetSync,
            SYNC.key(),
            b"garbage",
            "no upstreamOffset and offset of the value: 16 bytes needed, 7 there",
        ),
        (
            Checkpoint,
            CHECKPOINT.key(),
            CHECKPOINT.value()[:-4],
            "no metadata of the value: 10 bytes needed, 6 there",
        ),
        (
            Checkpoint,
            CHECKPOINT.key()[:9],
            CHECKPOINT.value(),
            "no topic of the key: 2 bytes needed, 0 there",
        ),
        (
            Checkpoint,
            b"",
            b"",
            "no version, upstreamOffset and offset of the value: 18 bytes needed, 0 there",
        ),
    ],
)
def test_what_cant_be_read_is_named(
    kind: type[Record], key: bytes | None, value: bytes | None, why: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        kind.decode(key, value)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (
            OffsetSync(TopicPartition("t" * 32768, 0), 0, 0),
            "topic has 32768 bytes; 32767 are the most",
        ),
        (
            Checkpoint("g", TopicPartition("t", 0), 0, 0, "é" * 16384),
            "metadata has 32768 bytes; 32767 are the most",
        ),
        (
            Heartbeat("\ud800", "B", 0),
            "sourceClusterAlias '\\ud800' can't be written as UTF-8: surrogates not allowed",
        ),
        (OffsetSync(TopicPartition("t", 2**31), 0, 0), "partition: 2147483648 can't be written: "),
        (
            OffsetSync(TopicPartition("t", 0), 0, 2**63),
            "upstreamOffset and offset: 0, 9223372036854775808 can't be ",
        ),
        (
            Checkpoint("g", TopicPartition("t", 0), 2**63, 0, ""),
            "upstreamOffset and offset: 0, 9223372036854775808, 0",
        ),
    ],
)
def test_what_cant_be_written_is_named(record: Record, why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        record.key() + record.value()
    assert str(caught.value).startswith(why)


def test_the_longest_string_can_be_written() -> None:
    record = Heartbeat("a" * 32767, "b", 0)
    assert Heartbeat.decode(record.key(), record.value()) == record


def test_any_version_is_read_as_the_first() -> None:
    assert Heartbeat.decode(BEAT.key(), b"\x00\x09" + BEAT.value()[2:]) == BEAT
    assert Checkpoint.decode(CHECKPOINT.key(), b"\xff\xff" + CHECKPOINT.value()[2:]) == CHECKPOINT


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (b"a\xff\x80b", "a\ufffd\ufffdb"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xf0\x9f\x98A", "\ufffdA"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        pytest.param(b"\xed\xa0\x80-\xed\xa0", "\ufffd-\ufffd", id="one for a surrogate, unlike Python"),
    ],
)
def test_what_is_no_utf8_is_replaced_as_java_does(encoded: bytes, text: str) -> None:
    key = len(encoded).to_bytes(2, "big") + encoded + b"\x00\x01B"
    assert Heartbeat.decode(key, BEAT.value()) == Heartbeat(text, "B", 1234567890)


def test_syncs_of_one_partition_share_its_name() -> None:
    first, second = (OffsetSync.decode(bytes(SYNC.key()), SYNC.value()) for _ in range(2))
    assert first.topic_partition is second.topic_partition


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (OffsetSync(TopicPartition("t", -1), 0, 0), "partition of the key is -1, and can't be below 0"),
        (OffsetSync(TopicPartition("", 0), 0, 0), "topic of the key is empty"),
        (
            OffsetSync(TopicPartition("t", 0), -1, 0),
            "upstreamOffset of the value is -1, and can't be below 0",
        ),
        (OffsetSync(TopicPartition("t", 0), 0, -1), "offset of the value is -1, and can't be below 0"),
        (
            OffsetSync(TopicPartition("t", 0), 2**63 - 1, 0),
            "upstreamOffset of the value is 9223372036854775807, and no log has that offset",
        ),
        (
            Checkpoint("g", TopicPartition("t", -7), 0, 0, ""),
            "partition of the key is -7, and can't be below 0",
        ),
        (
            Checkpoint("g", TopicPartition("t", 0), -1, 0, ""),
            "upstreamOffset of the value is -1, and can't be",
        ),
        (
            Checkpoint("g", TopicPartition("t", 0), 0, -1, ""),
            "offset of the value is -1, and can't be below 0",
        ),
        (
            Checkpoint("g", TopicPartition("t", 0), 0, 2**63 - 1, ""),
            "offset of the value is 9223372036854775807, and no log has that offset",
        ),
    ],
)
def test_numbers_that_no_log_has_are_refused_where_they_would_be_acted_on(
    record: OffsetSync | Checkpoint, why: str
) -> None:
    """Formatters print them, as stock's do."""
    assert type(record).decode(record.key(), record.value()) == record
    with pytest.raises(SchemaError) as caught:
        type(record).checked(record.key(), record.value())
    assert str(caught.value).startswith(why)


@given(
    st.one_of(
        st.builds(OffsetSync, PARTITION, LONG, LONG), st.builds(Checkpoint, TEXT, PARTITION, LONG, LONG, TEXT)
    )
)
def test_what_is_checked_is_in_range_or_refused(record: OffsetSync | Checkpoint) -> None:
    with suppress(SchemaError):
        result = type(record).checked(record.key(), record.value())
        assert result == record
        assert result.topic_partition.topic
        assert result.topic_partition.partition >= 0
        assert min(result.upstream_offset, result.downstream_offset) >= 0
        assert max(result.upstream_offset, result.downstream_offset) < 2**63 - 1


def test_what_stock_writes_is_in_range() -> None:
    for record in (
        OffsetSync(TopicPartition("t", 0), 0, 0),
        Checkpoint("", TopicPartition("t", 3), 4, 5, "m"),
    ):
        assert type(record).checked(record.key(), record.value()) == record


OFFSET = st.integers(0, 2**63 - 2)
SYNCS = st.builds(OffsetSync, st.builds(TopicPartition, st.just("orders"), st.integers(0, 3)), OFFSET, OFFSET)
BYTES = st.tuples(st.none() | st.binary(max_size=18), st.none() | st.binary(max_size=18))


WRITTEN = st.tuples(
    SYNCS | st.builds(OffsetSync, PARTITION, LONG, LONG), st.just(b"") | st.binary(max_size=16)
).map(lambda sync: (sync[0].key(), sync[0].value() + sync[1]))
"""Key and value, with more bytes behind the last field now and then."""


@given(st.lists(WRITTEN | BYTES, max_size=4))
def test_syncs_that_are_decoded_together_are_those_of_one_after_the_other(
    records: list[tuple[bytes | None, bytes | None]],
) -> None:
    try:
        expected = SyncColumns.from_syncs(OffsetSync.checked(key, value) for key, value in records)
    except SchemaError:
        assert SyncColumns.decode(records) is None
        return
    if all(value and len(value) == 16 for _, value in records):
        assert SyncColumns.decode(records) == expected
    else:
        assert SyncColumns.decode(records) is None, "one has more bytes, which are passed over"

"""Answers that end too soon, or hold what they can't."""

from __future__ import annotations

import struct

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.protocol import group_requests, log_requests
from bridge.kafka.protocol.wire import Reader, Unreadable, Writer

READS = (
    "int8",
    "int16",
    "int32",
    "int64",
    "varint",
    "string",
    "nullable_string",
    "blob",
    "buffer",
    "uuid",
    "array",
)


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("read", READS)
def test_nothing_is_read_behind_the_end(read: str, flexible: bool) -> None:
    # A byte is all of the first two, and of a count of none.
    short = () if read in ("int8", "varint") or (flexible and read == "array") else (b"\x05",)
    for data in (b"", *short):
        with pytest.raises(Unreadable, match="The broker's response can't be read") as error:
            getattr(Reader(data, flexible=flexible), read)()
        assert isinstance(error.value, KafkaFailure)
        assert (error.value.fault, error.value.retriable) == (KafkaFault.OTHER, True)


def test_counts_that_can_not_be_are_not_believed() -> None:
    for length in (10, 1 << 20, (1 << 31) - 1):
        with pytest.raises(Unreadable, match=f"there can't be {length} of a thing"):
            Reader(struct.pack(">i", length) + bytes(9), flexible=False).array()
        writer = Writer(flexible=True)
        writer.array(length)
        with pytest.raises(Unreadable, match=f"there can't be {length} of a thing"):
            Reader(bytes(writer.encode()) + bytes(9), flexible=True).array()
        for read in ("tags", "tagged"):
            writer = Writer(flexible=True)
            writer.varint(length)
            with pytest.raises(Unreadable, match=f"there can't be {length} of a thing"):
                getattr(Reader(bytes(writer.encode()) + bytes(9), flexible=True), read)()
    assert len(Reader(struct.pack(">i", 9) + bytes(9), flexible=False).array()) == 9
    assert len(Reader(struct.pack(">i", -7), flexible=False).array()) == 0


@pytest.mark.parametrize("read", ["blob", "buffer", "string"])
def test_lengths_behind_the_end_are_not_taken_for_less(read: str) -> None:
    with pytest.raises(Unreadable, match="it ends at byte 6"):
        getattr(Reader(b"\x09hello", flexible=True), read)()


def test_numbers_that_do_not_end() -> None:
    with pytest.raises(Unreadable, match="a number does not end"):
        Reader(b"\x80" * 10_000_000, flexible=True).varint()
    assert Reader(b"\xff\xff\xff\xff\x0f", flexible=True).varint() == (1 << 32) - 1


def test_texts_that_are_none() -> None:
    with pytest.raises(Unreadable, match="a text is no UTF-8"):
        Reader(b"\x03\xff\xfe", flexible=True).string()


def test_skipping_behind_the_end() -> None:
    with pytest.raises(Unreadable):
        Reader(bytes(3), flexible=True).skip(4)


def test_answers_of_other_versions_are_failures() -> None:
    with pytest.raises(Unreadable):
        log_requests.read_metadata(Reader(bytes(5), flexible=False), 12)
    with pytest.raises(Unreadable):
        group_requests.read_fetched_offsets(Reader(b"\xff" * 40, flexible=True))

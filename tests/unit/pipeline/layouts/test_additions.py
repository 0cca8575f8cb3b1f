"""Records that add partitions to a slice: who signed them, for which slice, and what is divided how."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.model.partition_states import Skip
from bridge.model.values import LogRecord, Side, TopicPartition
from bridge.pipeline.layouts.records import (
    Addition,
    Additions,
    additions_key,
    decode,
    encode,
    joining,
    spread,
    unreadable,
)
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.lease import Lease
from tests.unit.pipeline.values import copied, spec

WORK = Slice(spec(), 7, 1, 60.0, [copied(0)], [], secret=b"s" * 32)
RUNS = [LogRecord(5, 1_700_000_000_000, b"key", b"\x00value"), LogRecord(6, 0, None, None)]
PARTITIONS = [
    Addition(replace(copied(1, start=12), copied_before=True), RUNS),
    Addition(copied(0, "payments")),
]
SKIPS = [Skip("orders", 0, 5, 9), Skip("payments", 0, 1, 2)]
ADDED = Additions(PARTITIONS, SKIPS)


def test_a_slice_reads_what_was_added_to_it() -> None:
    read = decode(encode(WORK, ADDED), WORK)
    assert read == Additions(
        [Addition(PARTITIONS[0].copied, RUNS), Addition(PARTITIONS[1].copied, [])], SKIPS
    )


@pytest.mark.parametrize(
    "other",
    [replace(WORK, secret=b"t" * 32), replace(WORK, layout=8), replace(WORK, slot=0)],
    ids=["another driver", "another layout", "another slot"],
)
def test_it_reads_nothing_that_is_not_its_own(other: Slice) -> None:
    assert decode(encode(WORK, ADDED), other) is None


@pytest.mark.parametrize(
    "value",
    [None, b"", b"[]", b"7", b'{"content":1,"mac":"x"}', b'{"content":"{}","mac":7}', b"\xff", b"[" * 9999],
)
def test_nonsense_is_passed_over(value: bytes | None) -> None:
    assert decode(value, WORK) is None


def test_what_somebody_has_altered_is_passed_over() -> None:
    fields = json.loads(encode(WORK, ADDED))
    fields["content"] = fields["content"].replace("A.payments", "A.salaries")
    assert decode(json.dumps(fields).encode(), WORK) is None


def test_the_log_does_not_call_it_unreadable() -> None:
    assert unreadable(b'{"connector":"m","additions":1}', encode(WORK, ADDED)) is None


def test_an_older_record_takes_nothing_away() -> None:
    """A slice that begins anew reads committed records, while it has followed newer ones."""
    props = {f"{side}.cluster.bootstrap.servers": "127.0.0.1:1" for side in ("source", "target")}
    work = replace(WORK, spec=spec(props))
    lease = Lease(work, NetworkClient(client_settings(Side.TARGET, props).raw))
    key = additions_key(work.spec, work.slot)
    first, second = Additions(PARTITIONS[:1]), Additions(PARTITIONS, SKIPS[:1])
    for added in (first, second, first, ADDED, second):
        lease.note(LogRecord(1, 0, key, encode(work, added)))
    assert [each.copied for each in lease.added.partitions] == [each.copied for each in PARTITIONS]
    assert lease.added.skips == SKIPS
    more = Additions([*PARTITIONS, PARTITIONS[0]], SKIPS)
    lease.note(LogRecord(9, 0, additions_key(work.spec, 0), encode(work, more)))
    assert len(lease.added.partitions) == 2


def test_new_partitions_join() -> None:
    assert joining([copied(0)], [copied(1), copied(0), copied(0, "payments")]) == [
        copied(1),
        copied(0, "payments"),
    ]
    assert joining([copied(0)], [copied(0)]) == []


@pytest.mark.parametrize("wanted", [[], [copied(1)], [copied(0, ids=("made again", "target-id")), copied(1)]])
def test_what_is_lost_or_is_another_topic_now_needs_a_new_layout(wanted: list[object]) -> None:
    assert joining([copied(0)], wanted) is None  # type: ignore[arg-type]


@given(
    st.lists(st.lists(st.integers(0, 99), max_size=5, unique=True), min_size=1, max_size=4),
    st.lists(st.integers(100, 199), max_size=20, unique=True),
)
def test_each_new_partition_goes_to_one_slot_and_to_the_lightest(
    held: list[list[int]], new: list[int]
) -> None:
    slots = [[copied(number, f"topic-{slot}") for number in numbers] for slot, numbers in enumerate(held)]
    added = spread(slots, [copied(number) for number in new], {})
    assert sorted(each.source.partition for share in added for each in share) == sorted(new)
    counts = [len(one) + len(other) for one, other in zip(slots, added, strict=True)]
    grown = [count for count, share in zip(counts, added, strict=True) if share]
    assert all(count <= min(counts) + 1 for count in grown)


def test_the_slot_that_copies_more_bytes_gets_less() -> None:
    weights = {TopicPartition("orders", 0): 1000.0, TopicPartition("orders", 1): 10.0}
    added = spread([[copied(0)], [copied(1)]], [copied(2), copied(3)], weights)
    assert [len(share) for share in added] == [0, 2]

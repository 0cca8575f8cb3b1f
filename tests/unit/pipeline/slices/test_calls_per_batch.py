"""How many calls of Python functions a batch costs on its way from fetched bytes to chunks: they are most of what small
batches cost, and they do not depend on the machine."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from types import FrameType

import pytest

from bridge.kafka.consumer.fetcher import CompletedFetch
from bridge.kafka.record.batch import Chunk
from bridge.kafka.record.rebuilding import TopicLimits
from bridge.model.values import TopicPartition
from bridge.pipeline.slices.refusals import LeftOut, Refusals
from bridge.pipeline.slices.resume import batches_of
from bridge.pipeline.slices.throttle import batch_policy
from tests.unit.kafka.record.raw_batches import GZIP, LZ4, NONE, NOW, ZSTD, Plain, batch_of

BATCHES = 1000
TP = TopicPartition("orders", 0)
POLICY = batch_policy(16_384, TopicLimits(1_048_588), 0.001)
"""With its defaults, near by."""


def log(records: int, codec: int) -> bytearray:
    """Batches of so many records of 1 KB, all alike but for their offsets, which no checksum is of."""
    values = (b" ".join(b"%d" % (number * at) for at in range(1, 200))[:1000] for number in range(records))
    one = bytearray(batch_of([Plain(NOW, b"key", value) for value in values], codec=codec))
    data = bytearray()
    for number in range(BATCHES):
        struct.pack_into(">q", one, 0, number * records)
        data += one
    return data


def pieces(data: bytearray) -> Iterator[Chunk | LeftOut]:
    result = batches_of(CompletedFetch(TP, data, 0), 0, POLICY, committed_only=True)
    return Refusals().chunks(TP, result.batches, POLICY, 0)


@pytest.mark.parametrize(
    ("records", "codec", "most"),
    [
        (1, NONE, 1.5),  # coalesced: next to nothing is done for each
        (1, LZ4, 4),
        (1, ZSTD, 4),
        (16, NONE, 8),
        (16, ZSTD, 6),
        (16, GZIP, 12),  # sent as they are
    ],
    ids=["1 record", "1 record, lz4", "1 record, zstd", "16 KB", "16 KB, zstd", "16 KB, gzip"],
)
def test_a_batch_costs_few_calls(records: int, codec: int, most: float) -> None:
    data, calls = log(records, codec), 0
    list(pieces(data[:]))  # numba looks up types in Python when a loop is called first

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        copied = list(pieces(data))
    finally:
        sys.setprofile(before)
    assert sum(each.count for each in copied if isinstance(each, Chunk)) == BATCHES * records
    assert calls / BATCHES <= most

"""Records that can't be copied: what is known of them from one transaction to the next."""

from __future__ import annotations

import re
import struct
import zlib

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.rebuilding import BatchPolicy, CodecSizes
from bridge.model.copying import Gap, GapKind
from bridge.model.values import TopicPartition
from bridge.pipeline.slices.refusals import LeftOut, Refusals, Refused
from tests.support.messages import message_pattern
from tests.unit.kafka.record.raw_batches import GZIP, batch, legacy, sealed
from tests.unit.pipeline.values import copied

PLACE = TopicPartition("orders", 0)
POLICY = BatchPolicy(1_000_000, 16_384, coalesced=CodecSizes.all(4096))


def unreadable(base: int) -> bytes:
    """Three offsets, one of them a hole, so that it can't pass as it is."""
    data = bytearray(batch(base, 3, codec=GZIP, without=(1,)))
    data[61:] = b"\xff" * (len(data) - 61)
    return sealed(data)


LOG = batch(0, 4) + unreadable(4) + batch(7, 2, codec=GZIP) + unreadable(9) + batch(12, 1)


def pieces(refusals: Refusals, log: bytes, position: int = 0) -> list[tuple[int, int] | Gap]:
    """[first, end) of what is sent, and what is left out."""
    batches = DataBatches.committed(log, position, ()).batches
    result = refusals.chunks(PLACE, batches, POLICY, position)
    return [
        each.gap if isinstance(each, LeftOut) else (each.segments[0][0], sum(each.segments[-1]))
        for each in result
    ]


def refused(refusals: Refusals, log: bytes, position: int = 0) -> Refused:
    with pytest.raises(Refused) as caught:
        pieces(refusals, log, position)
    return caught.value


def leave_out(refusals: Refusals, log: bytes, position: int = 0) -> Gap:
    result = refused(refusals, log, position)
    assert refusals.learn(result)
    (found,) = result.left_out(copied(), 7)
    refusals.leave_out(found)
    return found.gap


def test_what_nobody_can_decode_is_named_with_its_offsets() -> None:
    result = refused(Refusals(), LOG)
    assert (result.source, result.first, result.end) == (PLACE, 4, 7)
    (found,) = result.left_out(copied(), 7)
    for words in ("orders-0 at offsets 4 to 6", "A.orders", "can't be decoded"):
        assert words in found.why
    assert "source.record.policy to report" in found.way_out


def test_each_is_left_out_and_its_neighbours_are_not() -> None:
    refusals = Refusals()
    gaps = [leave_out(refusals, LOG), leave_out(refusals, LOG)]
    assert [each.upstream_from for each in gaps] == [4, 9]
    assert [each.upstream_to for each in gaps] == [7, 12]
    assert {each.kind for each in gaps} == {GapKind.RECORD_REFUSED}
    expected = [(0, 4), gaps[0], (7, 9), gaps[1], (12, 13)]
    assert pieces(refusals, LOG) == expected
    assert pieces(refusals, LOG, 7) == expected[2:]
    assert pieces(Refusals(), batch(0, 4)) == [(0, 4)]


def test_where_copying_begins_inside_of_it_the_rest_is_left_out() -> None:
    refusals = Refusals()
    gap = leave_out(refusals, LOG, 5)
    assert (gap.upstream_from, gap.upstream_to) == (5, 7)


def test_from_before_0_11_it_begins_where_the_last_batch_ended() -> None:
    """Its header tells the last offset only."""
    broken = bytearray(legacy(1, GZIP, 4))
    broken[-8:] = b"\xff" * 8
    struct.pack_into(">I", broken, 12, zlib.crc32(broken[16:]))
    log = batch(0, 4) + bytes(broken) + batch(7, 1)
    refusals = Refusals()
    gap = leave_out(refusals, log)
    assert re.match(message_pattern("copying.undecodable", offset=6), gap.detail)
    assert (gap.upstream_from, gap.upstream_to) == (4, 7)
    assert pieces(refusals, log) == [(0, 4), gap, (7, 8)]


def test_records_that_the_broker_names_are_left_out_at_once_and_the_others_stay_together() -> None:
    log, refusals = batch(0, 16) + batch(16, 4), Refusals()
    cause = KafkaFailure(KafkaFault.RECORD_REFUSED, "two are refused")
    named = {5: "no key", 6: "no key", 11: "too old"}
    result = Refused(PLACE, 0, 16, cause, named=named)
    assert refusals.learn(result)
    found = [each.gap for each in result.left_out(copied(), 7)]
    assert [(each.upstream_from, each.upstream_to, each.detail) for each in found] == [
        (5, 6, "no key"),
        (6, 7, "no key"),
        (11, 12, "too old"),
    ]
    for records in result.left_out(copied(), 7):
        refusals.leave_out(records)
    sent = pieces(refusals, log)
    assert [each for each in sent if isinstance(each, Gap)] == found
    ranges = [(each.upstream_from, each.upstream_to) if isinstance(each, Gap) else each for each in sent]
    assert [first for first, _ in ranges] == [0, *(end for _, end in ranges[:-1])], "all, in order"
    assert ranges[-1][1] == 20
    assert len(sent) < 12, "in large pieces"
    assert pieces(refusals, log, 12) == [(12, 20)], "nothing is cut behind them"


def test_each_record_at_fault_is_named() -> None:
    cause = KafkaFailure(KafkaFault.RECORD_REFUSED, "some are refused")
    found = list(Refused(PLACE, 0, 16, cause, named={5: "no key", 11: "too old"}).left_out(copied(), 7))
    assert ["orders-0 at offset 5 " in each.why for each in found] == [True, False]
    assert ["no key" in each.why for each in found] == [True, False]
    assert "cleanup.policy" in found[0].way_out


def test_what_is_tried_again_is_sent_as_if_nothing_had_been_refused() -> None:
    refusals = Refusals()
    leave_out(refusals, LOG)
    refusals.try_again(PLACE)
    assert refused(refusals, LOG).first == 4


def test_what_is_passed_is_forgotten() -> None:
    refusals = Refusals()
    leave_out(refusals, LOG)
    assert pieces(refusals, batch(7, 2, codec=GZIP), 7) == [(7, 9)]
    assert refused(refusals, LOG).first == 4, "nothing is left of it"

"""What a transaction's batches have become, and which error of several counts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.producer.sender import aborted
from bridge.kafka.record.batch import Chunk
from bridge.model.copying import Gap, GapKind
from bridge.pipeline.slices.refusals import Refused
from bridge.pipeline.slices.transaction import Part, Sent, WrittenPart, written_parts
from tests.unit.pipeline.values import copied

TAKEN = KafkaFailure(KafkaFault.FENCED, "somebody else has the id", retriable=False)
TOO_LARGE = KafkaFailure(KafkaFault.RECORD_TOO_LARGE, "too large", retriable=False)


def outcome(*partitions: Sequence[int | KafkaFailure]) -> list[WrittenPart]:
    """Of partitions whose batches of two records each, from offset 0 on, were answered like this."""

    async def waiting() -> list[WrittenPart]:
        parts = []
        for number, answers in enumerate(partitions):
            part = Part(copied(number), 0)
            for at, answer in enumerate(answers):
                base: asyncio.Future[int] = asyncio.get_running_loop().create_future()
                if isinstance(answer, int):
                    base.set_result(answer)
                else:
                    base.set_exception(answer)
                    base.exception()  # as the sender does: nobody has to await it
                part.sent.append(Sent(((2 * at, 2),), -1, 0, 0, 2 * at, base))
            parts.append(part)
        return await written_parts(parts)

    return asyncio.run(waiting())


def test_neighbours_on_both_sides_are_one_segment() -> None:
    (first, second) = outcome([10, 12, 20], [0])
    assert [(each.upstream_start, each.downstream_start, each.count) for each in first.segments] == [
        (0, 10, 4),
        (4, 20, 2),
    ]
    assert [each.count for each in second.segments] == [2]


def test_what_no_batch_was_at_fault_for_is_raised_as_itself() -> None:
    """A slice that has been overtaken must end; if it were only told that its batches were not written, it would take
    the id back."""
    with pytest.raises(KafkaFailure) as caught:
        outcome([0, aborted(TAKEN)], [aborted(TAKEN)])
    assert caught.value is TAKEN


def test_a_batch_that_was_refused_counts_before_what_it_has_brought() -> None:
    with pytest.raises(Refused) as caught:
        outcome([aborted(TOO_LARGE)], [0, TOO_LARGE])
    refused = caught.value
    assert (refused.source.partition, refused.first, refused.end, refused.cause) == (1, 2, 4, TOO_LARGE)


def test_a_batch_covers_what_was_seen_before_it_since_the_last_one() -> None:
    async def sent() -> list[tuple[int, int]]:
        part = Part(copied(), 7)
        for segments in (((12, 2), (15, 1)), ((20, 3),)):
            base: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            part.add(Chunk(bytearray(), 3, segments, -1, 0), base)
        return [(each.covered_from, each.segments[0][0]) for each in part.sent]

    assert asyncio.run(sent()) == [(7, 12), (16, 20)]


def test_all_batches_that_were_refused_are_told_with_the_records_at_fault() -> None:
    named = KafkaFailure(KafkaFault.RECORD_REFUSED, "refused", records={1: "no key", 7: "no such record"})
    with pytest.raises(Refused) as caught:
        outcome([0, named, aborted(named), TOO_LARGE], [aborted(named)], [named])
    told = [
        (each.source.partition, each.first, dict(each.named)) for each in (caught.value, *caught.value.others)
    ]
    assert told == [(0, 2, {3: "no key"}), (0, 6, {}), (2, 0, {1: "no key"})]


def left_out(*gaps: Gap) -> list[tuple[int, int]]:
    part = Part(copied(), 0)
    for gap in gaps:
        part.leave_out(gap)
    return [(gap.upstream_from, gap.upstream_to) for gap in part.gaps]


def test_neighbours_that_fail_in_the_same_way_are_one_entry() -> None:
    def gap(first: int, kind: GapKind = GapKind.TRANSFORM_FAILED, why: str = "why") -> Gap:
        return Gap(copied().source, kind, "source-id", first, first + 1, 1000 + first, why, "A.orders")

    assert left_out(gap(3), gap(4), gap(5), gap(7)) == [(3, 6), (7, 8)]
    assert left_out(gap(3), gap(4, why="another")) == [(3, 4), (4, 5)]
    assert left_out(gap(3, GapKind.RECORD_REFUSED), gap(4, GapKind.RECORD_REFUSED)) == [(3, 5)]
    assert left_out(gap(3, GapKind.RECORD_REFUSED), gap(4)) == [(3, 4), (4, 5)]

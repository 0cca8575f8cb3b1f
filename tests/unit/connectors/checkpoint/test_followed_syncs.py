"""Offset syncs that are followed: what a start that fails half-way has read is not read again, and still counts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.mm2.records import OffsetSync
from bridge.model.values import LogRecord, Side, TailPart, TopicPartition
from connectors.checkpoint.task import FollowedSyncs
from connectors.cluster_away import ClusterAway

QUIET, BUSY = TopicPartition("quiet", 0), TopicPartition("busy", 0)


class ScriptedTail:
    """Answers its reads one after the other."""

    topic = "mm2-offset-syncs.B.internal"

    def __init__(self, *answers: TailPart | KafkaFailure) -> None:
        self._answers = list(answers)

    async def read(self) -> TailPart:
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaFailure):
            raise answer
        return answer


def part(syncs: Sequence[OffsetSync], *, at_end: bool = False, restarted: bool = False) -> TailPart:
    return TailPart(
        [LogRecord(at, 0, sync.key(), sync.value()) for at, sync in enumerate(syncs)], restarted, at_end
    )


def away() -> KafkaFailure:
    return KafkaFailure(KafkaFault.TIMEOUT, "no answer")


def followed(
    *answers: TailPart | KafkaFailure, must_read_to_end: Sequence[bool] = (False, False)
) -> FollowedSyncs:
    """A start whose first attempt fails."""
    syncs = FollowedSyncs(Side.SOURCE, ScriptedTail(*answers), 1000, mended=True)

    async def start() -> None:
        first, *again = must_read_to_end
        with pytest.raises(ClusterAway):
            await syncs.follow(must_read_to_end=first)
        for each in again:
            await syncs.follow(must_read_to_end=each)

    asyncio.run(start())
    return syncs


HISTORY = [OffsetSync(QUIET, 0, 0), OffsetSync(QUIET, 100, 100)]


def test_what_was_read_before_a_failure_counts() -> None:
    syncs = followed(part(HISTORY), away(), part([OffsetSync(BUSY, 7, 9)], at_end=True))
    assert syncs.translate(QUIET, 50) == 1
    assert syncs.translate(QUIET, 200) == 101
    assert syncs.translate(BUSY, 7) == 9


@pytest.mark.parametrize("attempts", [(True, False), (False, True), (True, True)])
def test_only_last_syncs_count_once_a_start_has_asked_for_them(attempts: tuple[bool, bool]) -> None:
    """Whichever attempt it was that did not know the checkpoints."""
    syncs = followed(part(HISTORY), away(), part([], at_end=True), must_read_to_end=attempts)
    assert syncs.translate(QUIET, 50) == -1
    assert syncs.translate(QUIET, 200) == 101


def test_a_topic_that_is_made_anew_during_the_start_begins_with_nothing() -> None:
    syncs = followed(part(HISTORY), away(), part([OffsetSync(BUSY, 7, 9)], at_end=True, restarted=True))
    assert syncs.translate(QUIET, 200) is None
    assert syncs.translate(BUSY, 7) == 9


@pytest.mark.parametrize(
    "value", [None, b"", b"short", OffsetSync(QUIET, 5, 5).value() + b"more", b"\xff" * 16]
)
def test_beside_a_record_that_is_no_usual_sync_the_others_count(value: bytes | None) -> None:
    """What stands after the last field is passed over, as by stock."""
    records = [LogRecord(at, 0, sync.key(), sync.value()) for at, sync in enumerate(HISTORY)]
    records.insert(1, LogRecord(7, 0, OffsetSync(BUSY, 0, 0).key(), value))
    syncs = FollowedSyncs(Side.SOURCE, ScriptedTail(TailPart(records, False, True)), 1000, mended=True)
    asyncio.run(syncs.follow(must_read_to_end=False))
    assert syncs.translate(QUIET, 200) == 101
    longer = value is not None and value.endswith(b"more")
    assert syncs.translate(BUSY, 5) == (5 if longer else None)
    assert syncs.log.unreadable == {ScriptedTail.topic: 0 if longer else 1}


def test_a_log_that_was_cut_back_during_the_start_does_not_bring_older_syncs_back() -> None:
    reads = part(HISTORY[:1]), away(), part(HISTORY, at_end=True, restarted=True)
    syncs = followed(*reads, must_read_to_end=(True, True))
    assert syncs.translate(QUIET, 50) == -1
    assert syncs.translate(QUIET, 200) == 101


def test_no_answer_rests_on_half_a_log_that_may_not_be_read_further() -> None:
    denied = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "no READ")
    tail = ScriptedTail(part(HISTORY[:1]), denied, part(HISTORY[1:], at_end=True))
    syncs = FollowedSyncs(Side.SOURCE, tail, 1000, mended=True)
    asyncio.run(syncs.follow(must_read_to_end=True))
    assert syncs.translate(QUIET, 200) is None
    asyncio.run(syncs.follow(must_read_to_end=True))
    assert syncs.translate(QUIET, 50) == -1
    assert syncs.translate(QUIET, 200) == 101

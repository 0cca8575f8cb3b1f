"""What is remembered between rounds, and what makes it forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.model.values import (
    Bounds,
    Evidence,
    Judgement,
    Reason,
    TopicPartition,
    Verdict,
)
from bridge.translation.records.partition_cache import Anchor
from connectors.group_translation.translating.pairs import PairIdentity, PairMemories

PAIR = (TopicPartition("orders", 0), TopicPartition("A.orders", 0))
OTHER = (TopicPartition("orders", 1), TopicPartition("A.orders", 1))
IDENTITY = PairIdentity("source-id", 3, "target-id", 5)
HERE = (Bounds(10, 100), Bounds(0, 90))


def exact(offset: int, **detail: int) -> Verdict:
    return Verdict(Judgement.EXACT, offset, 0, Evidence.VERIFIED, detail=dict(detail), not_on_target=0)


BRACKETED = exact(40, pred_copy=39, next_copy=40)


def remembering(verdict: Verdict, offset: int = 50, end: int = 90) -> PairMemories:
    kept = PairMemories()
    kept.get(PAIR, IDENTITY).remember(offset, verdict, end)
    return kept


def test_an_exact_verdict_is_recalled_while_nothing_moves() -> None:
    kept = remembering(BRACKETED)
    assert kept.get(PAIR, IDENTITY).recall(50, *HERE) is BRACKETED
    assert kept.get(PAIR, IDENTITY).recall(51, *HERE) is None
    assert kept.get(OTHER, IDENTITY).recall(50, *HERE) is None


def test_between_two_copies_it_holds_however_the_ends_move() -> None:
    assert remembering(BRACKETED).get(PAIR, IDENTITY).recall(50, Bounds(10, 500), Bounds(0, 400)) is BRACKETED


@pytest.mark.parametrize(
    "moved",
    [
        replace(IDENTITY, source_id="new"),
        replace(IDENTITY, source_epoch=4),
        replace(IDENTITY, target_id="new"),
        replace(IDENTITY, target_epoch=6),
    ],
)
def test_ids_and_epochs_that_move_drop_verdicts_and_memory(moved: PairIdentity) -> None:
    kept = remembering(BRACKETED)
    kept.get(PAIR, IDENTITY).records.add(Anchor(49, 39))
    assert kept.get(PAIR, moved).recall(50, *HERE) is None
    assert kept.get(PAIR, moved).records.below(60) is None
    # For good: what was of the old topic does not come back.
    assert kept.get(PAIR, IDENTITY).recall(50, *HERE) is None


def test_memory_lasts_as_long_as_the_identity() -> None:
    kept = PairMemories()
    kept.get(PAIR, IDENTITY).records.add(Anchor(49, 39))
    assert kept.get(PAIR, IDENTITY).records.below(60) == Anchor(49, 39)
    assert kept.get(OTHER, IDENTITY).records.below(60) is None


def test_caught_up_holds_only_until_something_arrives_on_the_target() -> None:
    caught_up = exact(90, pred_copy=89)
    kept = remembering(caught_up, offset=100)
    assert kept.get(PAIR, IDENTITY).recall(100, *HERE) is caught_up
    assert kept.get(PAIR, IDENTITY).recall(100, Bounds(10, 105), Bounds(0, 90)) is caught_up
    assert kept.get(PAIR, IDENTITY).recall(100, Bounds(10, 105), Bounds(0, 91)) is None


@pytest.mark.parametrize(
    "bounds",
    [
        (Bounds(51, 100), Bounds(0, 90)),  # the offset has expired on the source
        (Bounds(10, 49), Bounds(0, 90)),  # the source was truncated
        (Bounds(10, 100), Bounds(41, 90)),  # the answer has expired on the target
        (Bounds(10, 100), Bounds(0, 39)),  # the target was truncated
    ],
)
def test_outside_of_either_log_it_is_looked_at_again(bounds: tuple[Bounds, Bounds]) -> None:
    assert remembering(BRACKETED).get(PAIR, IDENTITY).recall(50, *bounds) is None


def test_only_exact_verdicts_are_remembered() -> None:
    assert remembering(Verdict(Judgement.BOUNDED, 40, 3)).get(PAIR, IDENTITY).recall(50, *HERE) is None
    assert remembering(Verdict.pending(Reason.COPY_NOT_FOUND)).get(PAIR, IDENTITY).recall(50, *HERE) is None


def test_offsets_and_pairs_that_nobody_stands_at_are_forgotten() -> None:
    kept = remembering(BRACKETED)
    kept.get(PAIR, IDENTITY).remember(60, exact(50, next_copy=50), 90)
    kept.get(OTHER, IDENTITY).remember(50, BRACKETED, 90)
    kept.end_round({PAIR: {60}, OTHER: {50}}, whole=True)
    assert kept.get(PAIR, IDENTITY).recall(50, *HERE) is None
    assert kept.get(PAIR, IDENTITY).recall(60, *HERE) is not None
    assert kept.get(OTHER, IDENTITY).recall(50, *HERE) is not None
    kept.end_round({PAIR: {60}}, whole=True)
    assert kept.get(OTHER, IDENTITY).recall(50, *HERE) is None
    assert kept.get(PAIR, IDENTITY).recall(60, *HERE) is not None

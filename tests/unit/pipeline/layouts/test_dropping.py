"""Which runs and claims are dropped: those of copies whose topics are gone on both sides, and have been for a while."""

from __future__ import annotations

import pytest

from bridge.model.values import CopyId, TopicPartition
from bridge.pipeline.layouts.ownership import GONE_FOR, MOST, Gone, drop_keys

PAIR, OTHER = ("orders", "A.orders"), ("stock", "A.stock")


def test_what_is_gone_for_a_while_is_due() -> None:
    gone = Gone()
    assert gone.due([PAIR], 100.0) == []
    assert gone.due([PAIR, OTHER], 100.0 + GONE_FOR / 2) == []
    assert gone.due([PAIR, OTHER], 100.0 + GONE_FOR) == [PAIR]
    assert gone.due([OTHER], 100.0 + 1.5 * GONE_FOR) == [OTHER]


def test_what_is_there_again_in_between_is_not() -> None:
    gone = Gone()
    gone.due([PAIR], 100.0)
    gone.due([], 101.0)
    assert gone.due([PAIR], 100.0 + GONE_FOR) == []
    assert gone.due([PAIR], 100.0 + 2 * GONE_FOR) == [PAIR]


def keys(topic: str, count: int) -> dict[CopyId, list[bytes]]:
    return {
        CopyId(TopicPartition(topic, number), f"A.{topic}"): [b"%d-%d" % (number, at) for at in range(count)]
        for number in range(2)
    }


def test_every_run_of_a_pair_goes() -> None:
    result = {**keys("orders", 3), **keys("stock", 2)}
    pairs, dropped = drop_keys(result, [PAIR, ("never", "A.never")])
    assert pairs == [PAIR, ("never", "A.never")], "one that has claims only, too"
    assert dropped == [b"0-0", b"0-1", b"0-2", b"1-0", b"1-1", b"1-2"]


@pytest.mark.parametrize("runs", [1, MOST, 3 * MOST])
def test_a_layout_is_not_held_up_for_long(runs: int) -> None:
    """The rest goes with the next one; a pair as a whole, or its claim would be gone before its runs."""
    result = {**keys("orders", runs), **keys("stock", runs)}
    pairs, dropped = drop_keys(result, [PAIR, OTHER])
    assert pairs == ([PAIR, OTHER] if runs == 1 else [PAIR])
    assert len(dropped) == 2 * runs * len(pairs)

"""Groups over tasks by rendezvous hashing: stable, even, and moving only those that must."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from bridge.model.values import task_of

GROUPS = [f"group-{number}" for number in range(10_000)]


def test_one_task_has_all() -> None:
    assert {task_of(group, 1) for group in GROUPS} == {0}


def test_the_answer_is_the_same_on_every_machine_and_in_every_release() -> None:
    groups = ("orders", "", "größe", "a,b")
    assert [[task_of(group, count) for count in (2, 5, 16)] for group in groups] == [
        [0, 2, 2],
        [0, 4, 12],
        [1, 1, 1],
        [0, 2, 5],
    ]


@given(st.integers(1, 20))
def test_a_new_task_takes_groups_and_no_other_moves(count: int) -> None:
    before = {group: task_of(group, count) for group in GROUPS[:2000]}
    after = {group: task_of(group, count + 1) for group in GROUPS[:2000]}
    moved = [group for group in before if before[group] != after[group]]
    assert {after[group] for group in moved} <= {count}
    share = len(before) / (count + 1)
    assert 0.6 * share < len(moved) < 1.5 * share


def test_groups_are_spread_evenly() -> None:
    counts = Counter(task_of(group, 8) for group in GROUPS)
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 1.15 * min(counts.values())

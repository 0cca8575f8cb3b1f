"""Which flow a node gives up so that nodes share them evenly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.dedicated.membership import Members, given_up

BOTH = frozenset({"n1", "n2"})


def test_a_node_that_comes_later_gets_one_of_two() -> None:
    groups = {"A->B": Members("n1", BOTH), "B->A": Members("n1", BOTH)}
    assert given_up("n1", groups) == "A->B"
    assert given_up("n2", groups) is None


def test_what_is_even_stays() -> None:
    assert given_up("n1", {"A->B": Members("n1", BOTH), "B->A": Members("n2", BOTH)}) is None
    assert given_up("n1", {"A->B": Members("n1", BOTH)}) is None


def test_only_a_member_of_the_group_can_take_it() -> None:
    """A node with --clusters is in some groups only."""
    alone = frozenset({"n1"})
    groups = {"A->B": Members("n1", alone), "B->A": Members("n1", BOTH), "A->C": Members(None, BOTH)}
    assert given_up("n1", groups) == "B->A"
    assert given_up("n1", {flow: each._replace(nodes=alone) for flow, each in groups.items()}) is None


NODES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)


@given(NODES, st.data())
def test_it_comes_to_an_end_and_is_even(nodes: list[str], data: st.DataObject) -> None:
    """Whoever starts with whatever: each step makes it more even, and in the end nobody has two more than another."""
    everybody = frozenset(nodes)
    flows = [f"flow-{number}" for number in range(data.draw(st.integers(0, 8)))]
    owners = {flow: data.draw(st.sampled_from(nodes)) for flow in flows}
    for _ in range(100):
        groups = {flow: Members(owner, everybody) for flow, owner in owners.items()}
        moved = [(node, flow) for node in nodes if (flow := given_up(node, groups)) is not None]
        if not moved:
            break
        for node, flow in moved[:1]:
            owners[flow] = min(everybody - {node}, key=list(owners.values()).count)
    counts = [list(owners.values()).count(node) for node in nodes]
    assert max(counts) - min(counts) <= 1

"""Decides which flow a node gives up so that nodes share them evenly. Pure.

Kafka's protocol alone says who runs a flow. But a node that comes later finds them all taken: so one that runs two
copying flows more than a member of one of their groups leaves that group for a moment, and the member gets the flow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Members(NamedTuple):
    """The members of a flow's group: who has the flow, None for nobody, and the nodes that could have it."""

    owner: str | None
    nodes: frozenset[str]


def given_up(node: str, groups: Mapping[str, Members]) -> str | None:
    """Returns a flow of this node for another one to take; None where nobody has two less. `groups`: by flow, of all
    that copy."""
    load = Counter(each.owner for each in groups.values())
    for flow in sorted(groups):
        owner, nodes = groups[flow]
        if owner == node and any(load[other] + 2 <= load[node] for other in nodes):
            return flow
    return None

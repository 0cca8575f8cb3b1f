"""Takes the keys of a file apart: what stands before the first key of a flow, of a cluster, or of none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

FLOW, CLUSTER, TOP = "flow", "cluster", "top level"


class Scoped(NamedTuple):
    """A key within its scope. `owner`: the flow or the cluster, empty at the top level; `rest`: what stands behind."""

    scope: str
    owner: str
    rest: str

    @property
    def prefix(self) -> str:
        return f"{self.owner}." if self.owner else ""


def scopes(key: str, clusters: Sequence[str]) -> Iterator[Scoped]:
    """Yields how a key may be read, the longest prefix first: an alias may begin as another one, or as a key does."""
    flows = [f"{source}->{target}" for source, target in permutations(clusters, 2)]
    for scope, owners in ((FLOW, flows), (CLUSTER, clusters)):
        for owner in sorted(owners, key=len, reverse=True):
            if key.startswith(f"{owner}.") and key != f"{owner}.":
                yield Scoped(scope, owner, key.removeprefix(f"{owner}."))
    yield Scoped(TOP, "", key)

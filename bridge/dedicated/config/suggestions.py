"""Says what an unknown key of a file was probably meant to be."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import permutations

from bridge.dedicated.config.plan import ROLES
from bridge.dedicated.config.scopes import CLUSTER, FLOW, TOP, scopes

LONGEST = 120
"""Characters of a key that can be misspelt."""
_NEAR, _NEAR_NAME = 0.82, 0.6
_FLOW = re.compile(r"(?P<source>.+?)->(?P<target>.+?)\.(?P<rest>.+)")
_CLIENT = tuple(
    f"{prefix}{role}." for prefix in ("", "source.", "target.") for role in (*ROLES, "producer.override")
)


@dataclass(frozen=True, slots=True)
class Known:
    """The names that keys may have, by what stands before them."""

    top: Collection[str]
    of_flows: Collection[str]
    of_clusters: Collection[str]
    of_clients: Collection[str]
    """Behind the role of a client."""


def suggested(key: str, clusters: Sequence[str], known: Known) -> str | None:
    """Returns the end of a sentence, `did you mean 'B.bootstrap.servers'?`; None where nothing is near."""
    if len(key) > LONGEST:
        return None
    if (stranger := _stranger(key, clusters, known)) is not None:
        return stranger
    scoped = next(scopes(key, clusters))
    candidates = known.top
    if scoped.scope == FLOW:
        candidates = [*known.of_flows, *_of_roles(scoped.rest, known)]
    elif scoped.scope == CLUSTER:
        candidates = [*known.of_clusters, *known.of_clients, *_of_roles(scoped.rest, known)]
    near = get_close_matches(scoped.rest.lower(), sorted(candidates), 1, _NEAR)
    if not near and scoped.scope == CLUSTER:
        near = get_close_matches(key.lower(), sorted(known.top), 1, _NEAR)
        return f"did you mean '{near[0]}'?" if near else None
    return f"did you mean '{scoped.prefix}{near[0]}'?" if near else None


def _of_roles(rest: str, known: Known) -> Iterator[str]:
    """Yields the properties of the client that a key begins with."""
    heads = [each for each in _CLIENT if rest.startswith(each)]
    heads += get_close_matches(rest.partition(".")[0] + ".", _CLIENT, 1, _NEAR) if not heads else []
    for head in heads:
        yield from (head + name for name in known.of_clients)


def _stranger(key: str, clusters: Sequence[str], known: Known) -> str | None:
    """Judges keys of flows and clusters that `clusters` does not name."""
    if next(scopes(key, clusters)).scope != TOP:
        return None
    if (flow := _FLOW.fullmatch(key)) is not None:
        pairs = [f"{source}->{target}" for source, target in permutations(clusters, 2)]
        if flow["source"] == flow["target"]:
            return f"{flow['source']} is no source of its own"
        named = f"{flow['source']}->{flow['target']}"
        meant = get_close_matches(named, pairs, 1, _NEAR_NAME)
        strangers = [each for each in (flow["source"], flow["target"]) if each not in clusters]
        return _not_named(strangers, clusters, f"{meant[0]}.{flow['rest']}" if meant else "")
    for at in (at for at, character in enumerate(key) if character == "."):
        owner, rest = key[:at], key[at + 1 :]
        if owner in clusters or not _of_cluster(rest, known):
            continue
        meant = get_close_matches(owner, clusters, 1, _NEAR_NAME)
        return _not_named([owner], clusters, f"{meant[0]}.{rest}" if meant else "")
    return None


def _of_cluster(rest: str, known: Known) -> bool:
    role, _, name = rest.partition(".")
    # Names without a dot are words that anything may end with.
    return (rest in known.of_clusters and "." in rest) or (role in ROLES and name in known.of_clients)


def _not_named(strangers: Sequence[str], clusters: Sequence[str], meant: str) -> str:
    verb = "is" if len(strangers) == 1 else "are"
    message = f"{' and '.join(strangers)} {verb} not among the clusters ({', '.join(clusters)})"
    return f"{message}; did you mean '{meant}'?" if meant else message

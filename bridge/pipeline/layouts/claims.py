"""Which connector owns a copy. Pure.

Two connectors that copy one topic to the same topic write each of its records twice. So a connector claims each copy
in the layout topic before the first record is copied, and of several claims the first in the log holds. A claim stays
when the connector is stopped or deleted: it ends by `mirror-bridge hand-back`, when another connector is told to take
over (`bridge.take.over.from`), or when the configuration of the running connector leaves its topic out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from bridge.model.copy_owners import TopicPair
from bridge.model.state_records.claims import Claim
from bridge.model.values import CopyId
from bridge.pipeline.layouts.records import LayoutTopic


class CopyTaken(Exception):
    """All that the connector wants to copy, or something of its first layout, belongs to another connector; the text
    says what to do."""


class Ownership(NamedTuple):
    """Which of the copies that a connector wants are its own, free or taken. `owned`: its claim is settled.
    `free`: it has none, or one that is not settled. `taken`: by pair, the connector that owns it."""

    owned: Collection[TopicPair]
    free: Collection[TopicPair]
    taken: Mapping[TopicPair, str]


def owned(topic: LayoutTopic, source_topics: Collection[str], connector: str) -> set[TopicPair]:
    """The claims of the connector to these topics, copies that transforms send records to included."""
    return {pair for pair in topic.claims if pair[0] in source_topics and topic.owner(pair) == connector}


def ownership(topic: LayoutTopic, pairs: Collection[TopicPair], connector: str) -> Ownership:
    own: list[TopicPair] = []
    free: list[TopicPair] = []
    taken: dict[TopicPair, str] = {}
    for pair in pairs:
        claim = topic.claim(pair)
        if claim is not None and claim.connector != connector:
            taken[pair] = claim.connector
        else:
            (own if claim is not None and claim.settled else free).append(pair)
    return Ownership(own, free, taken)


def stopped_or_starting(topic: LayoutTopic, owned: Collection[TopicPair]) -> list[TopicPair]:
    """Those of the connector's settled claims that one in the opposite direction need not have seen as running."""
    return [pair for pair in owned if topic.newest.stop or ((claim := topic.claim(pair)) and claim.starting)]


def lost_runs(
    topic: LayoutTopic, runs: Mapping[CopyId, Sequence[object]], connector: str
) -> Collection[TopicPair]:
    """Topics that the connector has copied, and of none of whose partitions a run is left. `topic`: before the
    connector claimed what it wants now; `runs`: of all copies that it wants."""
    if not topic.before.copied:
        return ()
    known = {copy.topics for copy, some in runs.items() if some}
    return {
        copy.topics for copy in runs if copy.topics not in known and topic.owner(copy.topics) == connector
    }


def claims(
    pairs: Collection[TopicPair], connector: str, *, settled: bool = True, starting: bool = False
) -> list[tuple[bytes, bytes | None]]:
    """The records that claim the pairs."""
    made = [Claim(*pair, connector, settled, starting) for pair in sorted(pairs)]
    return [(claim.key(), claim.value()) for claim in made]


def withdrawn(pairs: Collection[TopicPair], connector: str) -> list[tuple[bytes, bytes | None]]:
    """The records that end the connector's claims to the pairs."""
    return [(Claim(*pair, connector).key(), None) for pair in sorted(pairs)]

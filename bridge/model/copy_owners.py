"""Words the errors of a connector whose copies belong to another one (see bridge.pipeline.layouts.ownership)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from bridge.model.copying import MERGE_WITH, TAKE_OVER_FROM

TopicPair = tuple[str, str]
"""A source topic and its target topic."""


class OtherCopy(NamedTuple):
    """A copy that a connector of another source alias makes, or is about to make while its claim is not `settled`.
    `where`: the topic that the claim is in. `unread`: why that topic can't be read now; then it may hold a claim, and
    the connector and its source topic are ""."""

    connector: str
    source_topic: str
    where: str
    settled: bool = True
    unread: str = ""


_HEARTBEATS = "heartbeats"
_NAMED = 3
"""Topics that an error names; of more it says how many."""


def refusals(taken: Mapping[TopicPair, str], connector: str) -> list[str]:
    """Returns one sentence for each owner: what belongs to it, and what to do. `taken`: the owner of each pair."""
    return [
        _refusal([pair for pair in sorted(taken) if taken[pair] == owner], owner, connector)
        for owner in sorted(set(taken.values()))
    ]


def opposite_refusals(opposite: Mapping[TopicPair, str], connector: str) -> list[str]:
    """Returns one sentence for each connector that copies to the source what the connector would copy to the target.
    `opposite`: by pair of the connector, the other one."""
    return [
        _opposite([pair for pair in sorted(opposite) if opposite[pair] == owner], owner, connector)
        for owner in sorted(set(opposite.values()))
    ]


def _opposite(pairs: Collection[TopicPair], owner: str, connector: str) -> str:
    named = _named(pairs, lambda pair: f"{pair[1]} to {pair[0]}")
    return opposite_refusal(
        named, owner, connector, f"stop {owner} (in good order: one that was killed counts as running), or "
    )


def opposite_refusal(named: str, owner: str, connector: str, stop: str = "") -> str:
    """Returns the sentence for a connector that would copy back what another one copies. `named`: what that one copies;
    `stop`: that it may be stopped, where that is a way out."""
    return (
        f"connector {owner} copies {named} in the opposite direction, and {connector} would send each record round and "
        "round: under these names nothing tells what was copied before. Mirror in one direction only, or "
        f"{stop}exclude the topics with topics.exclude, or give both DefaultReplicationPolicy"
    )


def mixture_refusals(mixed: Mapping[TopicPair, OtherCopy], connector: str) -> list[str]:
    """Returns one sentence for each other connector whose target topics the connector would copy another source to."""
    return [
        _mixture([pair for pair in sorted(mixed) if mixed[pair].connector == owner], mixed, connector)
        for owner in sorted({copy.connector for copy in mixed.values()})
    ]


def unread_claims(other: OtherCopy) -> str:
    """Returns the sentence for a copy that waits until it is known whether it is another connector's."""
    return (
        f"another connector may copy to the same topic, or back: layout topic {other.where} can't be read "
        f"({other.unread}). "
        "Where its connectors are no more, delete it"
    )


def _mixture(pairs: Collection[TopicPair], mixed: Mapping[TopicPair, OtherCopy], connector: str) -> str:
    first, *_ = pairs
    owner, topics = mixed[first].connector, _named(pairs, lambda pair: pair[1])
    return (
        f"connector {owner} copies another source to {topics} already (its claim is in {mixed[first].where}), and "
        f"{connector} would mix the records of both. Give one of them another replication.policy.class, exclude the "
        f"topics with topics.exclude, or stop {owner} and hand its copies back (mirror-bridge hand-back {owner}); "
        f"where one topic is to hold the records of both sources, set {MERGE_WITH}={owner}"
    )


def _named(pairs: Collection[TopicPair], name: Callable[[TopicPair], str]) -> str:
    more = f" and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
    return ", ".join(map(name, list(pairs)[:_NAMED])) + more


def _refusal(pairs: Collection[TopicPair], owner: str, connector: str) -> str:
    named = _named(pairs, lambda pair: f"{pair[0]} to {pair[1]}")
    heartbeats = [pair for pair in pairs if pair[0].endswith(_HEARTBEATS)]
    exclude = (
        f"Exclude what it copies with topics.exclude, or leave it out in {owner}, which releases it soon"
    )
    if heartbeats:
        # They are copied whatever the filters say, so that excluding them changes nothing.
        off = (
            f"set heartbeats.replication.enabled=false in {connector}: no filter leaves heartbeats topics out"
        )
        others = len(pairs) > len(heartbeats)
        exclude = f"{exclude}, and {off}" if others else f"{off[0].upper()}{off[1:]}"
    return (
        f"connector {owner} copies {named} already, and {connector} would write each record a second time. "
        f"{exclude}, or go on under the name {owner}, or stop {owner} and hand its "
        f"copies back (mirror-bridge hand-back {owner}), or set {TAKE_OVER_FROM}={owner}: then {connector} goes on "
        f"with these topics where they stand, and {owner} copies only what else it has"
    )
